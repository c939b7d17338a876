//! What the broker counted, as one snapshot.

/// Counters since the broker started. All of them only rise, except `connections_open`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BrokerStats {
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections open now.
    pub connections_open: u64,
}
