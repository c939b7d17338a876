//! Frames come out the same however the stream is cut, and a stream that is lost stays lost.

use super::*;
use crate::header::{ReplyFields, RequestHeader};
use crate::operation::CommandCode;
use crate::result::{SUCCESS, rejection};

const CLIENT: u128 = 11;

fn request(body: &[u8]) -> Vec<u8> {
    let header =
        RequestHeader::metadata(Operation::CreateStream, CLIENT, 1, 2, body).expect("legal");
    [&header.as_bytes()[..], body].concat()
}

fn reply(operation: Operation, status: Option<ErrorCode>, body: &[u8]) -> Vec<u8> {
    let request = RequestHeader::non_replicated(CommandCode::PING, CLIENT, 1, 2, 0).expect("legal");
    let mut fields = ReplyFields::answering(request.raw(), operation);
    fields.status = status;
    let header = ReplyHeader::new(&fields, body.len()).expect("legal");
    [&header.as_bytes()[..], body].concat()
}

fn eviction() -> Vec<u8> {
    let header = EvictionHeader::new(CLIENT, EvictionReason::StaleClient).expect("legal");
    header.as_bytes().to_vec()
}

/// A frame with another command byte.
fn with_command(mut frame: Vec<u8>, command: u8) -> Vec<u8> {
    frame[offset::COMMAND] = command;
    frame
}

/// The frames of a stream that comes in pieces of the given sizes, over and over.
fn frames(stream: &[u8], pieces: &[usize]) -> Result<Vec<Vec<u8>>, HeaderError> {
    let mut decoder = FrameDecoder::new();
    let mut found = Vec::new();
    let mut rest = stream;
    let mut sizes = pieces.iter().cycle();
    while !rest.is_empty() {
        let size = *sizes.next().expect("endless");
        let (mut piece, behind) = rest.split_at(size.min(rest.len()));
        rest = behind;
        while let Some(frame) = decoder.next_frame(&mut piece)? {
            found.push(frame.to_vec());
        }
        assert!(piece.is_empty(), "all of the piece was taken");
    }
    assert_eq!(decoder.pending_bytes(), 0);
    Ok(found)
}

#[test]
fn frames_come_out_whole_at_every_cut() {
    let sent = [
        reply(Operation::CreateStream, None, &SUCCESS),
        eviction(),
        request(&[7; 300]),
        reply(Operation::NonReplicated, None, &[]),
    ];
    let stream = sent.concat();
    for cut in 1..stream.len() {
        assert_eq!(
            frames(&stream, &[cut, stream.len()]).as_deref(),
            Ok(&sent[..]),
            "cut at {cut}"
        );
    }
    for size in [1, 2, 3, 51, 52, 53, 255, 256, 257, 1000] {
        assert_eq!(
            frames(&stream, &[size]).as_deref(),
            Ok(&sent[..]),
            "pieces of {size}"
        );
    }
}

#[test]
fn a_whole_frame_is_lent_out_from_the_input() {
    let stream = [eviction(), request(b"body")].concat();
    let mut input = &stream[..];
    let mut decoder = FrameDecoder::new();
    for start in [0, HEADER_BYTES] {
        let frame = decoder
            .next_frame(&mut input)
            .expect("legal")
            .expect("whole");
        assert_eq!(frame.as_ptr(), stream[start..].as_ptr(), "no copy");
    }
    assert_eq!(decoder.buffer.capacity(), 0, "no buffer was needed");
}

#[test]
fn a_size_out_of_bounds_is_refused_before_anything_is_kept() {
    let max = FRAME_BYTES_MAX as u32;
    for (size, error) in [
        (0, HeaderError::SizeTooSmall { found: 0 }),
        (255, HeaderError::SizeTooSmall { found: 255 }),
        (
            max + 1,
            HeaderError::SizeTooLarge {
                found: max + 1,
                max,
            },
        ),
        (
            u32::MAX,
            HeaderError::SizeTooLarge {
                found: u32::MAX,
                max,
            },
        ),
    ] {
        let mut frame = eviction();
        frame[48..52].copy_from_slice(&size.to_le_bytes());
        let mut decoder = FrameDecoder::new();
        let mut input = &frame[..52];
        assert_eq!(
            decoder.next_frame(&mut input),
            Err(error),
            "known once size is there"
        );
        assert!(error.loses_framing());
        let good = eviction();
        let mut input = &good[..];
        assert_eq!(
            decoder.next_frame(&mut input),
            Err(error),
            "and never forgotten"
        );
        decoder.reset();
        assert!(matches!(decoder.next_frame(&mut input), Ok(Some(_))));
    }
}

#[test]
fn memory_grows_with_what_came_and_not_with_what_was_announced() {
    let mut frame = request(b"");
    frame[48..52].copy_from_slice(&(FRAME_BYTES_MAX as u32).to_le_bytes());
    let mut decoder = FrameDecoder::new();
    let mut input = &frame[..];
    assert_eq!(decoder.next_frame(&mut input), Ok(None));
    assert_eq!(decoder.pending_bytes(), HEADER_BYTES);
    assert!(decoder.buffer.capacity() < 1024);
}

#[test]
fn a_decoder_with_limits_refuses_larger_frames_and_keeps_its_buffer() {
    let mut decoder = FrameDecoder::with_limits(1024, 512);
    let frame = request(&[1; 256]);
    for _ in 0..3 {
        for piece in frame.chunks(100) {
            let mut input = piece;
            let _ = decoder.next_frame(&mut input).expect("legal");
        }
    }
    assert_eq!(decoder.buffer.capacity(), 1024);
    let frame = request(&[1; 257]);
    let refused = HeaderError::SizeTooLarge {
        found: 513,
        max: 512,
    };
    assert_eq!(decoder.next_frame(&mut &frame[..]), Err(refused));
}

#[test]
fn clients_tell_replies_evictions_and_foreign_frames_apart() {
    let stream = [
        with_command(eviction(), 6),
        reply(Operation::NonReplicated, None, b"x"),
        with_command(eviction(), 200),
        eviction(),
    ]
    .concat();
    let mut decoder = FrameDecoder::new();
    let mut input = &stream[..];
    let mut next = || {
        decoder
            .next_inbound(&mut input)
            .expect("legal")
            .map(|i| format!("{i:?}"))
    };
    assert!(next().is_some_and(|inbound| inbound.starts_with("Foreign { command: 6,")));
    assert!(next().is_some_and(|inbound| inbound.starts_with("Reply(")));
    assert!(next().is_some_and(|inbound| inbound.starts_with("Foreign { command: 200,")));
    assert!(next().is_some_and(|inbound| inbound.starts_with("Eviction(")));
    assert_eq!(next(), None);
}

#[test]
fn a_malformed_header_costs_one_frame_only() {
    let mut bad = reply(Operation::NonReplicated, None, b"x");
    bad[208] = 0;
    let stream = [bad, eviction()].concat();
    let mut decoder = FrameDecoder::new();
    let mut input = &stream[..];
    let error = decoder
        .next_inbound(&mut input)
        .map(|_| ())
        .expect_err("operation 0");
    assert_eq!(
        error,
        HeaderError::OperationUnknown {
            offset: 208,
            found: 0
        }
    );
    assert!(!error.loses_framing());
    assert!(matches!(
        decoder.next_inbound(&mut input),
        Ok(Some(Inbound::Eviction(_)))
    ));
}

#[test]
fn servers_see_requests_legal_or_not() {
    let legal = request(b"body");
    let mut illegal = request(b"");
    illegal[168..176].fill(0);
    let stream = [legal, illegal, with_command(request(b""), 8)].concat();
    let mut decoder = FrameDecoder::new();
    let mut input = &stream[..];
    let Ok(Some(InboundRequest::Request(first))) = decoder.next_request(&mut input) else {
        panic!("a request");
    };
    assert_eq!(first.operation(), Ok(Operation::CreateStream));
    assert_eq!(first.body, b"body");
    let Ok(Some(InboundRequest::Request(second))) = decoder.next_request(&mut input) else {
        panic!("a request");
    };
    let operation = Operation::CreateStream;
    assert_eq!(
        second.operation(),
        Err(HeaderError::RequestZero { operation })
    );
    assert!(matches!(
        decoder.next_request(&mut input),
        Ok(Some(InboundRequest::Foreign { command: 8, .. }))
    ));
}

#[test]
fn one_frame_must_be_as_long_as_it_says() {
    let frame = request(b"body");
    let mismatch = |expected| HeaderError::SizeMismatch {
        found: 260,
        expected,
    };
    let longer = [&frame[..], b"x"].concat();
    assert_eq!(
        InboundRequest::decode(&frame[..259]).map(|_| ()),
        Err(mismatch(259))
    );
    assert_eq!(Inbound::decode(&longer).map(|_| ()), Err(mismatch(261)));
    assert_eq!(
        Inbound::decode(&frame[..255]).map(|_| ()),
        Err(HeaderError::Length { found: 255 })
    );
}

/// Holds the outcome of a reply against what it should be.
fn check_outcome(
    operation: Operation,
    status: Option<ErrorCode>,
    body: &[u8],
    outcome: &ReplyOutcome<'_>,
) {
    let frame = reply(operation, status, body);
    let Ok(Inbound::Reply(reply)) = Inbound::decode(&frame) else {
        panic!("a reply");
    };
    assert_eq!(reply.outcome().as_ref(), Ok(outcome), "{operation}");
}

#[test]
fn outcomes_come_from_status_then_result_section_then_body() {
    use Operation::{CreateStream, NonReplicated, SendMessages, StoreConsumerOffset};
    use ReplyOutcome::{Result, Status, Success};
    let code = ErrorCode::TRANSIENT_NOT_COMMITTED;
    check_outcome(NonReplicated, None, b"x", &Success(b"x"));
    check_outcome(SendMessages, None, b"", &Success(b""));
    check_outcome(SendMessages, Some(code), b"", &Status(code));
    check_outcome(StoreConsumerOffset, None, &SUCCESS, &Success(b""));
    check_outcome(CreateStream, None, b"\0\0\0\0x", &Success(b"x"));
    for operation in Operation::ALL {
        if operation.is_result_framed() {
            check_outcome(operation, None, &rejection(code), &Result(code));
        }
    }
}

#[test]
fn only_a_login_fails_with_an_empty_body() {
    check_outcome(Operation::Register, None, b"", &ReplyOutcome::LoginFailed);
    check_outcome(Operation::Logout, None, b"", &ReplyOutcome::Success(b""));
    let frame = reply(Operation::CreateStream, None, b"");
    let Ok(Inbound::Reply(empty)) = Inbound::decode(&frame) else {
        panic!("a reply");
    };
    assert!(
        matches!(empty.outcome(), Err(WireError::Truncated { .. })),
        "never a success"
    );
}
