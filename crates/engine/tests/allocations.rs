//! After warm-up the shard thread allocates nothing, and the sending thread nothing for a record:
//! what it needs is pooled by batch.
//!
//! The broker runs in the same process on a thread of its own and is not counted.

mod support;

#[path = "../../io/tests/support/counting.rs"]
mod counting;

use ringmain::{Partitioning, Producer};
use support::{PATIENCE, Server, Start};

/// Sends `records` small records, waits for the last receipt of every hundred, and drops the
/// others.
fn send(producer: &Producer, records: u32) {
    for number in 0..records {
        let receipt = producer.send_slice(&[7; 100], None).expect("accepted");
        if number % 100 == 99 {
            assert!(receipt.wait().is_stored());
        }
    }
}

/// The same, in turns.
fn send_in_turns(producers: &[Producer], records: u32) {
    for (number, producer) in (0..records).zip(producers.iter().cycle()) {
        let receipt = producer.send_slice(&[7; 100], None).expect("accepted");
        if number % 100 == 99 {
            assert!(receipt.wait().is_stored());
        }
    }
}

/// Records of a round: about two hundred batches.
const RECORDS: u32 = 20_000;
/// Far more rounds than the pools need to have grown.
const ROUNDS_MAX: u64 = 100;

/// Repeats a round until one allocates nothing, and says how many that took. The pool of receipt
/// cells grows when more batches are out than ever before: now and then, in bursts, and less and
/// less. What allocates for each record or batch allocates in every round. The shard, whose tables
/// are full from the start, allocates in none but the first.
fn until_nothing_is_allocated(what: &str, round: impl Fn()) -> u64 {
    round();
    let mut of_senders = Vec::new();
    for rounds in 2..=ROUNDS_MAX {
        let (of_sender, of_shard) = counting::allocations(&round);
        assert_eq!(of_shard, 0, "allocations of the shard: {what}");
        if of_sender == 0 {
            return rounds;
        }
        of_senders.push(of_sender);
    }
    panic!("{what}: allocations of the senders in each round: {of_senders:?}");
}

#[test]
fn the_steady_state_allocates_nothing() {
    let server = Server::start();
    // As much memory as is sent, so that nobody waits for it: a wait costs the sender an entry in
    // the queue.
    let engine = server.engine().memory_bytes_max(64 << 20).start();
    let stream = server.stream("allocations");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(4)
        .partitioning(Partitioning::Sticky)
        .build()
        .expect("a new topic");
    producer.warm();
    let rounds = until_nothing_is_allocated("one sender", || send(&producer, RECORDS));
    // Producers of one topic share requests.
    let others = [0, 1].map(|_| {
        let producer = engine.producer(&stream, "topic");
        producer
            .partitioning(Partitioning::Sticky)
            .build()
            .expect("a topic")
    });
    until_nothing_is_allocated("two senders", || send_in_turns(&others, RECORDS));
    assert!(engine.close(PATIENCE).drained);
    assert_eq!(producer.account().stored, rounds * u64::from(RECORDS));
}
