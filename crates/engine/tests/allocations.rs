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
    send(&producer, 20_000);
    let (of_sender, of_shard) = counting::allocations(|| send(&producer, 20_000));
    assert_eq!(of_shard, 0, "allocations of the shard");
    // The pool of receipt cells grows when more batches are out than ever before: a few times in
    // the whole life.
    assert!(
        of_sender <= 64,
        "{of_sender} allocations of the sender in 20,000 records"
    );
    // Producers of one topic share requests.
    let others = [0, 1].map(|_| {
        let producer = engine.producer(&stream, "topic");
        producer
            .partitioning(Partitioning::Sticky)
            .build()
            .expect("a topic")
    });
    send_in_turns(&others, 20_000);
    let (of_sender, of_shard) = counting::allocations(|| send_in_turns(&others, 20_000));
    assert_eq!(of_shard, 0, "allocations of the shard for two producers");
    assert!(of_sender <= 64, "{of_sender} allocations of two senders");
    assert!(engine.close(PATIENCE).drained);
    assert_eq!(producer.account().stored, 40_000);
}
