//! An embedded, in-memory, Iggy-compatible broker: one thread, no files, scripted faults.
//!
//! Three lines are enough for a test:
//!
//! ```
//! let broker = ringmain_broker::Broker::builder().start()?;
//! let server = format!("iggy://iggy:iggy@{}", broker.addr());
//! drop(broker); // stops the thread, closes every connection, forgets every record
//! # assert!(server.starts_with("iggy://iggy:iggy@127.0.0.1:"));
//! # Ok::<(), ringmain_broker::StartError>(())
//! ```
//!
//! What it is not: durable, replicated, or a place for more than one user. Everything lives in
//! memory that is bounded by the builder's limits, and dropping [`Broker`] forgets it.
#![forbid(unsafe_code)]

mod broker;
mod builder;
mod commands;
mod config;
mod frame;
pub mod fuzzing;
mod limits;
mod net;
mod profile;
mod script;
mod start_error;
mod state;
mod stats;

pub use broker::Broker;
pub use builder::BrokerBuilder;
pub use profile::{Driver, Profile};
pub use script::{Act, Action, Fault, RestartState, Script, ScriptError, ScriptErrorKind};
pub use start_error::StartError;
pub use stats::BrokerStats;
