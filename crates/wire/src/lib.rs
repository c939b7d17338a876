//! The Apache Iggy binary protocol as bytes: encodes and decodes, and nothing else.
//!
//! No I/O, no clock, no entropy, no `unsafe`. Decoders borrow from their input and encoders write into memory the
//! caller gives; no decoder allocates from a length that it has not bounded, and no input makes one panic.
#![forbid(unsafe_code)]

pub mod batch;
pub mod code;
pub mod codec;
mod error;
pub mod eviction;
pub mod frame;
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
