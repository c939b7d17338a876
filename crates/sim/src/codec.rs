//! Real frames for the simulated applications and the model broker.
//!
//! Role: the few payloads that a run needs, encoded and decoded with the project's own wire crate,
//! so that what travels is what a server would see. Does not: describe layouts; the wire crate
//! does. Invariant: a record has a number of its own and a batch the number of its first record, so
//! a log can be compared with what was submitted.

use crate::rng::Rng;
use ringmain_proto::limits::REQUEST_LAST;
use ringmain_wire::batch::{Integrity, SendMessagesRef};
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::header::{EvictionHeader, RawRequestHeader, ReplyFields, ReplyHeader};
use ringmain_wire::payload::login::{LoginRegister, LoginReply};
use ringmain_wire::payload::send::{Confirmation, SendMessagesReply};
use ringmain_wire::{
    ErrorCode, EvictionReason, Identifier, Name, Operation, Partitioning, ProtocolVersion,
};
use std::num::NonZeroU64;

/// Bytes of the smallest payload: the record's number and a mix of it.
const PAYLOAD_BYTES_MIN: usize = 8;

/// The stream everything is written to.
pub(crate) const STREAM: &str = "sim";

/// What a `SendMessages` body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendView {
    pub(crate) topic: u32,
    pub(crate) partition: u32,
    /// The number of its first record.
    pub(crate) batch: u32,
    pub(crate) records: u32,
}

/// The payload of a record, of at least so many bytes.
pub(crate) fn payload(number: u32, bytes: usize) -> Vec<u8> {
    let mix = number.rotate_left(7) ^ 0x5bd1_e995;
    let mut payload = number.to_le_bytes().to_vec();
    payload.extend_from_slice(&mix.to_le_bytes());
    let fill = (PAYLOAD_BYTES_MIN..bytes).map(|at| (mix as usize ^ at) as u8);
    payload.extend(fill);
    payload
}

/// The number of the record that a payload belongs to, if it is one that an application wrote.
pub(crate) fn read_payload(payload: &[u8]) -> Option<u32> {
    let number = payload.get(..4)?.try_into().ok().map(u32::from_le_bytes)?;
    (self::payload(number, payload.len()) == payload).then_some(number)
}

/// Takes a body apart as a server would, and checks every byte of every record.
pub(crate) fn read_send(body: &[u8]) -> Result<SendView, &'static str> {
    read_records(body).map(|(view, _)| view)
}

/// Like [`read_send`]; gives the numbers of the records, too.
pub(crate) fn read_records(body: &[u8]) -> Result<(SendView, Vec<u32>), &'static str> {
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
    let numbers: Option<Vec<u32>> = batch
        .messages()
        .map(|message| read_payload(message.payload()))
        .collect();
    let numbers = numbers.ok_or("a payload that nobody wrote")?;
    let view = SendView {
        topic,
        partition,
        batch: *numbers.first().ok_or("an empty batch")?,
        records: batch.messages_count(),
    };
    Ok((view, numbers))
}

/// The body of a successful send reply. Without an offset it is empty or has a count of 0.
pub(crate) fn send_reply_body(confirmed: Option<Confirmation>, rng: &mut Rng) -> Vec<u8> {
    match confirmed {
        Some(confirmation) => SendMessagesReply::Confirmed(&[confirmation]).to_vec(),
        None if rng.chance(500_000) => SendMessagesReply::Duplicate.to_vec(),
        None => SendMessagesReply::Confirmed(&[]).to_vec(),
    }
}

/// When the server's calendar began, in microseconds: committed replies carry its time.
pub(crate) const CALENDAR_US: u64 = 1_700_000_000_000_000;

/// A reply frame.
pub(crate) fn frame(fields: &ReplyFields, body: &[u8]) -> Vec<u8> {
    let header = ReplyHeader::new(fields, body.len()).expect("a refusal has no body");
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// The reply to a request, at log position `op`, with this timestamp. The server's rewrites of
/// operations are applied.
pub(crate) fn reply(
    header: &RawRequestHeader,
    timestamp: u64,
    status: u32,
    op: u64,
    body: &[u8],
) -> Vec<u8> {
    let operation =
        Operation::from_u8(header.operation_byte()).expect("only checked requests are answered");
    let fields = ReplyFields {
        op,
        commit: op,
        timestamp,
        status: ErrorCode::new(status),
        ..ReplyFields::answering(header, operation.reply_operation())
    };
    frame(&fields, body)
}

/// The header of the reply to a send. Its client field is a transport id, as real servers put
/// there.
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

/// A reply to a number that no client of a run uses: they start low, at a quarter of the range, or
/// near its end.
pub(crate) fn stray_reply(rng: &mut Rng) -> Vec<u8> {
    let request = REQUEST_LAST / 2 + rng.below(1000);
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

fn name(text: &str) -> Name<'_> {
    Name::new(text).expect("a short name")
}

/// Whether a login decodes.
pub(crate) fn login_is_valid(body: &[u8]) -> bool {
    LoginRegister::decode(body).is_ok()
}

/// The body of a successful login reply. The session is a log position after the first, so it is
/// not zero.
pub(crate) fn login_reply_body(session: u64) -> Vec<u8> {
    let reply = LoginReply {
        user_id: 1,
        session: NonZeroU64::new(session).expect("a register commits after position 0"),
        server_protocol_version: ProtocolVersion::CURRENT,
        server_version: name("sim"),
    };
    result_body(0, &reply.to_vec())
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
