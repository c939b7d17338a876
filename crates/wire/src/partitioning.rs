//! Partitioning: how a server finds the partition of a send. Clients normally find it themselves
//! and send its id.
//!
//! ```text
//! kind    u8    1 balanced, 2 partition id, 3 messages key
//! length  u8    0, 4, or 1 to 255
//! value   nothing, u32, or that many bytes
//! ```

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::hash::key_hash;
use crate::name::check_length;
use std::num::NonZeroU32;

const KIND_BALANCED: u8 = 1;
const KIND_PARTITION_ID: u8 = 2;
const KIND_MESSAGES_KEY: u8 = 3;
const PARTITION_ID_BYTES: usize = 4;

/// A messages key: 1 to 255 bytes of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessagesKey<'a>(&'a [u8]);

impl<'a> MessagesKey<'a> {
    /// Takes bytes as a key.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] when there are none or more than 255.
    pub const fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        match check_length("messages key", 0, bytes.len(), 1) {
            Ok(()) => Ok(Self(bytes)),
            Err(error) => Err(error),
        }
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The partition of this key in a topic of so many partitions: XxHash32 with seed 0, modulo the
    /// count. The same in every SDK and on the server.
    #[must_use]
    pub fn partition(&self, partitions_count: NonZeroU32) -> u32 {
        key_hash(self.0) % partitions_count
    }
}

/// How the server finds the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Partitioning<'a> {
    /// The server takes turns.
    Balanced,
    /// This partition.
    PartitionId(u32),
    /// The partition of this key: see [`MessagesKey::partition`].
    MessagesKey(MessagesKey<'a>),
}

impl<'a> Partitioning<'a> {
    /// Partitioning by a key.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] when the key is not 1 to 255 bytes long.
    pub const fn messages_key(key: &'a [u8]) -> Result<Self, WireError> {
        match MessagesKey::new(key) {
            Ok(key) => Ok(Self::MessagesKey(key)),
            Err(error) => Err(error),
        }
    }
}

impl Encode for Partitioning<'_> {
    const NAME: &'static str = "partitioning";

    fn encoded_len(&self) -> usize {
        2 + match self {
            Self::Balanced => 0,
            Self::PartitionId(_) => PARTITION_ID_BYTES,
            Self::MessagesKey(key) => key.0.len(),
        }
    }

    fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::Balanced => {
                out.u8(KIND_BALANCED);
                out.u8(0);
            }
            Self::PartitionId(id) => {
                out.u8(KIND_PARTITION_ID);
                out.u8(PARTITION_ID_BYTES as u8);
                out.u32(*id);
            }
            Self::MessagesKey(key) => {
                out.u8(KIND_MESSAGES_KEY);
                out.u8(key.0.len() as u8);
                out.bytes(key.0);
            }
        }
    }
}

impl<'a> Decode<'a> for Partitioning<'a> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let kind_offset = reader.offset();
        let kind = reader.u8(field)?;
        let length_offset = reader.offset();
        let length = reader.u8(field)? as usize;
        let expect = |expected: usize| {
            if length == expected {
                return Ok(());
            }
            Err(WireError::Mismatch {
                field,
                offset: length_offset,
                found: length as u128,
                expected: expected as u128,
            })
        };
        match kind {
            KIND_BALANCED => expect(0).map(|()| Self::Balanced),
            KIND_PARTITION_ID => {
                expect(PARTITION_ID_BYTES)?;
                Ok(Self::PartitionId(reader.u32(field)?))
            }
            KIND_MESSAGES_KEY => {
                check_length(field, length_offset, length, 1)?;
                Self::messages_key(reader.bytes(field, length)?)
            }
            found => Err(WireError::UnknownKind {
                field,
                offset: kind_offset,
                found: found.into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_documented() {
        let key = Partitioning::messages_key(b"k-1").expect("in range");
        for (partitioning, bytes) in [
            (Partitioning::Balanced, &[1, 0][..]),
            (Partitioning::PartitionId(0x0403_0201), &[2, 4, 1, 2, 3, 4]),
            (key, &[3, 3, b'k', b'-', b'1']),
        ] {
            assert_eq!(partitioning.to_vec(), bytes);
            assert_eq!(Partitioning::decode(bytes), Ok(partitioning));
        }
    }

    #[test]
    fn keys_from_1_to_255_bytes() {
        assert!(MessagesKey::new(&[0; 255]).is_ok());
        for key in [&[][..], &[0; 256]] {
            assert!(matches!(
                MessagesKey::new(key),
                Err(WireError::OutOfRange { .. })
            ));
        }
    }

    #[test]
    fn malformed_partitioning_names_the_field() {
        let length = |found, expected| WireError::Mismatch {
            field: "partitioning",
            offset: 1,
            found,
            expected,
        };
        let empty = WireError::OutOfRange {
            field: "partitioning",
            offset: 1,
            found: 0,
            min: 1,
            max: 255,
        };
        let kind = WireError::UnknownKind {
            field: "partitioning",
            offset: 0,
            found: 9,
        };
        for (bytes, error) in [
            (&[1, 1, 0][..], length(1, 0)),
            (&[2, 8, 0, 0, 0, 0, 0, 0, 0, 0], length(8, 4)),
            (&[3, 0], empty),
            (&[9, 0], kind),
        ] {
            assert_eq!(Partitioning::decode(bytes), Err(error), "{bytes:?}");
        }
    }

    /// Values of the reference implementation of XxHash32.
    #[test]
    fn keys_find_their_partition() {
        let count = NonZeroU32::new(7).expect("not zero");
        for (key, hash) in [(&b"a"[..], 0x550d_7456_u32), (b"abc", 0x32d1_53ff)] {
            let key = MessagesKey::new(key).expect("in range");
            assert_eq!(key.partition(NonZeroU32::MAX), hash % u32::MAX);
            assert_eq!(key.partition(count), hash % 7);
        }
    }
}
