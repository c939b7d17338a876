//! Batches as servers store and return them: stamped by both, cut by both, and read by both out of
//! a poll's reply.
//!
//! A server that is asked from the middle of a batch on returns a slice of it under the same base
//! offset, with length, count and checksum of its own.

use crate::batches::{Record, Target, ascending, their_body};
use crate::check::CASES;
use bytes::BytesMut;
use iggy_binary_protocol::batch::{
    BATCH_HEADER_SIZE, BatchHeader, decode_batch_slice, decode_batch_slice_with,
};
use iggy_binary_protocol::responses::messages::poll_messages::{
    PollMessagesResponseHeader, PolledBatchesIterator,
};
use iggy_binary_protocol::{WireEncode, batch::BatchIntegrity};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use ringmain_wire::WireError;
use ringmain_wire::batch::{BatchReader, Integrity, MESSAGE_HEADER_BYTES, Stamp, stamp};
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::payload::poll::PollReply;
use std::ops::Range;

/// What is stored of one send, and which of its messages are returned.
#[derive(Debug, Clone)]
struct Stored {
    records: Vec<Record>,
    fields: Stamp,
    returned: Range<usize>,
}

fn stored() -> impl Strategy<Value = Stored> {
    let fields =
        (any::<u64>(), 0..=u64::MAX - 8, any::<u64>()).prop_map(|(id, offset, time)| Stamp {
            partition_id: id,
            base_offset: offset,
            base_timestamp_us: time,
        });
    (ascending(120), fields, any::<[Index; 2]>()).prop_map(|(records, fields, ends)| {
        let first = ends[0].index(records.len());
        let end = first + 1 + ends[1].index(records.len() - first);
        Stored {
            records,
            fields,
            returned: first..end,
        }
    })
}

/// The batch of a send, without its address.
fn sent(records: &[Record]) -> Vec<u8> {
    let target = Target::numeric(1, 2, 3);
    their_body(&target, records).split_off(target.ours().prefix_bytes())
}

/// The reference's header of a batch, stamped, over these messages.
fn their_batch(batch: &[u8], fields: &Stamp, messages: &[u8], count: usize) -> Vec<u8> {
    let mut header = BatchHeader::decode(batch).expect("a batch");
    header.partition_id = fields.partition_id;
    header.base_offset = fields.base_offset;
    header.base_timestamp = fields.base_timestamp_us;
    header.batch_length = (BATCH_HEADER_SIZE + messages.len()) as u64;
    header.message_count = count as u32;
    header.batch_checksum = header.checksum_for_blob(messages);
    let mut stamped = vec![0; BATCH_HEADER_SIZE];
    header.encode_into(&mut stamped);
    stamped.extend_from_slice(messages);
    stamped
}

/// Cuts a batch down to a run of its messages, the checksum as it was.
fn cut(batch: &[u8], bytes: Range<usize>, count: usize) -> Vec<u8> {
    let mut cut = batch[..BATCH_HEADER_SIZE].to_vec();
    cut.extend_from_slice(&batch[BATCH_HEADER_SIZE..][bytes]);
    let length = cut.len() as u64;
    cut[32..40].copy_from_slice(&length.to_le_bytes());
    cut[48..52].copy_from_slice(&(count as u32).to_le_bytes());
    cut
}

/// Bytes behind the batch header that hold the messages to be returned.
fn returned_bytes(stored: &Stored) -> Range<usize> {
    let bytes_of = |records: &[Record]| -> usize {
        let frame = |record: &Record| {
            MESSAGE_HEADER_BYTES + record.payload.len() + record.user_headers_bytes.len()
        };
        records.iter().map(frame).sum()
    };
    let Range { start, end } = stored.returned;
    bytes_of(&stored.records[..start])..bytes_of(&stored.records[..end])
}

/// Stamps and cuts with both, holds them against one another, and gives the slice.
fn check_slice(stored: &Stored) -> Result<Vec<u8>, TestCaseError> {
    let fail = |error: WireError| TestCaseError::fail(error.to_string());
    let batch = sent(&stored.records);
    let (fields, count) = (&stored.fields, stored.returned.len());
    let whole = their_batch(
        &batch,
        fields,
        &batch[BATCH_HEADER_SIZE..],
        stored.records.len(),
    );
    let mut ours = batch.clone();
    stamp(&mut ours, fields).map_err(fail)?;
    prop_assert_eq!(&ours, &whole, "what each stamps");

    let bytes = returned_bytes(stored);
    let messages = &batch[BATCH_HEADER_SIZE..][bytes.clone()];
    let theirs = their_batch(&batch, fields, messages, count);
    let mut ours = cut(&whole, bytes, count);
    if count < stored.records.len() {
        // The checksum of the whole does not fit a part of it.
        prop_assert!(decode_batch_slice(&ours).is_err());
        prop_assert!(decode_batch_slice_with(&ours, BatchIntegrity::LayoutOnly).is_ok());
        prop_assert!(BatchReader::decode(&ours, Integrity::Layout).is_ok());
        let refused = BatchReader::decode(&ours, Integrity::Verify).map(|_| ());
        let names_it = matches!(
            refused,
            Err(WireError::Mismatch {
                field: "batch_checksum",
                offset: 40,
                ..
            })
        );
        prop_assert!(names_it, "{refused:?}");
    }
    stamp(&mut ours, fields).map_err(fail)?;
    prop_assert_eq!(&ours, &theirs, "what each cuts");
    Ok(ours)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn polled_batches_are_written_and_read_alike(
        partition_id in any::<u32>(), current_offset in any::<u64>(), all in vec(stored(), 1..=3),
    ) {
        let fail = |error: WireError| TestCaseError::fail(error.to_string());
        let mut batches = Vec::new();
        for stored in &all {
            batches.extend_from_slice(&check_slice(stored)?);
        }
        let messages_count = all.iter().map(|stored| stored.returned.len()).sum::<usize>() as u32;
        let ours = PollReply { partition_id, current_offset, messages_count, batches: &batches };
        let mut theirs = BytesMut::new();
        PollMessagesResponseHeader { partition_id, current_offset, messages_count }.encode(&mut theirs);
        theirs.extend_from_slice(&batches);
        prop_assert_eq!(&ours.to_vec()[..], &theirs[..], "what each writes");
        prop_assert_eq!(PollReply::decode(&theirs).map_err(fail)?, ours);

        let mut polled = PolledBatchesIterator::new(&batches);
        for (batch, stored) in ours.stored_batches(Integrity::Verify).zip(&all) {
            let batch = batch.map_err(fail)?;
            for (message, record) in batch.messages().zip(&stored.records[stored.returned.clone()]) {
                let theirs = polled.next().expect("as many").map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(message.header().checksum(), theirs.checksum);
                prop_assert_eq!((message.id(), theirs.id), (record.id, record.id));
                prop_assert_eq!(message.offset(), theirs.offset);
                prop_assert_eq!(batch.header().base_timestamp_us(), theirs.timestamp);
                prop_assert_eq!((message.timestamp_us(), theirs.origin_timestamp), (record.timestamp_us, record.timestamp_us));
                prop_assert_eq!((message.payload(), theirs.payload), (&record.payload[..], &record.payload[..]));
                prop_assert_eq!(message.user_headers_bytes(), theirs.user_headers);
            }
        }
        prop_assert!(polled.next().is_none(), "no more than ours");
    }
}

/// The middle of a batch, as a server returns it to a client that asks from an offset on.
#[test]
fn a_slice_is_verified_and_keeps_its_offsets() {
    let records: Vec<_> = (0..5).map(|id| Record::plain(id, b"payload")).collect();
    let stored = Stored {
        records,
        fields: Stamp {
            partition_id: 3,
            base_offset: 1000,
            base_timestamp_us: 7,
        },
        returned: 2..4,
    };
    let mut slice = check_slice(&stored).unwrap();
    let batch = BatchReader::decode(&slice, Integrity::Verify).unwrap();
    let offsets: Vec<_> = batch.messages().map(|message| message.offset()).collect();
    assert_eq!(offsets, [1002, 1003]);
    for bit in 0..8 * slice.len() {
        slice[bit / 8] ^= 1 << (bit % 8);
        let refused = BatchReader::decode(&slice, Integrity::Verify).is_err();
        assert!(refused, "bit {bit}");
        slice[bit / 8] ^= 1 << (bit % 8);
    }
}
