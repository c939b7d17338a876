//! The records of one partition: batches as they were stored, oldest first, found by offset or by
//! time.
//!
//! Invariants: offsets are dense from the first batch to `next_offset`; base timestamps never fall.

use std::collections::VecDeque;

/// Bytes of bookkeeping that a stored batch costs besides its record, charged to the topic: its
/// entries in the log and in the topic's order, in queues that may be half empty, and what the
/// allocator keeps for itself.
const BATCH_OVERHEAD_BYTES: usize = 2 * (size_of::<StoredBatch>() + size_of::<(u64, u32)>()) + 16;

/// Entries of a queue that are not worth giving back.
const QUEUE_ROOM_MIN: usize = 64;

/// One batch as stored: header with the three stamped fields and the recomputed checksum, then the
/// frames.
#[derive(Debug)]
pub(crate) struct StoredBatch {
    /// The frame buffer that came off the socket, or a copy of the record alone.
    buffer: Vec<u8>,
    /// Where the 256-byte batch header begins in `buffer`; the record runs to its end.
    record_at: usize,
    /// Offset of the first record.
    pub(crate) base_offset: u64,
    /// Microseconds since the epoch when the broker stored it.
    pub(crate) base_timestamp: u64,
    /// Records, at least 1.
    pub(crate) records: u32,
}

impl StoredBatch {
    /// Takes a stamped record that begins at `record_at` of `buffer` and runs to its end.
    pub(crate) fn new(
        buffer: Vec<u8>,
        record_at: usize,
        base_offset: u64,
        base_timestamp: u64,
        records: u32,
    ) -> Self {
        assert!(records > 0, "an empty batch is refused before it is stored");
        assert!(
            record_at < buffer.len(),
            "the record lies inside its buffer"
        );
        Self {
            buffer,
            record_at,
            base_offset,
            base_timestamp,
            records,
        }
    }

    /// Batch header and frames.
    pub(crate) fn record(&self) -> &[u8] {
        &self.buffer[self.record_at..]
    }

    /// The memory, for another use.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Offset of the last record.
    pub(crate) fn last_offset(&self) -> u64 {
        self.base_offset + u64::from(self.records) - 1
    }

    /// Memory this batch is charged with.
    pub(crate) fn charged_bytes(&self) -> u64 {
        charged_bytes(&self.buffer)
    }
}

/// What a batch is charged with that is kept in `buffer`.
pub(crate) fn charged_bytes(buffer: &Vec<u8>) -> u64 {
    (buffer.capacity() + BATCH_OVERHEAD_BYTES) as u64
}

/// Gives room of a queue back when most of it is empty.
pub(crate) fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > QUEUE_ROOM_MIN && queue.len() < queue.capacity() / 4 {
        queue.shrink_to(queue.len() * 2);
    }
}

/// The log of one partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionLog {
    batches: VecDeque<StoredBatch>,
    next_offset: u64,
    /// Sum of `charged_bytes`.
    charged_bytes: u64,
    /// Sum of record bytes, batch headers included: what the protocol calls the partition's size.
    record_bytes: u64,
    records: u64,
}

impl PartitionLog {
    /// Offset the next record will get.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Offset of the newest record, 0 in a log that never had one.
    pub(crate) fn current_offset(&self) -> u64 {
        self.next_offset.saturating_sub(1)
    }

    /// Records kept.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of the kept records, batch headers included.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// Memory charged for the kept records.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    /// Whether the log never had a record since it was created or purged.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.next_offset == 0
    }

    /// The timestamp to stamp on a batch stored at `wall_us`: never below the one before it.
    pub(crate) fn stamp_us(&self, wall_us: u64) -> u64 {
        self.batches
            .back()
            .map_or(wall_us, |batch| batch.base_timestamp.max(wall_us))
    }

    /// Appends a batch whose base offset is `next_offset`.
    pub(crate) fn append(&mut self, batch: StoredBatch) {
        assert_eq!(batch.base_offset, self.next_offset, "offsets are dense");
        self.next_offset += u64::from(batch.records);
        self.records += u64::from(batch.records);
        self.charged_bytes += batch.charged_bytes();
        self.record_bytes += batch.record().len() as u64;
        self.batches.push_back(batch);
    }

    /// Counts `records` that are not kept: sink mode.
    pub(crate) fn skip(&mut self, records: u32) {
        assert!(
            self.batches.is_empty(),
            "a log either keeps records or skips them"
        );
        self.next_offset += u64::from(records);
    }

    /// Removes the oldest batch.
    pub(crate) fn evict_oldest(&mut self) -> Option<StoredBatch> {
        let batch = self.batches.pop_front()?;
        self.records -= u64::from(batch.records);
        self.charged_bytes -= batch.charged_bytes();
        self.record_bytes -= batch.record().len() as u64;
        shrink(&mut self.batches);
        Some(batch)
    }

    /// Forgets every record and starts again at offset 0.
    pub(crate) fn purge(&mut self) {
        *self = Self::default();
    }

    /// Batches from the one that holds `offset` on, oldest first. An offset before the first kept
    /// record starts at that record.
    pub(crate) fn batches_from_offset(&self, offset: u64) -> impl Iterator<Item = &StoredBatch> {
        let first = self
            .batches
            .partition_point(|batch| batch.last_offset() < offset);
        self.batches.range(first..)
    }

    /// Batches stored at `timestamp_us` or later, oldest first.
    pub(crate) fn batches_from_timestamp(
        &self,
        timestamp_us: u64,
    ) -> impl Iterator<Item = &StoredBatch> {
        let first = self
            .batches
            .partition_point(|batch| batch.base_timestamp < timestamp_us);
        self.batches.range(first..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(counts: &[u32]) -> PartitionLog {
        let mut log = PartitionLog::default();
        for (index, records) in counts.iter().enumerate() {
            let timestamp = log.stamp_us(100 + index as u64);
            let base_offset = log.next_offset();
            log.append(StoredBatch::new(
                vec![0; 300],
                44,
                base_offset,
                timestamp,
                *records,
            ));
        }
        log
    }

    #[test]
    fn finds_the_batch_that_holds_an_offset() {
        let log = log_of(&[3, 1, 5]);
        let bases = |offset| {
            log.batches_from_offset(offset)
                .map(|batch| batch.base_offset)
                .collect::<Vec<_>>()
        };
        assert_eq!(bases(0), [0, 3, 4]);
        assert_eq!(bases(2), [0, 3, 4]);
        assert_eq!(bases(3), [3, 4]);
        assert_eq!(bases(8), [4]);
        assert!(bases(9).is_empty());
    }

    #[test]
    fn finds_batches_by_time_and_never_stamps_backwards() {
        let log = log_of(&[1, 1, 1]);
        assert_eq!(log.batches_from_timestamp(101).count(), 2);
        assert_eq!(log.batches_from_timestamp(103).count(), 0);
        assert_eq!(
            log.stamp_us(5),
            102,
            "the clock went back, the log does not"
        );
    }

    #[test]
    fn evicting_keeps_offsets_and_gives_memory_back() {
        let mut log = log_of(&[3, 1]);
        let charged = log.charged_bytes();
        let evicted = log.evict_oldest().map(|batch| batch.records);
        assert_eq!(evicted, Some(3));
        assert_eq!(
            (log.records(), log.next_offset(), log.record_bytes()),
            (1, 4, 256)
        );
        assert_eq!(log.charged_bytes() * 2, charged);
        assert_eq!(
            log.batches_from_offset(0)
                .next()
                .map(|batch| batch.base_offset),
            Some(3)
        );
        log.purge();
        assert!(log.is_unwritten());
    }
}
