//! What an engine did: a plain struct, JSON, Prometheus text; and the counters behind it.
//!
//! Shards write counters with plain stores and hand the rest over at most every 10 ms, without ever
//! waiting for a reader. Reading costs them nothing.
//!
//! Invariant: in every snapshot, also one that is taken while shards run, a number that is a part
//! of another is not larger: `requests <= records <= account.resolved() <= account.accepted`, no
//! more latencies than requests, no more retries of a cause than retries. Shards count a whole
//! before its parts, and a reader reads parts before wholes.

mod latency;
mod render;
mod shard;
#[cfg(test)]
mod tests;

pub(crate) use latency::{BatchTimes, LatencySamples};
pub use latency::{Latencies, Latency};
pub(crate) use shard::ShardStats;

use crate::outcome::Account;
use ringmain_io::transport::{TransportInfo, TransportStats};

/// Everything an engine counts, at one moment. Counters only rise and are sums over all shards;
/// gauges are marked.
///
/// The ring's and the protocol's counters, and the latencies, are up to 10 ms old.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// Records by answer, of all producers.
    pub account: Account,
    /// Records whose answer is known.
    pub records: u64,
    /// Payload bytes of those.
    pub payload_bytes: u64,
    /// Requests (batches) whose answer is known.
    pub requests: u64,
    /// Requests written for the first time.
    pub requests_sent: u64,
    /// Requests written again, for one of the next three reasons or because a connection was lost.
    pub retries: u64,
    /// Of the retries: because no answer came for the request timeout.
    pub retries_after_silence: u64,
    /// Of the retries: after a refusal as not admitted (code 58).
    pub retries_not_admitted: u64,
    /// Of the retries: after a refusal with an unknown outcome (code 57).
    pub retries_outcome_unknown: u64,
    /// Requests and control calls that had no answer for the request timeout, whether they were
    /// written again or not.
    pub silences: u64,
    /// Requests refused as not admitted (code 58), whether they were written again or not.
    pub refusals_not_admitted: u64,
    /// Requests refused with an unknown outcome (code 57), whether they were written again or not.
    pub refusals_outcome_unknown: u64,
    /// Control calls written, repetitions included.
    pub calls_sent: u64,
    /// Batches confirmed after a later one of their partition, an upper bound; see
    /// `Ordering::Pipelined`.
    pub overtaken: u64,
    /// Times a batch waited because its partition's window was full.
    pub window_waits: u64,
    /// Times a partition waited because its oldest request was 127 numbers behind.
    pub span_waits: u64,
    /// Replies to requests that were settled before.
    pub replies_late: u64,
    /// Replies to requests that were never sent.
    pub replies_foreign: u64,
    /// Logins accepted, the first of each connection included.
    pub logins: u64,
    /// Logins that the server refused for now.
    pub logins_postponed: u64,
    /// Sessions ended by the server.
    pub evictions: u64,
    /// Connections lost or not made. The end of one that was logged out is neither.
    pub disconnects: u64,
    /// Times the server's memory of duplicates was lost.
    pub coverage_losses: u64,
    /// Connections given up because a connect, a login or a logout took too long.
    pub session_timeouts: u64,
    /// Connections given up because nothing was heard after a heartbeat.
    pub heartbeat_timeouts: u64,
    /// Connections given up because a write made no progress.
    pub write_stalls: u64,
    /// Heartbeats sent.
    pub heartbeats: u64,
    /// Gauge: sessions that are logged in.
    pub sessions_active: u64,
    /// Gauge: slots that are free.
    pub slots_free: u64,
    /// Gauge: slots there are.
    pub slots: u64,
    /// Gauge: bytes left for records by reference.
    pub by_reference_bytes_free: u64,
    /// Gauge: bytes of all arenas.
    pub arena_bytes: u64,
    /// Gauge: bytes of the tables of protocol clients and shards, outside `memory_bytes_max`. Each
    /// connection's client has room for every slot of its shard.
    pub tables_bytes: u64,
    /// Gauge: receipt callbacks that were registered and have not run.
    pub callbacks_waiting: u64,
    /// Turns of the shards' loops.
    pub turns: u64,
    /// The rings, all shards together.
    pub transport: TransportStats,
    /// What each shard's kernel side uses.
    pub shards: Vec<TransportInfo>,
    /// The core that each shard's thread is pinned to, `None` for one that is not.
    pub cores: Vec<Option<usize>>,
    /// Where the time of a batch went. Every batch that was written and answered is in it.
    pub latencies: Latencies,
}

impl Stats {
    /// Nothing counted yet.
    pub(crate) fn new() -> Self {
        Self {
            account: Account::default(),
            records: 0,
            payload_bytes: 0,
            requests: 0,
            requests_sent: 0,
            retries: 0,
            retries_after_silence: 0,
            retries_not_admitted: 0,
            retries_outcome_unknown: 0,
            silences: 0,
            refusals_not_admitted: 0,
            refusals_outcome_unknown: 0,
            calls_sent: 0,
            overtaken: 0,
            window_waits: 0,
            span_waits: 0,
            replies_late: 0,
            replies_foreign: 0,
            logins: 0,
            logins_postponed: 0,
            evictions: 0,
            disconnects: 0,
            coverage_losses: 0,
            session_timeouts: 0,
            heartbeat_timeouts: 0,
            write_stalls: 0,
            heartbeats: 0,
            sessions_active: 0,
            slots_free: 0,
            slots: 0,
            by_reference_bytes_free: 0,
            arena_bytes: 0,
            tables_bytes: 0,
            callbacks_waiting: 0,
            turns: 0,
            transport: TransportStats::default(),
            shards: Vec::new(),
            cores: Vec::new(),
            latencies: Latencies::new(),
        }
    }

    /// Calls of `io_uring_enter` for each request, 0 before the first.
    #[must_use]
    pub fn enters_per_request(&self) -> f64 {
        if self.requests == 0 {
            0.0
        } else {
            self.transport.enters as f64 / self.requests as f64
        }
    }

    /// Records of the average request, 0 before the first.
    #[must_use]
    pub fn records_per_request(&self) -> f64 {
        if self.requests == 0 {
            0.0
        } else {
            self.records as f64 / self.requests as f64
        }
    }
}
