//! Real frames for the simulated applications and the model broker.
//!
//! Role: the few payloads that a run needs, encoded and decoded with the project's own wire crate, so that what
//! travels is what a server would see. Does not: describe layouts; the wire crate does.
//! Invariant: a record names its batch and its place in it, so a log can be compared with what was submitted.

use crate::rng::Rng;
use ringmain_proto::Verdict;
use ringmain_wire::batch::{BatchWriter, Integrity, RecordParts, SendMessagesRef, SendTarget};
use ringmain_wire::codec::Reader;
use ringmain_wire::frame::{Reply, ReplyOutcome};
use ringmain_wire::header::{EvictionHeader, RawRequestHeader, ReplyFields, ReplyHeader};
use ringmain_wire::{
    ErrorCode, EvictionReason, Identifier, Operation, Partitioning, ProtocolVersion, UserHeaders,
};

/// Bytes of a record's payload: batch, place in the batch, and a mix of both.
const PAYLOAD_BYTES: usize = 12;

/// The stream everything is written to.
const STREAM: &str = "sim";

/// What a `SendMessages` body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendView {
    pub(crate) topic: u32,
    pub(crate) partition: u32,
    pub(crate) batch: u32,
    pub(crate) records: u32,
}

fn payload(batch: u32, index: u32) -> [u8; PAYLOAD_BYTES] {
    let mix = batch.rotate_left(7) ^ index.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995;
    let mut bytes = [0; PAYLOAD_BYTES];
    for (part, value) in bytes.chunks_exact_mut(4).zip([batch, index, mix]) {
        part.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// Builds the body of a batch in `memory`; returns its length.
pub(crate) fn write_send(memory: &mut [u8], send: SendView) -> usize {
    let topic = send.topic.to_string();
    let target = SendTarget {
        stream: Identifier::named(STREAM).expect("a short name"),
        topic: Identifier::named(&topic).expect("a short name"),
        partitioning: Partitioning::PartitionId(send.partition),
    };
    let mut writer =
        BatchWriter::new(memory, &target).expect("a slot holds the largest batch of a run");
    for index in 0..send.records {
        let record = RecordParts {
            id: u128::from(send.batch) << 32 | u128::from(index),
            timestamp_us: 1_700_000_000_000_000 + u64::from(index),
            payload: &payload(send.batch, index),
            user_headers: UserHeaders::EMPTY,
        };
        writer
            .append(&record)
            .expect("a slot holds the largest batch of a run");
    }
    writer.seal().body_len
}

/// Takes a body apart as a server would, and checks every byte of every record.
pub(crate) fn read_send(body: &[u8]) -> Result<SendView, &'static str> {
    let send = SendMessagesRef::decode(body).map_err(|_| "an address that does not decode")?;
    let target = send.target();
    let Identifier::String(topic) = target.topic else {
        return Err("a topic without a name");
    };
    let Partitioning::PartitionId(partition) = target.partitioning else {
        return Err("no partition");
    };
    let topic = topic
        .as_str()
        .parse()
        .map_err(|_| "a topic that nobody uses")?;
    let batch = send
        .batch(Integrity::Verify)
        .map_err(|_| "a batch that does not verify")?;
    batch
        .check_as_sent()
        .map_err(|_| "a batch with server fields set")?;
    let mut number = None;
    for (index, message) in batch.messages().enumerate() {
        let bytes = message.payload();
        let named = bytes
            .get(..4)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u32::from_le_bytes);
        let named = named.ok_or("a payload without a batch")?;
        if bytes != payload(named, index as u32) || *number.get_or_insert(named) != named {
            return Err("a payload that nobody wrote");
        }
    }
    let number = number.ok_or("an empty batch")?;
    Ok(SendView {
        topic,
        partition,
        batch: number,
        records: batch.messages_count(),
    })
}

/// Where a batch was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(crate) topic: u32,
    pub(crate) partition: u32,
    pub(crate) base_offset: u64,
}

/// The body of a successful send reply. Without an offset it is empty or has a count of 0.
pub(crate) fn send_reply_body(confirmed: Option<Confirmation>, rng: &mut Rng) -> Vec<u8> {
    let Some(confirmed) = confirmed else {
        return if rng.chance(500_000) {
            Vec::new()
        } else {
            0u32.to_le_bytes().to_vec()
        };
    };
    let mut body = 1u32.to_le_bytes().to_vec();
    for value in [1, confirmed.topic, confirmed.partition] {
        body.extend_from_slice(&value.to_le_bytes());
    }
    body.extend_from_slice(&confirmed.base_offset.to_le_bytes());
    body
}

/// A reply frame.
pub(crate) fn frame(fields: &ReplyFields, body: &[u8]) -> Vec<u8> {
    let header = ReplyHeader::new(fields, body.len()).expect("a refusal has no body");
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// The reply to a request, at log position `op`. The server's rewrites of operations are applied.
pub(crate) fn reply(header: &RawRequestHeader, status: u32, op: u64, body: &[u8]) -> Vec<u8> {
    let operation =
        Operation::from_u8(header.operation_byte()).expect("only checked requests are answered");
    let status = ErrorCode::new(status);
    let fields = ReplyFields {
        op,
        commit: op,
        status,
        ..ReplyFields::answering(header, operation.reply_operation())
    };
    frame(&fields, body)
}

/// The header of the reply to a send. Its client field is a transport id, as real servers put there.
pub(crate) fn send_reply_fields(
    conn: usize,
    request: u64,
    timestamp: u64,
    status: u32,
) -> ReplyFields {
    ReplyFields {
        cluster: 0,
        view: 0,
        replica: 0,
        request_checksum: 0,
        context: 0,
        client: (1 << 100) + conn as u128,
        op: 0,
        commit: 0,
        timestamp,
        request,
        operation: Operation::SendMessages,
        status: ErrorCode::new(status),
    }
}

/// A reply to a number so high that no client of a run ever used it.
pub(crate) fn stray_reply(rng: &mut Rng) -> Vec<u8> {
    let request = u64::MAX - 1 - rng.below(1000);
    frame(&send_reply_fields(0, request, 0, 0), &[])
}

/// An eviction frame.
pub(crate) fn eviction(client: u128, reason: u8) -> Vec<u8> {
    let reason = EvictionReason::from_wire(reason, 0, 0).expect("reasons without a version window");
    EvictionHeader::new(client, reason)
        .expect("a client id is not zero")
        .as_bytes()
        .to_vec()
}

/// A result section and the payload behind it. A code other than 0 has no payload.
pub(crate) fn result_body(code: u32, payload: &[u8]) -> Vec<u8> {
    match ErrorCode::new(code) {
        Some(code) => ringmain_wire::result::rejection(code).to_vec(),
        None => [&ringmain_wire::result::SUCCESS[..], payload].concat(),
    }
}

/// The key of a call, which is its whole body.
pub(crate) fn read_key(body: &[u8]) -> Option<u64> {
    body.try_into().ok().map(u64::from_le_bytes)
}

/// What a reply says, as the client under test wants it, and the key that its body echoes.
pub(crate) fn verdict(reply: &Reply<'_>) -> Result<(Verdict, Option<u64>), &'static str> {
    let payload = match reply
        .outcome()
        .map_err(|_| "a result section that does not decode")?
    {
        ReplyOutcome::Success(payload) => payload,
        ReplyOutcome::Status(code) | ReplyOutcome::Result(code) => {
            return Ok((Verdict::Refused(code), None));
        }
        ReplyOutcome::LoginFailed => return Ok((Verdict::LoginFailed, None)),
    };
    Ok(match reply.operation() {
        Operation::Register => (
            Verdict::LoggedIn {
                session: read_session(payload)?,
            },
            None,
        ),
        Operation::SendMessages => (read_confirmation(payload)?, None),
        _ => (Verdict::Success, read_key(payload)),
    })
}

/// The body of a login.
pub(crate) fn login_body() -> Vec<u8> {
    let mut body = ProtocolVersion::CURRENT.packed().to_le_bytes().to_vec();
    for text in ["sim", "0.1.0", "iggy", "iggy"] {
        body.push(text.len() as u8);
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(&0u32.to_le_bytes());
    body
}

/// Whether a login is the one that the simulated applications send.
pub(crate) fn login_is_valid(body: &[u8]) -> bool {
    body == login_body()
}

/// The body of a successful login reply.
pub(crate) fn login_reply_body(session: u64) -> Vec<u8> {
    let mut payload = 1u32.to_le_bytes().to_vec();
    payload.extend_from_slice(&session.to_le_bytes());
    payload.extend_from_slice(&ProtocolVersion::CURRENT.packed().to_le_bytes());
    payload.push(3);
    payload.extend_from_slice(b"sim");
    result_body(0, &payload)
}

fn read_session(payload: &[u8]) -> Result<u64, &'static str> {
    let mut reader = Reader::new(payload);
    let session = reader.u32("user_id").and_then(|_| reader.u64("session"));
    session.map_err(|_| "a login reply that does not decode")
}

fn read_confirmation(payload: &[u8]) -> Result<Verdict, &'static str> {
    let mut reader = Reader::new(payload);
    if payload.is_empty() || reader.u32("count") == Ok(0) {
        return Ok(Verdict::Success);
    }
    let mut field = || {
        reader
            .u32("confirmation")
            .map_err(|_| "a confirmation that does not decode")
    };
    let [_stream, _topic, partition_id] = [field()?, field()?, field()?];
    let base_offset = reader
        .u64("base_offset")
        .map_err(|_| "a confirmation that does not decode")?;
    Ok(Verdict::Confirmed {
        partition_id,
        base_offset,
    })
}

/// Code 40: not logged in.
pub(crate) const UNAUTHENTICATED: u32 = ErrorCode::UNAUTHENTICATED.get();
/// Code 41: not allowed.
pub(crate) const UNAUTHORIZED: u32 = ErrorCode::UNAUTHORIZED.get();
/// Code 57: outcome unknown.
pub(crate) const NOT_COMMITTED: u32 = ErrorCode::TRANSIENT_NOT_COMMITTED.get();
/// Code 58: not admitted.
pub(crate) const NOT_ACCEPTED: u32 = ErrorCode::TRANSIENT_NOT_ACCEPTED.get();
/// Code 59: done, reply gone.
pub(crate) const ALREADY_APPLIED: u32 = ErrorCode::REQUEST_ALREADY_APPLIED.get();
/// Code 2013: what a second execution of one call gives.
pub(crate) const ALREADY_EXISTS: u32 = ErrorCode::TOPIC_NAME_ALREADY_EXISTS.get();
