//! Strict order: behind the first record that is not stored nothing is sent, whatever it was that
//! it met, until the application says so. And what must not lose a record in the first place: a
//! slow server, a dropped request, a path that breaks again and again.

mod support;

use std::time::{Duration, Instant};

use ringmain::{ErrorCode, NotSentReason, Ordering, Outcome, Partitioning, Producer};
use ringmain_broker::{Act, Action, Broker, Fault, Script};
use ringmain_wire::{EvictionReason, Operation};
use support::{Checked, PATIENCE, Proxy, Server, Start, audit, numbered};

const RECORDS: u32 = 40;
/// The record that is lost, from 0.
const LOST: usize = 2;
/// Far above what an answer of the loopback takes, short enough to be waited for.
const DELIVERY_US: u64 = 400_000;

fn sends(action: Action) -> Fault {
    Fault::on(Operation::SendMessages)
        .at(LOST as u64 + 1)
        .action(action)
}

/// What can become of the record that is lost, and whether the server takes records again
/// afterwards.
struct Row {
    name: &'static str,
    fault: Fault,
    is_meant: fn(Outcome) -> bool,
    recovers: bool,
}

fn rows() -> Vec<Row> {
    let permanent = ErrorCode::new(3).expect("not zero");
    vec![
        Row {
            name: "refused for good",
            fault: sends(Action::Refuse(permanent)),
            is_meant: |outcome| matches!(outcome, Outcome::Rejected { .. }),
            recovers: true,
        },
        Row {
            name: "never admitted",
            fault: sends(Action::Refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED)).times(0),
            is_meant: |outcome| {
                matches!(
                    outcome,
                    Outcome::NotSent {
                        reason: NotSentReason::NotAdmitted
                    }
                )
            },
            recovers: false,
        },
        Row {
            name: "dropped in silence",
            fault: sends(Action::Drop).times(0),
            is_meant: |outcome| matches!(outcome, Outcome::Unknown { .. }),
            recovers: false,
        },
        Row {
            name: "held until after its deadline",
            fault: sends(Action::Broker(Act::HoldCommits)),
            is_meant: |outcome| matches!(outcome, Outcome::Unknown { .. }),
            recovers: true,
        },
        Row {
            name: "a session that the server forgot",
            fault: sends(Action::Evict(EvictionReason::NoSession)),
            is_meant: |outcome| matches!(outcome, Outcome::Unknown { .. }),
            recovers: true,
        },
    ]
}

fn strict(engine: &Checked, stream: &str) -> Producer {
    engine
        .producer(stream, "topic")
        .create_if_missing(1)
        .partitioning(Partitioning::Partition(0))
        .ordering(Ordering::Strict)
        .batch_records_max(1)
        .delivery_timeout_us(DELIVERY_US)
        .build()
        .expect("a new topic")
}

/// Sends records without waiting for any answer, then waits for all.
fn send(producer: &Producer, numbers: std::ops::Range<u32>) -> Vec<Outcome> {
    let receipts = producer
        .send_batch(numbers.map(numbered))
        .expect("all accepted");
    let account = receipts.wait_deadline(Instant::now() + PATIENCE);
    assert_eq!(account.in_flight, 0, "{account}");
    let outcomes = receipts.iter().map(|receipt| receipt.outcome());
    outcomes
        .map(|outcome| outcome.expect("waited for"))
        .collect()
}

fn is_behind(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::NotSent {
            reason: NotSentReason::BehindUnstored
        }
    )
}

fn is_overdue(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::NotSent {
            reason: NotSentReason::DeadlineOver
        }
    )
}

#[test]
fn nothing_behind_a_lost_record_is_sent_until_the_application_says_so() {
    for row in rows() {
        println!("{}", row.name);
        let server = Server::faulty(Script::new().fault(row.fault));
        let stream = server.stream("order");
        let engine = server.engine().request_timeout_us(100_000).start();
        let producer = strict(&engine, &stream);
        let mut outcomes = send(&producer, 0..RECORDS);
        assert!(outcomes[..LOST].iter().all(Outcome::is_stored));
        assert!((row.is_meant)(outcomes[LOST]), "{}", outcomes[LOST]);
        // Those that wait may run out of time at the same moment.
        let is_left = |outcome: &Outcome| is_behind(outcome) || is_overdue(outcome);
        assert!(outcomes[LOST + 1..].iter().all(is_left), "{outcomes:?}");
        // What comes later is behind it too, at once.
        let later = send(&producer, RECORDS..RECORDS + 5);
        assert!(later.iter().all(is_behind), "{later:?}");
        outcomes.extend(later);
        audit(&server, &stream, 1, &outcomes);
        if row.recovers {
            server.broker().act(Act::ReleaseCommits);
            producer.resume();
            let count = outcomes.len() as u32;
            let resumed = send(&producer, count..count + 5);
            assert!(resumed.iter().all(Outcome::is_stored), "{resumed:?}");
            outcomes.extend(resumed);
            let log = audit(&server, &stream, 1, &outcomes);
            assert!(log.is_sorted);
        }
    }
}

#[test]
fn a_purge_leaves_a_hole_that_the_application_has_to_accept() {
    let server = Server::embedded(Broker::builder());
    let stream = server.stream("order");
    let engine = server.engine().start();
    let producer = strict(&engine, &stream);
    let mut outcomes = send(&producer, 0..5);
    server.broker().act(Act::HoldCommits);
    let receipts = producer
        .send_batch((5..15).map(numbered))
        .expect("all accepted");
    let purged = producer.purge();
    assert_eq!(purged.records.len() as u64 + purged.unknown, 10);
    let numbers = purged
        .records
        .iter()
        .map(|(_, record)| u32::from_le_bytes(*record.payload.first_chunk().expect("four bytes")));
    assert!(
        numbers.eq((15 - purged.records.len() as u32)..15),
        "in order"
    );
    outcomes.extend(
        receipts
            .iter()
            .map(|receipt| receipt.outcome().expect("purged")),
    );
    server.broker().act(Act::ReleaseCommits);
    let refused = send(&producer, 15..20);
    assert!(refused.iter().all(is_behind), "{refused:?}");
    outcomes.extend(refused);
    producer.resume();
    let resumed = send(&producer, 20..25);
    assert!(resumed.iter().all(Outcome::is_stored), "{resumed:?}");
    outcomes.extend(resumed);
    assert!(audit(&server, &stream, 1, &outcomes).is_sorted);
}

#[test]
fn a_slow_server_is_waited_for_however_much_is_queued() {
    let slow = Fault::on(Operation::SendMessages)
        .times(0)
        .action(Action::Delay { us: 40_000 });
    let server = Server::faulty(Script::new().fault(slow));
    let stream = server.stream("order");
    let engine = server.engine().start();
    let producer = strict(&engine, &stream);
    let started = Instant::now();
    let outcomes = send(&producer, 0..40);
    assert!(
        started.elapsed() > Duration::from_micros(2 * DELIVERY_US),
        "the queue takes longer than a record may"
    );
    assert!(outcomes.iter().all(Outcome::is_stored), "{outcomes:?}");
    assert!(audit(&server, &stream, 1, &outcomes).is_sorted);
}

#[test]
fn a_dropped_request_is_noticed_long_before_the_request_timeout() {
    let dropped = Fault::on(Operation::SendMessages)
        .at(3)
        .every(5)
        .times(0)
        .action(Action::Drop);
    for ordering in [Ordering::Strict, Ordering::Pipelined] {
        let server = Server::faulty(Script::new().fault(dropped.clone()));
        let stream = server.stream("order");
        let engine = server.engine().request_timeout_us(30_000_000).start();
        let producer = engine
            .producer(&stream, "topic")
            .create_if_missing(1)
            .ordering(ordering)
            .batch_records_max(1)
            .build()
            .expect("a new topic");
        let started = Instant::now();
        let outcomes = send(&producer, 0..12);
        assert!(outcomes.iter().all(Outcome::is_stored), "{outcomes:?}");
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{ordering:?}: {:?}",
            started.elapsed()
        );
        audit(&server, &stream, 1, &outcomes);
    }
}

#[test]
fn a_path_that_breaks_before_everything_in_flight_is_through_makes_progress() {
    const RECORD_BYTES: usize = 20_000;
    let server = Server::embedded(Broker::builder());
    let broker = server.broker().addr();
    // A login, and less than two requests.
    let proxy = Proxy::start(broker, vec![[60_000, u64::MAX]; 200]);
    let engine = support::builder()
        .server(format!("iggy://iggy:iggy@{}", proxy.address()))
        .cores([])
        .memory_bytes_max(16 << 20)
        .slot_bytes(64 << 10)
        .start();
    let producer = engine
        .producer(server.stream("order"), "topic")
        .create_if_missing(1)
        .window_requests_max(32)
        .batch_records_max(2)
        .copy_bytes_max(32 << 10)
        .build()
        .expect("a new topic");
    let receipts = producer
        .send_batch((0..64).map(|_| ringmain::Record::new(vec![7; RECORD_BYTES])))
        .expect("all accepted");
    let account = receipts.wait_deadline(Instant::now() + PATIENCE);
    assert!(account.all_stored() && account.accepted == 64, "{account}");
    assert!(proxy.cuts() >= 16, "{} cuts", proxy.cuts());
}
