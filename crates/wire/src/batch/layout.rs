//! The two headers of a batch as they lie in memory, their limits, and the batch checksum.
//!
//! Alignment 1 and little-endian fields: a header is read where it lies, on any alignment and
//! either byte order.

use core::mem::{offset_of, size_of};

use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::hash::{self, Checksum};
use crate::header::BODY_BYTES_MAX;
use crate::user_headers::USER_HEADERS_BYTES_MAX;

/// Bytes of the header in front of a batch's messages.
pub const BATCH_HEADER_BYTES: usize = 256;

/// Bytes of the header in front of each payload.
pub const MESSAGE_HEADER_BYTES: usize = 48;

/// Payload bytes of one message, limited by the server.
pub const PAYLOAD_BYTES_MAX: usize = 64_000_000;

/// Microseconds from a batch's earliest to its latest message: a `u32`, 71.58 minutes.
pub const TIMESTAMP_SPAN_US_MAX: u64 = u32::MAX as u64;

const _: () = {
    assert!(
        PAYLOAD_BYTES_MAX <= u32::MAX as usize,
        "payload_length is a u32"
    );
    assert!(
        USER_HEADERS_BYTES_MAX <= u32::MAX as usize,
        "user_headers_length is a u32"
    );
    assert!(
        BODY_BYTES_MAX / MESSAGE_HEADER_BYTES < u32::MAX as usize,
        "message_count is a u32"
    );
};

/// Where the fields of a batch header stand.
pub(super) mod batch_offset {
    pub(in super::super) const PARTITION_ID: usize = 0;
    pub(in super::super) const BASE_OFFSET: usize = 8;
    pub(in super::super) const BASE_TIMESTAMP: usize = 16;
    pub(in super::super) const ORIGIN_TIMESTAMP: usize = 24;
    pub(in super::super) const BATCH_LENGTH: usize = 32;
    pub(in super::super) const BATCH_CHECKSUM: usize = 40;
    pub(in super::super) const MESSAGE_COUNT: usize = 48;
    pub(in super::super) const RESERVED: usize = 52;
}

/// The header of a batch.
///
/// A producer leaves `partition_id`, `base_offset` and `base_timestamp` zero; the server writes
/// them with [`stamp`](super::stamp).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BatchHeader {
    pub(super) partition_id: U64,
    pub(super) base_offset: U64,
    pub(super) base_timestamp: U64,
    pub(super) origin_timestamp: U64,
    pub(super) batch_length: U64,
    pub(super) batch_checksum: U64,
    pub(super) message_count: U32,
    pub(super) reserved: [u8; 204],
}

const _: () = {
    assert!(size_of::<BatchHeader>() == BATCH_HEADER_BYTES);
    assert!(align_of::<BatchHeader>() == 1);
    assert!(offset_of!(BatchHeader, partition_id) == batch_offset::PARTITION_ID);
    assert!(offset_of!(BatchHeader, base_offset) == batch_offset::BASE_OFFSET);
    assert!(offset_of!(BatchHeader, base_timestamp) == batch_offset::BASE_TIMESTAMP);
    assert!(offset_of!(BatchHeader, origin_timestamp) == batch_offset::ORIGIN_TIMESTAMP);
    assert!(offset_of!(BatchHeader, batch_length) == batch_offset::BATCH_LENGTH);
    assert!(offset_of!(BatchHeader, batch_checksum) == batch_offset::BATCH_CHECKSUM);
    assert!(offset_of!(BatchHeader, message_count) == batch_offset::MESSAGE_COUNT);
    assert!(offset_of!(BatchHeader, reserved) == batch_offset::RESERVED);
};

impl BatchHeader {
    /// The header of a batch that has not been stored yet; its checksum is still zero.
    pub(super) fn unstored(origin_timestamp: u64, batch_length: u64, message_count: u32) -> Self {
        Self {
            partition_id: U64::ZERO,
            base_offset: U64::ZERO,
            base_timestamp: U64::ZERO,
            origin_timestamp: U64::new(origin_timestamp),
            batch_length: U64::new(batch_length),
            batch_checksum: U64::ZERO,
            message_count: U32::new(message_count),
            reserved: [0; 204],
        }
    }

    /// The partition that holds the batch; 0 until the server stores it.
    #[must_use]
    pub fn partition_id(&self) -> u64 {
        self.partition_id.get()
    }

    /// Offset of the message whose `offset_delta` is 0; 0 until the server stores the batch.
    #[must_use]
    pub fn base_offset(&self) -> u64 {
        self.base_offset.get()
    }

    /// When the server appended the batch, microseconds since the Unix epoch; 0 until then.
    #[must_use]
    pub fn base_timestamp_us(&self) -> u64 {
        self.base_timestamp.get()
    }

    /// The time of the earliest message, microseconds since the Unix epoch, by the producer's
    /// clock.
    #[must_use]
    pub fn origin_timestamp_us(&self) -> u64 {
        self.origin_timestamp.get()
    }

    /// Bytes of the batch: this header and all messages.
    #[must_use]
    pub fn batch_length(&self) -> u64 {
        self.batch_length.get()
    }

    /// The stored checksum.
    #[must_use]
    pub fn batch_checksum(&self) -> u64 {
        self.batch_checksum.get()
    }

    /// Messages in the batch.
    #[must_use]
    pub fn message_count(&self) -> u32 {
        self.message_count.get()
    }
}

/// Where the fields of a message header stand.
pub(super) mod message_offset {
    pub(in super::super) const CHECKSUM: usize = 0;
    pub(in super::super) const ID: usize = 8;
    pub(in super::super) const OFFSET_DELTA: usize = 24;
    pub(in super::super) const TIMESTAMP_DELTA: usize = 28;
    pub(in super::super) const USER_HEADERS_LENGTH: usize = 32;
    pub(in super::super) const PAYLOAD_LENGTH: usize = 36;
    pub(in super::super) const RESERVED: usize = 40;
}

/// The header of a message.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MessageHeader {
    pub(super) checksum: U64,
    pub(super) id: U128,
    pub(super) offset_delta: U32,
    pub(super) timestamp_delta: U32,
    pub(super) user_headers_length: U32,
    pub(super) payload_length: U32,
    pub(super) reserved: [u8; 8],
}

const _: () = {
    assert!(size_of::<MessageHeader>() == MESSAGE_HEADER_BYTES);
    assert!(align_of::<MessageHeader>() == 1);
    assert!(offset_of!(MessageHeader, checksum) == message_offset::CHECKSUM);
    assert!(offset_of!(MessageHeader, id) == message_offset::ID);
    assert!(offset_of!(MessageHeader, offset_delta) == message_offset::OFFSET_DELTA);
    assert!(offset_of!(MessageHeader, timestamp_delta) == message_offset::TIMESTAMP_DELTA);
    assert!(offset_of!(MessageHeader, user_headers_length) == message_offset::USER_HEADERS_LENGTH);
    assert!(offset_of!(MessageHeader, payload_length) == message_offset::PAYLOAD_LENGTH);
    assert!(offset_of!(MessageHeader, reserved) == message_offset::RESERVED);
};

/// Where the bytes that a message's checksum covers begin: after the checksum itself.
pub(super) const MESSAGE_CHECKSUM_COVERS_FROM: usize = offset_of!(MessageHeader, id);

impl MessageHeader {
    /// XxHash3-64 over the rest of this header, the payload and the user headers.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        self.checksum.get()
    }

    /// The message's id, chosen by the producer.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.id.get()
    }

    /// The message's index in its batch.
    #[must_use]
    pub fn offset_delta(&self) -> u32 {
        self.offset_delta.get()
    }

    /// Microseconds after the batch's origin.
    #[must_use]
    pub fn timestamp_delta_us(&self) -> u32 {
        self.timestamp_delta.get()
    }

    /// Bytes of user headers after the payload.
    #[must_use]
    pub fn user_headers_length(&self) -> u32 {
        self.user_headers_length.get()
    }

    /// Bytes of payload after this header.
    #[must_use]
    pub fn payload_length(&self) -> u32 {
        self.payload_length.get()
    }

    /// Bytes of this header, the payload and the user headers.
    pub(super) fn frame_bytes(&self) -> usize {
        let lengths =
            u64::from(self.payload_length.get()) + u64::from(self.user_headers_length.get());
        MESSAGE_HEADER_BYTES + lengths as usize
    }
}

/// Hashed in front of the messages' checksums: the first five fields of the header and the count.
const PREAMBLE_BYTES: usize = offset_of!(BatchHeader, batch_checksum) + size_of::<U32>();

/// Checksums gathered on the stack between two calls of the hash. A batch of up to this many
/// messages is hashed in one call, which skips setting up the running state.
const GATHERED_MAX: usize = 64;

/// The batch checksum of `header` over the messages' stored `checksums`, in order.
pub(super) fn batch_checksum(header: &BatchHeader, checksums: impl Iterator<Item = U64>) -> u64 {
    let mut gathered = [0u8; PREAMBLE_BYTES + GATHERED_MAX * 8];
    let fields = offset_of!(BatchHeader, batch_checksum);
    gathered[..fields].copy_from_slice(&header.as_bytes()[..fields]);
    gathered[fields..PREAMBLE_BYTES].copy_from_slice(header.message_count.as_bytes());
    let mut end = PREAMBLE_BYTES;
    let mut running: Option<Checksum> = None;
    for checksum in checksums {
        // The preamble is no multiple of 8, so the buffer's last bytes stay unused once it starts
        // anew.
        if end + 8 > gathered.len() {
            running.get_or_insert_default().update(&gathered[..end]);
            end = 0;
        }
        gathered[end..end + 8].copy_from_slice(checksum.as_bytes());
        end += 8;
    }
    match running {
        None => hash::checksum(&gathered[..end]),
        Some(mut running) => {
            running.update(&gathered[..end]);
            running.digest()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every count around the sizes at which the gathering buffer fills, against one hash over all
    /// bytes.
    #[test]
    fn a_batch_checksum_is_that_of_its_bytes_in_a_row() {
        for count in 0..4 * GATHERED_MAX {
            let checksums =
                (0..count as u64).map(|index| U64::new(index.wrapping_mul(u64::MAX / 7)));
            let header = BatchHeader::unstored(11, 256 + 48 * count as u64, count as u32);
            let mut bytes = header.as_bytes()[..40].to_vec();
            bytes.extend_from_slice(&header.as_bytes()[48..52]);
            bytes.extend(checksums.clone().flat_map(|checksum| checksum.to_bytes()));
            assert_eq!(
                batch_checksum(&header, checksums),
                hash::checksum(&bytes),
                "{count}"
            );
        }
    }
}
