//! XxHash3-64 by each crate, at the lengths that batches have: which one `ringmain_wire::hash`
//! should use.
//!
//! Run it as it is and with `RUSTFLAGS="-C target-cpu=x86-64-v3"`.

use std::hash::Hasher;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ringmain_wire::hash;
use twox_hash::XxHash3_64;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A message of 16, 100, 200, 1000, 10,000 bytes with the 40 header bytes that are hashed before
/// it; a slot.
const LENGTHS: [usize; 6] = [56, 140, 240, 1040, 10_040, 262_144];

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash_whole");
    for length in LENGTHS {
        let bytes = vec![7u8; length];
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_function(BenchmarkId::new("xxhash-rust", length), |b| {
            b.iter(|| xxh3_64(black_box(&bytes)));
        });
        group.bench_function(BenchmarkId::new("twox-hash", length), |b| {
            b.iter(|| XxHash3_64::oneshot(black_box(&bytes)));
        });
        group.bench_function(BenchmarkId::new("ringmain", length), |b| {
            b.iter(|| hash::checksum(black_box(&bytes)));
        });
    }
    group.finish();
}

fn pieces(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash_pieces");
    for length in LENGTHS {
        let bytes = vec![7u8; length];
        let pieces: Vec<&[u8]> = bytes.chunks(4096).collect();
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_function(BenchmarkId::new("xxhash-rust", length), |b| {
            b.iter(|| {
                let mut state = Xxh3::new();
                black_box(&pieces)
                    .iter()
                    .for_each(|piece| state.update(piece));
                state.digest()
            });
        });
        group.bench_function(BenchmarkId::new("twox-hash", length), |b| {
            b.iter(|| {
                let mut state = XxHash3_64::new();
                black_box(&pieces)
                    .iter()
                    .for_each(|piece| state.write(piece));
                state.finish()
            });
        });
        group.bench_function(BenchmarkId::new("ringmain", length), |b| {
            b.iter(|| {
                let mut state = hash::Checksum::new();
                black_box(&pieces)
                    .iter()
                    .for_each(|piece| state.update(piece));
                state.digest()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, whole, pieces);
criterion_main!(benches);
