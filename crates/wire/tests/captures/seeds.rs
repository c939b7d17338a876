//! The fuzz targets' corpora are made of the recording: each kind of frame, reply and batch once.

use crate::recording::{Direction, lines};
use ringmain_wire::batch::{Integrity, SendMessagesRef};
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::poll::PollReply;
use ringmain_wire::{
    BatchWriter, FrameDecoder, HEADER_BYTES, HeaderValue, Identifier, Inbound, InboundRequest,
    Partitioning, RecordParts, SendTarget, UserHeadersWriter,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes of the largest seed: larger ones slow a fuzzer down.
const SEED_BYTES_MAX: usize = 4 << 10;

/// Seeds by target and name. The first of a name stays.
type Seeds = BTreeMap<PathBuf, Vec<u8>>;

fn put(seeds: &mut Seeds, target: &str, name: &str, parts: &[&[u8]]) {
    let bytes = parts.concat();
    let path = Path::new(target).join(name);
    seeds
        .entry(path)
        .or_insert_with(|| bytes[..bytes.len().min(SEED_BYTES_MAX)].to_vec());
}

/// A line's bytes as a stream, named by its first frame and by whether there is more.
fn put_stream(seeds: &mut Seeds, side: &str, flags: u8, bytes: &[u8]) {
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        return;
    };
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let more = if bytes.len() > number(48) as usize {
        "-more"
    } else {
        ""
    };
    // A request's code and a reply's status do not stand in the same place, nor do their
    // operations.
    let (operation, detail) = match flags {
        1 => (header[176], number(196)),
        _ => (header[208], number(216)),
    };
    let command = header[60];
    let name = format!("{side}-{command}-{operation}-{detail}{more}");
    put(seeds, "frame", &name, &[&[flags, 99], bytes]);
}

fn put_request(seeds: &mut Seeds, body: &[u8]) {
    let Ok(send) = SendMessagesRef::decode(body) else {
        return;
    };
    let batch_bytes = &body[send.batch_at()..];
    put(
        seeds,
        "batch",
        &format!("sent-{}", batch_bytes.len()),
        &[&[0], batch_bytes],
    );
    // The flags: a send, and mutations get past the checksums.
    put(
        seeds,
        "batch",
        &format!("send-{}", body.len()),
        &[&[3], body],
    );
}

/// User headers, which the recording has none of: a pair of each kind, alone and behind a payload.
fn put_user_headers(seeds: &mut Seeds) {
    let mut user_headers = UserHeadersWriter::new();
    for (key, value) in [
        ("raw", HeaderValue::Raw(&[0, 255])),
        ("string", HeaderValue::String("gr\u{fc}n")),
        ("bool", HeaderValue::Bool(true)),
        ("int8", HeaderValue::Int8(-1)),
        ("int16", HeaderValue::Int16(-2)),
        ("int32", HeaderValue::Int32(-3)),
        ("int64", HeaderValue::Int64(-4)),
        ("int128", HeaderValue::Int128(-5)),
        ("uint8", HeaderValue::Uint8(1)),
        ("uint16", HeaderValue::Uint16(2)),
        ("uint32", HeaderValue::Uint32(3)),
        ("uint64", HeaderValue::Uint64(4)),
        ("uint128", HeaderValue::Uint128(5)),
        ("float32", HeaderValue::Float32(0.5)),
        ("float64", HeaderValue::Float64(-0.5)),
    ] {
        user_headers.set(key, &value).expect("within the limits");
    }
    let user_headers = user_headers.headers();
    put(
        seeds,
        "batch",
        "user-headers",
        &[&[0], user_headers.as_bytes()],
    );
    let target = SendTarget {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        partitioning: Partitioning::Balanced,
    };
    let mut writer = BatchWriter::new(vec![0; 2 << 10], &target).expect("room for a message");
    for id in 1..=2 {
        let record = RecordParts {
            id,
            timestamp_us: id as u64,
            payload: b"payload",
            user_headers,
        };
        writer.append(&record).expect("fits");
    }
    let sealed = writer.seal();
    let batch = &sealed.buf[target.prefix_bytes()..sealed.body_len];
    // The flag lets mutations past the checksums.
    put(seeds, "batch", "made-with-user-headers", &[&[1], batch]);
}

fn put_reply(seeds: &mut Seeds, operation: u8, body: &[u8]) {
    put(
        seeds,
        "replies",
        &format!("{operation}-{}", body.len()),
        &[body],
    );
    let reply = PollReply::decode(body);
    if let Ok(reply) = reply
        && reply
            .stored_batches(Integrity::Verify)
            .all(|batch| batch.is_ok())
    {
        let name = format!("stored-{}", reply.batches.len());
        put(seeds, "batch", &name, &[&[0], reply.batches]);
    }
}

fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    put_user_headers(&mut seeds);
    for line in lines() {
        let mut input = &line.bytes[..];
        let mut decoder = FrameDecoder::new();
        match line.direction {
            Direction::Event => {}
            Direction::Client => {
                put_stream(&mut seeds, "client", 1, &line.bytes);
                while let Ok(Some(frame)) = decoder.next_request(&mut input) {
                    if let InboundRequest::Request(request) = frame {
                        put_request(&mut seeds, request.body);
                    }
                }
            }
            Direction::Server => {
                put_stream(&mut seeds, "server", 0, &line.bytes);
                while let Ok(Some(frame)) = decoder.next_inbound(&mut input) {
                    if let Inbound::Reply(reply) = frame {
                        put_reply(&mut seeds, reply.operation().as_u8(), reply.body());
                    }
                }
            }
        }
    }
    seeds
}

fn corpus() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus"))
}

#[test]
fn the_recording_is_in_the_corpora() {
    let seeds = seeds();
    assert!(seeds.values().map(Vec::len).sum::<usize>() < 300_000);
    for (path, bytes) in seeds {
        let found = std::fs::read(corpus().join(&path)).ok();
        assert!(
            found.is_some_and(|found| found == bytes),
            "{} is missing or old",
            path.display()
        );
    }
}

#[test]
#[ignore = "writes the files that the other test looks for"]
fn write_the_corpora() {
    for (path, bytes) in seeds() {
        std::fs::write(corpus().join(path), bytes).expect("the corpora's folders are there");
    }
}
