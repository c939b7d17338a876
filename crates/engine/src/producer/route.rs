//! From a record to a partition, by the producer's partitioning.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use ringmain_wire::MessagesKey;

use crate::error::SendError;
use crate::partitioner::{Cursor, Partitioning};
use crate::topic::Topic;

/// Records of a batch that are taken on at once. Enough to make a lock and a clock cheap, few
/// enough that their copies take some microseconds.
const CHUNK_RECORDS: usize = 32;

/// A partitioning and where it stands.
pub(crate) struct Router {
    partitioning: Partitioning,
    cursor: Cursor,
    /// For sticky partitioning: the partition in use, and its lane's count of sealed batches when
    /// it was chosen. When that count has moved on, so does the choice.
    sticky: AtomicU64,
}

impl Router {
    pub(crate) fn new(partitioning: Partitioning, seed: u32) -> Self {
        Self {
            partitioning,
            cursor: Cursor::starting_at(seed),
            // No lane has this count at first, so the first record chooses.
            sticky: AtomicU64::new(pack(seed, u32::MAX)),
        }
    }

    /// How many records may be routed while a lane is held: a custom partitioning is the user's
    /// code, which may do anything.
    pub(crate) fn chunk_max(&self) -> usize {
        match self.partitioning {
            Partitioning::Custom(_) => 1,
            _ => CHUNK_RECORDS,
        }
    }

    /// The partition of one record.
    ///
    /// # Errors
    /// The key or the partition is not one that can be used.
    pub(crate) fn route(
        &self,
        topic: &Topic,
        payload: &[u8],
        key: Option<&[u8]>,
    ) -> Result<u32, SendError> {
        let count = topic.partitions_count();
        let partition = match &self.partitioning {
            Partitioning::Balanced => return Ok(self.cursor.advance(count)),
            Partitioning::Sticky => return Ok(self.stick(topic, count)),
            Partitioning::Partition(partition) => *partition,
            Partitioning::Key => {
                let key = key.unwrap_or_default();
                let key = MessagesKey::new(key).map_err(|_| SendError::Key { bytes: key.len() })?;
                let count = NonZeroU32::new(count).expect("a topic counts at least one partition");
                return Ok(key.partition(count));
            }
            Partitioning::Custom(custom) => custom.partition(payload, key, count),
        };
        if partition < count {
            Ok(partition)
        } else {
            // There may be more by now; the next record may find them.
            topic.name.mark_stale();
            Err(SendError::Partition { partition, count })
        }
    }

    fn stick(&self, topic: &Topic, count: u32) -> u32 {
        let (partition, seals) = unpack(self.sticky.load(Ordering::Relaxed));
        if partition < count
            && topic
                .lane(partition)
                .is_some_and(|lane| lane.seals() == seals)
        {
            return partition;
        }
        // Two threads may both move on; the loser's partition gets one record more.
        let next = self.cursor.advance(count);
        let seals = topic.lane(next).map_or(0, |lane| lane.seals());
        self.sticky.store(pack(next, seals), Ordering::Relaxed);
        next
    }
}

fn pack(partition: u32, seals: u32) -> u64 {
    u64::from(partition) << 32 | u64::from(seals)
}

fn unpack(packed: u64) -> (u32, u32) {
    #[allow(clippy::cast_possible_truncation)] // Taking the halves apart is the point.
    ((packed >> 32) as u32, packed as u32)
}
