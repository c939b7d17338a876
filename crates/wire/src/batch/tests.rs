//! Batches written here and read here; the comparison with the reference codec is in `tests/`.

use super::*;
use crate::error::WireError;
use crate::identifier::Identifier;
use crate::partitioning::Partitioning;
use crate::user_headers::UserHeaders;

const T0: u64 = 1_700_000_000_000_000;

fn target() -> SendTarget<'static> {
    SendTarget {
        stream: Identifier::Numeric(1),
        topic: Identifier::Numeric(2),
        partitioning: Partitioning::PartitionId(3),
    }
}

fn record(id: u128, timestamp_us: u64, payload: &[u8]) -> RecordParts<'_> {
    RecordParts {
        id,
        timestamp_us,
        payload,
        user_headers: UserHeaders::EMPTY,
    }
}

fn writer(bytes: usize) -> BatchWriter<Vec<u8>> {
    BatchWriter::new(vec![0xAA; bytes], &target()).expect("large enough")
}

/// A body of three messages, one with user headers.
fn body() -> Vec<u8> {
    let mut writer = writer(1024);
    let user_headers = UserHeaders::decode(b"\x02\x01\0\0\0k\x09\x01\0\0\0v").expect("valid");
    let with_headers = RecordParts {
        user_headers,
        ..record(12, T0 + 5, b"second")
    };
    writer.append(&record(11, T0, b"first")).expect("fits");
    writer.append(&with_headers).expect("fits");
    writer.append(&record(13, T0 + 5, b"")).expect("fits");
    let sealed = writer.seal();
    sealed.body().to_vec()
}

#[test]
fn what_is_written_reads_back() {
    let body = body();
    let send = SendMessagesRef::decode(&body).expect("address");
    assert_eq!(send.target(), &target());
    assert_eq!(send.messages_count(), 3);
    let batch = send.batch(Integrity::Verify).expect("batch");
    batch.check_as_sent().expect("as a producer writes it");
    assert_eq!(batch.header().origin_timestamp_us(), T0);
    assert_eq!(batch.messages().len(), 3);
    let seen: Vec<_> = batch
        .messages()
        .map(|m| (m.id(), m.offset(), m.timestamp_us(), m.payload().to_vec()))
        .collect();
    assert_eq!(
        seen,
        [
            (11, 0, T0, b"first".to_vec()),
            (12, 1, T0 + 5, b"second".to_vec()),
            (13, 2, T0 + 5, b"".to_vec()),
        ]
    );
    let headers = batch
        .messages()
        .nth(1)
        .map(|m| m.user_headers_bytes().len());
    assert_eq!(headers, Some(12));
}

#[test]
fn room_is_exact() {
    let payload = [7u8; 300];
    for slack in 0..=100 {
        let record = record(1, T0, &payload);
        let bytes = target().prefix_bytes() + BATCH_HEADER_BYTES + record.frame_bytes() + slack;
        let mut writer = writer(bytes);
        assert_eq!(writer.room_bytes(), record.frame_bytes() + slack);
        writer.append(&record).expect("exactly fits");
        assert_eq!(writer.room_bytes(), slack);
        let next = self::record(2, T0, b"");
        let fits = writer.append(&next);
        if slack >= MESSAGE_HEADER_BYTES {
            fits.expect("an empty message fits");
        } else {
            let full = AppendError::Full {
                needed_bytes: MESSAGE_HEADER_BYTES,
                room_bytes: slack,
            };
            assert_eq!(fits, Err(full));
        }
        let body_len = writer.body_len();
        let sealed = writer.seal();
        assert_eq!(sealed.body().len(), body_len);
        decode(sealed.body()).expect("valid");
    }
}

#[test]
fn a_buffer_without_room_for_a_message_comes_back() {
    let needed_bytes = target().prefix_bytes() + BATCH_HEADER_BYTES + MESSAGE_HEADER_BYTES;
    let buf = vec![1u8; needed_bytes - 1];
    let error = BatchWriter::new(buf.clone(), &target()).expect_err("too small");
    assert_eq!(error.needed_bytes, needed_bytes);
    assert_eq!(error.found_bytes, needed_bytes - 1);
    assert_eq!(error.buf, buf);
}

#[test]
fn a_refused_record_changes_nothing() {
    let mut writer = writer(1024);
    writer.append(&record(1, T0, b"kept")).expect("fits");
    let room_bytes = writer.room_bytes();
    for (found_us, earliest_us, latest_us) in [
        (
            T0 - TIMESTAMP_SPAN_US_MAX - 1,
            T0 - TIMESTAMP_SPAN_US_MAX - 1,
            T0,
        ),
        (
            T0 + TIMESTAMP_SPAN_US_MAX + 1,
            T0,
            T0 + TIMESTAMP_SPAN_US_MAX + 1,
        ),
    ] {
        let span = AppendError::SpanExceeded {
            found_us,
            earliest_us,
            latest_us,
        };
        assert_eq!(writer.append(&record(3, found_us, b"far")), Err(span));
    }
    let large = vec![0; PAYLOAD_BYTES_MAX + 1];
    let too_large = AppendError::PayloadTooLarge {
        found_bytes: large.len(),
    };
    assert_eq!(writer.append(&record(4, T0, &large)), Err(too_large));
    assert_eq!(writer.room_bytes(), room_bytes);
    assert_eq!(writer.count(), 1);
    let last = record(5, T0 + TIMESTAMP_SPAN_US_MAX, b"the last microsecond");
    writer.append(&last).expect("within the span");
    let sealed = writer.seal();
    let batch = decode(sealed.body()).expect("valid");
    assert_eq!(batch.messages().map(|m| m.id()).collect::<Vec<_>>(), [1, 5]);
}

#[test]
fn a_batch_never_outgrows_a_frame() {
    let mut writer = writer(65 * 1024 * 1024);
    let room = crate::header::BODY_BYTES_MAX - target().prefix_bytes() - BATCH_HEADER_BYTES;
    assert_eq!(writer.room_bytes(), room);
    let payload = vec![3; PAYLOAD_BYTES_MAX];
    writer.append(&record(1, T0, &payload)).expect("fits");
    let rest = &payload[..writer.room_bytes() - MESSAGE_HEADER_BYTES];
    writer
        .append(&record(2, T0, rest))
        .expect("fills the frame");
    assert_eq!(writer.room_bytes(), 0);
    assert_eq!(writer.seal().body_len, crate::header::BODY_BYTES_MAX);
}

/// Rising, falling, jittered, and one at each end of the span: the origin is the earliest time,
/// each message has its own, and the order is that of the appends.
#[test]
fn times_in_any_order_are_kept() {
    let far = TIMESTAMP_SPAN_US_MAX;
    for times in [
        vec![T0, T0 + 1, T0 + 2],
        vec![T0 + 2, T0 + 1, T0],
        (0..300).map(|n| T0 - n * 7).collect(),
        (0..300).map(|n| T0 + n * 7919 % 1000).collect(),
        vec![T0, T0 - far, T0, T0 - 1],
        vec![T0, T0 + far, T0 + 9, T0],
        vec![far, 0, far / 2],
        vec![u64::MAX, u64::MAX - far, u64::MAX],
    ] {
        let long = vec![0x5A; 700];
        let payloads: [&[u8]; 3] = [b"", b"a few bytes", &long];
        let mut writer = writer(1 << 18);
        let mut around = self::writer(1 << 18);
        let mut referenced = Vec::new();
        for (index, time) in times.iter().enumerate() {
            let record = record(index as u128, *time, payloads[index % 3]);
            writer.append(&record).expect("within the span");
            if index % 2 == 0 {
                around.append(&record).expect("within the span");
            } else {
                let at = around.append_referenced(&record).expect("within the span");
                let payload = record.payload;
                referenced.push(Referenced { at, payload });
            }
            let earliest = times[..=index].iter().min().copied();
            assert_eq!(writer.origin_timestamp_us(), earliest);
        }
        let sealed = writer.seal();
        let batch = decode(sealed.body()).expect("valid");
        batch.check_as_sent().expect("as a producer writes it");
        let seen: Vec<u64> = batch.messages().map(|m| m.timestamp_us()).collect();
        assert_eq!(seen, times);
        assert!(batch.messages().map(|m| m.id()).eq(0..times.len() as u128));
        let around = around.seal_referenced(&referenced);
        assert!(put_together(&around, &referenced) == sealed.body());
    }
}

#[test]
fn the_span_is_kept_in_both_directions() {
    let mut writer = writer(1024);
    writer.append(&record(1, T0, b"a")).expect("fits");
    let last = T0 + TIMESTAMP_SPAN_US_MAX;
    writer.append(&record(2, last, b"b")).expect("fits");
    let refused = AppendError::SpanExceeded {
        found_us: T0 - 1,
        earliest_us: T0 - 1,
        latest_us: last,
    };
    assert_eq!(writer.append(&record(3, T0 - 1, b"c")), Err(refused));
    assert_eq!(writer.origin_timestamp_us(), Some(T0));
    writer.append(&record(3, T0, b"c")).expect("fits");
    let sealed = writer.seal();
    decode(sealed.body())
        .expect("valid")
        .check_as_sent()
        .expect("in order");
}

#[test]
#[should_panic(expected = "an empty batch must not be sent")]
fn sealing_an_empty_batch_is_a_defect() {
    let _ = writer(1024).seal();
}

#[test]
fn every_flipped_bit_is_caught() {
    let body = body();
    let batch_at = SendMessagesRef::decode(&body).expect("address").batch_at();
    for at in batch_at..body.len() {
        for bit in 0..8 {
            let mut broken = body.clone();
            broken[at] ^= 1 << bit;
            assert!(decode(&broken).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn every_truncation_and_any_trailing_byte_is_caught() {
    let body = body();
    for len in 0..body.len() {
        let Err(WireError::Truncated { offset, found, .. }) = decode(&body[..len]) else {
            panic!("cut short to {len}");
        };
        assert_eq!(offset + found, len, "what is left is named");
    }
    let mut longer = body.clone();
    longer.push(0);
    let trailing = WireError::Trailing {
        field: "batch",
        offset: body.len(),
        found: 1,
    };
    assert_eq!(decode(&longer).map(|_| ()), Err(trailing));
}

#[test]
fn the_announced_count_must_be_the_batchs() {
    let mut body = body();
    let at = target().prefix_bytes() - 4;
    body[at] = 2;
    let mismatch = WireError::Mismatch {
        field: "messages_count",
        offset: at,
        found: 2,
        expected: 3,
    };
    assert_eq!(decode(&body).map(|_| ()), Err(mismatch));
}

#[test]
fn stamping_moves_offsets_and_keeps_messages() {
    let mut body = body();
    let at = SendMessagesRef::decode(&body).expect("address").batch_at();
    let sent = body[at + BATCH_HEADER_BYTES..].to_vec();
    let fields = Stamp {
        partition_id: 9,
        base_offset: 1000,
        base_timestamp_us: T0 + 77,
    };
    stamp(&mut body[at..], &fields).expect("a valid batch");
    assert_eq!(body[at + BATCH_HEADER_BYTES..], sent);
    let batch = BatchReader::decode(&body[at..], Integrity::Verify).expect("checksums are right");
    assert_eq!(batch.header().partition_id(), 9);
    assert_eq!(batch.header().base_timestamp_us(), T0 + 77);
    let offsets: Vec<_> = batch.messages().map(|m| m.offset()).collect();
    assert_eq!(offsets, [1000, 1001, 1002]);
    batch
        .check_as_sent()
        .expect_err("a stamped batch is not as sent");
}

#[test]
fn offsets_beyond_u64_are_refused() {
    let mut body = body();
    let at = SendMessagesRef::decode(&body).expect("address").batch_at();
    let unchanged = body.clone();
    let fields = Stamp {
        partition_id: 0,
        base_offset: u64::MAX - 2,
        base_timestamp_us: 0,
    };
    let refused = WireError::OutOfRange {
        field: "base_offset",
        offset: 8,
        found: u64::MAX - 2,
        min: 0,
        max: u64::MAX - 3,
    };
    assert_eq!(stamp(&mut body[at..], &fields), Err(refused));
    assert_eq!(body, unchanged);
}

#[test]
fn stored_batches_follow_one_another() {
    let body = body();
    let at = SendMessagesRef::decode(&body).expect("address").batch_at();
    let mut stored = Vec::new();
    for base_offset in [0, 3, 6] {
        let mut batch = body[at..].to_vec();
        let fields = Stamp {
            partition_id: 3,
            base_offset,
            base_timestamp_us: T0,
        };
        stamp(&mut batch, &fields).expect("valid");
        stored.extend_from_slice(&batch);
    }
    let offsets: Vec<u64> = StoredBatches::new(&stored, Integrity::Verify)
        .flat_map(|batch| batch.expect("valid").messages())
        .map(|message| message.offset())
        .collect();
    assert_eq!(offsets, (0..9).collect::<Vec<_>>());
    let cut = &stored[..stored.len() - 1];
    let results: Vec<_> = StoredBatches::new(cut, Integrity::Layout)
        .map(|b| b.is_ok())
        .collect();
    assert_eq!(results, [true, true, false]);
}

/// Puts the pieces of a body together, as a vectored write does.
fn put_together(sealed: &Sealed<Vec<u8>>, payloads: &[Referenced<&[u8]>]) -> Vec<u8> {
    let mut body = Vec::new();
    for piece in sealed.pieces(payloads) {
        let before = body.len();
        match piece {
            Piece::Own(range) => body.extend_from_slice(&sealed.buf[range]),
            Piece::Payload(payload) => body.extend_from_slice(payload),
        }
        assert!(body.len() > before, "no piece is empty");
    }
    assert_eq!(body.len(), sealed.body_len);
    body
}

/// Every choice of which of six payloads stay where they are gives the bytes of the copied body.
#[test]
fn bodies_around_payloads_are_the_same_bytes() {
    let long = vec![0x5A; 5000];
    let payloads: [&[u8]; 6] = [b"first", b"", b"", &long, b"x", b""];
    let user_headers = UserHeaders::decode(b"\x02\x01\0\0\0k\x09\x01\0\0\0v").expect("valid");
    for choice in 0..1_u32 << payloads.len() {
        let mut copied = writer(8192);
        let mut around = writer(8192);
        let mut referenced = Vec::new();
        for (index, payload) in payloads.into_iter().enumerate() {
            let mut record = record(index as u128, T0 + index as u64, payload);
            if index % 2 == 1 {
                record.user_headers = user_headers;
            }
            copied.append(&record).expect("fits");
            if choice >> index & 1 == 0 {
                around.append(&record).expect("fits");
            } else {
                let at = around.append_referenced(&record).expect("fits");
                referenced.push(Referenced { at, payload });
            }
        }
        assert_eq!(around.body_len(), copied.body_len());
        assert_eq!(around.referenced_count(), choice.count_ones());
        let (copied, around) = (copied.seal(), around.seal_referenced(&referenced));
        assert!(around.pieces(&referenced).count() <= 2 * referenced.len() + 1);
        assert_eq!(
            put_together(&around, &referenced),
            copied.body(),
            "{choice:b}"
        );
    }
}

#[test]
fn a_batch_around_payloads_knows_both_its_rooms() {
    let own = target().prefix_bytes() + BATCH_HEADER_BYTES + 2 * MESSAGE_HEADER_BYTES;
    let payload = vec![1; PAYLOAD_BYTES_MAX];
    let mut around = writer(own + 100);
    around
        .append_referenced(&record(1, T0, &payload))
        .expect("fits");
    let frame_room = crate::header::BODY_BYTES_MAX - around.body_len();
    let frame_full = AppendError::Full {
        needed_bytes: MESSAGE_HEADER_BYTES + payload.len(),
        room_bytes: frame_room,
    };
    let refused = around.append_referenced(&record(2, T0, &payload));
    assert_eq!(refused, Err(frame_full));
    let rest = &payload[..frame_room - MESSAGE_HEADER_BYTES];
    around
        .append_referenced(&record(2, T0, rest))
        .expect("fills the frame");
    assert_eq!(around.body_len(), crate::header::BODY_BYTES_MAX);
    assert_eq!(around.room_bytes(), 0, "nor is there room for a copy");

    let mut around = writer(own);
    around
        .append_referenced(&record(1, T0, b"a"))
        .expect("fits");
    around
        .append_referenced(&record(2, T0, b"b"))
        .expect("fits");
    let buffer_full = AppendError::Full {
        needed_bytes: MESSAGE_HEADER_BYTES,
        room_bytes: 0,
    };
    let refused = around.append_referenced(&record(3, T0, b"c"));
    assert_eq!(refused, Err(buffer_full));
    assert_eq!((around.count(), around.own_len()), (2, own));
}

#[test]
#[should_panic(expected = "the payloads are those of the batch")]
fn sealing_without_the_payloads_is_a_defect() {
    let mut around = writer(1024);
    around
        .append_referenced(&record(1, T0, b"a"))
        .expect("fits");
    let _ = around.seal();
}

fn decode(body: &[u8]) -> Result<BatchReader<'_>, WireError> {
    SendMessagesRef::decode(body)?.batch(Integrity::Verify)
}
