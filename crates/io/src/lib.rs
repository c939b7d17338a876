//! What moves ringmain's bytes: the memory, the ring and the sockets of one shard.
//!
//! This is the only crate of the product with `unsafe` code. It knows connections, pieces of memory
//! with owners, received bytes and events. It knows no frame, no session and no record.
//!
//! ```text
//!  driver     the seam: what a shard asks of whatever moves its bytes
//!  memory     one mapping a shard, cut once into blocks; a token owns a block
//!  ring       setup, submission, completions, errno tables of io_uring
//!  transport  the driver on io_uring: connect, gathered writes, receives, close, wake-ups
//!  foreign    what the application's code may not do to the thread of a shard
//! ```

pub mod driver;
pub mod foreign;
pub mod memory;
pub mod ring;
mod sync;
pub mod transport;
