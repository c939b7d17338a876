//! The 256-byte headers: one module for each shape, the part they share, and the errors of all
//! three.
//!
//! ```text
//!   0 checksum          u128  zero between client and server
//!  16 checksum_body     u128  zero between client and server
//!  32 cluster           u128  cluster id; zero from a client
//!  48 size              u32   bytes of the whole frame: 256 and the body
//!  52 view              u32   consensus view; zero from a client
//!  56 release           u32   zero
//!  60 command           u8    5 request, 8 reply, 13 eviction
//!  61 replica           u8    who answered; zero from a client
//!  62 reserved          66    zero
//! 128 ...                     differs by shape: see [`RawRequestHeader`], [`ReplyHeader`], [`EvictionHeader`]
//! ```
//!
//! Every integer is little-endian and every struct here has alignment 1, so a header is read where
//! it lies: a cast from `&[u8]` checks the length and nothing is copied, at any address and on any
//! host byte order.
//!
//! [`RawRequestHeader`] is any 256 bytes seen as a request; [`RequestHeader`] is one that keeps
//! every rule, and cannot be made otherwise.

mod error;
pub mod eviction;
pub mod reply;
pub mod request;
#[cfg(test)]
mod tests;

pub use error::HeaderError;
pub use eviction::EvictionHeader;
pub use reply::{ReplyFields, ReplyHeader};
pub use request::{RawRequestHeader, RequestHeader};

use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of every header.
pub const HEADER_BYTES: usize = 256;

/// Largest frame: servers close a connection that announces more. 64 MiB.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Largest body.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - HEADER_BYTES;

/// `command` of a request.
pub const COMMAND_REQUEST: u8 = 5;

/// `command` of a reply.
pub const COMMAND_REPLY: u8 = 8;

/// `command` of an eviction.
pub const COMMAND_EVICTION: u8 = 13;

/// Largest `command` that is assigned. 0 is reserved; all between that are no request, reply or
/// eviction belong to the traffic between replicas, which never appears on a client's connection.
/// Servers close a connection on a larger one.
pub const COMMAND_ASSIGNED_MAX: u8 = 29;

/// Where the fields stand that all headers share.
pub mod offset {
    /// `checksum`.
    pub const CHECKSUM: usize = 0;
    /// `checksum_body`.
    pub const CHECKSUM_BODY: usize = 16;
    /// `cluster`.
    pub const CLUSTER: usize = 32;
    /// `size`: readers may rely on this one before they know the shape.
    pub const SIZE: usize = 48;
    /// `view`.
    pub const VIEW: usize = 52;
    /// `release`.
    pub const RELEASE: usize = 56;
    /// `command`: tells the shape.
    pub const COMMAND: usize = 60;
    /// `replica`.
    pub const REPLICA: usize = 61;
    /// The reserved bytes behind `replica`.
    pub const RESERVED_FRAME: usize = 62;
    /// The first byte that differs by shape.
    pub const SHAPE: usize = 128;
}

/// The first 128 bytes of every header.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
struct FramePrefix {
    checksum: U128,
    checksum_body: U128,
    cluster: U128,
    size: U32,
    view: U32,
    release: U32,
    command: u8,
    replica: u8,
    reserved: [u8; 66],
}

const _: () = {
    assert!(offset_of!(FramePrefix, checksum) == offset::CHECKSUM);
    assert!(offset_of!(FramePrefix, checksum_body) == offset::CHECKSUM_BODY);
    assert!(offset_of!(FramePrefix, cluster) == offset::CLUSTER);
    assert!(offset_of!(FramePrefix, size) == offset::SIZE);
    assert!(offset_of!(FramePrefix, view) == offset::VIEW);
    assert!(offset_of!(FramePrefix, release) == offset::RELEASE);
    assert!(offset_of!(FramePrefix, command) == offset::COMMAND);
    assert!(offset_of!(FramePrefix, replica) == offset::REPLICA);
    assert!(offset_of!(FramePrefix, reserved) == offset::RESERVED_FRAME);
    assert!(size_of::<FramePrefix>() == offset::SHAPE);
    assert!(
        BODY_BYTES_MAX <= u32::MAX as usize,
        "sizes fit the u32 of the header"
    );
};

impl FramePrefix {
    const fn new(command: u8, size: u32) -> Self {
        Self {
            checksum: U128::ZERO,
            checksum_body: U128::ZERO,
            cluster: U128::ZERO,
            size: U32::new(size),
            view: U32::ZERO,
            release: U32::ZERO,
            command,
            replica: 0,
            reserved: [0; 66],
        }
    }

    fn check_command(&self, expected: u8) -> Result<(), HeaderError> {
        if self.command == expected {
            Ok(())
        } else {
            Err(HeaderError::Command {
                found: self.command,
                expected,
            })
        }
    }
}

/// The frame length of a body, or the reason why there is none.
const fn frame_size(body_bytes: usize) -> Result<u32, HeaderError> {
    if body_bytes > BODY_BYTES_MAX {
        return Err(HeaderError::BodyTooLarge { found: body_bytes });
    }
    Ok((HEADER_BYTES + body_bytes) as u32)
}

/// Checks the `size` field of a header against what a frame can be.
pub(crate) const fn check_size(size: u32) -> Result<usize, HeaderError> {
    let bytes = size as usize;
    if bytes < HEADER_BYTES {
        return Err(HeaderError::SizeTooSmall { found: size });
    }
    if bytes > FRAME_BYTES_MAX {
        return Err(HeaderError::SizeTooLarge {
            found: size,
            max: FRAME_BYTES_MAX as u32,
        });
    }
    Ok(bytes)
}

/// Errs when a byte of a region that must be zero is not.
fn check_zero(field: &'static str, offset: usize, bytes: &[u8]) -> Result<(), HeaderError> {
    match bytes.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(index) => Err(HeaderError::ReservedNotZero {
            field,
            offset: offset + index,
            found: bytes[index],
        }),
    }
}
