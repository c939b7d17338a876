//! What is kept and what is forgotten: past a bound the oldest batch goes, of the topic or of all
//! topics.

use ringmain_wire::code::ErrorCode;

use super::log::{StoredBatch, charged_bytes};
use super::{Place, State, ValidBatch};

/// Evicted buffers that are kept for the next frames, and the sizes worth keeping: 32 MiB in all,
/// and never more than an eighth of what records may take.
const SPARES_MAX: usize = 8;
const SPARE_BYTES_MIN: u64 = 64 << 10;
const SPARE_BYTES_MAX: u64 = 4 << 20;
const SPARE_SHARE: u64 = 8;

impl State {
    /// Whether a batch can be kept at all. One that is larger than its topic may be would be
    /// evicted at once: it is refused as a payload too large, or as too many messages when it has
    /// several.
    pub(super) fn fit(&self, place: Place, batch: &mut ValidBatch) -> Result<(), ErrorCode> {
        let streams = &self.catalog.streams;
        let topic = streams
            .get(&place.stream)
            .and_then(|stream| stream.topics.get(&place.topic));
        let asked = topic.map_or(u64::MAX, |topic| topic.options.retained_bytes_max());
        let config = &self.config;
        let bytes_max = asked
            .min(config.topic_bytes_max)
            .min(config.memory_bytes_max);
        if charged_bytes(&batch.buffer) > bytes_max {
            // The memory of a frame may be larger than the record in it.
            batch.buffer = batch.buffer[batch.record_at..].to_vec();
            batch.record_at = 0;
        }
        match batch.records {
            _ if charged_bytes(&batch.buffer) <= bytes_max => Ok(()),
            1 => Err(ErrorCode::TOO_BIG_MESSAGE_PAYLOAD),
            _ => Err(ErrorCode::TOO_MANY_MESSAGES),
        }
    }

    /// Appends a stamped batch and makes room for it.
    pub(super) fn store(&mut self, place: Place, batch: StoredBatch) {
        self.stats.batches += 1;
        self.stats.records += u64::from(batch.records);
        self.stats.record_bytes += batch.record().len() as u64;
        self.charged_bytes += batch.charged_bytes();
        let Place {
            stream,
            topic,
            partition,
        } = place;
        self.catalog.append(stream, topic, partition, batch);
        self.retain(place);
    }

    /// Memory for a frame of at least `bytes` bytes: that of an evicted batch when one fits well.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Vec<u8> {
        let fits = self
            .spare
            .iter()
            .rposition(|spare| (bytes..2 * bytes).contains(&spare.capacity()));
        let Some(index) = fits else {
            // What is kept does not fit what comes now.
            self.spare.clear();
            return Vec::with_capacity(bytes);
        };
        let mut buffer = self.spare.swap_remove(index);
        buffer.clear();
        buffer
    }

    /// Evicts the oldest batches while the topic, or all topics together, hold more than they may.
    fn retain(&mut self, place: Place) {
        let topic_bytes_max = self.config.topic_bytes_max;
        while let Some(topic) = self.catalog.topic_mut(place.stream, place.topic)
            && topic.charged_bytes > topic_bytes_max.min(topic.options.retained_bytes_max())
            && self.evict_oldest(place.stream, place.topic)
        {}
        while self.charged_bytes > self.config.memory_bytes_max {
            let oldest = self.catalog.oldest_topic();
            let evicted = oldest.is_some_and(|(stream, topic)| self.evict_oldest(stream, topic));
            assert!(evicted, "memory is charged to topics that hold batches");
        }
    }

    /// Evicts the oldest batch of a topic. False when it holds none.
    fn evict_oldest(&mut self, stream: u32, topic: u32) -> bool {
        let Some(batch) = self.catalog.evict_oldest(stream, topic) else {
            return false;
        };
        let charged = batch.charged_bytes();
        self.charged_bytes -= charged;
        self.stats.records_evicted += u64::from(batch.records);
        self.stats.record_bytes_evicted += batch.record().len() as u64;
        let spared: u64 = self.spare.iter().map(charged_bytes).sum();
        if (SPARE_BYTES_MIN..=SPARE_BYTES_MAX).contains(&charged)
            && self.spare.len() < SPARES_MAX
            && spared + charged <= self.config.memory_bytes_max / SPARE_SHARE
        {
            self.spare.push(batch.into_buffer());
        }
        true
    }
}
