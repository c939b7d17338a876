//! A batch of 1000 records, written, sealed, read and stamped: ringmain, the reference and the
//! floor side by side.

use std::hint::black_box;

use bytes::BytesMut;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iggy_binary_protocol::batch::decode_batch_slice;
use ringmain_bench_micro::{PAYLOAD_BYTES, RECORDS, TARGET, Workload, write_reference};
use ringmain_wire::batch::{
    BatchReader, BatchWriter, Integrity, RecordParts, Referenced, SendMessagesRef, Stamp, stamp,
};
use ringmain_wire::{UserHeaders, hash};

fn write(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch_write");
    for payload_bytes in PAYLOAD_BYTES {
        let workload = Workload::new(payload_bytes);
        let mut buffer = workload.buffer();
        let mut reference = BytesMut::with_capacity(buffer.len());
        let messages = workload.raw_messages();
        group.throughput(Throughput::Bytes(workload.payload_bytes_total() as u64));
        group.bench_function(BenchmarkId::new("floor", payload_bytes), |b| {
            b.iter(|| workload.floor(black_box(&mut buffer)));
        });
        group.bench_function(BenchmarkId::new("ringmain", payload_bytes), |b| {
            b.iter(|| workload.write(black_box(&mut buffer)).body_len);
        });
        group.bench_function(BenchmarkId::new("reference", payload_bytes), |b| {
            b.iter(|| write_reference(black_box(&messages), &mut reference));
        });
    }
    group.finish();
}

fn read(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch_verify");
    for payload_bytes in PAYLOAD_BYTES {
        let workload = Workload::new(payload_bytes);
        let mut buffer = workload.buffer();
        let sealed = workload.write(&mut buffer);
        let batch_at = SendMessagesRef::decode(sealed.body())
            .expect("valid")
            .batch_at();
        let batch = sealed.body()[batch_at..].to_vec();
        group.throughput(Throughput::Bytes(batch.len() as u64));
        group.bench_function(BenchmarkId::new("floor", payload_bytes), |b| {
            b.iter(|| hash::checksum(black_box(&batch)));
        });
        group.bench_function(BenchmarkId::new("ringmain", payload_bytes), |b| {
            b.iter(|| BatchReader::decode(black_box(&batch), Integrity::Verify).is_ok());
        });
        group.bench_function(BenchmarkId::new("reference", payload_bytes), |b| {
            b.iter(|| decode_batch_slice(black_box(&batch)).is_ok());
        });
    }
    group.finish();
}

/// Sealing alone, and what it would take if the writer kept the checksums in an array beside the
/// batch instead of walking to them through the batch.
fn seal(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch_seal");
    for payload_bytes in PAYLOAD_BYTES {
        let workload = Workload::new(payload_bytes);
        let mut buffer = workload.buffer();
        let sealed = workload.write(&mut buffer);
        let batch_at = SendMessagesRef::decode(sealed.body())
            .expect("valid")
            .batch_at();
        let mut batch = sealed.body()[batch_at..].to_vec();
        let reader = BatchReader::decode(&batch, Integrity::Layout).expect("valid");
        let aside: Vec<u8> = reader
            .messages()
            .flat_map(|message| message.header().checksum().to_le_bytes())
            .collect();
        assert_eq!(aside.len(), RECORDS * 8);
        group.bench_function(BenchmarkId::new("walk", payload_bytes), |b| {
            let fields = Stamp {
                partition_id: 1,
                base_offset: 2,
                base_timestamp_us: 3,
            };
            b.iter(|| stamp(black_box(&mut batch), &fields).is_ok());
        });
        group.bench_function(BenchmarkId::new("array", payload_bytes), |b| {
            b.iter(|| hash::checksum(black_box(&aside)));
        });
    }
    group.finish();
}

/// One large record: copied into the batch, or hashed where it is.
fn large(c: &mut Criterion) {
    let mut group = c.benchmark_group("large_record");
    for kib in [16, 64, 256, 1024, 8192] {
        let payload = vec![7u8; kib * 1024];
        let mut buffer = vec![0; 1024 + payload.len()];
        let record = RecordParts {
            id: 1,
            timestamp_us: 1,
            payload: &payload,
            user_headers: UserHeaders::EMPTY,
        };
        group.throughput(Throughput::Bytes(payload.len() as u64));
        group.bench_function(BenchmarkId::new("copied", kib), |b| {
            b.iter(|| {
                let mut writer = BatchWriter::new(&mut buffer[..], &TARGET).expect("room");
                writer.append(black_box(&record)).expect("room");
                writer.seal().body_len
            });
        });
        group.bench_function(BenchmarkId::new("gathered", kib), |b| {
            b.iter(|| {
                let mut writer = BatchWriter::new(&mut buffer[..1024], &TARGET).expect("room");
                let at = writer.append_referenced(black_box(&record)).expect("room");
                let payload = Referenced {
                    at,
                    payload: &payload,
                };
                writer.seal_referenced(&[payload]).body_len
            });
        });
        group.bench_function(BenchmarkId::new("floor", kib), |b| {
            b.iter(|| {
                buffer[..payload.len()].copy_from_slice(black_box(&payload));
                hash::checksum(&buffer[..payload.len()])
            });
        });
    }
    group.finish();
}

criterion_group!(benches, write, read, seal, large);
criterion_main!(benches);
