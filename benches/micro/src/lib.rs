//! What the micro-benchmarks have in common: the records, and the three ways to turn them into a
//! body.
//!
//! Each way writes into memory that exists beforehand and is used again, so that no allocator is
//! measured. A test checks that ringmain and the reference write the same bytes; otherwise the
//! comparison would mean nothing.
#![forbid(unsafe_code)]

use bytes::BytesMut;
use iggy_binary_protocol::requests::messages::{RawMessage, SendMessagesEncoder};
use iggy_binary_protocol::{WireIdentifier, WirePartitioning};
use ringmain_wire::batch::{BatchWriter, RecordParts, Sealed, SendTarget};
use ringmain_wire::{Identifier, Partitioning, UserHeaders, hash};

/// Records of a batch.
pub const RECORDS: usize = 1000;

/// Payload sizes in bytes.
pub const PAYLOAD_BYTES: [usize; 4] = [16, 100, 1000, 10_000];

/// Time of the first record; each next one is a microsecond later.
const ORIGIN_US: u64 = 1_700_000_000_000_000;

/// Where the batches go.
pub const TARGET: SendTarget<'static> = SendTarget {
    stream: Identifier::Numeric(1),
    topic: Identifier::Numeric(2),
    partitioning: Partitioning::PartitionId(3),
};

/// The payloads of a batch, one after the other, and memory for its body.
#[derive(Debug)]
pub struct Workload {
    payloads: Vec<u8>,
    payload_bytes: usize,
    buffer: Vec<u8>,
}

impl Workload {
    /// A batch of [`RECORDS`] payloads of `payload_bytes` each, of bytes that do not repeat within
    /// a record.
    #[must_use]
    pub fn new(payload_bytes: usize) -> Self {
        let byte = |index: usize| (index.wrapping_mul(0x9E37_79B9) >> 13) as u8;
        Self {
            payloads: (0..RECORDS * payload_bytes).map(byte).collect(),
            payload_bytes,
            buffer: vec![0; 512 + RECORDS * (48 + payload_bytes)],
        }
    }

    /// Bytes of payload in the batch.
    #[must_use]
    pub const fn payload_bytes_total(&self) -> usize {
        RECORDS * self.payload_bytes
    }

    fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        self.payloads.chunks_exact(self.payload_bytes)
    }

    /// The records in the form that the reference encodes.
    #[must_use]
    pub fn raw_messages(&self) -> Vec<RawMessage<'_>> {
        let raw = |(index, payload)| RawMessage {
            id: index as u128 + 1,
            origin_timestamp: ORIGIN_US + index as u64,
            headers: None,
            payload,
        };
        self.payloads().enumerate().map(raw).collect()
    }

    /// Builds the body as ringmain does, in `buffer`.
    ///
    /// # Panics
    ///
    /// When `buffer` is smaller than [`Workload::buffer`].
    pub fn write<'b>(&self, buffer: &'b mut [u8]) -> Sealed<&'b mut [u8]> {
        let mut writer = BatchWriter::new(buffer, &TARGET).expect("large enough");
        for (index, payload) in self.payloads().enumerate() {
            let record = RecordParts {
                id: index as u128 + 1,
                timestamp_us: ORIGIN_US + index as u64,
                payload,
                user_headers: UserHeaders::EMPTY,
            };
            writer.append(&record).expect("large enough");
        }
        writer.seal()
    }

    /// The floor: a plain copy of each payload, and one hash over all that was copied.
    pub fn floor(&self, buffer: &mut [u8]) -> u64 {
        for (to, from) in buffer
            .chunks_exact_mut(self.payload_bytes)
            .zip(self.payloads())
        {
            to.copy_from_slice(from);
        }
        hash::checksum(&buffer[..self.payload_bytes_total()])
    }

    /// Memory that every way fits into.
    #[must_use]
    pub fn buffer(&self) -> Vec<u8> {
        self.buffer.clone()
    }
}

/// Builds the body as the reference does, in `buffer`, which keeps its memory.
///
/// # Panics
///
/// When the reference refuses the batch.
pub fn write_reference(messages: &[RawMessage<'_>], buffer: &mut BytesMut) {
    buffer.clear();
    let stream = WireIdentifier::numeric(1);
    let topic = WireIdentifier::numeric(2);
    let partitioning = WirePartitioning::PartitionId(3);
    SendMessagesEncoder::encode(buffer, &stream, &topic, &partitioning, messages).expect("valid");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_write_the_same_bytes() {
        for payload_bytes in PAYLOAD_BYTES {
            let workload = Workload::new(payload_bytes);
            let mut buffer = workload.buffer();
            let mut reference = BytesMut::new();
            write_reference(&workload.raw_messages(), &mut reference);
            assert!(
                workload.write(&mut buffer).body() == &reference[..],
                "{payload_bytes}"
            );
        }
    }
}
