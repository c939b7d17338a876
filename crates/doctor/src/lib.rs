//! What a host costs ringmain: facts are read, checks look at them, a report says what they found.
//!
//! ```text
//!  parse   bytes of /proc and /sys -> numbers, never a panic
//!  host    a root folder -> Host, the facts; what cannot be read is None
//!  probe   what only trying tells: a ring, a clock, a server
//!  checks  facts -> one Check each, pure functions
//!  measure what a finding is worth, two ways in turn
//!  report  checks -> text, JSON, exit code
//! ```
//!
//! Nothing here changes the host. What could not be read is [`Verdict::Unknown`], never fine.
#![forbid(unsafe_code)]

mod checks;
mod host;
mod measure;
mod parse;
mod probe;
mod report;

pub use checks::check;
pub use host::{Cpu, Host, IdleState, Nic};
pub use measure::{Effort, measure};
pub use parse::Quota;
pub use probe::{Node, Ring, Server, clock_cost_ns, probe_ring, probe_server};
pub use report::{Check, Report, Verdict};

#[doc(hidden)]
pub use parse::every as parse_every;

/// What the engine is meant to do on this host: the part of its configuration that checks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Shards, 1 to 64. Default 1.
    pub shards: u16,
    /// `memory_bytes_max` of the engine, in bytes. Default 128 MiB.
    pub memory_bytes: u64,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            shards: 1,
            memory_bytes: ringmain::limits::MEMORY_BYTES_DEFAULT,
        }
    }
}

/// Everything that checks look at.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What was asked for.
    pub asked: Asked,
    /// What was read.
    pub host: Host,
    /// The ring that was tried, `Err` with cause and remedy; `None` when none was tried.
    pub ring: Option<Result<Ring, String>>,
    /// Nanoseconds of one look at the clock; `None` when not measured.
    pub clock_ns: Option<f64>,
    /// The server that was asked; `None` when none was named.
    pub server: Option<Server>,
}
