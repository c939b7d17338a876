//! Partitions, keys, connections and shards on a healthy server.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ringmain::{BuildError, Call, Outcome, Partitioning, Record, SendError};
use ringmain_wire::codec::Encode;
use ringmain_wire::payload::topic::CreatePartitions;
use ringmain_wire::{Identifier, Operation};
use support::{PATIENCE, Server, Start, audit, numbered, partitions_of, read_back};

#[test]
fn a_key_goes_where_every_sdk_sends_it() {
    let server = Server::start();
    let engine = server.engine().connections(3).start();
    let stream = server.stream("keys");
    for partitions in [1, 2, 7, 64] {
        let topic = format!("topic-{partitions}");
        let producer = engine
            .producer(&stream, &topic)
            .create_if_missing(partitions)
            .partitioning(Partitioning::Key)
            .build()
            .expect("a new topic");
        // Every length, so that every step of the hash has its turn.
        let keys: Vec<Vec<u8>> = (1..=255_u8)
            .map(|length| (0..length).map(|at| at.wrapping_mul(31) ^ length).collect())
            .collect();
        let records = keys
            .iter()
            .map(|key| Record::new(key.clone()).key(key.clone()));
        let receipts = producer.send_batch(records).expect("accepted");
        assert!(producer.flush(PATIENCE));
        for (key, receipt) in keys.iter().zip(receipts.iter()) {
            // XxHash32, seed 0, modulo the partition count.
            let expected = xxhash(key) % partitions;
            let outcome = receipt.outcome().expect("flushed");
            assert!(
                matches!(outcome, Outcome::Stored { partition, .. } if partition == expected),
                "{key:?}: {outcome}, expected partition {expected}"
            );
        }
        let none = producer
            .send(Record::new("no key"))
            .expect_err("a key is needed");
        assert_eq!(none, SendError::Key { bytes: 0 });
        let long = producer
            .send(Record::new("long key").key(vec![1; 256]))
            .expect_err("keys have 255 bytes at most");
        assert_eq!(long, SendError::Key { bytes: 256 });
    }
}

/// XxHash32 with seed 0, written down from its specification, so that the crate in use is checked.
fn xxhash(mut bytes: &[u8]) -> u32 {
    const P: [u32; 5] = [
        0x9E37_79B1,
        0x85EB_CA77,
        0xC2B2_AE3D,
        0x27D4_EB2F,
        0x1656_67B1,
    ];
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let len = u32::try_from(bytes.len()).expect("short");
    let mut hash = P[4];
    if bytes.len() >= 16 {
        let mut lanes = [P[0].wrapping_add(P[1]), P[1], 0, 0_u32.wrapping_sub(P[0])];
        while bytes.len() >= 16 {
            for (lane, input) in lanes.iter_mut().zip(bytes.chunks_exact(4)) {
                let mixed = lane.wrapping_add(word(input).wrapping_mul(P[1]));
                *lane = mixed.rotate_left(13).wrapping_mul(P[0]);
            }
            bytes = &bytes[16..];
        }
        let turns = [1, 7, 12, 18];
        hash = lanes.iter().zip(turns).fold(0, |sum: u32, (lane, by)| {
            sum.wrapping_add(lane.rotate_left(by))
        });
    }
    hash = hash.wrapping_add(len);
    let mut words = bytes.chunks_exact(4);
    for input in &mut words {
        hash = hash
            .wrapping_add(word(input).wrapping_mul(P[2]))
            .rotate_left(17)
            .wrapping_mul(P[3]);
    }
    for byte in words.remainder() {
        hash = hash
            .wrapping_add(u32::from(*byte).wrapping_mul(P[4]))
            .rotate_left(11)
            .wrapping_mul(P[0]);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(P[1]);
    hash = (hash ^ (hash >> 13)).wrapping_mul(P[2]);
    hash ^ (hash >> 16)
}

#[test]
fn balanced_spreads_evenly_over_any_partitions_connections_and_shards() {
    let server = Server::start();
    let table = [
        (1, 1, 1),
        (1, 64, 4),
        (3, 2, 1),
        (16, 16, 1),
        (64, 64, 2),
        (256, 1, 1),
        (256, 16, 2),
        (256, 64, 1),
    ];
    for (partitions, connections, shards) in table {
        let what = format!("{partitions} partitions, {connections} connections, {shards} shards");
        let engine = server
            .engine()
            .shards(shards)
            .connections(connections)
            .start();
        let stream = server.stream("balanced");
        let producer = engine
            .producer(&stream, "topic")
            .create_if_missing(partitions)
            .build()
            .expect("a new topic");
        producer.warm();
        assert_eq!(
            engine.stats().sessions_active,
            u64::from(connections),
            "{what}"
        );
        let receipts = producer
            .send_batch((0..partitions * 20).map(numbered))
            .expect("all accepted");
        assert!(producer.flush(PATIENCE), "{what}");
        let outcomes: Vec<Outcome> = receipts
            .iter()
            .map(|receipt| receipt.outcome().expect("flushed"))
            .collect();
        let mut counts = HashMap::new();
        for outcome in &outcomes {
            match outcome {
                Outcome::Stored { partition, .. } => *counts.entry(*partition).or_insert(0) += 1,
                other => panic!("{what}: {other}"),
            }
        }
        assert_eq!(counts.len(), partitions as usize, "{what}");
        assert!(counts.values().all(|count| *count == 20), "{what}");
        let log = audit(&server, &stream, partitions, &outcomes);
        assert!(log.is_sorted, "{what}");
        assert!(engine.close(PATIENCE).drained, "{what}");
    }
}

#[test]
fn sticky_fills_a_batch_before_it_moves_on() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("sticky");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(3)
        .partitioning(Partitioning::Sticky)
        .batch_records_max(10)
        .linger_us(10_000_000)
        .build()
        .expect("a new topic");
    let receipts = producer
        .send_batch((0..90).map(|_| Record::new("x")))
        .expect("all accepted");
    assert!(producer.flush(PATIENCE));
    let partitions = partitions_of(&receipts);
    let mut visited = [0; 3];
    for run in partitions.chunks(10) {
        assert!(
            run.iter().all(|partition| partition == &run[0]),
            "ten records a batch: {run:?}"
        );
        visited[run[0] as usize] += 1;
    }
    assert_eq!(visited, [3; 3]);
}

#[test]
fn a_custom_choice_is_followed_and_checked() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("custom");
    let by_length =
        |payload: &[u8], _: Option<&[u8]>, _: u32| u32::try_from(payload.len()).expect("short");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(4)
        .partitioning(Partitioning::Custom(Arc::new(by_length)))
        .build()
        .expect("a new topic");
    for length in 0..4_u32 {
        let outcome = producer
            .send(Record::new(vec![0; length as usize]))
            .expect("accepted")
            .wait();
        assert!(matches!(outcome, Outcome::Stored { partition, offset: 0 } if partition == length));
    }
    let error = producer
        .send(Record::new("four"))
        .expect_err("there is no partition 4");
    assert_eq!(
        error,
        SendError::Partition {
            partition: 4,
            count: 4
        }
    );
}

#[test]
fn partitions_added_while_sending_are_found() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("growing");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .partitioning(Partitioning::Partition(2))
        .build()
        .expect("a new topic");
    assert_eq!(producer.partitions_count(), 1);
    let error = producer
        .send(Record::new("early"))
        .expect_err("there is no partition 2 yet");
    assert_eq!(
        error,
        SendError::Partition {
            partition: 2,
            count: 1
        }
    );
    let body = CreatePartitions {
        stream_id: Identifier::named(&stream).expect("a name"),
        topic_id: Identifier::named("topic").expect("a name"),
        partitions_count: 2,
    };
    let call = Call::replicated(Operation::CreatePartitions.as_u8(), body.to_vec());
    engine.call(call, PATIENCE).expect("two more partitions");
    // Each refused record makes the engine ask again at once.
    let deadline = std::time::Instant::now() + PATIENCE;
    let receipt = loop {
        match producer.send(Record::new("late")) {
            Ok(receipt) => break receipt,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    };
    assert_eq!(
        receipt.wait(),
        Outcome::Stored {
            partition: 2,
            offset: 0
        }
    );
}

#[test]
fn producers_of_one_topic_share_its_windows_and_keep_their_own_accounts() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("shared");
    let first = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let second = engine
        .producer(&stream, "topic")
        .build()
        .expect("the topic exists");
    let conflict = engine
        .producer(&stream, "topic")
        .window_requests_max(3)
        .build();
    assert!(
        matches!(conflict, Err(BuildError::WindowShared { window: 8, .. })),
        "{conflict:?}"
    );
    for _ in 0..100 {
        drop(first.send(Record::new("1")).expect("accepted"));
        drop(second.send(Record::new("2")).expect("accepted"));
    }
    assert!(first.close(PATIENCE).drained);
    assert_eq!(
        first.send(Record::new("1")).expect_err("closed"),
        SendError::Closed
    );
    assert!(
        second
            .send(Record::new("2"))
            .expect("not closed")
            .wait()
            .is_stored()
    );
    assert_eq!(
        (first.account().stored, second.account().stored),
        (100, 101)
    );
    assert_eq!(read_back(&engine, &stream, "topic", 0).len(), 201);
    assert!(second.flush(Duration::ZERO), "nothing is out");
}
