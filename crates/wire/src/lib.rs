//! The Apache Iggy binary protocol as bytes: encodes and decodes, and nothing else.
//!
//! No I/O, no clock, no entropy, no `unsafe`. Decoders borrow from their input and encoders write
//! into memory the caller gives; no decoder allocates from a length that it has not bounded, and no
//! input makes one panic.
//!
//! | module | what it is for |
//! |---|---|
//! | [`header`] | the three 256-byte headers; a request header that breaks a rule cannot be built |
//! | [`operation`] | operations, their planes and rules, command codes |
//! | [`frame`] | frames out of a stream, however it is cut; what a reply says |
//! | [`code`], [`eviction`], [`result`] | why a request failed, why a session ended |
//! | [`payload`] | bodies of requests and replies, both ways |
//! | [`batch`] | sends, stored batches, polls |
//! | [`identifier`], [`name`], [`text`], [`partitioning`], [`user_headers`], [`options`], [`version`] | what bodies are made of |
//! | [`codec`] | the cursors and traits that all of it implements |
//! | [`hash`], [`id`] | checksums and key hashes, message ids |
//!
//! A login, from either end:
//!
//! ```
//! use ringmain_wire::codec::{Decode, Encode};
//! use ringmain_wire::header::ReplyFields;
//! use ringmain_wire::payload::login::{ClientVersion, LoginRegister, LoginReply};
//! use ringmain_wire::*;
//!
//! # fn main() -> Result<(), WireError> {
//! // The client sends header and body.
//! let login = LoginRegister {
//!     client_version: ClientVersion {
//!         protocol_version: ProtocolVersion::CURRENT,
//!         sdk_name: Name::new("my-client")?,
//!         sdk_version: Name::new("1.0.0")?,
//!     },
//!     username: Name::new("iggy")?,
//!     password: Secret::new("iggy")?,
//!     context: Text::EMPTY,
//! };
//! let body = login.to_vec();
//! let header = RequestHeader::command(LoginRegister::CODE, 42, 0, 0, &body)?;
//! let sent = [&header.as_bytes()[..], &body].concat();
//!
//! // The server reads it and answers.
//! let mut decoder = FrameDecoder::new();
//! let Some(InboundRequest::Request(request)) = decoder.next_request(&mut &sent[..])? else {
//!     panic!("all of a request was sent");
//! };
//! assert_eq!(request.operation()?, Operation::Register);
//! assert_eq!(LoginRegister::decode(request.body)?.username.as_str(), "iggy");
//! let reply = LoginReply {
//!     user_id: 0,
//!     session: 7.try_into().expect("not zero"),
//!     server_protocol_version: ProtocolVersion::CURRENT,
//!     server_version: Name::new("0.9.0")?,
//! };
//! let body = [&result::SUCCESS[..], &reply.to_vec()].concat();
//! let fields = ReplyFields::answering(request.header, Operation::Register);
//! let header = ReplyHeader::new(&fields, body.len())?;
//! let answered = [&header.as_bytes()[..], &body].concat();
//!
//! // The client reads the answer, here in two pieces.
//! let (mut first, mut second) = answered.split_at(100);
//! let mut decoder = FrameDecoder::new();
//! assert!(decoder.next_inbound(&mut first)?.is_none());
//! let Some(Inbound::Reply(reply)) = decoder.next_inbound(&mut second)? else {
//!     panic!("the reply is whole now");
//! };
//! let ReplyOutcome::Success(payload) = reply.outcome()? else {
//!     panic!("the login succeeded");
//! };
//! assert_eq!(LoginReply::decode(payload)?.session.get(), 7);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod batch;
pub mod code;
pub mod codec;
mod error;
pub mod eviction;
pub mod frame;
pub mod fuzzing;
pub mod hash;
pub mod header;
pub mod id;
pub mod identifier;
pub mod name;
pub mod operation;
pub mod options;
pub mod partitioning;
pub mod payload;
pub mod result;
pub mod text;
pub mod user_headers;
pub mod version;

pub use batch::{BatchReader, BatchWriter, RecordParts, SendMessagesRef, SendTarget};
pub use code::{CodeClass, ErrorCode};
pub use error::WireError;
pub use eviction::EvictionReason;
pub use frame::{FrameDecoder, Inbound, InboundRequest, Reply, ReplyOutcome, Request};
pub use header::{
    EvictionHeader, FRAME_BYTES_MAX, HEADER_BYTES, HeaderError, ReplyHeader, RequestHeader,
};
pub use id::MessageIdGenerator;
pub use identifier::Identifier;
pub use name::Name;
pub use operation::{CommandCode, Operation, Plane};
pub use options::Options;
pub use partitioning::{MessagesKey, Partitioning};
pub use payload::Command;
pub use text::{Secret, Text};
pub use user_headers::{HeaderKind, HeaderValue, UserHeaders, UserHeadersWriter};
pub use version::ProtocolVersion;
