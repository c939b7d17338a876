//! What a broker was told at its start, and the clock it is given with every call.

use crate::limits::OUTBOX_BYTES_MAX;
use crate::profile::Profile;

/// Settings that do not change while the broker runs.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) profile: Profile,
    pub(crate) sink: bool,
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) tokens: Vec<String>,
    /// Records kept by all topics, in charged bytes.
    pub(crate) memory_bytes_max: u64,
    /// Records kept by one topic, in charged bytes.
    pub(crate) topic_bytes_max: u64,
    /// Partial frames of all connections.
    pub(crate) inbound_bytes_max: usize,
    /// Replies that wait on all connections; see [`Config::outbound_bytes_max`].
    pub(crate) outbound_bytes_max: u64,
    pub(crate) connections_max: usize,
    /// A client is evicted after 1.2 times this without a frame. 0: never.
    pub(crate) heartbeat_us: u64,
    /// A send is committed so long after it was taken.
    pub(crate) commit_delay_us: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            sink: false,
            username: "iggy".to_owned(),
            password: "iggy".to_owned(),
            tokens: Vec::new(),
            memory_bytes_max: 1 << 30,
            topic_bytes_max: 512 << 20,
            inbound_bytes_max: 256 << 20,
            outbound_bytes_max: 256 << 20,
            connections_max: 16_384,
            heartbeat_us: 30_000_000,
            commit_delay_us: 0,
        }
    }
}

impl Config {
    /// Replies that may wait on all connections: never more than records may take, and always
    /// enough for one connection.
    pub(crate) fn outbound_bytes_max(&self) -> u64 {
        let records = self.memory_bytes_max.max(OUTBOX_BYTES_MAX as u64);
        self.outbound_bytes_max.min(records)
    }
}

/// The time of one call, both clocks in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Now {
    /// Since the broker started: deadlines.
    pub(crate) monotonic_us: u64,
    /// Since the Unix epoch: stamps.
    pub(crate) wall_us: u64,
}
