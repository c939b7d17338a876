//! The eviction header, server to client: the session is dead. Never has a body, answers no request
//! in particular.
//!
//! ```text
//! 128 client                       u128  whose session it was; before a login, a transport id of the server's
//! 144 server_protocol_version      u32   newest version accepted; reason 14 only
//! 148 server_protocol_version_min  u32   oldest version accepted; reason 14 only
//! 152 reserved                     103   zero
//! 255 reason                       u8    see [`EvictionReason`]
//! ```
//!
//! Reserved bytes are checked: a field that a later release adds here must not be passed over in
//! silence.

use super::{COMMAND_EVICTION, FramePrefix, HEADER_BYTES, HeaderError, check_zero};
use crate::eviction::{EvictionReason, ReasonError};
use std::fmt;
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the fields of an eviction header stand.
pub mod offset {
    /// `client`.
    pub const CLIENT: usize = 128;
    /// `server_protocol_version`.
    pub const SERVER_PROTOCOL_VERSION: usize = 144;
    /// `server_protocol_version_min`.
    pub const SERVER_PROTOCOL_VERSION_MIN: usize = 148;
    /// The reserved bytes before `reason`.
    pub const RESERVED: usize = 152;
    /// `reason`.
    pub const REASON: usize = 255;
}

/// An eviction header as it lies on the wire.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct EvictionHeader {
    prefix: FramePrefix,
    client: U128,
    server_protocol_version: U32,
    server_protocol_version_min: U32,
    reserved: [u8; 103],
    reason: u8,
}

const _: () = {
    assert!(size_of::<EvictionHeader>() == HEADER_BYTES);
    assert!(align_of::<EvictionHeader>() == 1);
    assert!(offset_of!(EvictionHeader, prefix) == 0);
    assert!(offset_of!(EvictionHeader, client) == offset::CLIENT);
    assert!(offset_of!(EvictionHeader, server_protocol_version) == offset::SERVER_PROTOCOL_VERSION);
    assert!(
        offset_of!(EvictionHeader, server_protocol_version_min)
            == offset::SERVER_PROTOCOL_VERSION_MIN
    );
    assert!(offset_of!(EvictionHeader, reserved) == offset::RESERVED);
    assert!(offset_of!(EvictionHeader, reason) == offset::REASON);
};

impl EvictionHeader {
    /// An eviction for a reason; the reason brings its version window along.
    ///
    /// # Errors
    ///
    /// [`HeaderError::ClientZero`], [`HeaderError::VersionWindow`] when the window is not `1 <= min
    /// <= max`.
    pub fn new(client: u128, reason: EvictionReason) -> Result<Self, HeaderError> {
        let (max, min) = match reason {
            EvictionReason::IncompatibleProtocol { max, min } => (max, min),
            _ => (0, 0),
        };
        let header = Self {
            prefix: FramePrefix::new(COMMAND_EVICTION, HEADER_BYTES as u32),
            client: U128::new(client),
            server_protocol_version: U32::new(max),
            server_protocol_version_min: U32::new(min),
            reserved: [0; 103],
            reason: reason.as_u8(),
        };
        header.check()?;
        Ok(header)
    }

    /// The same eviction as sent by a replica of a cluster.
    #[must_use]
    pub fn from_replica(mut self, cluster: u128, view: u32, replica: u8) -> Self {
        self.prefix.cluster = U128::new(cluster);
        self.prefix.view = U32::new(view);
        self.prefix.replica = replica;
        self
    }

    /// Casts a slice of exactly 256 bytes.
    ///
    /// # Errors
    ///
    /// [`HeaderError::Length`].
    pub fn from_bytes(bytes: &[u8]) -> Result<&Self, HeaderError> {
        Self::ref_from_bytes(bytes).map_err(|_| HeaderError::Length { found: bytes.len() })
    }

    /// Checks command, size, client, reserved bytes, reason and version window.
    ///
    /// # Errors
    ///
    /// The [`HeaderError`] of the first rule that is broken, in that order.
    pub fn check(&self) -> Result<EvictionReason, HeaderError> {
        self.prefix.check_command(COMMAND_EVICTION)?;
        if self.size() as usize != HEADER_BYTES {
            return Err(HeaderError::SizeMismatch {
                found: self.size(),
                expected: HEADER_BYTES,
            });
        }
        if self.client() == 0 {
            return Err(HeaderError::ClientZero {
                offset: offset::CLIENT,
            });
        }
        check_zero(
            "reserved",
            super::offset::RESERVED_FRAME,
            &self.prefix.reserved,
        )?;
        check_zero("reserved", offset::RESERVED, &self.reserved)?;
        EvictionReason::from_wire(
            self.reason,
            self.server_protocol_version.get(),
            self.server_protocol_version_min.get(),
        )
        .map_err(|error| match error {
            ReasonError::Unknown { found } => HeaderError::ReasonUnknown { found },
            ReasonError::VersionWindow { reason, max, min } => {
                HeaderError::VersionWindow { reason, max, min }
            }
        })
    }

    /// The 256 bytes to send.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; HEADER_BYTES] {
        zerocopy::transmute_ref!(self)
    }

    /// Bytes of the whole frame, as announced.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.prefix.size.get()
    }

    /// Whose session it was. Before a login it is a transport id of the server's: never match an
    /// eviction by it.
    #[must_use]
    pub const fn client(&self) -> u128 {
        self.client.get()
    }

    /// The reason byte.
    #[must_use]
    pub const fn reason_byte(&self) -> u8 {
        self.reason
    }
}

impl fmt::Debug for EvictionHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvictionHeader")
            .field("client", &format_args!("{:#x}", self.client()))
            .field("reason", &self.reason)
            .field(
                "server_protocol_version",
                &self.server_protocol_version.get(),
            )
            .field(
                "server_protocol_version_min",
                &self.server_protocol_version_min.get(),
            )
            .finish_non_exhaustive()
    }
}
