//! PollMessages: operation 2, code 100.
//!
//! ```text
//! consumer | stream identifier | topic identifier | partition | strategy | count u32 | auto_commit u8
//! reply: partition u32 | current_offset u64 | count u32 | batches as stored
//! ```
//!
//! Strategies: from an offset, from a time, from the first, the last so many, after the consumer's
//! stored offset. The batch that holds the first or the last message asked for is cut: its header
//! gets the new length, count and checksum and keeps its base offset, so offsets are still base
//! plus delta.
//!
//! A body that cannot be read is answered as an empty poll, a missing stream, topic or partition
//! with status 1009, 2010 or 3007, an auto-commit of one consumer too many with 3024.
//!
//! Simplified: consumer groups are answered with status 5. A reply ends before it would pass the
//! protocol's frame limit.

use ringmain_wire::batch::{
    BATCH_HEADER_BYTES, BatchReader, Integrity, MESSAGE_HEADER_BYTES, Message, Stamp, stamp,
};
use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::Decode;
use ringmain_wire::header::BODY_BYTES_MAX;
use ringmain_wire::payload::poll::{POLL_REPLY_PREFIX_BYTES, PollMessages, PollingStrategy};

use super::common::{
    FEATURE_UNAVAILABLE, TOO_MANY_CONSUMER_OFFSETS, code, consumer_key, partition_id,
};
use crate::state::{Call, Partition, Place, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Ok(request) = PollMessages::decode(body) else {
        state.stats.requests_invalid += 1;
        state.reply_read(call, &[0; POLL_REPLY_PREFIX_BYTES]);
        return;
    };
    let Some(key) = consumer_key(&request.consumer) else {
        state.deny_read(call, FEATURE_UNAVAILABLE);
        return;
    };
    let (stream, topic) = match state
        .catalog
        .topic_ids(&request.stream_id, &request.topic_id)
    {
        Ok(ids) => ids,
        Err(refused) => {
            state.deny_read(call, code(refused.0));
            return;
        }
    };
    let partition_id = partition_id(request.partition);
    let place = Place {
        stream,
        topic,
        partition: partition_id,
    };
    let Some(partition) = state.partition(place) else {
        state.deny_read(call, ErrorCode::PARTITION_NOT_FOUND);
        return;
    };
    let stored = partition.offsets.get(&key).copied();
    let room = stored.is_some() || state.has_offset_room(partition);
    if request.auto_commit && !room {
        state.deny_read(call, TOO_MANY_CONSUMER_OFFSETS);
        return;
    }
    let reply = poll(
        partition,
        partition_id,
        start(&request, partition, stored),
        request.count,
    );
    if request.auto_commit
        && let Some(last) = reply.last_offset
    {
        // Auto-commit only moves forward.
        state.auto_commit(place, key, last.max(stored.unwrap_or(0)));
    }
    state.reply_read(call, &reply.body);
}

/// Where a poll begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Offset(u64),
    Timestamp(u64),
}

fn start(request: &PollMessages<'_>, partition: &Partition, stored: Option<u64>) -> Start {
    match request.strategy {
        PollingStrategy::Offset(offset) => Start::Offset(offset),
        PollingStrategy::Timestamp(timestamp_us) => Start::Timestamp(timestamp_us),
        PollingStrategy::First => Start::Offset(0),
        PollingStrategy::Last => {
            let before = u64::from(request.count).saturating_sub(1);
            Start::Offset(partition.log.current_offset().saturating_sub(before))
        }
        PollingStrategy::Next => Start::Offset(stored.map_or(0, |offset| offset.saturating_add(1))),
    }
}

/// A poll reply under construction.
struct Reply {
    body: Vec<u8>,
    count: u32,
    last_offset: Option<u64>,
}

impl Reply {
    fn new(partition: &Partition, partition_id: u32) -> Self {
        let mut body = Vec::with_capacity(POLL_REPLY_PREFIX_BYTES);
        body.extend_from_slice(&partition_id.to_le_bytes());
        body.extend_from_slice(&partition.log.current_offset().to_le_bytes());
        body.extend_from_slice(&0_u32.to_le_bytes());
        Self {
            body,
            count: 0,
            last_offset: None,
        }
    }

    /// Adds the messages of a stored batch from offset `from` on, `most` at the most. False when
    /// they do not fit.
    fn push(&mut self, record: &[u8], from: u64, most: u32) -> bool {
        let batch =
            BatchReader::decode(record, Integrity::Layout).expect("stored batches are well formed");
        let Some(slice) = slice(&batch, from, most) else {
            return true;
        };
        let record_at = self.body.len();
        if record_at + BATCH_HEADER_BYTES + slice.bytes.len() > BODY_BYTES_MAX {
            return false;
        }
        self.body.extend_from_slice(&record[..BATCH_HEADER_BYTES]);
        self.body
            .extend_from_slice(&record[BATCH_HEADER_BYTES..][slice.bytes.clone()]);
        if slice.count < batch.messages_count() {
            let header = batch.header();
            let length = (BATCH_HEADER_BYTES + slice.bytes.len()) as u64;
            let cut = &mut self.body[record_at..];
            cut[32..40].copy_from_slice(&length.to_le_bytes());
            cut[48..52].copy_from_slice(&slice.count.to_le_bytes());
            let same = Stamp {
                partition_id: header.partition_id(),
                base_offset: header.base_offset(),
                base_timestamp_us: header.base_timestamp_us(),
            };
            stamp(cut, &same).expect("a run of whole messages is a batch");
        }
        self.count += slice.count;
        self.last_offset = Some(slice.last_offset);
        true
    }
}

/// A run of messages of a batch: their bytes behind the batch header.
struct Slice {
    bytes: std::ops::Range<usize>,
    count: u32,
    last_offset: u64,
}

fn slice(batch: &BatchReader<'_>, from: u64, most: u32) -> Option<Slice> {
    let mut slice: Option<Slice> = None;
    let mut at = 0;
    for message in batch.messages() {
        let end = at + message_bytes(&message);
        if message.offset() >= from {
            let slice = slice.get_or_insert(Slice {
                bytes: at..at,
                count: 0,
                last_offset: 0,
            });
            if slice.count == most {
                break;
            }
            slice.bytes.end = end;
            slice.count += 1;
            slice.last_offset = message.offset();
        }
        at = end;
    }
    slice.filter(|slice| slice.count > 0)
}

fn message_bytes(message: &Message<'_>) -> usize {
    MESSAGE_HEADER_BYTES + message.payload().len() + message.user_headers_bytes().len()
}

fn poll(partition: &Partition, partition_id: u32, start: Start, count: u32) -> Reply {
    let mut reply = Reply::new(partition, partition_id);
    let (from, batches): (u64, Box<dyn Iterator<Item = _>>) = match start {
        Start::Offset(offset) => (offset, Box::new(partition.log.batches_from_offset(offset))),
        Start::Timestamp(timestamp_us) => (
            0,
            Box::new(partition.log.batches_from_timestamp(timestamp_us)),
        ),
    };
    for batch in batches {
        let most = count - reply.count;
        if most == 0 || !reply.push(batch.record(), from, most) {
            break;
        }
    }
    let messages = reply.count;
    reply.body[12..POLL_REPLY_PREFIX_BYTES].copy_from_slice(&messages.to_le_bytes());
    reply
}
