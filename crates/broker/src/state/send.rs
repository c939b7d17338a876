//! Sends from arrival to commit: the duplicate window, the queue, the stamp and the log.

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
    /// Answers a partition request that its client's window knows, or absorbs one that waits to be
    /// committed. False when it is new.
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

    /// Changes the consumer offsets of a partition. `logged` changes go through its log and its
    /// window, at once even while sends wait to be committed.
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
        let before = partition.offsets.len();
        change(&mut partition.offsets);
        let after = partition.offsets.len();
        if logged {
            partition.commit += 1;
        }
        let commit = partition.commit;
        self.consumer_offsets = self.consumer_offsets - before + after;
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

    pub(super) fn partition_mut(&mut self, place: Place) -> Option<&mut Partition> {
        self.catalog
            .partition_mut(place.stream, place.topic, place.partition)
    }

    /// Takes a valid batch: refuses one that is too large to be kept, commits it, keeps it until
    /// commits go on, or drops it when the partition is full.
    pub(crate) fn take_send(
        &mut self,
        call: &Call,
        place: Place,
        client: u128,
        mut batch: ValidBatch,
    ) {
        if let Err(code) = self.fit(place, &mut batch) {
            self.deny(call, code);
            return;
        }
        let delay_us = self.config.commit_delay_us;
        let uncommitted_bytes = self.uncommitted_bytes;
        let uncommitted_bytes_max = UNCOMMITTED_BYTES_MAX.min(self.config.memory_bytes_max);
        let (held, fault) = (self.commits_held, self.reply_fault.take());
        let Some(partition) = self.partition_mut(place) else {
            return;
        };
        if !partition.has_room() {
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
        let held_bytes = send.held_bytes();
        // One always fits, whatever the bound.
        if uncommitted_bytes > 0 && uncommitted_bytes + held_bytes > uncommitted_bytes_max {
            self.stats.sends_dropped += 1;
            return;
        }
        partition.take(send);
        self.uncommitted_bytes += held_bytes;
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
                self.uncommitted_bytes -= send.held_bytes();
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
}
