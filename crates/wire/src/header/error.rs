//! What can be wrong with a header. One variant for each rule, so that a server can react to each
//! in its own way.

use super::{BODY_BYTES_MAX, HEADER_BYTES, offset, request};
use crate::operation::{CommandCode, Operation, Plane};

/// Why a header is not one that may be sent, or that can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The slice is not as long as a header. Caller's fault.
    #[error("a header has {HEADER_BYTES} bytes, the slice has {found}")]
    Length {
        /// Length of the slice.
        found: usize,
    },
    /// `size` is less than the header alone. The stream cannot be followed any further.
    #[error(
        "size at byte {}: found {found}, a frame has at least {HEADER_BYTES} bytes",
        offset::SIZE
    )]
    SizeTooSmall {
        /// The size found.
        found: u32,
    },
    /// `size` is more than the reader takes. The stream cannot be followed any further.
    #[error(
        "size at byte {}: found {found}, a frame has at most {max} bytes",
        offset::SIZE
    )]
    SizeTooLarge {
        /// The size found.
        found: u32,
        /// The largest size taken.
        max: u32,
    },
    /// The body is too large for any frame. Caller's fault: split it.
    #[error("a body has at most {BODY_BYTES_MAX} bytes, this one has {found}")]
    BodyTooLarge {
        /// Length of the body.
        found: usize,
    },
    /// `size` disagrees with the length of the frame at hand.
    #[error(
        "size at byte {}: found {found}, the frame has {expected} bytes",
        offset::SIZE
    )]
    SizeMismatch {
        /// The size found.
        found: u32,
        /// Bytes of the frame, or the only size that the shape allows.
        expected: usize,
    },
    /// `command` names another shape.
    #[error(
        "command at byte {}: found {found}, expected {expected}",
        offset::COMMAND
    )]
    Command {
        /// The command found.
        found: u8,
        /// The command of the shape that was asked for.
        expected: u8,
    },
    /// `client` is zero.
    #[error("client at byte {offset}: must not be zero")]
    ClientZero {
        /// Where the field stands in this shape.
        offset: usize,
    },
    /// `operation` is 0 or not assigned.
    #[error("operation at byte {offset}: found {found}, which is no operation")]
    OperationUnknown {
        /// Where the field stands in this shape.
        offset: usize,
        /// The byte found.
        found: u8,
    },
    /// `operation` is one that only servers make.
    #[error(
        "operation at byte {}: found {found}, which only servers make",
        request::offset::OPERATION
    )]
    OperationInternal {
        /// The operation found.
        found: Operation,
    },
    /// The constructor does not build headers of this operation's plane. Caller's fault.
    #[error("operation {found} is not of the {expected:?} plane")]
    OperationPlane {
        /// The operation given.
        found: Operation,
        /// The plane that the constructor is for.
        expected: Plane,
    },
    /// The command code belongs to an operation of its own, so it cannot go as a non-replicated
    /// one: it would be applied on one node only. Caller's fault.
    #[error(
        "command code {code} is carried by operation {operation}, not by {}",
        Operation::NonReplicated
    )]
    CodeReplicated {
        /// The code given.
        code: CommandCode,
        /// The operation that carries it.
        operation: Operation,
    },
    /// `request` is zero on an operation that needs a number.
    #[error("request at byte 168: must not be zero for operation {operation}")]
    RequestZero {
        /// The operation.
        operation: Operation,
    },
    /// `request` is not zero on a register.
    #[error("request at byte 168: found {found}, must be zero for a register")]
    RequestNotZero {
        /// The number found.
        found: u64,
    },
    /// `session` is zero on an operation that needs a session.
    #[error("session at byte 184: must not be zero for operation {operation}")]
    SessionZero {
        /// The operation.
        operation: Operation,
    },
    /// `session` is not zero on a register.
    #[error("session at byte 184: found {found}, must be zero for a register")]
    SessionNotZero {
        /// The session found.
        found: u64,
    },
    /// A stamped operation's body was given by its length alone. Caller's fault: give the bytes.
    #[error("operation {operation} is stamped: its body must be given, not just its length")]
    StampNeedsBody {
        /// The operation.
        operation: Operation,
    },
    /// `request_checksum` is neither zero nor the stamp of the body.
    #[error("request_checksum at byte 144: found {found:#x}, the body hashes to {expected:#x}")]
    StampMismatch {
        /// The stamp found.
        found: u128,
        /// The stamp of the body.
        expected: u128,
    },
    /// A byte that must be zero is not.
    #[error("{field} at byte {offset}: found {found:#04x}, must be zero")]
    ReservedNotZero {
        /// The field.
        field: &'static str,
        /// The first byte that is not zero.
        offset: usize,
        /// That byte.
        found: u8,
    },
    /// A reply has both a failure status and a body.
    #[error("status at byte 216: found {status}, but {body_bytes} bytes of body follow")]
    StatusWithBody {
        /// The status found.
        status: u32,
        /// Bytes of the body.
        body_bytes: usize,
    },
    /// `reason` of an eviction is 0 or not assigned.
    #[error("reason at byte 255: found {found}, which is no eviction reason")]
    ReasonUnknown {
        /// The byte found.
        found: u8,
    },
    /// The version window of an eviction does not go with its reason: reason 14 has one with
    /// `1 <= min <= max`, all others have none.
    #[error(
        "version window at bytes 144 and 148: found max {max:#x}, min {min:#x} with reason {reason}"
    )]
    VersionWindow {
        /// The reason byte.
        reason: u8,
        /// `server_protocol_version`.
        max: u32,
        /// `server_protocol_version_min`.
        min: u32,
    },
}

impl HeaderError {
    /// Whether the boundaries of the frames that follow are lost with this one. A reader must close
    /// the connection then; after any other error it can go on with the next frame.
    #[must_use]
    pub const fn loses_framing(&self) -> bool {
        matches!(self, Self::SizeTooSmall { .. } | Self::SizeTooLarge { .. })
    }
}
