//! The reply to a send, from the bytes of a frame to the offset that it confirms.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use iggy_binary_protocol as reference;
use iggy_binary_protocol::responses::messages::SendMessagesResponse;
use iggy_binary_protocol::{ConsensusHeader, WireDecode};
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::frame::{FrameDecoder, Inbound, ReplyOutcome};
use ringmain_wire::header::ReplyFields;
use ringmain_wire::payload::send::{Confirmation, SendMessagesReply};
use ringmain_wire::{HEADER_BYTES, Operation, ReplyHeader, RequestHeader};

/// The reply to request 7, with one confirmation.
fn reply_frame() -> Vec<u8> {
    let request = RequestHeader::partition(Operation::SendMessages, 1, 2, 7, 100).expect("legal");
    let body = SendMessagesReply::Confirmed(&[Confirmation::new(1, 2, 3, 1000)]).to_vec();
    let fields = ReplyFields::answering(request.raw(), Operation::SendMessages);
    let mut frame = ReplyHeader::new(&fields, body.len())
        .expect("legal")
        .as_bytes()
        .to_vec();
    frame.extend_from_slice(&body);
    frame
}

/// Request number and offset, as an engine reads them.
fn with_ringmain(decoder: &mut FrameDecoder, mut input: &[u8]) -> (u64, u64) {
    let Ok(Some(Inbound::Reply(reply))) = decoder.next_inbound(&mut input) else {
        unreachable!("the frame is a whole reply");
    };
    let Ok(ReplyOutcome::Success(payload)) = reply.outcome() else {
        unreachable!("the reply is a success");
    };
    let send = SendMessagesReply::decode(payload).expect("well formed");
    (reply.request(), send.confirmations()[0].base_offset())
}

/// The same by the reference: an unaligned read, its own checks, and the payload into a vector.
fn with_reference(input: &[u8]) -> (u64, u64) {
    let header =
        bytemuck::checked::try_pod_read_unaligned::<reference::ReplyHeader>(&input[..HEADER_BYTES]);
    let header = header.expect("a legal bit pattern");
    header.validate().expect("a legal header");
    assert_eq!(header.status, 0);
    let (send, _) = SendMessagesResponse::decode(&input[HEADER_BYTES..]).expect("well formed");
    (header.request, send.confirmations[0].base_offset)
}

fn decode(c: &mut Criterion) {
    let frame = reply_frame();
    let mut decoder = FrameDecoder::new();
    assert_eq!(with_ringmain(&mut decoder, &frame), (7, 1000));
    assert_eq!(with_reference(&frame), (7, 1000));
    let mut group = c.benchmark_group("reply_decode");
    let mut copy = frame.clone();
    group.bench_function("floor", |b| {
        b.iter(|| copy.copy_from_slice(black_box(&frame)));
    });
    group.bench_function("ringmain", |b| {
        b.iter(|| with_ringmain(&mut decoder, black_box(&frame)));
    });
    group.bench_function("reference", |b| {
        b.iter(|| with_reference(black_box(&frame)));
    });
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
