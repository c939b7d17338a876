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
//!  epoll      the driver on epoll and plain system calls, for hosts that forbid io_uring
//!  socket     what both drivers do with a socket: options, errno tables, the queue of a write
//!  foreign    what the application's code may not do to the thread of a shard
//! ```

pub mod driver;
pub mod epoll;
pub mod foreign;
pub mod memory;
pub mod ring;
mod socket;
mod sync;
pub mod transport;
