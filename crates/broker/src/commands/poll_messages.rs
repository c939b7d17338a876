//! PollMessages: operation 2, code 100.
//!
//! ```text
//! consumer (kind u8, identifier) | stream identifier | topic identifier | partition flag u8, u32
//! | strategy u8, value u64 | count u32 | auto_commit u8
//! reply: partition u32 | current_offset u64 | count u32 | batches as stored
//! ```
//!
//! Strategies: 1 from an offset, 2 from a time, 3 from the first, 4 the last so many, 5 after the consumer's
//! stored offset. The batch that holds the first or the last message asked for is cut: its header gets the new
//! length, count and checksum and keeps its base offset, so offsets are still base plus delta.
//!
//! A body that cannot be read is answered as an empty poll, a missing stream, topic or partition with status
//! 1009, 2010 or 3007.
//!
//! Simplified: consumer groups (kind 2) are answered with status 5. A reply ends before it would pass the
//! protocol's frame limit.

use ringmain_wire::WireError;
use ringmain_wire::batch::{
    BATCH_HEADER_BYTES, BatchReader, Integrity, MESSAGE_HEADER_BYTES, Message, Stamp, stamp,
};
use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::{Decode, Reader};
use ringmain_wire::hash::key_hash;
use ringmain_wire::header::BODY_BYTES_MAX;
use ringmain_wire::identifier::Identifier;

use super::{FEATURE_UNAVAILABLE, known};
use crate::limits::{CONSUMER_OFFSETS_MAX, POLLS_BYTES_MAX};
use crate::state::{Call, ConsumerKey, Partition, State};

/// Partition, current offset, count.
const HEAD_BYTES: usize = 16;

/// The kind of a consumer that is not a group.
pub(super) const KIND_CONSUMER: u8 = 1;

/// Where a poll begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Offset(u64),
    Timestamp(u64),
}

struct Request<'a> {
    consumer: (u8, Identifier<'a>),
    stream: Identifier<'a>,
    topic: Identifier<'a>,
    partition: u32,
    strategy: (u8, u64),
    count: u32,
    auto_commit: bool,
}

fn decode(body: &[u8]) -> Result<Request<'_>, WireError> {
    let mut reader = Reader::new(body);
    let consumer = consumer(&mut reader)?;
    let stream = Identifier::read(&mut reader)?;
    let topic = Identifier::read(&mut reader)?;
    let partition = partition(&mut reader)?;
    let strategy = (reader.u8("strategy")?, reader.u64("strategy_value")?);
    let count = reader.u32("count")?;
    let auto_commit = reader.u8("auto_commit")? != 0;
    reader.finish("poll")?;
    Ok(Request {
        consumer,
        stream,
        topic,
        partition,
        strategy,
        count,
        auto_commit,
    })
}

/// Kind and identifier of a consumer.
pub(super) fn consumer<'a>(reader: &mut Reader<'a>) -> Result<(u8, Identifier<'a>), WireError> {
    let offset = reader.offset();
    let kind = reader.u8("consumer_kind")?;
    if kind != 1 && kind != 2 {
        return Err(WireError::UnknownKind {
            field: "consumer_kind",
            offset,
            found: u64::from(kind),
        });
    }
    Ok((kind, Identifier::read(reader)?))
}

/// The partition that a flag and a number name; 0 when there is none.
pub(super) fn partition(reader: &mut Reader<'_>) -> Result<u32, WireError> {
    let given = reader.u8("partition_flag")? == 1;
    let partition = reader.u32("partition_id")?;
    Ok(if given { partition } else { 0 })
}

/// The key of a consumer's offset: names are hashed, as in the real server.
pub(super) fn consumer_key(kind: u8, consumer: &Identifier<'_>) -> ConsumerKey {
    match consumer {
        Identifier::Numeric(number) => (kind, *number),
        Identifier::String(name) => (kind, key_hash(name.as_str().as_bytes())),
    }
}

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Ok(request) = decode(body) else {
        state.stats.requests_invalid += 1;
        let empty = [0; HEAD_BYTES];
        state.reply_read(call, &empty);
        return;
    };
    if request.consumer.0 != KIND_CONSUMER {
        state.deny_read(call, FEATURE_UNAVAILABLE);
        return;
    }
    if state.outgoing_total() > POLLS_BYTES_MAX {
        state.deny_read(call, ErrorCode::TRANSIENT_NOT_ACCEPTED);
        return;
    }
    let (stream, topic) = match state.catalog.topic_ids(&request.stream, &request.topic) {
        Ok(ids) => ids,
        Err(refused) => {
            state.deny_read(call, known(refused.0));
            return;
        }
    };
    let Some(partition) = state
        .catalog
        .partition_mut(stream, topic, request.partition)
    else {
        state.deny_read(call, ErrorCode::PARTITION_NOT_FOUND);
        return;
    };
    let consumer = consumer_key(request.consumer.0, &request.consumer.1);
    let stored = partition.offsets.get(&consumer).copied();
    let reply = match start(&request, partition, stored) {
        Some(start) => poll(partition, request.partition, start, request.count),
        None => Reply::new(partition, request.partition),
    };
    if request.auto_commit
        && let Some(last) = reply.last_offset
        && (partition.offsets.len() < CONSUMER_OFFSETS_MAX || stored.is_some())
    {
        // Auto-commit only moves forward.
        let offset = partition.offsets.entry(consumer).or_insert(last);
        *offset = last.max(*offset);
    }
    state.reply_read(call, &reply.body);
}

/// Where to begin. `None` for a strategy that does not exist.
fn start(request: &Request<'_>, partition: &Partition, stored: Option<u64>) -> Option<Start> {
    let (kind, value) = request.strategy;
    let current = partition.log.current_offset();
    Some(match kind {
        1 => Start::Offset(value),
        2 => Start::Timestamp(value),
        3 => Start::Offset(0),
        4 => Start::Offset(current.saturating_sub(u64::from(request.count).saturating_sub(1))),
        5 => Start::Offset(stored.map_or(0, |offset| offset.saturating_add(1))),
        _ => return None,
    })
}

/// A poll reply under construction.
struct Reply {
    body: Vec<u8>,
    count: u32,
    last_offset: Option<u64>,
}

impl Reply {
    fn new(partition: &Partition, partition_id: u32) -> Self {
        let mut body = Vec::with_capacity(HEAD_BYTES);
        body.extend_from_slice(&partition_id.to_le_bytes());
        body.extend_from_slice(&partition.log.current_offset().to_le_bytes());
        body.extend_from_slice(&0_u32.to_le_bytes());
        Self {
            body,
            count: 0,
            last_offset: None,
        }
    }

    /// Adds the messages of a stored batch from offset `from` on, `most` at the most. False when they do not fit.
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
        Start::Offset(offset) => (offset, Box::new(partition.log.from_offset(offset))),
        Start::Timestamp(timestamp_us) => (0, Box::new(partition.log.from_timestamp(timestamp_us))),
    };
    for batch in batches {
        let most = count - reply.count;
        if most == 0 || !reply.push(batch.record(), from, most) {
            break;
        }
    }
    let messages = reply.count;
    reply.body[12..HEAD_BYTES].copy_from_slice(&messages.to_le_bytes());
    reply
}
