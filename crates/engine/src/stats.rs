//! A snapshot of what an engine did: a plain struct, JSON, Prometheus text.
//!
//! Taking one reads counters that shards write with plain stores; it never stops a shard.

use crate::outcome::Account;

/// Everything an engine counts, at one moment. Counters only rise; gauges are marked as such.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Records by answer.
    pub account: Account,
    /// Payload bytes accepted.
    pub payload_bytes: u64,
    /// Requests whose answer is known.
    pub requests: u64,
    /// Frames written more than once.
    pub retries: u64,
}
