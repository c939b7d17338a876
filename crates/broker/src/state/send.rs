//! Sends from arrival to commit: the duplicate window, the queue, the stamp, the log, and retention.

use std::collections::HashMap;

use ringmain_wire::batch::{Stamp, stamp};
use ringmain_wire::codec::Encode;
use ringmain_wire::header::ReplyFields;
use ringmain_wire::operation::Operation;
use ringmain_wire::payload::send::{CONFIRMATION_BYTES, Confirmation, SendMessagesReply};
use ringmain_wire::result::SUCCESS;

use super::log::StoredBatch;
use super::partition::{ConsumerKey, Partition, Uncommitted};
use super::window::Seen;
use super::{Call, ConnectionKey, State};
use crate::config::Now;
use crate::limits::WINDOW_CLIENTS_TOTAL_MAX;
use crate::profile::Profile;

/// The body that confirms one batch.
const CONFIRMED_BYTES: usize = size_of::<u32>() + CONFIRMATION_BYTES;

/// Evicted buffers that are kept for the next frames, and the sizes worth keeping: 32 MiB in all.
const SPARES_MAX: usize = 8;
const SPARE_BYTES_MIN: u64 = 64 << 10;
const SPARE_BYTES_MAX: u64 = 4 << 20;

/// Memory that all uncommitted sends may hold; the next send is dropped like one too many.
const UNCOMMITTED_BYTES_MAX: u64 = 256 << 20;

/// Where a send goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) stream: u32,
    pub(crate) topic: u32,
    pub(crate) partition: u32,
}

/// A batch that passed validation, in the memory it will be kept in.
#[derive(Debug)]
pub(crate) struct ValidBatch {
    pub(crate) buffer: Vec<u8>,
    /// Where its header begins; it runs to the end of `buffer`.
    pub(crate) record_at: usize,
    pub(crate) records: u32,
}

impl State {
    /// Answers a partition request that its client's window knows, or absorbs one that waits to be committed. False
    /// when it is new.
    pub(crate) fn answer_known(&mut self, call: &Call, place: Place) -> bool {
        let client = match self.session(call.connection) {
            Some(session) if self.config.profile == Profile::Release => session.client,
            _ => return false,
        };
        let Some(partition) = self.partition(place) else {
            return false;
        };
        let request = call.header.request();
        let seen = partition.window.seen(client, request);
        let (waits, commit) = (partition.is_uncommitted(client, request), partition.commit);
        match seen {
            // The reply of the first one is on its way.
            Seen::New if waits => {
                self.stats.sends_absorbed += 1;
                return true;
            }
            Seen::New => return false,
            Seen::Duplicate => self.stats.duplicates += 1,
            Seen::Swallowed => self.stats.swallowed += 1,
        }
        self.reply_known(call, commit);
        true
    }

    /// An empty success: no offset is known any more.
    fn reply_known(&mut self, call: &Call, commit: u64) {
        let fields = ReplyFields {
            client: call.connection.transport_id(),
            commit,
            ..ReplyFields::answering(&call.header, call.operation)
        };
        let body: &[u8] = if call.operation.is_result_framed() {
            &SUCCESS
        } else {
            &[]
        };
        self.reply(call, &fields, body);
    }

    /// Changes the consumer offsets of a partition. `logged` changes go through its log and its window, at once even
    /// while sends wait to be committed.
    pub(crate) fn write_offset(
        &mut self,
        call: &Call,
        place: Place,
        logged: bool,
        change: impl FnOnce(&mut HashMap<ConsumerKey, u64>),
    ) {
        if logged && self.answer_known(call, place) {
            return;
        }
        let Some(session) = self.session(call.connection) else {
            return;
        };
        let Some(partition) = self.partition_mut(place) else {
            return;
        };
        change(&mut partition.offsets);
        if logged {
            partition.commit += 1;
        }
        let commit = partition.commit;
        if logged {
            self.remember(place, session.client, call.header.request());
        }
        let transport_id = call.connection.transport_id();
        let fields = Self::committed(&call.header, call.operation, transport_id, commit, call.now);
        self.reply(call, &fields, &SUCCESS);
    }

    /// Marks a request as committed in its partition's window.
    fn remember(&mut self, place: Place, client: u128, request: u64) {
        if self.config.profile == Profile::Edge5 {
            return;
        }
        let make_room = self.window_clients >= WINDOW_CLIENTS_TOTAL_MAX;
        let Some(partition) = self.partition_mut(place) else {
            return;
        };
        let before = partition.window.clients();
        partition.window.commit(client, request, make_room);
        let after = partition.window.clients();
        self.window_clients = self.window_clients - before + after;
    }

    /// A partition that exists.
    pub(crate) fn partition(&self, place: Place) -> Option<&Partition> {
        let topic = self
            .catalog
            .streams
            .get(&place.stream)?
            .topics
            .get(&place.topic)?;
        topic.partitions.get(place.partition as usize)
    }

    fn partition_mut(&mut self, place: Place) -> Option<&mut Partition> {
        self.catalog
            .partition_mut(place.stream, place.topic, place.partition)
    }

    /// Takes a valid batch: commits it, or keeps it until commits go on, or drops it when the partition is full.
    pub(crate) fn take_send(&mut self, call: &Call, place: Place, client: u128, batch: ValidBatch) {
        let delay_us = self.config.commit_delay_us;
        let uncommitted_bytes = self.uncommitted_bytes;
        let (held, fault) = (self.commits_held, self.reply_fault.take());
        let Some(partition) = self.partition_mut(place) else {
            return;
        };
        let bytes = batch.buffer.capacity() as u64;
        if !partition.has_room() || uncommitted_bytes + bytes > UNCOMMITTED_BYTES_MAX {
            self.stats.sends_dropped += 1;
            return;
        }
        let send = Uncommitted {
            connection: call.connection,
            client,
            header: call.header,
            buffer: batch.buffer,
            record_at: batch.record_at,
            records: batch.records,
            due_us: call.now.monotonic_us.saturating_add(delay_us),
            fault,
        };
        if delay_us == 0 && !held && partition.is_settled() {
            self.commit_send(place, send, call.now);
            return;
        }
        partition.take(send);
        self.uncommitted_bytes += bytes;
        self.unsettled.insert(place);
    }

    /// When the next uncommitted sends are due. `None` while commits are held.
    pub(super) fn commits_due_us(&self) -> Option<u64> {
        if self.commits_held {
            return None;
        }
        self.unsettled
            .iter()
            .filter_map(|place| self.partition(*place)?.due_us())
            .min()
    }

    /// Commits what is due, in the order it was taken within each partition.
    pub(super) fn commit_due(&mut self, now: Now) {
        if self.commits_held {
            return;
        }
        for place in self.unsettled.clone() {
            loop {
                let partition = self.partition_mut(place);
                let settled = partition
                    .as_ref()
                    .is_none_or(|partition| partition.is_settled());
                let Some(send) =
                    partition.and_then(|partition| partition.next_due(now.monotonic_us))
                else {
                    if settled {
                        self.unsettled.remove(&place);
                    }
                    break;
                };
                self.uncommitted_bytes -= send.buffer.capacity() as u64;
                self.commit_send(place, send, now);
            }
        }
    }

    /// Stamps, stores and confirms a batch.
    fn commit_send(&mut self, place: Place, mut send: Uncommitted, now: Now) {
        let Some(partition) = self.partition_mut(place) else {
            return;
        };
        let fields = Stamp {
            partition_id: u64::from(place.partition),
            base_offset: partition.log.next_offset(),
            base_timestamp_us: partition.log.stamp_us(now.wall_us),
        };
        if stamp(&mut send.buffer[send.record_at..], &fields).is_err() {
            // Offsets would leave u64. No partition lives to see it.
            self.stats.sends_malformed += 1;
            return;
        }
        partition.commit += 1;
        let commit = partition.commit;
        let Stamp {
            base_offset,
            base_timestamp_us,
            ..
        } = fields;
        let batch = StoredBatch::new(
            send.buffer,
            send.record_at,
            base_offset,
            base_timestamp_us,
            send.records,
        );
        self.remember(place, send.client, send.header.request());
        self.store(place, batch);
        self.reply_fault = send.fault;
        let transport_id = send.connection.transport_id();
        let fields = Self::committed(
            &send.header,
            Operation::SendMessages,
            transport_id,
            commit,
            now,
        );
        self.confirm(send.connection, &fields, place, base_offset, now);
        // The connection of a late commit may be gone, and its fault with it.
        self.reply_fault = None;
    }

    /// Appends a stamped batch and makes room for it.
    fn store(&mut self, place: Place, batch: StoredBatch) {
        let charged = batch.charged_bytes();
        self.stats.batches += 1;
        self.stats.records += u64::from(batch.records);
        self.stats.record_bytes += batch.record().len() as u64;
        let topic = self
            .catalog
            .topic_mut(place.stream, place.topic)
            .expect("the partition's topic exists");
        topic.partitions[place.partition as usize].log.append(batch);
        topic.append_order.push_back(place.partition);
        topic.charged_bytes += charged;
        self.charged_bytes += charged;
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

    /// Counts a send of sink mode: no batch is read or kept, offsets go on.
    pub(crate) fn sink_send(&mut self, call: &Call, place: Place, records: u32) {
        let Some(partition) = self.partition_mut(place) else {
            return;
        };
        let base_offset = partition.log.next_offset();
        partition.log.skip(records);
        partition.commit += 1;
        let commit = partition.commit;
        self.stats.batches += 1;
        self.stats.records += u64::from(records);
        let transport_id = call.connection.transport_id();
        let fields = Self::committed(&call.header, call.operation, transport_id, commit, call.now);
        self.confirm(call.connection, &fields, place, base_offset, call.now);
    }

    /// Confirms a batch with its place and base offset.
    fn confirm(
        &mut self,
        connection: ConnectionKey,
        fields: &ReplyFields,
        place: Place,
        base_offset: u64,
        now: Now,
    ) {
        let Place {
            stream,
            topic,
            partition,
        } = place;
        let confirmation = Confirmation::new(stream, topic, partition, base_offset);
        let mut body = [0; CONFIRMED_BYTES];
        SendMessagesReply::Confirmed(&[confirmation])
            .encode(&mut body)
            .expect("one confirmation fits");
        self.reply_to(connection, fields, &body, now);
    }

    /// Evicts the oldest batches while the topic, or all topics together, hold more than they may.
    fn retain(&mut self, place: Place) {
        let topic_bytes_max = self.config.topic_bytes_max;
        while let Some(topic) = self.catalog.topic_mut(place.stream, place.topic)
            && topic.charged_bytes > topic_bytes_max.min(topic.options.retained_bytes_max())
            && self.evict_oldest(place.stream, place.topic)
        {}
        while self.charged_bytes > self.config.memory_bytes_max {
            let largest = self.catalog.largest_topic();
            let evicted = largest.is_some_and(|(stream, topic)| self.evict_oldest(stream, topic));
            assert!(evicted, "memory is charged to topics that hold batches");
        }
    }

    /// Evicts the oldest batch of a topic. False when it holds none.
    fn evict_oldest(&mut self, stream: u32, topic: u32) -> bool {
        let Some(topic) = self.catalog.topic_mut(stream, topic) else {
            return false;
        };
        let Some(partition) = topic.append_order.pop_front() else {
            return false;
        };
        let batch = topic.partitions[partition as usize].log.evict_oldest();
        let batch = batch.expect("every kept batch has one entry in the append order");
        let charged = batch.charged_bytes();
        topic.charged_bytes -= charged;
        self.charged_bytes -= charged;
        self.stats.records_evicted += u64::from(batch.records);
        self.stats.record_bytes_evicted += batch.record().len() as u64;
        if (SPARE_BYTES_MIN..=SPARE_BYTES_MAX).contains(&charged) && self.spare.len() < SPARES_MAX {
            self.spare.push(batch.into_buffer());
        }
        true
    }
}
