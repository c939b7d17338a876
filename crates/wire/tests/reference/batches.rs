//! Sends: written by both for the same records, taken apart by both, and refused by both when a bit
//! is wrong.

use crate::check::CASES;
use crate::strategies::{Id, id};
use crate::user_headers::{Pairs, our_bytes, pairs, their_bytes};
use bytes::BytesMut;
use iggy_binary_protocol::batch::decode_batch_slice;
use iggy_binary_protocol::requests::messages::{
    RawMessage, SendMessagesEncoder, SendMessagesHeader,
};
use iggy_binary_protocol::{WireDecode, WirePartitioning};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use ringmain_wire::batch::{AppendError, Integrity, Piece, Referenced};
use ringmain_wire::{
    BatchWriter, Partitioning, RecordParts, SendMessagesRef, SendTarget, UserHeaders,
};

/// Payload lengths around the places where the hash goes from one way of working to the next. A
/// message's header and user headers are hashed with it, so lengths that make the sum an edge are
/// here too.
const EDGES: [usize; 18] = [
    0, 1, 15, 16, 17, 88, 127, 128, 129, 200, 201, 239, 240, 241, 984, 1023, 1024, 1025,
];

/// Bytes of the largest payload: past the last edge.
const PAYLOAD_BYTES_MAX: usize = 1100;

/// A record as both take it.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: u128,
    pub(crate) timestamp_us: u64,
    pub(crate) payload: Vec<u8>,
    user_headers: Pairs,
    pub(crate) user_headers_bytes: Vec<u8>,
}

/// Bytes that differ from place to place. Drawing each would take most of the time of the tests.
fn payload(bytes_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let edges: Vec<_> = EDGES
        .into_iter()
        .filter(|edge| *edge <= bytes_max)
        .collect();
    let length = prop_oneof![1 => 0..=bytes_max, 1 => select(edges)];
    (length, any::<u64>()).prop_map(|(length, seed)| {
        let mut state = seed | 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    })
}

/// 1 to 8 records at any times that one batch can span, in any order.
fn records(payload_bytes_max: usize) -> impl Strategy<Value = Vec<Record>> {
    let user_headers = prop_oneof![1 => Just(Pairs::new()), 1 => pairs(2)];
    let delta = prop_oneof![Just(0), 0..5000u32, any::<u32>()];
    let record = (
        any::<u128>(),
        delta,
        payload(payload_bytes_max),
        user_headers,
    );
    let first = prop_oneof![Just(0), Just(u64::MAX - u64::from(u32::MAX)), 0..1u64 << 62];
    (first, vec(record, 1..=8)).prop_map(|(first, records)| {
        let record = |(id, delta, payload, user_headers): (_, u32, _, _)| Record {
            id,
            timestamp_us: first + u64::from(delta),
            payload,
            user_headers_bytes: our_bytes(&user_headers),
            user_headers,
        };
        records.into_iter().map(record).collect()
    })
}

/// 1 to 150 short records in the order of their times: the batch's checksum is made in several
/// steps.
fn many() -> impl Strategy<Value = Vec<Record>> {
    vec((any::<u128>(), 0..1000u32, 0..40usize), 1..=150).prop_map(|records| {
        let mut timestamp_us = 1_700_000_000_000_000;
        let mut record = |(id, delta, length): (u128, u32, usize)| {
            timestamp_us += u64::from(delta);
            Record {
                id,
                timestamp_us,
                payload: id.to_le_bytes().into_iter().cycle().take(length).collect(),
                user_headers: Pairs::new(),
                user_headers_bytes: Vec::new(),
            }
        };
        records.into_iter().map(&mut record).collect()
    })
}

/// Records in the order of their times.
pub(crate) fn ascending(payload_bytes_max: usize) -> impl Strategy<Value = Vec<Record>> {
    records(payload_bytes_max).prop_map(|mut records| {
        records.sort_by_key(|record| record.timestamp_us);
        records
    })
}

/// Stream, topic, partitioning.
#[derive(Debug, Clone)]
pub(crate) struct Target(Id, Id, WirePartitioning);

fn target() -> impl Strategy<Value = Target> {
    let partitioning = prop_oneof![
        Just(WirePartitioning::Balanced),
        any::<u32>().prop_map(WirePartitioning::PartitionId),
        vec(any::<u8>(), 1..=255).prop_map(WirePartitioning::MessagesKey),
    ];
    (id(), id(), partitioning).prop_map(|(stream, topic, by)| Target(stream, topic, by))
}

impl Target {
    pub(crate) fn numeric(stream: u32, topic: u32, partition: u32) -> Self {
        let partitioning = WirePartitioning::PartitionId(partition);
        Self(Id::Number(stream), Id::Number(topic), partitioning)
    }

    pub(crate) fn ours(&self) -> SendTarget<'_> {
        SendTarget {
            stream: self.0.ours(),
            topic: self.1.ours(),
            partitioning: match &self.2 {
                WirePartitioning::Balanced => Partitioning::Balanced,
                WirePartitioning::PartitionId(partition) => Partitioning::PartitionId(*partition),
                WirePartitioning::MessagesKey(key) => {
                    Partitioning::messages_key(key).expect("1 to 255 bytes")
                }
            },
        }
    }
}

impl Record {
    /// A record without user headers, a microsecond after the one whose id is one less.
    pub(crate) fn plain(id: u128, payload: &[u8]) -> Self {
        Self {
            id,
            timestamp_us: 1_700_000_000_000_000 + id as u64,
            payload: payload.to_vec(),
            user_headers: Pairs::new(),
            user_headers_bytes: Vec::new(),
        }
    }

    fn parts(&self) -> RecordParts<'_> {
        RecordParts {
            id: self.id,
            timestamp_us: self.timestamp_us,
            payload: &self.payload,
            user_headers: UserHeaders::decode(&self.user_headers_bytes).expect("just written"),
        }
    }
}

/// The body as the reference writes it, user headers included.
pub(crate) fn their_body(target: &Target, records: &[Record]) -> Vec<u8> {
    let user_headers: Vec<_> = records
        .iter()
        .map(|record| their_bytes(&record.user_headers))
        .collect();
    let messages: Vec<_> = records
        .iter()
        .zip(&user_headers)
        .map(|(record, bytes)| RawMessage {
            id: record.id,
            origin_timestamp: record.timestamp_us,
            headers: (!bytes.is_empty()).then_some(&bytes[..]),
            payload: &record.payload,
        })
        .collect();
    let (stream, topic) = (target.0.theirs(), target.1.theirs());
    let mut body = BytesMut::new();
    SendMessagesEncoder::encode(&mut body, &stream, &topic, &target.2, &messages)
        .expect("one batch spans the times");
    body.to_vec()
}

/// The body as this crate writes it, in a buffer of exactly its length that was not empty before.
fn our_body(
    target: &Target,
    records: &[Record],
    body_bytes: usize,
) -> Result<Vec<u8>, AppendError> {
    let buffer = vec![0xEE; body_bytes];
    let mut writer = BatchWriter::new(buffer, &target.ours()).expect("room for a message");
    for record in records {
        writer.append(&record.parts())?;
    }
    let sealed = writer.seal();
    Ok(sealed.buf[..sealed.body_len].to_vec())
}

/// The pieces of a body put together, in which the payloads of records with an odd id stay where
/// they are.
fn gathered(target: &Target, records: &[Record]) -> Result<Vec<u8>, AppendError> {
    let mut writer =
        BatchWriter::new(vec![0xEE; 32 << 10], &target.ours()).expect("room for a message");
    let mut payloads = Vec::new();
    for record in records {
        if record.id % 2 == 0 {
            writer.append(&record.parts())?;
        } else {
            let at = writer.append_referenced(&record.parts())?;
            let payload = &record.payload;
            payloads.push(Referenced { at, payload });
        }
    }
    let sealed = writer.seal_referenced(&payloads);
    let pieces = sealed.pieces(&payloads).map(|piece| match piece {
        Piece::Own(range) => &sealed.buf[range],
        Piece::Payload(payload) => payload,
    });
    let body = pieces.collect::<Vec<_>>().concat();
    assert_eq!(body.len(), sealed.body_len);
    Ok(body)
}

/// Holds what the reference reads in a body against the records.
fn check_their_view(target: &Target, records: &[Record], body: &[u8]) -> Result<(), TestCaseError> {
    let fail = |error: iggy_binary_protocol::WireError| TestCaseError::fail(error.to_string());
    let (header, consumed) = SendMessagesHeader::decode(&body[4..]).map_err(fail)?;
    prop_assert_eq!(&header.stream_id, &target.0.theirs());
    prop_assert_eq!(&header.topic_id, &target.1.theirs());
    prop_assert_eq!(&header.partitioning, &target.2);
    prop_assert_eq!(header.messages_count as usize, records.len());
    let batch_bytes = &body[4 + consumed..];
    let batch = decode_batch_slice(batch_bytes).map_err(fail)?;
    prop_assert_eq!(batch.header.total_size(), batch_bytes.len());
    prop_assert_eq!(batch.iter().count(), records.len());
    for (index, (message, record)) in batch.iter().zip(records).enumerate() {
        let timestamp_us =
            batch.header.origin_timestamp + u64::from(message.header.timestamp_delta);
        prop_assert_eq!(message.header.id, record.id);
        prop_assert_eq!(message.header.offset_delta as usize, index);
        prop_assert_eq!(timestamp_us, record.timestamp_us);
        prop_assert_eq!(message.payload, &record.payload[..]);
        prop_assert_eq!(message.user_headers, &record.user_headers_bytes[..]);
    }
    Ok(())
}

/// Holds what this crate reads in a body against the records.
fn check_our_view(target: &Target, records: &[Record], body: &[u8]) -> Result<(), TestCaseError> {
    let fail = |error: ringmain_wire::WireError| TestCaseError::fail(error.to_string());
    let send = SendMessagesRef::decode(body).map_err(fail)?;
    prop_assert_eq!(send.target(), &target.ours());
    let batch = send.batch(Integrity::Verify).map_err(fail)?;
    batch.check_as_sent().map_err(fail)?;
    prop_assert_eq!(batch.messages().len(), records.len());
    for (index, (message, record)) in batch.messages().zip(records).enumerate() {
        prop_assert_eq!(message.id(), record.id);
        prop_assert_eq!(message.offset(), index as u64);
        prop_assert_eq!(message.timestamp_us(), record.timestamp_us);
        prop_assert_eq!(message.payload(), &record.payload[..]);
        prop_assert_eq!(
            message.user_headers().map_err(fail)?,
            record.parts().user_headers
        );
    }
    Ok(())
}

/// Turns one bit of the batch in `body` around: neither may take it. The body is as before
/// afterwards.
fn check_bit_counts(body: &mut [u8], batch_at: usize, bit: usize) -> Result<(), TestCaseError> {
    let (at, mask) = (batch_at + bit / 8, 1 << (bit % 8));
    body[at] ^= mask;
    let theirs = decode_batch_slice(&body[batch_at..]).is_err();
    let send = SendMessagesRef::decode(body).expect("the address is whole");
    let ours = send.batch(Integrity::Verify).is_err();
    body[at] ^= mask;
    prop_assert!(theirs, "the reference takes the batch without bit {bit}");
    prop_assert!(ours, "this crate takes the batch without bit {bit}");
    Ok(())
}

fn refused(error: AppendError) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn batches_are_written_and_read_alike(target in target(), records in ascending(PAYLOAD_BYTES_MAX)) {
        let theirs = their_body(&target, &records);
        let ours = our_body(&target, &records, theirs.len()).map_err(refused)?;
        prop_assert_eq!(&ours, &theirs, "what each writes");
        check_their_view(&target, &records, &ours)?;
        check_our_view(&target, &records, &theirs)?;
    }

    #[test]
    fn records_in_any_order_are_written_alike(target in target(), records in records(PAYLOAD_BYTES_MAX)) {
        let theirs = their_body(&target, &records);
        prop_assert_eq!(our_body(&target, &records, theirs.len()).map_err(refused)?, theirs);
    }

    #[test]
    fn gathered_batches_are_written_alike(target in target(), records in records(PAYLOAD_BYTES_MAX)) {
        prop_assert_eq!(gathered(&target, &records).map_err(refused)?, their_body(&target, &records));
    }

    #[test]
    fn no_bit_of_a_batch_is_free(target in target(), records in ascending(PAYLOAD_BYTES_MAX), bits in vec(any::<Index>(), 8)) {
        let mut body = their_body(&target, &records);
        let batch_at = target.ours().prefix_bytes();
        let bits_count = 8 * (body.len() - batch_at);
        for bit in bits {
            check_bit_counts(&mut body, batch_at, bit.index(bits_count))?;
        }
    }

    #[test]
    fn batches_of_many_messages_are_written_and_read_alike(target in target(), records in many()) {
        let theirs = their_body(&target, &records);
        let ours = our_body(&target, &records, theirs.len()).map_err(refused)?;
        prop_assert!(ours == theirs, "{} messages", records.len());
        prop_assert!(gathered(&target, &records).map_err(refused)? == theirs);
        check_their_view(&target, &records, &ours)?;
        check_our_view(&target, &records, &theirs)?;
    }
}

#[test]
fn no_bit_of_a_small_batch_is_free() {
    let pairs = vec![("k".to_owned(), (9, vec![7]))];
    let first = Record {
        user_headers_bytes: our_bytes(&pairs),
        user_headers: pairs,
        ..Record::plain(1, b"first")
    };
    let records = [first, Record::plain(2, b"")];
    let target = Target::numeric(1, 2, 0);
    let mut body = their_body(&target, &records);
    let batch_at = target.ours().prefix_bytes();
    for bit in 0..8 * (body.len() - batch_at) {
        check_bit_counts(&mut body, batch_at, bit).unwrap();
    }
}
