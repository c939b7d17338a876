//! ringmain: a producer engine for Apache Iggy on Linux's io_uring, or on epoll where that is
//! forbidden.
//!
//! One pinned thread and one ring a shard, batches built in place in registered memory, many
//! requests in flight for each partition, and one answer for every record.
//!
//! ```no_run
//! use std::time::Duration;
//! use ringmain::{Engine, Record};
//!
//! let engine = Engine::builder().server("iggy://iggy:iggy@127.0.0.1:8090").build()?;
//! let producer = engine.producer("sensors", "readings").create_if_missing(4).build()?;
//! let receipt = producer.send(Record::new("21.5 C"))?;
//! println!("{}", receipt.wait());
//! println!("{}", engine.close(Duration::from_secs(10)).account);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod batch;
mod call;
mod clock;
mod cores;
mod deadline;
mod engine;
mod error;
mod gate;
mod growing;
mod hooks;
mod lane;
mod ledger;
pub mod limits;
mod outcome;
mod owed;
mod partitioner;
mod process;
mod producer;
mod receipt;
mod record;
mod resolver;
pub mod server_url;
mod sessions;
mod shard;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod stats;
mod sync;
mod topic;
mod user_code;

pub use call::{Call, CallReply, Polled, PolledRecord, TopicInfo};
pub use engine::{CloseReport, Engine, EngineBuilder, IntoServerUrl};
pub use error::{BuildError, CallError, Refused, RefusedBatch, SendError};
pub use outcome::{Account, NotSentReason, Outcome};
pub use partitioner::{Partitioner, Partitioning};
pub use producer::{Ordering, Producer, ProducerBuilder, Purged};
pub use receipt::{Receipt, Receipts};
pub use record::Record;
pub use server_url::ServerUrl;
pub use stats::{Latencies, Latency, Stats};

pub use ringmain_io::driver::{DriverChoice, DriverKind, SocketOptions};
pub use ringmain_io::transport::{CarriedBy, Features, WRITE_PATHS, WritePath};
pub use ringmain_proto::OnLostCoverage;
pub use ringmain_wire::ErrorCode;
