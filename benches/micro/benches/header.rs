//! A request header built from nothing, and one that exists stamped again for the next request.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use iggy_binary_protocol as reference;
use ringmain_wire::{HEADER_BYTES, Operation, RequestHeader};

const CLIENT: u128 = 0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321;
const SESSION: u64 = 42;
const BODY_BYTES: usize = 100_000;

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("header_build");
    let template = [7u8; HEADER_BYTES];
    let mut out = [0u8; HEADER_BYTES];
    group.bench_function("floor", |b| {
        b.iter(|| *black_box(&mut out) = *black_box(&template));
    });
    group.bench_function("ringmain", |b| {
        b.iter(|| {
            let (session, request, bytes) = black_box((SESSION, 7, BODY_BYTES));
            let operation = Operation::SendMessages;
            let header = RequestHeader::partition(operation, CLIENT, session, request, bytes);
            *black_box(&mut out) = *header.expect("legal").as_bytes();
        });
    });
    group.bench_function("reference", |b| {
        b.iter(|| {
            let (session, request, bytes) = black_box((SESSION, 7, BODY_BYTES));
            let header = reference::RequestHeader {
                command: reference::Command::Request,
                operation: reference::Operation::SendMessages,
                size: (HEADER_BYTES + bytes) as u32,
                client: CLIENT,
                session,
                request,
                ..reference::RequestHeader::default()
            };
            black_box(&mut out).copy_from_slice(bytemuck::bytes_of(&header));
        });
    });
    group.finish();
}

fn restamp(c: &mut Criterion) {
    let mut group = c.benchmark_group("header_restamp");
    let mut header =
        RequestHeader::partition(Operation::SendMessages, CLIENT, SESSION, 1, 0).expect("legal");
    group.bench_function("ringmain", |b| {
        b.iter(|| {
            let (session, request, bytes) = black_box((SESSION, 7, BODY_BYTES));
            header.set_body_bytes(bytes).expect("fits a frame");
            header.set_request(request).expect("not zero");
            header.set_session(session).expect("not zero");
            black_box(header.as_bytes());
        });
    });
    group.finish();
}

criterion_group!(benches, build, restamp);
criterion_main!(benches);
