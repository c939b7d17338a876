//! What precedes the batch in a `SendMessages` body: where the batch goes and how many messages it
//! holds.
//!
//! Taking a body apart is in two steps, because the server answers them differently: it refuses a
//! bad address with status 20, and drops a bad batch without an answer.

use super::reader::{BatchReader, Integrity};
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::error::WireError;
use crate::identifier::Identifier;
use crate::partitioning::Partitioning;

/// `metadata_length` in front, `messages_count` behind.
const LENGTH_BYTES: usize = size_of::<u32>();
pub(super) const COUNT_BYTES: usize = size_of::<u32>();

/// Where a send goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendTarget<'a> {
    /// The stream, by number or by name.
    pub stream: Identifier<'a>,
    /// The topic, by number or by name.
    pub topic: Identifier<'a>,
    /// How the server finds the partition. Clients normally name it.
    pub partitioning: Partitioning<'a>,
}

impl SendTarget<'_> {
    /// Bytes of a `SendMessages` body before its batch: 16 to 779.
    #[must_use]
    pub fn prefix_bytes(&self) -> usize {
        LENGTH_BYTES + self.metadata_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.stream.encoded_len()
            + self.topic.encoded_len()
            + self.partitioning.encoded_len()
            + COUNT_BYTES
    }

    /// Fills `prefix`, which is exactly [`SendTarget::prefix_bytes`] long.
    pub(super) fn write_prefix(&self, prefix: &mut [u8], messages_count: u32) {
        let mut writer = Writer::new(prefix);
        writer.u32(self.metadata_bytes() as u32);
        self.stream.write(&mut writer);
        self.topic.write(&mut writer);
        self.partitioning.write(&mut writer);
        writer.u32(messages_count);
        assert_eq!(writer.room(), 0, "the prefix is as long as it says");
    }
}

/// A `SendMessages` body whose address has been read and whose batch has not been looked at yet.
#[derive(Debug, Clone, Copy)]
pub struct SendMessagesRef<'a> {
    target: SendTarget<'a>,
    messages_count: u32,
    batch_at: usize,
    body: &'a [u8],
}

impl<'a> SendMessagesRef<'a> {
    /// Reads the address of a `SendMessages` body.
    ///
    /// # Errors
    ///
    /// The sender's address is malformed: it is cut short, an identifier or the partitioning is
    /// invalid, or it does not fill `metadata_length` exactly. The real server answers with status
    /// 20.
    pub fn decode(body: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let metadata_length = reader.u32("metadata_length")? as usize;
        let metadata = reader.bytes("metadata", metadata_length)?;
        let batch_at = reader.offset();
        let mut reader = Reader::new(metadata);
        let shifted = |error: WireError| error.shifted(LENGTH_BYTES);
        let target = SendTarget {
            stream: Identifier::read_as(&mut reader, "stream_id").map_err(shifted)?,
            topic: Identifier::read_as(&mut reader, "topic_id").map_err(shifted)?,
            partitioning: Partitioning::read(&mut reader).map_err(shifted)?,
        };
        let messages_count = reader.u32("messages_count").map_err(shifted)?;
        reader.finish("metadata").map_err(shifted)?;
        Ok(Self {
            target,
            messages_count,
            batch_at,
            body,
        })
    }

    /// Where the batch goes.
    #[must_use]
    pub const fn target(&self) -> &SendTarget<'a> {
        &self.target
    }

    /// The number of messages that the address announces.
    #[must_use]
    pub const fn messages_count(&self) -> u32 {
        self.messages_count
    }

    /// Byte of the body at which the batch starts.
    #[must_use]
    pub const fn batch_at(&self) -> usize {
        self.batch_at
    }

    /// Checks the batch, which must fill the rest of the body and hold the announced number of
    /// messages.
    ///
    /// # Errors
    ///
    /// The sender's batch is malformed, see [`BatchReader::decode`], or the counts differ. The real
    /// server drops the request without an answer. Offsets in the error count from the start of the
    /// body.
    pub fn batch(&self, integrity: Integrity) -> Result<BatchReader<'a>, WireError> {
        let batch = BatchReader::decode(&self.body[self.batch_at..], integrity)
            .map_err(|error| error.shifted(self.batch_at))?;
        if batch.messages_count() != self.messages_count {
            return Err(WireError::Mismatch {
                field: "messages_count",
                offset: self.batch_at - COUNT_BYTES,
                found: u128::from(self.messages_count),
                expected: u128::from(batch.messages_count()),
            });
        }
        Ok(batch)
    }
}
