//! The reply header, server to client.
//!
//! ```text
//! 128 request_checksum  u128  the request's stamp
//! 144 context           u128  the server's own
//! 160 client            u128  the client id; on partition operations a transport id of the server's
//! 176 op                u64   log position, or the session epoch, or zero: proves no commit by itself
//! 184 commit            u64   commit position
//! 192 timestamp         u64   of the commit, or the request's
//! 200 request           u64   the request's number: not unique among reads
//! 208 operation         u8    the request's, or the server's rewrite of it (64, 65, 68)
//! 209 padding           7     zero
//! 216 status            u32   zero, or the error code of a refusal before commit, with an empty body
//! 220 reserved          36    zero
//! ```
//!
//! Reserved bytes are not checked, as no client of the protocol does.

use super::{
    COMMAND_REPLY, FramePrefix, HEADER_BYTES, HeaderError, RawRequestHeader, check_size, frame_size,
};
use crate::code::ErrorCode;
use crate::operation::Operation;
use std::fmt;
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the fields of a reply header stand.
pub mod offset {
    /// `request_checksum`.
    pub const REQUEST_CHECKSUM: usize = 128;
    /// `context`.
    pub const CONTEXT: usize = 144;
    /// `client`.
    pub const CLIENT: usize = 160;
    /// `op`.
    pub const OP: usize = 176;
    /// `commit`.
    pub const COMMIT: usize = 184;
    /// `timestamp`.
    pub const TIMESTAMP: usize = 192;
    /// `request`.
    pub const REQUEST: usize = 200;
    /// `operation`.
    pub const OPERATION: usize = 208;
    /// The padding behind `operation`.
    pub const OPERATION_PADDING: usize = 209;
    /// `status`.
    pub const STATUS: usize = 216;
    /// The reserved bytes at the end.
    pub const RESERVED: usize = 220;
}

/// A reply header as it lies on the wire.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct ReplyHeader {
    prefix: FramePrefix,
    request_checksum: U128,
    context: U128,
    client: U128,
    op: U64,
    commit: U64,
    timestamp: U64,
    request: U64,
    operation: u8,
    operation_padding: [u8; 7],
    status: U32,
    reserved: [u8; 36],
}

const _: () = {
    assert!(size_of::<ReplyHeader>() == HEADER_BYTES);
    assert!(align_of::<ReplyHeader>() == 1);
    assert!(offset_of!(ReplyHeader, prefix) == 0);
    assert!(offset_of!(ReplyHeader, request_checksum) == offset::REQUEST_CHECKSUM);
    assert!(offset_of!(ReplyHeader, context) == offset::CONTEXT);
    assert!(offset_of!(ReplyHeader, client) == offset::CLIENT);
    assert!(offset_of!(ReplyHeader, op) == offset::OP);
    assert!(offset_of!(ReplyHeader, commit) == offset::COMMIT);
    assert!(offset_of!(ReplyHeader, timestamp) == offset::TIMESTAMP);
    assert!(offset_of!(ReplyHeader, request) == offset::REQUEST);
    assert!(offset_of!(ReplyHeader, operation) == offset::OPERATION);
    assert!(offset_of!(ReplyHeader, operation_padding) == offset::OPERATION_PADDING);
    assert!(offset_of!(ReplyHeader, status) == offset::STATUS);
    assert!(offset_of!(ReplyHeader, reserved) == offset::RESERVED);
};

/// What a server puts into a reply header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyFields {
    /// Cluster id.
    pub cluster: u128,
    /// Consensus view.
    pub view: u32,
    /// Index of the replica that answers.
    pub replica: u8,
    /// The request's stamp.
    pub request_checksum: u128,
    /// The server's own.
    pub context: u128,
    /// The request's client id, or a transport id.
    pub client: u128,
    /// Log position.
    pub op: u64,
    /// Commit position.
    pub commit: u64,
    /// Microseconds.
    pub timestamp: u64,
    /// The request's number.
    pub request: u64,
    /// The request's operation, or the rewrite of it.
    pub operation: Operation,
    /// `Some` exactly when the request is refused before commit; the body is empty then.
    pub status: Option<ErrorCode>,
}

impl ReplyFields {
    /// A plain answer to a request: echoes what is to be echoed, zero elsewhere.
    #[must_use]
    pub const fn answering(request: &RawRequestHeader, operation: Operation) -> Self {
        Self {
            cluster: 0,
            view: 0,
            replica: 0,
            request_checksum: request.request_checksum(),
            context: 0,
            client: request.client(),
            op: 0,
            commit: 0,
            timestamp: request.timestamp(),
            request: request.request(),
            operation,
            status: None,
        }
    }
}

impl ReplyHeader {
    /// The header of a reply with a body of so many bytes.
    ///
    /// # Errors
    ///
    /// [`HeaderError::StatusWithBody`], [`HeaderError::BodyTooLarge`].
    pub fn new(fields: &ReplyFields, body_bytes: usize) -> Result<Self, HeaderError> {
        if let Some(status) = fields.status
            && body_bytes != 0
        {
            return Err(HeaderError::StatusWithBody {
                status: status.get(),
                body_bytes,
            });
        }
        let mut prefix = FramePrefix::new(COMMAND_REPLY, frame_size(body_bytes)?);
        prefix.cluster = U128::new(fields.cluster);
        prefix.view = U32::new(fields.view);
        prefix.replica = fields.replica;
        Ok(Self {
            prefix,
            request_checksum: U128::new(fields.request_checksum),
            context: U128::new(fields.context),
            client: U128::new(fields.client),
            op: U64::new(fields.op),
            commit: U64::new(fields.commit),
            timestamp: U64::new(fields.timestamp),
            request: U64::new(fields.request),
            operation: fields.operation.as_u8(),
            operation_padding: [0; 7],
            status: U32::new(fields.status.map_or(0, ErrorCode::get)),
            reserved: [0; 36],
        })
    }

    /// Casts a slice of exactly 256 bytes.
    ///
    /// # Errors
    ///
    /// [`HeaderError::Length`].
    pub fn from_bytes(bytes: &[u8]) -> Result<&Self, HeaderError> {
        Self::ref_from_bytes(bytes).map_err(|_| HeaderError::Length { found: bytes.len() })
    }

    /// Checks command, size, operation, and that a failure status has no body.
    ///
    /// # Errors
    ///
    /// The [`HeaderError`] of the first rule that is broken, in that order.
    #[inline]
    pub fn check(&self) -> Result<Operation, HeaderError> {
        self.prefix.check_command(COMMAND_REPLY)?;
        let body_bytes = check_size(self.size())? - HEADER_BYTES;
        let operation =
            Operation::from_u8(self.operation).ok_or(HeaderError::OperationUnknown {
                offset: offset::OPERATION,
                found: self.operation,
            })?;
        let status = self.status.get();
        if status != 0 && body_bytes != 0 {
            return Err(HeaderError::StatusWithBody { status, body_bytes });
        }
        Ok(operation)
    }

    /// The 256 bytes to send.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; HEADER_BYTES] {
        zerocopy::transmute_ref!(self)
    }

    /// Cluster id.
    #[must_use]
    pub const fn cluster(&self) -> u128 {
        self.prefix.cluster.get()
    }

    /// Bytes of the whole frame, as announced.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.prefix.size.get()
    }

    /// Consensus view: an old one on replayed replies.
    #[must_use]
    pub const fn view(&self) -> u32 {
        self.prefix.view.get()
    }

    /// The command byte.
    #[must_use]
    pub const fn command(&self) -> u8 {
        self.prefix.command
    }

    /// Index of the replica that answered first.
    #[must_use]
    pub const fn replica(&self) -> u8 {
        self.prefix.replica
    }

    /// The request's stamp.
    #[must_use]
    pub const fn request_checksum(&self) -> u128 {
        self.request_checksum.get()
    }

    /// The server's own.
    #[must_use]
    pub const fn context(&self) -> u128 {
        self.context.get()
    }

    /// The client id, or on partition operations a transport id: never match a reply by it.
    #[must_use]
    pub const fn client(&self) -> u128 {
        self.client.get()
    }

    /// Log position on replies from a log; the session epoch or zero on others.
    #[must_use]
    pub const fn op(&self) -> u64 {
        self.op.get()
    }

    /// Commit position.
    #[must_use]
    pub const fn commit(&self) -> u64 {
        self.commit.get()
    }

    /// Microseconds: of the commit, or the request's own.
    #[must_use]
    pub const fn timestamp(&self) -> u64 {
        self.timestamp.get()
    }

    /// The request's number.
    #[must_use]
    pub const fn request(&self) -> u64 {
        self.request.get()
    }

    /// The operation byte.
    #[must_use]
    pub const fn operation_byte(&self) -> u8 {
        self.operation
    }

    /// Why the request was refused before commit, `None` when it was not.
    #[must_use]
    pub const fn status(&self) -> Option<ErrorCode> {
        ErrorCode::new(self.status.get())
    }
}

impl fmt::Debug for ReplyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyHeader")
            .field("size", &self.size())
            .field("client", &format_args!("{:#x}", self.client()))
            .field("request", &self.request())
            .field("operation", &self.operation)
            .field("status", &self.status.get())
            .field("op", &self.op())
            .field("commit", &self.commit())
            .finish_non_exhaustive()
    }
}
