//! The reply to a send. The request is in [`crate::batch`].
//!
//! ```text
//! count  u32                        confirmation  stream_id     u32
//! confirmations                                   topic_id      u32
//!                                                 partition_id  u32
//!                                                 base_offset   u64  of the batch's first message
//! ```
//!
//! An empty body is the answer to a duplicate: a success without an offset, as is a count of 0.

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use std::fmt;
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of one confirmation. Frozen: peers step by it.
pub const CONFIRMATION_BYTES: usize = 20;

/// Where a confirmation's fields stand.
pub mod offset {
    /// `stream_id`.
    pub const STREAM_ID: usize = 0;
    /// `topic_id`.
    pub const TOPIC_ID: usize = 4;
    /// `partition_id`.
    pub const PARTITION_ID: usize = 8;
    /// `base_offset`.
    pub const BASE_OFFSET: usize = 12;
}

/// Where a batch was stored.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct Confirmation {
    stream_id: U32,
    topic_id: U32,
    partition_id: U32,
    base_offset: U64,
}

const _: () = {
    assert!(size_of::<Confirmation>() == CONFIRMATION_BYTES);
    assert!(align_of::<Confirmation>() == 1);
    assert!(offset_of!(Confirmation, stream_id) == offset::STREAM_ID);
    assert!(offset_of!(Confirmation, topic_id) == offset::TOPIC_ID);
    assert!(offset_of!(Confirmation, partition_id) == offset::PARTITION_ID);
    assert!(offset_of!(Confirmation, base_offset) == offset::BASE_OFFSET);
};

impl Confirmation {
    /// A confirmation of a batch whose first message has offset `base_offset`.
    #[must_use]
    pub const fn new(stream_id: u32, topic_id: u32, partition_id: u32, base_offset: u64) -> Self {
        Self {
            stream_id: U32::new(stream_id),
            topic_id: U32::new(topic_id),
            partition_id: U32::new(partition_id),
            base_offset: U64::new(base_offset),
        }
    }

    /// The stream's number.
    #[must_use]
    pub const fn stream_id(&self) -> u32 {
        self.stream_id.get()
    }

    /// The topic's number.
    #[must_use]
    pub const fn topic_id(&self) -> u32 {
        self.topic_id.get()
    }

    /// The partition.
    #[must_use]
    pub const fn partition_id(&self) -> u32 {
        self.partition_id.get()
    }

    /// The offset of the batch's first message; the others follow it without a gap.
    #[must_use]
    pub const fn base_offset(&self) -> u64 {
        self.base_offset.get()
    }
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confirmation")
            .field("stream_id", &self.stream_id())
            .field("topic_id", &self.topic_id())
            .field("partition_id", &self.partition_id())
            .field("base_offset", &self.base_offset())
            .finish()
    }
}

/// The answer to a send. Decoding neither copies nor allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendMessagesReply<'a> {
    /// An empty body: a duplicate of what is stored, nobody knows where.
    Duplicate,
    /// Stored; normally one confirmation, since a request goes to one partition.
    Confirmed(&'a [Confirmation]),
}

impl<'a> SendMessagesReply<'a> {
    /// The confirmations, none for a duplicate.
    #[must_use]
    pub const fn confirmations(&self) -> &'a [Confirmation] {
        match self {
            Self::Duplicate => &[],
            Self::Confirmed(confirmations) => confirmations,
        }
    }
}

impl Encode for SendMessagesReply<'_> {
    const NAME: &'static str = "SendMessagesReply";

    fn encoded_len(&self) -> usize {
        match self {
            Self::Duplicate => 0,
            Self::Confirmed(confirmations) => 4 + size_of_val(*confirmations),
        }
    }

    fn write(&self, out: &mut Writer<'_>) {
        if let Self::Confirmed(confirmations) = self {
            let count = confirmations.len();
            assert!(
                count <= u32::MAX as usize,
                "a body holds no 2^32 confirmations"
            );
            out.u32(count as u32);
            out.bytes(confirmations.as_bytes());
        }
    }
}

impl<'a> Decode<'a> for SendMessagesReply<'a> {
    #[inline]
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        if reader.left() == 0 {
            return Ok(Self::Duplicate);
        }
        let count = reader.u32("confirmations count")? as usize;
        // A count that does not fit the address space does not fit the body either.
        let bytes = reader.bytes("confirmations", count.saturating_mul(CONFIRMATION_BYTES))?;
        let confirmations = <[Confirmation]>::ref_from_bytes(bytes);
        confirmations
            .map(Self::Confirmed)
            .map_err(|_| WireError::Truncated {
                field: "confirmations",
                offset: 4,
                needed: count.saturating_mul(CONFIRMATION_BYTES),
                found: bytes.len(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_round_trip() {
        let confirmations = [
            Confirmation::new(1, 2, 3, 4),
            Confirmation::new(5, 6, 7, u64::MAX),
        ];
        for reply in [
            SendMessagesReply::Duplicate,
            SendMessagesReply::Confirmed(&[]),
            SendMessagesReply::Confirmed(&confirmations[..1]),
            SendMessagesReply::Confirmed(&confirmations),
        ] {
            let bytes = reply.to_vec();
            assert_eq!(SendMessagesReply::decode(&bytes), Ok(reply));
        }
    }

    #[test]
    fn count_and_confirmations_go_together() {
        let confirmations = [Confirmation::new(1, 2, 3, 4)];
        let bytes = SendMessagesReply::Confirmed(&confirmations).to_vec();
        let with_count = |count: u32| [&count.to_le_bytes(), &bytes[4..]].concat();
        assert_eq!(
            SendMessagesReply::decode(&with_count(0)),
            Err(WireError::Trailing {
                field: "SendMessagesReply",
                offset: 4,
                found: 20
            })
        );
        assert_eq!(
            SendMessagesReply::decode(&with_count(u32::MAX)),
            Err(WireError::Truncated {
                field: "confirmations",
                offset: 4,
                needed: u32::MAX as usize * 20,
                found: 20
            })
        );
        for cut in 1..bytes.len() {
            assert!(
                SendMessagesReply::decode(&bytes[..cut]).is_err(),
                "cut at {cut}"
            );
        }
    }
}
