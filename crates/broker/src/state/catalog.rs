//! Streams, topics and partitions: what exists, how it is named, and what it holds.
//!
//! Numbers are given out as the real server does: the lowest one that is free. Partitions of a
//! topic are numbered from 0 without a gap, so an id is an index.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ringmain_wire::identifier::Identifier;
use ringmain_wire::name::Name;
use ringmain_wire::options::Options;
use ringmain_wire::payload::LengthPrefixed;
use ringmain_wire::payload::stream::{StreamDetails, StreamInfo, TopicInfo};
use ringmain_wire::payload::topic::TopicDetails;

use super::log::{StoredBatch, shrink};
use super::partition::Partition;
use super::refused::{
    INVALID_PARTITIONS_COUNT, PARTITIONS_EXHAUSTED, Refused, STREAM_EXISTS, STREAM_NOT_FOUND,
    TOO_MANY_STREAMS, TOO_MANY_TOPICS, TOPIC_EXISTS, TOPIC_NOT_FOUND,
};
use super::topic_options::TopicOptions;
use crate::limits::{PARTITIONS_MAX, STREAMS_MAX, TOPICS_MAX, TOPICS_PER_STREAM_MAX};

/// One topic.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: u32,
    pub(crate) name: Box<str>,
    pub(crate) created_at_us: u64,
    pub(crate) options: TopicOptions,
    pub(crate) partitions: Vec<Partition>,
    /// The partition that the next balanced send goes to, modulo the count.
    round_robin: usize,
    /// Age and partition of each kept batch, oldest first: what retention evicts next.
    append_order: VecDeque<(u64, u32)>,
    /// Sum of the partitions' charged bytes.
    pub(crate) charged_bytes: u64,
}

impl Topic {
    /// The next partition of a balanced send.
    pub(crate) fn next_balanced(&mut self) -> Option<u32> {
        let partitions = self.partitions.len();
        if partitions == 0 {
            return None;
        }
        let next = self.round_robin % partitions;
        self.round_robin = (next + 1) % partitions;
        Some(next as u32)
    }

    /// Records kept.
    pub(crate) fn records(&self) -> u64 {
        self.partitions
            .iter()
            .map(|partition| partition.log.records())
            .sum()
    }

    /// Bytes of the kept records.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.partitions
            .iter()
            .map(|partition| partition.log.record_bytes())
            .sum()
    }

    /// What the protocol tells of it without its partitions.
    pub(crate) fn info(&self) -> TopicInfo<'_> {
        TopicInfo {
            id: self.id,
            created_at: self.created_at_us,
            partitions_count: self.partitions.len() as u32,
            message_expiry: self.options.message_expiry(),
            compression_algorithm: self.options.compression_algorithm(),
            max_topic_size: self.options.max_topic_size(),
            size_bytes: self.record_bytes(),
            messages_count: self.records(),
            name: checked_name(&self.name),
            options: LengthPrefixed(self.options.explicit()),
            derived_options: LengthPrefixed(self.options.derived()),
        }
    }

    /// What the protocol tells of it. Each partition reports so many segments.
    pub(crate) fn details(&self, segments_count: u32) -> TopicDetails<'_> {
        let partitions = self
            .partitions
            .iter()
            .map(|partition| partition.info(segments_count))
            .collect();
        TopicDetails {
            topic: self.info(),
            partitions,
        }
    }

    /// Forgets every record and every consumer's offset.
    fn purge(&mut self) -> Freed {
        let freed = Freed::topic(self);
        for partition in &mut self.partitions {
            partition.purge();
        }
        self.append_order = VecDeque::new();
        self.charged_bytes = 0;
        Freed {
            window_clients: 0,
            ..freed
        }
    }

    /// Age of the oldest kept batch.
    fn oldest(&self) -> Option<u64> {
        self.append_order.front().map(|(age, _)| *age)
    }
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) name: Box<str>,
    pub(crate) created_at_us: u64,
    pub(crate) topics: BTreeMap<u32, Topic>,
    topic_ids: HashMap<Box<str>, u32>,
}

impl Stream {
    /// The number of the topic that `identifier` names.
    pub(crate) fn topic_id(&self, identifier: &Identifier<'_>) -> Option<u32> {
        match identifier {
            Identifier::Numeric(id) => self.topics.contains_key(id).then_some(*id),
            Identifier::String(name) => self.topic_ids.get(name.as_str()).copied(),
        }
    }

    /// What the protocol tells of it without its topics.
    pub(crate) fn info(&self) -> StreamInfo<'_> {
        StreamInfo {
            id: self.id,
            created_at: self.created_at_us,
            topics_count: self.topics.len() as u32,
            size_bytes: self.record_bytes(),
            messages_count: self.records(),
            name: checked_name(&self.name),
            options: LengthPrefixed(Options::EMPTY),
        }
    }

    /// What the protocol tells of it.
    pub(crate) fn details(&self) -> StreamDetails<'_> {
        StreamDetails {
            stream: self.info(),
            topics: self.topics.values().map(Topic::info).collect(),
        }
    }

    /// Records kept.
    pub(crate) fn records(&self) -> u64 {
        self.topics.values().map(Topic::records).sum()
    }

    /// Bytes of the kept records.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.topics.values().map(Topic::record_bytes).sum()
    }
}

/// Memory and windows that a removal gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Freed {
    pub(crate) charged_bytes: u64,
    pub(crate) uncommitted_bytes: u64,
    pub(crate) window_clients: usize,
    pub(crate) consumer_offsets: usize,
}

impl Freed {
    fn partition(partition: &Partition) -> Self {
        Self {
            charged_bytes: partition.log.charged_bytes(),
            uncommitted_bytes: partition.uncommitted_bytes(),
            window_clients: partition.window.clients(),
            consumer_offsets: partition.offsets.len(),
        }
    }

    fn topic(topic: &Topic) -> Self {
        topic
            .partitions
            .iter()
            .map(Self::partition)
            .fold(Self::default(), Self::and)
    }

    fn and(self, other: Self) -> Self {
        Self {
            charged_bytes: self.charged_bytes + other.charged_bytes,
            uncommitted_bytes: self.uncommitted_bytes + other.uncommitted_bytes,
            window_clients: self.window_clients + other.window_clients,
            consumer_offsets: self.consumer_offsets + other.consumer_offsets,
        }
    }
}

/// All streams.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) streams: BTreeMap<u32, Stream>,
    stream_ids: HashMap<Box<str>, u32>,
    topics: usize,
    partitions: usize,
    /// Batches appended so far: the age of the next.
    appended: u64,
    /// Stream and topic of each topic's oldest batch, by its age.
    oldest: BTreeMap<u64, (u32, u32)>,
}

impl Catalog {
    /// The number of the stream that `identifier` names.
    pub(crate) fn stream_id(&self, identifier: &Identifier<'_>) -> Option<u32> {
        match identifier {
            Identifier::Numeric(id) => self.streams.contains_key(id).then_some(*id),
            Identifier::String(name) => self.stream_ids.get(name.as_str()).copied(),
        }
    }

    /// The stream that `identifier` names.
    pub(crate) fn stream(&self, identifier: &Identifier<'_>) -> Option<&Stream> {
        self.stream_id(identifier)
            .and_then(|id| self.streams.get(&id))
    }

    /// The topic that the two identifiers name.
    pub(crate) fn topic(&self, stream: &Identifier<'_>, topic: &Identifier<'_>) -> Option<&Topic> {
        let stream = self.stream(stream)?;
        stream.topic_id(topic).and_then(|id| stream.topics.get(&id))
    }

    /// The numbers that the two identifiers name.
    pub(crate) fn topic_ids(
        &self,
        stream: &Identifier<'_>,
        topic: &Identifier<'_>,
    ) -> Result<(u32, u32), Refused> {
        let stream = self.stream(stream).ok_or(STREAM_NOT_FOUND)?;
        let topic = stream.topic_id(topic).ok_or(TOPIC_NOT_FOUND)?;
        Ok((stream.id, topic))
    }

    /// A topic by its numbers.
    pub(crate) fn topic_mut(&mut self, stream: u32, topic: u32) -> Option<&mut Topic> {
        self.streams.get_mut(&stream)?.topics.get_mut(&topic)
    }

    /// A partition by its numbers.
    pub(crate) fn partition_mut(
        &mut self,
        stream: u32,
        topic: u32,
        partition: u32,
    ) -> Option<&mut Partition> {
        self.topic_mut(stream, topic)?
            .partitions
            .get_mut(partition as usize)
    }

    /// All partitions of the broker.
    pub(crate) fn partitions_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        let topics = self
            .streams
            .values_mut()
            .flat_map(|stream| stream.topics.values_mut());
        topics.flat_map(|topic| topic.partitions.iter_mut())
    }

    /// Topics of the broker.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.streams
            .values()
            .flat_map(|stream| stream.topics.values())
    }

    /// Appends a stamped batch to a partition that exists.
    pub(crate) fn append(&mut self, stream: u32, topic: u32, partition: u32, batch: StoredBatch) {
        let age = self.appended;
        self.appended += 1;
        let held = self.topic_mut(stream, topic);
        let held = held.expect("the partition's topic exists");
        held.charged_bytes += batch.charged_bytes();
        held.partitions[partition as usize].log.append(batch);
        held.append_order.push_back((age, partition));
        if held.append_order.len() == 1 {
            self.oldest.insert(age, (stream, topic));
        }
    }

    /// Removes the oldest batch of a topic. `None` when it holds none.
    pub(crate) fn evict_oldest(&mut self, stream: u32, topic: u32) -> Option<StoredBatch> {
        let held = self.topic_mut(stream, topic)?;
        let (age, partition) = held.append_order.pop_front()?;
        shrink(&mut held.append_order);
        let batch = held.partitions[partition as usize].log.evict_oldest();
        let batch = batch.expect("every kept batch has one entry in the append order");
        held.charged_bytes -= batch.charged_bytes();
        let next = held.oldest();
        self.age(stream, topic, Some(age), next);
        Some(batch)
    }

    /// The topic that holds the oldest batch of all.
    pub(crate) fn oldest_topic(&self) -> Option<(u32, u32)> {
        self.oldest.first_key_value().map(|(_, ids)| *ids)
    }

    /// The oldest batch of a topic is another one.
    fn age(&mut self, stream: u32, topic: u32, before: Option<u64>, now: Option<u64>) {
        if let Some(before) = before {
            self.oldest.remove(&before);
        }
        if let Some(now) = now {
            self.oldest.insert(now, (stream, topic));
        }
    }

    /// Partitions of the broker.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Creates a stream.
    pub(crate) fn create_stream(&mut self, name: &str, now_us: u64) -> Result<&Stream, Refused> {
        if self.stream_ids.contains_key(name) {
            return Err(STREAM_EXISTS);
        }
        if self.streams.len() >= STREAMS_MAX {
            return Err(TOO_MANY_STREAMS);
        }
        let id = lowest_free(&self.streams);
        self.stream_ids.insert(name.into(), id);
        Ok(self.streams.entry(id).or_insert(Stream {
            id,
            name: name.into(),
            created_at_us: now_us,
            topics: BTreeMap::new(),
            topic_ids: HashMap::new(),
        }))
    }

    /// Renames a stream.
    pub(crate) fn rename_stream(
        &mut self,
        stream: &Identifier<'_>,
        name: &str,
    ) -> Result<(), Refused> {
        let id = self.stream_id(stream).ok_or(STREAM_NOT_FOUND)?;
        if self.stream_ids.get(name).is_some_and(|other| *other != id) {
            return Err(STREAM_EXISTS);
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            self.stream_ids.remove(&stream.name);
            stream.name = name.into();
            self.stream_ids.insert(name.into(), id);
        }
        Ok(())
    }

    /// Deletes a stream with all it holds.
    pub(crate) fn delete_stream(&mut self, stream: &Identifier<'_>) -> Result<Freed, Refused> {
        let id = self.stream_id(stream).ok_or(STREAM_NOT_FOUND)?;
        let Some(stream) = self.streams.remove(&id) else {
            return Err(STREAM_NOT_FOUND);
        };
        self.stream_ids.remove(&stream.name);
        self.topics -= stream.topics.len();
        for age in stream.topics.values().filter_map(Topic::oldest) {
            self.oldest.remove(&age);
        }
        self.partitions -= stream
            .topics
            .values()
            .map(|topic| topic.partitions.len())
            .sum::<usize>();
        Ok(stream
            .topics
            .values()
            .map(Freed::topic)
            .fold(Freed::default(), Freed::and))
    }

    /// Forgets every record of a stream.
    pub(crate) fn purge_stream(&mut self, stream: &Identifier<'_>) -> Result<Freed, Refused> {
        let id = self.stream_id(stream).ok_or(STREAM_NOT_FOUND)?;
        let stream = self.streams.get_mut(&id).ok_or(STREAM_NOT_FOUND)?;
        for age in stream.topics.values().filter_map(Topic::oldest) {
            self.oldest.remove(&age);
        }
        Ok(stream
            .topics
            .values_mut()
            .map(Topic::purge)
            .fold(Freed::default(), Freed::and))
    }

    /// Forgets every record of a topic.
    pub(crate) fn purge_topic(
        &mut self,
        stream: &Identifier<'_>,
        topic: &Identifier<'_>,
    ) -> Result<Freed, Refused> {
        let (stream_id, topic_id) = self.topic_ids(stream, topic)?;
        let topic = self.topic_mut(stream_id, topic_id).ok_or(TOPIC_NOT_FOUND)?;
        let oldest = topic.oldest();
        let freed = topic.purge();
        self.age(stream_id, topic_id, oldest, None);
        Ok(freed)
    }

    /// Creates a topic.
    pub(crate) fn create_topic(
        &mut self,
        stream: &Identifier<'_>,
        name: &str,
        partitions: u32,
        options: TopicOptions,
        now_us: u64,
    ) -> Result<&Topic, Refused> {
        let id = self.stream_id(stream).ok_or(STREAM_NOT_FOUND)?;
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(STREAM_NOT_FOUND);
        };
        if stream.topic_ids.contains_key(name) {
            return Err(TOPIC_EXISTS);
        }
        if stream.topics.len() >= TOPICS_PER_STREAM_MAX || self.topics >= TOPICS_MAX {
            return Err(TOO_MANY_TOPICS);
        }
        if self.partitions + partitions as usize > PARTITIONS_MAX {
            return Err(PARTITIONS_EXHAUSTED);
        }
        self.topics += 1;
        self.partitions += partitions as usize;
        let id = lowest_free(&stream.topics);
        stream.topic_ids.insert(name.into(), id);
        Ok(stream.topics.entry(id).or_insert(Topic {
            id,
            name: name.into(),
            created_at_us: now_us,
            options,
            partitions: (0..partitions)
                .map(|id| Partition::new(id, now_us))
                .collect(),
            round_robin: 0,
            append_order: VecDeque::new(),
            charged_bytes: 0,
        }))
    }

    /// Renames a topic and changes the options that `options` holds.
    pub(crate) fn update_topic(
        &mut self,
        stream: &Identifier<'_>,
        topic: &Identifier<'_>,
        name: &str,
        options: &TopicOptions,
    ) -> Result<(), Refused> {
        let (stream_id, topic_id) = self.topic_ids(stream, topic)?;
        let Some(stream) = self.streams.get_mut(&stream_id) else {
            return Err(STREAM_NOT_FOUND);
        };
        if stream
            .topic_ids
            .get(name)
            .is_some_and(|other| *other != topic_id)
        {
            return Err(TOPIC_EXISTS);
        }
        if let Some(topic) = stream.topics.get_mut(&topic_id) {
            stream.topic_ids.remove(&topic.name);
            topic.name = name.into();
            stream.topic_ids.insert(name.into(), topic_id);
            topic.options.change(options);
        }
        Ok(())
    }

    /// Deletes a topic with all it holds.
    pub(crate) fn delete_topic(
        &mut self,
        stream: &Identifier<'_>,
        topic: &Identifier<'_>,
    ) -> Result<Freed, Refused> {
        let (stream_id, topic_id) = self.topic_ids(stream, topic)?;
        let stream = self.streams.get_mut(&stream_id).ok_or(STREAM_NOT_FOUND)?;
        let topic = stream.topics.remove(&topic_id).ok_or(TOPIC_NOT_FOUND)?;
        stream.topic_ids.remove(&topic.name);
        self.topics -= 1;
        self.partitions -= topic.partitions.len();
        self.age(stream_id, topic_id, topic.oldest(), None);
        Ok(Freed::topic(&topic))
    }

    /// Adds partitions to a topic.
    pub(crate) fn create_partitions(
        &mut self,
        stream: &Identifier<'_>,
        topic: &Identifier<'_>,
        count: u32,
        now_us: u64,
    ) -> Result<(), Refused> {
        let (stream_id, topic_id) = self.topic_ids(stream, topic)?;
        if self.partitions + count as usize > PARTITIONS_MAX {
            return Err(PARTITIONS_EXHAUSTED);
        }
        let topic = self.topic_mut(stream_id, topic_id).ok_or(TOPIC_NOT_FOUND)?;
        let first = topic.partitions.len() as u32;
        topic
            .partitions
            .extend((first..first + count).map(|id| Partition::new(id, now_us)));
        self.partitions += count as usize;
        Ok(())
    }

    /// Removes the last partitions of a topic.
    pub(crate) fn delete_partitions(
        &mut self,
        stream: &Identifier<'_>,
        topic: &Identifier<'_>,
        count: u32,
    ) -> Result<Freed, Refused> {
        let (stream_id, topic_id) = self.topic_ids(stream, topic)?;
        let topic = self.topic_mut(stream_id, topic_id).ok_or(TOPIC_NOT_FOUND)?;
        let Some(kept) = topic.partitions.len().checked_sub(count as usize) else {
            return Err(INVALID_PARTITIONS_COUNT);
        };
        let before = topic.oldest();
        let removed = topic.partitions.drain(kept..);
        let freed = removed
            .map(|partition| Freed::partition(&partition))
            .fold(Freed::default(), Freed::and);
        topic.charged_bytes -= freed.charged_bytes;
        topic
            .append_order
            .retain(|(_, partition)| (*partition as usize) < kept);
        let now = topic.oldest();
        self.age(stream_id, topic_id, before, now);
        self.partitions -= count as usize;
        Ok(freed)
    }
}

/// A name that came off the wire as one.
fn checked_name(name: &str) -> Name<'_> {
    Name::new(name).expect("names were checked when they came in")
}

/// The lowest key that is not taken.
fn lowest_free<T>(map: &BTreeMap<u32, T>) -> u32 {
    let mut free = 0;
    for key in map.keys() {
        if *key != free {
            break;
        }
        free += 1;
    }
    free
}
