//! Batches of records given in one call: order, forms, partitionings, and a refusal in the middle.

mod support;

use bytes::Bytes;
use ringmain::{Outcome, Partitioning, Record, SendError};
use support::{PATIENCE, Server, Start, partitions_of, read_back};

/// Sizes around the copy threshold, so that copied records and those by reference follow each
/// other.
const SIZES: [usize; 7] = [0, 1, 1000, 40_000, 100, 70_000, 8 * 1024];

#[test]
fn records_of_both_forms_stay_in_order_and_each_receipt_is_its_own() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("forms");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let payloads: Vec<Bytes> = (0..500_usize)
        .map(|number| vec![number as u8; SIZES[number % SIZES.len()]].into())
        .collect();
    let receipts = producer
        .send_batch(payloads.iter().cloned().map(Record::new))
        .expect("all accepted");
    assert_eq!(receipts.len(), payloads.len());
    assert!(producer.flush(PATIENCE));
    for (offset, receipt) in (0..).zip(receipts.iter()) {
        let stored = Outcome::Stored {
            partition: 0,
            offset,
        };
        assert_eq!(receipt.outcome(), Some(stored));
    }
    let log = read_back(&engine, &stream, "topic", 0);
    assert!(log.iter().map(|record| &record.payload).eq(payloads.iter()));
    let account = engine.close(PATIENCE).account;
    assert_eq!((account.accepted, account.stored), (500, 500));
}

#[test]
fn a_refused_record_comes_back_with_those_behind_it_that_were_taken() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("refused");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(2)
        .partitioning(Partitioning::Key)
        .build()
        .expect("a new topic");
    for bad in [0_usize, 1, 31, 32, 40] {
        let accepted_before = producer.account().accepted;
        let mut records = (0..60_usize).map(|number| {
            let key = vec![b'k'; if number == bad { 256 } else { 1 + number % 3 }];
            Record::new(vec![number as u8]).key(key)
        });
        let refused = producer
            .send_batch(records.by_ref())
            .expect_err("a key is at most 255 bytes");
        assert!(matches!(refused.error, SendError::Key { bytes: 256 }));
        assert_eq!(refused.record.payload[..], [bad as u8]);
        assert_eq!(refused.accepted.len(), bad);
        let behind = refused.rest.into_iter().chain(records);
        let numbers: Vec<u8> = behind.map(|record| record.payload[0]).collect();
        let expected: Vec<u8> = (bad as u8 + 1..60).collect();
        assert_eq!(numbers, expected, "none is lost and none is out of order");
        let accepted = producer.account().accepted - accepted_before;
        assert_eq!(accepted, bad as u64);
    }
    let account = engine.close(PATIENCE).account;
    assert!(account.all_stored(), "{account}");
}

#[test]
fn a_partitioning_that_moves_on_is_asked_once_for_each_record() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("balanced");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(4)
        .build()
        .expect("a new topic");
    let receipts = producer
        .send_batch((0..400).map(|_| Record::new("x")))
        .expect("all accepted");
    assert!(producer.flush(PATIENCE));
    let partitions = partitions_of(&receipts);
    assert!(
        partitions
            .windows(2)
            .all(|pair| pair[1] == (pair[0] + 1) % 4)
    );
    assert!(engine.close(PATIENCE).drained);
}

#[test]
fn an_iterator_may_use_the_producer_itself() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("nested");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let nested = producer.clone();
    let receipts = producer
        .send_batch((0..100).map(|_| {
            drop(nested.send(Record::new("inner")).expect("accepted"));
            Record::new("outer")
        }))
        .expect("all accepted");
    assert_eq!(receipts.len(), 100);
    let account = engine.close(PATIENCE).account;
    assert_eq!((account.accepted, account.stored), (200, 200));
}

#[test]
fn an_iterator_that_starts_over_after_its_end_is_not_asked_again() {
    /// Gives two records, ends, and would give two more.
    struct Restarting(u32);
    impl Iterator for Restarting {
        type Item = Record;
        fn next(&mut self) -> Option<Record> {
            self.0 += 1;
            (!self.0.is_multiple_of(3)).then(|| Record::new("x"))
        }
    }
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("restarting");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let receipts = producer.send_batch(Restarting(0)).expect("all accepted");
    assert_eq!(receipts.len(), 2);
    assert_eq!(engine.close(PATIENCE).account.stored, 2);
}

#[test]
fn accounts_can_be_read_while_batches_open_partitions() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("opening");
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let reader = scope.spawn(|| {
            let stopped = stopped;
            let mut reads = 0_u64;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                let account = engine.stats().account;
                assert!(account.balances(), "{account}");
                reads += 1;
            }
            reads
        });
        for topic in 0..5 {
            let producer = engine
                .producer(&stream, format!("topic-{topic}"))
                .create_if_missing(100)
                .build()
                .expect("a new topic");
            let receipts = producer
                .send_batch((0..1000).map(|_| Record::new("x")))
                .expect("all accepted");
            assert_eq!(receipts.len(), 1000);
            assert_eq!(producer.account().accepted, 1000, "each is counted at once");
        }
        drop(stop);
        assert!(reader.join().expect("no account is off") > 0);
    });
    let account = engine.close(PATIENCE).account;
    assert_eq!((account.accepted, account.stored), (5000, 5000));
}

#[test]
fn many_small_requests_behind_a_full_window_all_get_through() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("full");
    // One request in flight: the window is full nearly always, and whoever seals leaves the shard
    // asleep.
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(3)
        .window_requests_max(1)
        .batch_records_max(1)
        .build()
        .expect("a new topic");
    let threads: Vec<_> = (0..3_u8)
        .map(|thread| {
            let producer = producer.clone();
            std::thread::spawn(move || {
                for _ in 0..2000 {
                    drop(producer.send(Record::new(vec![thread])).expect("accepted"));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("it sends and ends");
    }
    assert!(producer.flush(PATIENCE));
    let account = engine.close(PATIENCE).account;
    assert_eq!((account.accepted, account.stored), (6000, 6000));
}
