//! Partitions, keys, connections and shards on a healthy server.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ringmain::{BuildError, Call, Outcome, Partitioning, Record, SendError};
use ringmain_wire::codec::Encode;
use ringmain_wire::payload::topic::CreatePartitions;
use ringmain_wire::{Identifier, Operation};
use support::{PATIENCE, Server, read_back, unique};

#[test]
fn a_key_goes_where_every_sdk_sends_it() {
    let server = Server::start();
    let engine = server
        .engine()
        .connections(3)
        .build()
        .expect("a healthy server");
    let stream = unique("keys");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(7)
        .partitioning(Partitioning::Key)
        .build()
        .expect("a new topic");
    for number in 0..500_u32 {
        let key = format!("key-{}", number % 50);
        let record = Record::new(number.to_le_bytes().to_vec()).key(key.clone());
        let outcome = producer.send(record).expect("accepted").wait();
        // XxHash32, seed 0, modulo the partition count.
        let expected = xxhash(key.as_bytes()) % 7;
        assert!(
            matches!(outcome, Outcome::Stored { partition, .. } if partition == expected),
            "{key}: {outcome}, expected partition {expected}"
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

/// XxHash32 with seed 0, written down from its specification for short keys, so that the crate in use is checked.
fn xxhash(bytes: &[u8]) -> u32 {
    const P: [u32; 5] = [
        0x9E37_79B1,
        0x85EB_CA77,
        0xC2B2_AE3D,
        0x27D4_EB2F,
        0x1656_67B1,
    ];
    assert!(bytes.len() < 16);
    let mut hash = P[4].wrapping_add(u32::try_from(bytes.len()).expect("short"));
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_le_bytes(word.try_into().expect("four bytes"));
        hash = hash
            .wrapping_add(word.wrapping_mul(P[2]))
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
fn balanced_spreads_evenly_over_many_partitions_connections_and_shards() {
    let server = Server::start();
    let engine = server
        .engine()
        .shards(2)
        .connections(16)
        .build()
        .expect("a healthy server");
    let stream = unique("balanced");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(256)
        .build()
        .expect("a new topic");
    producer.warm();
    let receipts = producer
        .send_batch((0..256 * 20_u32).map(|number| Record::new(number.to_le_bytes().to_vec())))
        .expect("all accepted");
    assert!(producer.flush(PATIENCE));
    let mut counts = HashMap::new();
    for receipt in receipts.iter() {
        match receipt.outcome() {
            Some(Outcome::Stored { partition, .. }) => {
                *counts.entry(partition).or_insert(0_u32) += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts.len(), 256);
    assert!(counts.values().all(|count| *count == 20));
    assert_eq!(engine.stats().sessions_active, 16);
    assert!(engine.close(PATIENCE).drained);
}

#[test]
fn sticky_fills_a_batch_before_it_moves_on() {
    let server = Server::start();
    let engine = server.engine().build().expect("a healthy server");
    let stream = unique("sticky");
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
    let partitions: Vec<u32> = receipts
        .iter()
        .map(|receipt| match receipt.outcome() {
            Some(Outcome::Stored { partition, .. }) => partition,
            other => panic!("{other:?}"),
        })
        .collect();
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
    let engine = server.engine().build().expect("a healthy server");
    let stream = unique("custom");
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
    let engine = server.engine().build().expect("a healthy server");
    let stream = unique("growing");
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
    let engine = server.engine().build().expect("a healthy server");
    let stream = unique("shared");
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
