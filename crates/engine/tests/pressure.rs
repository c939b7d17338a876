//! Back-pressure: a hard cap, fairness, deadlines, futures dropped while they wait.
//!
//! The server commits nothing for an hour, so whatever is accepted stays in the engine's memory.

mod support;

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain::{Outcome, Producer, Record, SendError, limits};
use ringmain_broker::Broker;
use support::{Checked, PATIENCE, Server, Start};

const MEMORY_BYTES: u64 = 4 << 20;
/// Half of it, less what is kept for callbacks.
const BY_REFERENCE_BYTES: u64 = MEMORY_BYTES / 2 - MEMORY_BYTES / limits::CALLBACKS_SHARE;

/// An engine with little memory in front of a server that does not answer sends.
fn stalled() -> (Server, Checked, Producer) {
    let server = Server::stalled();
    let engine = server.engine().memory_bytes_max(MEMORY_BYTES).start();
    let producer = engine
        .producer(server.stream("stalled"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    (server, engine, producer)
}

#[test]
fn small_records_fill_their_half_of_the_memory_and_no_more() {
    let (_server, engine, producer) = stalled();
    let record = Record::new(Bytes::from(vec![1; 1000]));
    let mut accepted = 0_u64;
    let refused = loop {
        match producer.try_send(record.clone()) {
            Ok(_) => accepted += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.error, SendError::Full);
    assert_eq!(refused.record, record, "the record comes back as it was");
    let bytes = accepted * 1048;
    assert!(bytes <= MEMORY_BYTES / 2, "{bytes}");
    assert!(bytes > MEMORY_BYTES / 4, "the memory is used: {bytes}");
    assert_eq!(producer.account().in_flight, accepted);

    let started = Instant::now();
    let waited = producer.send_deadline(record, started + Duration::from_millis(50));
    assert_eq!(
        waited.expect_err("no memory").error,
        SendError::DeadlineOver
    );
    assert!(started.elapsed() >= Duration::from_millis(50));

    let report = engine.close(Duration::from_millis(50));
    assert!(!report.drained);
    assert!(
        report.account.balances() && report.account.in_flight == 0,
        "{}",
        report.account
    );
    assert_eq!(report.account.unknown + report.account.not_sent, accepted);
    let stats = engine.stats();
    assert_eq!(stats.slots_free, stats.slots, "every slot came back");
}

#[test]
fn large_records_are_counted_by_their_bytes_until_their_answer() {
    let (_server, engine, producer) = stalled();
    let record = Record::new(Bytes::from(vec![1; 500_000]));
    let accepted: Vec<_> = std::iter::from_fn(|| producer.try_send(record.clone()).ok()).collect();
    assert_eq!(accepted.len(), 4, "four times 500,000 bytes fit");
    assert!(engine.stats().by_reference_bytes_free < 500_000);
    // Small records have a half of their own.
    assert!(producer.try_send(Record::new("small")).is_ok());
    let too_large = producer
        .try_send(Record::new(vec![0; 3 << 20]))
        .expect_err("larger than its half");
    assert!(
        matches!(too_large.error, SendError::PayloadTooLarge { max, .. } if max as u64 == BY_REFERENCE_BYTES)
    );
    let report = engine.close(Duration::ZERO);
    assert_eq!(report.account.accepted, 5);
    assert_eq!(
        engine.stats().by_reference_bytes_free,
        BY_REFERENCE_BYTES,
        "all bytes came back"
    );
    for receipt in accepted {
        assert!(matches!(
            receipt.wait(),
            Outcome::Unknown { .. } | Outcome::NotSent { .. }
        ));
    }
}

#[test]
fn waiting_futures_are_served_in_order_and_may_be_dropped() {
    let server = Server::embedded(Broker::builder().commit_delay_us(300_000));
    let engine = server.engine().memory_bytes_max(MEMORY_BYTES).start();
    let producer = engine
        .producer(server.stream("futures"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let large = || Record::new(Bytes::from(vec![1; 1_500_000]));
    let small = || Record::new(Bytes::from(vec![2; 100_000]));
    let first = producer.try_send(large()).expect("there is room for one");
    let context = &mut Context::from_waker(Waker::noop());
    let mut second = pin!(producer.send_async(large()));
    let mut dropped = Box::pin(producer.send_async(small()));
    let mut third = pin!(producer.send_async(small()));
    assert!(second.as_mut().poll(context).is_pending());
    assert!(
        dropped.as_mut().poll(context).is_pending(),
        "there is room, but somebody was first"
    );
    assert!(third.as_mut().poll(context).is_pending());
    assert_eq!(
        producer.try_send(small()).expect_err("others wait").error,
        SendError::Full
    );
    drop(dropped);
    assert!(first.wait().is_stored());
    let second = support::block_on(second).expect("served when the first was answered");
    let third = support::block_on(third).expect("served after the second");
    let (Outcome::Stored { offset: second, .. }, Outcome::Stored { offset: third, .. }) =
        (second.wait(), third.wait())
    else {
        panic!("both are stored");
    };
    assert_eq!((second, third), (1, 2));
    assert!(engine.close(PATIENCE).drained);
    assert_eq!(engine.stats().by_reference_bytes_free, BY_REFERENCE_BYTES);
}

#[test]
fn a_sender_that_waits_is_told_when_the_engine_closes() {
    let (_server, engine, producer) = stalled();
    while producer.try_send(Record::new(vec![0; 8000])).is_ok() {}
    let waiting = {
        let producer = producer.clone();
        std::thread::spawn(move || producer.send(Record::new("one more")))
    };
    let future = producer.send_async(Record::new("another"));
    let polled = std::thread::spawn(move || support::block_on(future));
    engine.close(Duration::from_millis(20));
    assert_eq!(
        waiting.join().expect("no panic").expect_err("closed"),
        SendError::Closed
    );
    assert_eq!(
        polled.join().expect("no panic").expect_err("closed"),
        SendError::Closed
    );
}

#[test]
fn somebody_who_waits_for_memory_ends_the_linger_of_others() {
    let server = Server::embedded(Broker::builder());
    let engine = server
        .engine()
        .memory_bytes_max(512 << 10)
        .slot_bytes(64 << 10)
        .start();
    let producer = engine
        .producer(server.stream("hurry"), "topic")
        .create_if_missing(8)
        .linger_us(50_000_000)
        .build()
        .expect("a new topic");
    let started = Instant::now();
    // Four slots, eight partitions: the fifth record finds no slot, and none of the others is full.
    for _ in 0..64 {
        drop(producer.send(Record::new("x")).expect("accepted"));
    }
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "nobody waited for the linger"
    );
    assert!(producer.flush(PATIENCE));
    assert_eq!(producer.account().stored, 64);
}
