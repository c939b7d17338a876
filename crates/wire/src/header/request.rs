//! The request header, client to server, and the rules that make one legal.
//!
//! ```text
//! 128 client            u128  the client's own identity, never zero
//! 144 request_checksum  u128  stamp: XxHash3-64 of the body for session and metadata operations, or zero
//! 160 timestamp         u64   may be zero
//! 168 request           u64   request number: zero for register, a number for all that replicate
//! 176 operation         u8    see [`Operation`]
//! 177 padding           7     zero
//! 184 session           u64   epoch from the login reply: zero for register
//! 192 user_id           u32   zero, the server fills it
//! 196 code              u32   command code of non-replicated operations, zero otherwise
//! 200 reserved          56    zero
//! ```

use super::{
    COMMAND_REQUEST, FramePrefix, HEADER_BYTES, HeaderError, check_size, check_zero, frame_size,
};
use crate::hash::stamp;
use crate::operation::{CommandCode, Operation, Plane};
use std::fmt;
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the fields of a request header stand.
pub mod offset {
    /// `client`.
    pub const CLIENT: usize = 128;
    /// `request_checksum`.
    pub const REQUEST_CHECKSUM: usize = 144;
    /// `timestamp`.
    pub const TIMESTAMP: usize = 160;
    /// `request`.
    pub const REQUEST: usize = 168;
    /// `operation`.
    pub const OPERATION: usize = 176;
    /// The padding behind `operation`.
    pub const OPERATION_PADDING: usize = 177;
    /// `session`.
    pub const SESSION: usize = 184;
    /// `user_id`.
    pub const USER_ID: usize = 192;
    /// The command code of a non-replicated operation.
    pub const CODE: usize = 196;
    /// The reserved bytes at the end.
    pub const RESERVED: usize = 200;
}

/// Any 256 bytes, seen as a request header. What a server reads; nothing is promised about it until
/// [`RawRequestHeader::check`] has passed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct RawRequestHeader {
    prefix: FramePrefix,
    client: U128,
    request_checksum: U128,
    timestamp: U64,
    request: U64,
    operation: u8,
    operation_padding: [u8; 7],
    session: U64,
    user_id: U32,
    code: U32,
    reserved: [u8; 56],
}

const _: () = {
    assert!(size_of::<RawRequestHeader>() == HEADER_BYTES);
    assert!(align_of::<RawRequestHeader>() == 1);
    assert!(offset_of!(RawRequestHeader, prefix) == 0);
    assert!(offset_of!(RawRequestHeader, client) == offset::CLIENT);
    assert!(offset_of!(RawRequestHeader, request_checksum) == offset::REQUEST_CHECKSUM);
    assert!(offset_of!(RawRequestHeader, timestamp) == offset::TIMESTAMP);
    assert!(offset_of!(RawRequestHeader, request) == offset::REQUEST);
    assert!(offset_of!(RawRequestHeader, operation) == offset::OPERATION);
    assert!(offset_of!(RawRequestHeader, operation_padding) == offset::OPERATION_PADDING);
    assert!(offset_of!(RawRequestHeader, session) == offset::SESSION);
    assert!(offset_of!(RawRequestHeader, user_id) == offset::USER_ID);
    assert!(offset_of!(RawRequestHeader, code) == offset::CODE);
    assert!(offset_of!(RawRequestHeader, reserved) == offset::RESERVED);
};

impl RawRequestHeader {
    /// Casts a slice of exactly 256 bytes.
    ///
    /// # Errors
    ///
    /// [`HeaderError::Length`].
    pub fn from_bytes(bytes: &[u8]) -> Result<&Self, HeaderError> {
        Self::ref_from_bytes(bytes).map_err(|_| HeaderError::Length { found: bytes.len() })
    }

    /// The bytes of the header.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        IntoBytes::as_bytes(self)
    }

    /// Bytes of the whole frame, as announced.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.prefix.size.get()
    }

    /// The command byte.
    #[must_use]
    pub const fn command(&self) -> u8 {
        self.prefix.command
    }

    /// The client's identity.
    #[must_use]
    pub const fn client(&self) -> u128 {
        self.client.get()
    }

    /// The stamp over the body; zero when there is none.
    #[must_use]
    pub const fn request_checksum(&self) -> u128 {
        self.request_checksum.get()
    }

    /// The client's timestamp in microseconds, or zero.
    #[must_use]
    pub const fn timestamp(&self) -> u64 {
        self.timestamp.get()
    }

    /// The request number.
    #[must_use]
    pub const fn request(&self) -> u64 {
        self.request.get()
    }

    /// The operation byte.
    #[must_use]
    pub const fn operation_byte(&self) -> u8 {
        self.operation
    }

    /// The session epoch.
    #[must_use]
    pub const fn session(&self) -> u64 {
        self.session.get()
    }

    /// Bytes 196..200: the command code of a non-replicated operation, zero otherwise.
    #[must_use]
    pub const fn code(&self) -> CommandCode {
        CommandCode(self.code.get())
    }

    /// Checks what a server refuses: command, size, operation, and that client, session and request
    /// are zero or not as the operation demands.
    ///
    /// Reserved bytes are not looked at, as servers ignore them: see
    /// [`RawRequestHeader::check_reserved`].
    ///
    /// # Errors
    ///
    /// The [`HeaderError`] of the first rule that is broken, in the order named above.
    pub fn check(&self) -> Result<Operation, HeaderError> {
        self.prefix.check_command(COMMAND_REQUEST)?;
        check_size(self.size())?;
        let operation =
            Operation::from_u8(self.operation).ok_or(HeaderError::OperationUnknown {
                offset: offset::OPERATION,
                found: self.operation,
            })?;
        if operation.is_internal() {
            return Err(HeaderError::OperationInternal { found: operation });
        }
        check_numbers(operation, self.client(), self.session(), self.request())?;
        Ok(operation)
    }

    /// Checks that all is zero that a client must leave zero.
    ///
    /// # Errors
    ///
    /// [`HeaderError::ReservedNotZero`] at the first byte that is not.
    pub fn check_reserved(&self) -> Result<(), HeaderError> {
        use super::offset as shared;
        let bytes = self.as_bytes();
        check_zero(
            "checksum",
            shared::CHECKSUM,
            &bytes[shared::CHECKSUM..shared::CHECKSUM_BODY],
        )?;
        check_zero(
            "checksum_body",
            shared::CHECKSUM_BODY,
            &bytes[shared::CHECKSUM_BODY..shared::CLUSTER],
        )?;
        check_zero(
            "cluster",
            shared::CLUSTER,
            &bytes[shared::CLUSTER..shared::SIZE],
        )?;
        check_zero("view", shared::VIEW, &bytes[shared::VIEW..shared::RELEASE])?;
        check_zero(
            "release",
            shared::RELEASE,
            &bytes[shared::RELEASE..shared::COMMAND],
        )?;
        check_zero(
            "replica",
            shared::REPLICA,
            &bytes[shared::REPLICA..shared::RESERVED_FRAME],
        )?;
        check_zero(
            "reserved",
            shared::RESERVED_FRAME,
            &bytes[shared::RESERVED_FRAME..shared::SHAPE],
        )?;
        check_zero(
            "padding",
            offset::OPERATION_PADDING,
            &self.operation_padding,
        )?;
        check_zero(
            "user_id",
            offset::USER_ID,
            &bytes[offset::USER_ID..offset::CODE],
        )?;
        if self.operation != Operation::NonReplicated.as_u8() {
            check_zero("code", offset::CODE, &bytes[offset::CODE..offset::RESERVED])?;
        }
        check_zero("reserved", offset::RESERVED, &self.reserved)
    }

    /// Checks the stamp against the body. A zero stamp agrees with every body.
    ///
    /// # Errors
    ///
    /// [`HeaderError::StampMismatch`].
    pub fn check_stamp(&self, body: &[u8]) -> Result<(), HeaderError> {
        let found = self.request_checksum();
        if found == 0 {
            return Ok(());
        }
        let expected = stamp(body);
        if found == expected {
            Ok(())
        } else {
            Err(HeaderError::StampMismatch { found, expected })
        }
    }
}

impl fmt::Debug for RawRequestHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHeader")
            .field("size", &self.size())
            .field("client", &format_args!("{:#x}", self.client()))
            .field("request", &self.request())
            .field("operation", &self.operation)
            .field("session", &self.session())
            .field("code", &self.code.get())
            .field(
                "request_checksum",
                &format_args!("{:#x}", self.request_checksum()),
            )
            .finish_non_exhaustive()
    }
}

/// A request header that keeps every rule, as it goes out.
///
/// Built by the constructor of its plane. The setters keep the rules too, so a header can be built
/// once and stamped again for each request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    raw: RawRequestHeader,
    operation: Operation,
}

impl RequestHeader {
    /// The header of a login: request and session are zero, the body is stamped.
    ///
    /// # Errors
    ///
    /// [`HeaderError::ClientZero`], [`HeaderError::BodyTooLarge`].
    pub fn register(client: u128, body: &[u8]) -> Result<Self, HeaderError> {
        let mut header = Self::new(Operation::Register, client, 0, 0)?;
        header.set_body(body)?;
        Ok(header)
    }

    /// The header of a logout, which has no body.
    ///
    /// # Errors
    ///
    /// [`HeaderError::ClientZero`], [`HeaderError::SessionZero`], [`HeaderError::RequestZero`].
    pub fn logout(client: u128, session: u64, request: u64) -> Result<Self, HeaderError> {
        let mut header = Self::new(Operation::Logout, client, session, request)?;
        header.set_body(&[])?;
        Ok(header)
    }

    /// The header of a metadata operation; the body is stamped.
    ///
    /// # Errors
    ///
    /// [`HeaderError::OperationPlane`] for an operation of another plane,
    /// [`HeaderError::OperationInternal`] for one that only servers make,
    /// [`HeaderError::ClientZero`], [`HeaderError::SessionZero`], [`HeaderError::RequestZero`],
    /// [`HeaderError::BodyTooLarge`].
    pub fn metadata(
        operation: Operation,
        client: u128,
        session: u64,
        request: u64,
        body: &[u8],
    ) -> Result<Self, HeaderError> {
        check_plane(operation, Plane::Metadata)?;
        let mut header = Self::new(operation, client, session, request)?;
        header.set_body(body)?;
        Ok(header)
    }

    /// The header of a partition operation. These are not stamped, so the length of the body will
    /// do.
    ///
    /// # Errors
    ///
    /// [`HeaderError::OperationPlane`] for an operation of another plane,
    /// [`HeaderError::ClientZero`], [`HeaderError::SessionZero`], [`HeaderError::RequestZero`],
    /// [`HeaderError::BodyTooLarge`].
    pub fn partition(
        operation: Operation,
        client: u128,
        session: u64,
        request: u64,
        body_bytes: usize,
    ) -> Result<Self, HeaderError> {
        check_plane(operation, Plane::Partition)?;
        let mut header = Self::new(operation, client, session, request)?;
        header.set_body_bytes(body_bytes)?;
        Ok(header)
    }

    /// The header of a read or a ping: the command code rides in the header, `request` repeats the
    /// current number and `session` is zero before the login. Not stamped.
    ///
    /// # Errors
    ///
    /// [`HeaderError::CodeReplicated`] for a code that has an operation of its own,
    /// [`HeaderError::ClientZero`], [`HeaderError::BodyTooLarge`].
    pub fn non_replicated(
        code: CommandCode,
        client: u128,
        session: u64,
        request: u64,
        body_bytes: usize,
    ) -> Result<Self, HeaderError> {
        let operation = code.operation();
        if operation != Operation::NonReplicated {
            return Err(HeaderError::CodeReplicated { code, operation });
        }
        let mut header = Self::new(operation, client, session, request)?;
        header.raw.code = U32::new(code.0);
        header.set_body_bytes(body_bytes)?;
        Ok(header)
    }

    /// The header of any command with a body at hand: picks the constructor by the command's
    /// operation. A register ignores `session` and `request`.
    ///
    /// # Errors
    ///
    /// Those of the constructor that is picked.
    pub fn command(
        code: CommandCode,
        client: u128,
        session: u64,
        request: u64,
        body: &[u8],
    ) -> Result<Self, HeaderError> {
        let operation = code.operation();
        match operation.plane() {
            Plane::Session if operation == Operation::Register => Self::register(client, body),
            Plane::Session => {
                let mut header = Self::logout(client, session, request)?;
                header.set_body(body)?;
                Ok(header)
            }
            Plane::NonReplicated => {
                Self::non_replicated(code, client, session, request, body.len())
            }
            Plane::Metadata => Self::metadata(operation, client, session, request, body),
            Plane::Partition => Self::partition(operation, client, session, request, body.len()),
        }
    }

    /// A header read from a peer, if it keeps every rule, those for reserved bytes included. A
    /// stamp is kept as it is, as clients may stamp any operation:
    /// [`RawRequestHeader::check_stamp`] holds it against the body.
    ///
    /// # Errors
    ///
    /// See [`RawRequestHeader::check`] and [`RawRequestHeader::check_reserved`];
    /// [`HeaderError::CodeReplicated`] when a non-replicated request carries the code of another
    /// operation.
    pub fn from_raw(raw: &RawRequestHeader) -> Result<Self, HeaderError> {
        let operation = raw.check()?;
        raw.check_reserved()?;
        if operation == Operation::NonReplicated && raw.code().operation() != operation {
            return Err(HeaderError::CodeReplicated {
                code: raw.code(),
                operation: raw.code().operation(),
            });
        }
        Ok(Self {
            raw: *raw,
            operation,
        })
    }

    /// Fields that every request has; the body is still empty and unstamped.
    fn new(
        operation: Operation,
        client: u128,
        session: u64,
        request: u64,
    ) -> Result<Self, HeaderError> {
        if operation.is_internal() {
            return Err(HeaderError::OperationInternal { found: operation });
        }
        check_numbers(operation, client, session, request)?;
        let raw = RawRequestHeader {
            prefix: FramePrefix::new(COMMAND_REQUEST, HEADER_BYTES as u32),
            client: U128::new(client),
            request_checksum: U128::ZERO,
            timestamp: U64::ZERO,
            request: U64::new(request),
            operation: operation.as_u8(),
            operation_padding: [0; 7],
            session: U64::new(session),
            user_id: U32::ZERO,
            code: U32::ZERO,
            reserved: [0; 56],
        };
        Ok(Self { raw, operation })
    }

    /// What it asks for.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// All fields, for reading.
    #[must_use]
    pub const fn raw(&self) -> &RawRequestHeader {
        &self.raw
    }

    /// The 256 bytes to send.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; HEADER_BYTES] {
        zerocopy::transmute_ref!(&self.raw)
    }

    /// Sets the size and the stamp from a new body. The stamp is zero when the operation is not
    /// stamped, also in a header from a peer that had one.
    ///
    /// # Errors
    ///
    /// [`HeaderError::BodyTooLarge`]; the header is as before then.
    pub fn set_body(&mut self, body: &[u8]) -> Result<(), HeaderError> {
        self.raw.prefix.size = U32::new(frame_size(body.len())?);
        self.raw.request_checksum = if self.operation.is_stamped() {
            U128::new(stamp(body))
        } else {
            U128::ZERO
        };
        Ok(())
    }

    /// Sets the size from the length of a new body, and the stamp to zero.
    ///
    /// # Errors
    ///
    /// [`HeaderError::StampNeedsBody`] when the operation is stamped,
    /// [`HeaderError::BodyTooLarge`]; the header is as before then.
    #[inline]
    pub fn set_body_bytes(&mut self, body_bytes: usize) -> Result<(), HeaderError> {
        if self.operation.is_stamped() {
            return Err(HeaderError::StampNeedsBody {
                operation: self.operation,
            });
        }
        self.raw.prefix.size = U32::new(frame_size(body_bytes)?);
        self.raw.request_checksum = U128::ZERO;
        Ok(())
    }

    /// Sets the request number.
    ///
    /// # Errors
    ///
    /// [`HeaderError::RequestZero`], [`HeaderError::RequestNotZero`]; the header is as before then.
    #[inline]
    pub fn set_request(&mut self, request: u64) -> Result<(), HeaderError> {
        check_numbers(
            self.operation,
            self.raw.client(),
            self.raw.session(),
            request,
        )?;
        self.raw.request = U64::new(request);
        Ok(())
    }

    /// Sets the session epoch, as after a new login.
    ///
    /// # Errors
    ///
    /// [`HeaderError::SessionZero`], [`HeaderError::SessionNotZero`]; the header is as before then.
    #[inline]
    pub fn set_session(&mut self, session: u64) -> Result<(), HeaderError> {
        check_numbers(
            self.operation,
            self.raw.client(),
            session,
            self.raw.request(),
        )?;
        self.raw.session = U64::new(session);
        Ok(())
    }

    /// Sets the timestamp in microseconds, which direct replies echo.
    #[inline]
    pub fn set_timestamp(&mut self, timestamp: u64) {
        self.raw.timestamp = U64::new(timestamp);
    }

    /// Takes the stamp away: the server then does not compare a retry's body with the first one's.
    pub fn clear_stamp(&mut self) {
        self.raw.request_checksum = U128::ZERO;
    }
}

impl fmt::Debug for RequestHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

fn check_plane(found: Operation, expected: Plane) -> Result<(), HeaderError> {
    if found.plane() == expected {
        Ok(())
    } else {
        Err(HeaderError::OperationPlane { found, expected })
    }
}

/// The numbering rules: which of `client`, `session` and `request` must be zero, and which must
/// not.
#[inline]
const fn check_numbers(
    operation: Operation,
    client: u128,
    session: u64,
    request: u64,
) -> Result<(), HeaderError> {
    if client == 0 {
        return Err(HeaderError::ClientZero {
            offset: offset::CLIENT,
        });
    }
    match operation {
        Operation::Register if session != 0 => Err(HeaderError::SessionNotZero { found: session }),
        Operation::Register if request != 0 => Err(HeaderError::RequestNotZero { found: request }),
        Operation::Register | Operation::NonReplicated => Ok(()),
        _ if session == 0 => Err(HeaderError::SessionZero { operation }),
        _ if request == 0 => Err(HeaderError::RequestZero { operation }),
        _ => Ok(()),
    }
}
