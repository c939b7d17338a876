//! Decoders out of arbitrary bytes: the bodies of the fuzz targets, and of the test that replays
//! their corpus.
//!
//! Nothing here is of use to a user of the crate.
//!
//! ```text
//! frame   flags u8 | read size u8 | a stream      flags bit 0  what a server reads, else what a client reads
//! replies the body of a reply
//! batch   flags u8 | a batch, or a send           flags bit 0  checksums are made right
//!                                                       bit 1  a send: where it goes, then the batch
//! ```
//!
//! After the input these must hold, whatever it was: what decodes is encoded to the same bytes
//! again, and how a stream is cut changes nothing.

use std::ops::Range;

use crate::batch::{
    BATCH_HEADER_BYTES, BatchReader, BatchWriter, Integrity, MESSAGE_HEADER_BYTES, RecordParts,
    SendMessagesRef, SendTarget, Stamp, StoredBatches, stamp,
};
use crate::codec::{Decode, Encode};
use crate::frame::{FrameDecoder, Inbound, InboundRequest, Reply, ReplyOutcome, Request};
use crate::hash;
use crate::header::{
    EvictionHeader, HEADER_BYTES, HeaderError, ReplyFields, ReplyHeader, RequestHeader, offset,
    reply,
};
use crate::identifier::Identifier;
use crate::operation::Operation;
use crate::options::Options;
use crate::partitioning::Partitioning;
use crate::payload::Command;
use crate::payload::cluster::{GetClusterMetadata, Ping};
use crate::payload::consumer::{DeleteConsumerOffset, GetConsumerOffset, StoreConsumerOffset};
use crate::payload::login::{ClientVersion, LoginRegister, LoginRegisterWithPat, Logout};
use crate::payload::poll::{PollMessages, PollReply};
use crate::payload::send::SendMessagesReply;
use crate::payload::stream::{
    CreateStream, DeleteStream, GetStream, GetStreams, PurgeStream, UpdateStream,
};
use crate::payload::system::{DescribeOptions, GetMe, GetStats};
use crate::payload::token::{
    CreatePersonalAccessToken, DeletePersonalAccessToken, GetPersonalAccessTokens,
};
use crate::payload::topic::{
    CreatePartitions, CreateTopic, DeletePartitions, DeleteSegments, DeleteTopic, GetTopic,
    GetTopics, PurgeTopic, UpdateTopic,
};
use crate::result::{self, ResultSection};
use crate::user_headers::{UserHeaders, UserHeadersIter, UserHeadersWriter};

/// Bytes of a reply header that a client passes over, whatever a server leaves there: the frame's
/// checksums, its release, and what is reserved.
const UNREAD_IN_REPLIES: [Range<usize>; 5] = [
    offset::CHECKSUM..offset::CLUSTER,
    offset::RELEASE..offset::COMMAND,
    offset::RESERVED_FRAME..offset::SHAPE,
    reply::offset::OPERATION_PADDING..reply::offset::STATUS,
    reply::offset::RESERVED..HEADER_BYTES,
];

/// Hands bytes to a check of each request that has a type; the request brings the type of its reply
/// along. A send has no such type, see [`check_send`] and [`SendMessagesReply`].
macro_rules! each_command {
    ($check:ident($bytes:expr)) => {
        $check::<LoginRegister<'_>>($bytes);
        $check::<LoginRegisterWithPat<'_>>($bytes);
        $check::<Logout>($bytes);
        $check::<Ping>($bytes);
        $check::<GetClusterMetadata>($bytes);
        $check::<GetMe>($bytes);
        $check::<GetStats>($bytes);
        $check::<DescribeOptions>($bytes);
        $check::<GetStream<'_>>($bytes);
        $check::<GetStreams>($bytes);
        $check::<CreateStream<'_>>($bytes);
        $check::<UpdateStream<'_>>($bytes);
        $check::<DeleteStream<'_>>($bytes);
        $check::<PurgeStream<'_>>($bytes);
        $check::<GetTopic<'_>>($bytes);
        $check::<GetTopics<'_>>($bytes);
        $check::<CreateTopic<'_>>($bytes);
        $check::<UpdateTopic<'_>>($bytes);
        $check::<DeleteTopic<'_>>($bytes);
        $check::<PurgeTopic<'_>>($bytes);
        $check::<CreatePartitions<'_>>($bytes);
        $check::<DeletePartitions<'_>>($bytes);
        $check::<DeleteSegments<'_>>($bytes);
        $check::<PollMessages<'_>>($bytes);
        $check::<GetConsumerOffset<'_>>($bytes);
        $check::<StoreConsumerOffset<'_>>($bytes);
        $check::<DeleteConsumerOffset<'_>>($bytes);
        $check::<CreatePersonalAccessToken<'_>>($bytes);
        $check::<DeletePersonalAccessToken<'_>>($bytes);
        $check::<GetPersonalAccessTokens>($bytes);
    };
}

/// Frames that a client or a server reads. Panics when a promise is broken.
pub fn drive_frame(input: &[u8]) {
    let [flags, read_size, stream @ ..] = input else {
        return;
    };
    let is_server = flags & 0x01 != 0;
    let (whole, end) = frames(stream, stream.len().max(1));
    let (cut, cut_end) = frames(stream, usize::from(*read_size) + 1);
    assert_eq!((&whole, end), (&cut, cut_end), "however it is cut");
    assert!(stream.starts_with(&whole.concat()), "frames are the stream");
    for frame in &whole {
        if is_server {
            match InboundRequest::decode(frame).expect("frames are whole") {
                InboundRequest::Request(request) => check_request(&request, frame),
                InboundRequest::Foreign { frame: found, .. } => assert_eq!(found, frame),
            }
        } else {
            match Inbound::decode(frame) {
                Ok(Inbound::Reply(reply)) => check_reply(&reply, frame),
                Ok(Inbound::Eviction(eviction)) => {
                    check_eviction(eviction.header(), frame);
                }
                Ok(Inbound::Foreign { frame: found, .. }) => assert_eq!(found, frame),
                Err(_) => {}
            }
        }
    }
}

/// The frames of a stream that comes in reads of so many bytes, and how it ends.
fn frames(stream: &[u8], read_size: usize) -> (Vec<Vec<u8>>, Option<HeaderError>) {
    let mut decoder = FrameDecoder::new();
    let mut frames = Vec::new();
    for mut read in stream.chunks(read_size) {
        loop {
            match decoder.next_frame(&mut read) {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(read.is_empty(), "a decoder takes what it is given");
        assert!(decoder.pending_bytes() <= stream.len());
    }
    (frames, None)
}

fn check_request(request: &Request<'_>, frame: &[u8]) {
    assert_eq!([request.header.as_bytes(), request.body].concat(), frame);
    if let Ok(header) = RequestHeader::from_raw(request.header) {
        assert_eq!(header.as_bytes(), request.header.as_bytes());
        assert_eq!(request.operation(), Ok(header.operation()));
    }
    each_command!(check_request_of(request.body));
    // A server reads it before it knows which login follows.
    if let Ok(version) = ClientVersion::decode_prefix(request.body) {
        assert!(request.body.starts_with(&version.to_vec()));
    }
    is_written_back::<Partitioning<'_>>(request.body);
    check_send(request.body);
}

fn check_request_of<'a, C: Command + Decode<'a>>(body: &'a [u8]) {
    is_written_back::<C>(body);
}

fn check_send(body: &[u8]) {
    let Ok(send) = SendMessagesRef::decode(body) else {
        return;
    };
    assert_eq!(send.batch_at(), send.target().prefix_bytes());
    let Ok(batch) = send.batch(Integrity::Verify) else {
        return;
    };
    if let Some(again) = written_again(&batch, send.target()) {
        assert_eq!(again, body);
    }
}

fn check_reply(reply: &Reply<'_>, frame: &[u8]) {
    let header = reply.header();
    assert_eq!([&header.as_bytes()[..], reply.body()].concat(), frame);
    let fields = ReplyFields {
        cluster: header.cluster(),
        view: header.view(),
        replica: header.replica(),
        request_checksum: header.request_checksum(),
        context: header.context(),
        client: header.client(),
        op: header.op(),
        commit: header.commit(),
        timestamp: header.timestamp(),
        request: header.request(),
        operation: reply.operation(),
        status: header.status(),
    };
    let again = ReplyHeader::new(&fields, reply.body().len()).expect("it was read a moment ago");
    let mut read = *header.as_bytes();
    for unread in UNREAD_IN_REPLIES {
        read[unread].fill(0);
    }
    assert_eq!(again.as_bytes(), &read);
    match reply.outcome() {
        Ok(ReplyOutcome::Success(payload)) => {
            assert!(reply.body().ends_with(payload));
            check_payload(payload);
        }
        Ok(ReplyOutcome::Status(code)) => assert_eq!(Some(code), header.status()),
        Ok(ReplyOutcome::Result(code)) => assert_eq!(result::rejection(code), reply.body()),
        Ok(ReplyOutcome::LoginFailed) => assert_eq!(reply.operation(), Operation::Register),
        Err(_) => assert!(reply.operation().is_result_framed()),
    }
}

fn check_eviction(header: &EvictionHeader, frame: &[u8]) {
    assert_eq!(&header.as_bytes()[..], frame);
    let reason = header.check().expect("it was checked a moment ago");
    let again = EvictionHeader::new(header.client(), reason).expect("the same reason");
    assert_eq!(again.check(), Ok(reason));
}

/// The body of a reply: its result section, and each payload that it may be. Panics when a promise
/// is broken.
pub fn drive_replies(body: &[u8]) {
    check_payload(body);
    match ResultSection::decode(body) {
        Ok(ResultSection::Success(payload)) => {
            assert_eq!([&result::SUCCESS[..], payload].concat(), body);
            check_payload(payload);
        }
        Ok(ResultSection::Rejected(code)) => assert_eq!(&result::rejection(code)[..], body),
        Err(_) => {}
    }
}

fn check_payload(payload: &[u8]) {
    each_command!(check_reply_to(payload));
    is_written_back::<SendMessagesReply<'_>>(payload);
    if let Ok(reply) = PollReply::decode(payload) {
        check_stored(reply.stored_batches(Integrity::Verify), reply.batches);
    }
}

fn check_reply_to<'a, C: Command>(payload: &'a [u8]) {
    is_written_back::<C::Reply<'a>>(payload);
}

/// One batch or more, a send, user headers and options. Panics when a promise is broken.
pub fn drive_batch(input: &[u8]) {
    let [flags, bytes @ ..] = input else {
        return;
    };
    check_user_headers(bytes);
    let makes_right = flags & 0x01 != 0;
    if flags & 0x02 != 0 {
        let Ok(send) = SendMessagesRef::decode(bytes) else {
            return;
        };
        let (prefix, batch) = bytes.split_at(send.batch_at());
        let batch = maybe_right(batch, makes_right);
        check_send(&[prefix, &batch].concat());
        return;
    }
    let bytes = maybe_right(bytes, makes_right);
    check_stored(StoredBatches::new(&bytes, Integrity::Verify), &bytes);
    let layout = BatchReader::decode(&bytes, Integrity::Layout);
    let Ok(batch) = BatchReader::decode(&bytes, Integrity::Verify) else {
        return;
    };
    assert!(layout.is_ok(), "to verify is to look at more");
    check_stamp(&batch, &bytes);
    let target = SendTarget {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        partitioning: Partitioning::Balanced,
    };
    if let Some(again) = written_again(&batch, &target) {
        assert_eq!(&again[target.prefix_bytes()..], &bytes[..]);
    }
}

/// What a server stamps reads back, and stamping as before gives the batch back.
fn check_stamp(batch: &BatchReader<'_>, bytes: &[u8]) {
    let header = batch.header();
    let before = Stamp {
        partition_id: header.partition_id(),
        base_offset: header.base_offset(),
        base_timestamp_us: header.base_timestamp_us(),
    };
    let after = Stamp {
        partition_id: !before.partition_id,
        base_offset: before.base_offset / 2,
        base_timestamp_us: !before.base_timestamp_us,
    };
    let mut stamped = bytes.to_vec();
    stamp(&mut stamped, &after).expect("half of an offset leaves room");
    let stored = BatchReader::decode(&stamped, Integrity::Verify).expect("checksums are right");
    let found = stored.header();
    let found = (
        found.partition_id(),
        found.base_offset(),
        found.base_timestamp_us(),
    );
    let written = (
        after.partition_id,
        after.base_offset,
        after.base_timestamp_us,
    );
    assert_eq!(found, written);
    // An offset close to the end of `u64` is one that stamping refuses and reading takes.
    if stamp(&mut stamped, &before).is_ok() {
        assert_eq!(stamped, bytes);
    }
}

/// Walks batches; if all of them are right, they are the bytes.
fn check_stored(batches: StoredBatches<'_>, bytes: &[u8]) {
    let mut walked: u64 = 0;
    for batch in batches {
        let Ok(batch) = batch else {
            return;
        };
        walked += batch.header().batch_length();
        let mut messages_bytes = 0;
        for message in batch.messages() {
            let (payload, user_headers) = (message.payload(), message.user_headers_bytes());
            messages_bytes += MESSAGE_HEADER_BYTES + payload.len() + user_headers.len();
            check_user_headers(user_headers);
            // Neither may leave its type.
            let _ = (message.offset(), message.timestamp_us());
        }
        let batch_bytes = (BATCH_HEADER_BYTES + messages_bytes) as u64;
        assert_eq!(batch_bytes, batch.header().batch_length());
    }
    assert_eq!(walked, bytes.len() as u64, "batches are the bytes");
}

/// The send that a producer writes for a batch's messages; `None` for a batch that no producer of
/// this crate writes.
fn written_again(batch: &BatchReader<'_>, target: &SendTarget<'_>) -> Option<Vec<u8>> {
    batch.check_as_sent().ok()?;
    let room = target.prefix_bytes() + usize::try_from(batch.header().batch_length()).ok()?;
    let mut writer = BatchWriter::new(vec![0xEE; room], target).expect("there is a message");
    for message in batch.messages() {
        let user_headers = message.user_headers().expect("checked as sent");
        let record = RecordParts {
            id: message.id(),
            timestamp_us: message.timestamp_us(),
            payload: message.payload(),
            user_headers,
        };
        writer.append(&record).expect("it was in a batch as large");
    }
    let sealed = writer.seal();
    assert_eq!(sealed.body_len, room);
    Some(sealed.buf)
}

fn check_user_headers(bytes: &[u8]) {
    if let Some(headers) = is_written_back::<UserHeaders<'_>>(bytes) {
        assert_eq!(pairs_written_again(headers.iter()), bytes);
    }
    if let Some(options) = is_written_back::<Options<'_>>(bytes) {
        assert_eq!(pairs_written_again(options.iter()), bytes);
    }
}

/// Pair by pair, since a writer keeps one of those with the same key.
fn pairs_written_again(pairs: UserHeadersIter<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in pairs {
        let mut writer = UserHeadersWriter::new();
        writer.set(key, &value).expect("it was read a moment ago");
        bytes.extend_from_slice(writer.headers().as_bytes());
    }
    bytes
}

/// Decodes, and checks that it encodes to the same bytes.
fn is_written_back<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Option<T> {
    let value = T::decode(bytes).ok()?;
    assert_eq!(value.encoded_len(), bytes.len(), "{}", T::NAME);
    assert_eq!(value.to_vec(), bytes, "{}", T::NAME);
    Some(value)
}

/// The bytes, or if so wanted the batch that they would be with right checksums: the fuzzer gets
/// past them that way.
fn maybe_right(batch: &[u8], makes_right: bool) -> Vec<u8> {
    let mut bytes = batch.to_vec();
    if !makes_right {
        return bytes;
    }
    let mut at = BATCH_HEADER_BYTES;
    while let Some(lengths) = bytes.get(at + 32..at + 40) {
        let length = |from: usize| {
            u32::from_le_bytes(lengths[from..from + 4].try_into().expect("4 bytes")) as usize
        };
        let end = at + MESSAGE_HEADER_BYTES + length(0) + length(4);
        let Some(message) = bytes.get(at + 8..end) else {
            break;
        };
        let checksum = hash::checksum(message).to_le_bytes();
        bytes[at..at + 8].copy_from_slice(&checksum);
        at = end;
    }
    let fields = BatchReader::decode(&bytes, Integrity::Layout).map(|batch| Stamp {
        partition_id: batch.header().partition_id(),
        base_offset: batch.header().base_offset(),
        base_timestamp_us: batch.header().base_timestamp_us(),
    });
    // What does not lay out as a batch stays wrong.
    if let Ok(fields) = fields {
        let _ = stamp(&mut bytes, &fields);
    }
    bytes
}
