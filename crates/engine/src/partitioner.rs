//! Which partition a record goes to.
//!
//! Decides and nothing else: no lane, no lock. Partition ids run from 0 to the topic's partition
//! count less one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a producer picks the partition of a record.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Partitioning {
    /// Round robin from a random start. The default.
    #[default]
    Balanced,
    /// Stays on one partition until a batch is full or has been sent, then moves on: fewer, fuller
    /// requests.
    Sticky,
    /// Always this partition.
    Partition(u32),
    /// XxHash32 (seed 0) of the record's key, modulo the partition count: the same partition as
    /// every Iggy SDK picks.
    Key,
    /// A choice of the application's own.
    Custom(Arc<dyn Partitioner>),
}

impl fmt::Debug for Partitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balanced => f.write_str("Balanced"),
            Self::Sticky => f.write_str("Sticky"),
            Self::Partition(partition) => write!(f, "Partition({partition})"),
            Self::Key => f.write_str("Key"),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

/// An application's own choice of partition.
pub trait Partitioner: Send + Sync {
    /// The partition of this record, below `partitions_count` (which is at least 1). A larger
    /// number makes `send` return [`SendError::Partition`](crate::SendError::Partition). Called
    /// once a record on the sending thread.
    fn partition(&self, payload: &[u8], key: Option<&[u8]>, partitions_count: u32) -> u32;
}

impl<F> Partitioner for F
where
    F: Fn(&[u8], Option<&[u8]>, u32) -> u32 + Send + Sync,
{
    fn partition(&self, payload: &[u8], key: Option<&[u8]>, partitions_count: u32) -> u32 {
        self(payload, key, partitions_count)
    }
}

/// A counter that walks over the partitions; shared by all threads of a producer.
pub(crate) struct Cursor(AtomicU32);

impl Cursor {
    /// Starts at a place drawn from `seed`, so that many producers do not all begin with partition
    /// 0.
    pub(crate) fn starting_at(seed: u32) -> Self {
        Self(AtomicU32::new(seed))
    }

    /// The next partition in turn.
    pub(crate) fn advance(&self, partitions_count: u32) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1) % partitions_count
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn round_robin_visits_every_partition_once_a_turn_from_any_start() {
        for seed in [0, 1, 5, u32::MAX - 2] {
            let cursor = Cursor::starting_at(seed);
            let mut seen = [0_u32; 7];
            for _ in 0..7 * 100 {
                seen[cursor.advance(7) as usize] += 1;
            }
            // The wrap of the counter breaks one turn at most.
            assert!(
                seen.iter().all(|&count| (99..=101).contains(&count)),
                "{seed}: {seen:?}"
            );
        }
    }
}
