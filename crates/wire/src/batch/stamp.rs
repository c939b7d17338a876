//! What a server writes into a batch when it stores it.
//!
//! A producer leaves three fields zero; the server fills them and hashes the batch's header fields
//! and the messages' checksums again. The messages themselves stay as the producer wrote them.

use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use super::layout::{BatchHeader, batch_checksum, batch_offset};
use super::reader::{BatchReader, Integrity, checksums};
use crate::error::WireError;

/// The fields of a batch that are the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The partition that stores the batch.
    pub partition_id: u64,
    /// The offset of the batch's first message.
    pub base_offset: u64,
    /// When the batch was appended, microseconds since the Unix epoch.
    pub base_timestamp_us: u64,
}

/// Stamps the one batch that fills `batch`. Reads headers, no payload: O(messages).
///
/// # Errors
///
/// `batch` is not one well-formed batch, or its offsets would leave `u64`; it is unchanged then.
/// Checksums of messages are not verified here.
pub fn stamp(batch: &mut [u8], stamp: &Stamp) -> Result<(), WireError> {
    let messages_count = BatchReader::decode(batch, Integrity::Layout)?.messages_count();
    let offset_max = u64::MAX - u64::from(messages_count);
    if stamp.base_offset > offset_max {
        return Err(WireError::OutOfRange {
            field: "base_offset",
            offset: batch_offset::BASE_OFFSET,
            found: stamp.base_offset,
            min: 0,
            max: offset_max,
        });
    }
    let (header, messages) =
        BatchHeader::mut_from_prefix(batch).expect("the layout was just checked");
    header.partition_id = U64::new(stamp.partition_id);
    header.base_offset = U64::new(stamp.base_offset);
    header.base_timestamp = U64::new(stamp.base_timestamp_us);
    header.batch_checksum = U64::new(batch_checksum(header, checksums(messages)));
    Ok(())
}
