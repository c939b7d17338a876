//! The main path on a healthy server: send, receipts, read back, account, close.

mod support;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain::{Outcome, Partitioning, Record};
use support::{PATIENCE, Server, Start, block_on, read_back, stats};

#[test]
fn records_are_stored_in_order_and_read_back_as_sent() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("basic");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let receipts: Vec<_> = (0..5000_u32)
        .map(|number| {
            producer
                .send(Record::new(number.to_le_bytes().to_vec()))
                .expect("accepted")
        })
        .collect();
    for (number, receipt) in (0..).zip(&receipts) {
        let outcome = receipt.wait_deadline(Instant::now() + PATIENCE);
        assert_eq!(
            outcome,
            Some(Outcome::Stored {
                partition: 0,
                offset: number
            })
        );
    }
    let records = read_back(&engine, &stream, "topic", 0);
    assert_eq!(records.len(), 5000);
    for (number, record) in (0..5000_u32).zip(&records) {
        assert_eq!(record.payload[..], number.to_le_bytes());
    }
    let report = engine.close(PATIENCE);
    assert!(report.drained, "{report:?}");
    assert_eq!(report.account.stored, 5000);
    assert!(report.account.balances());
    assert_eq!(
        engine.close(PATIENCE),
        report,
        "a second close says the same"
    );
}

#[test]
fn ids_times_and_user_headers_are_kept() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("fields");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let mut headers = ringmain_wire::UserHeadersWriter::new();
    headers
        .set("origin", &ringmain_wire::HeaderValue::String("test"))
        .expect("a valid header");
    let encoded = Bytes::copy_from_slice(headers.headers().as_bytes());
    // The second is earlier than the first: it belongs into a batch of its own.
    for timestamp_us in [2_000_000, 1_000_000] {
        let record = Record::new("payload")
            .id(u128::from(timestamp_us))
            .timestamp_us(timestamp_us)
            .user_headers(encoded.clone());
        let large = Record::new(vec![7; 100_000])
            .id(9)
            .timestamp_us(timestamp_us)
            .user_headers(encoded.clone());
        assert!(producer.send(record).expect("accepted").wait().is_stored());
        assert!(producer.send(large).expect("accepted").wait().is_stored());
    }
    let records = read_back(&engine, &stream, "topic", 0);
    let fields: Vec<_> = records
        .iter()
        .map(|record| (record.id, record.origin_timestamp_us))
        .collect();
    assert_eq!(
        fields,
        [
            (2_000_000, 2_000_000),
            (9, 2_000_000),
            (1_000_000, 1_000_000),
            (9, 1_000_000)
        ]
    );
    assert!(records.iter().all(|record| record.user_headers == encoded));
}

#[test]
fn a_receipt_is_a_future_a_wait_and_a_callback() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("receipts");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let receipt = block_on(producer.send_async(Record::new("future"))).expect("accepted");
    assert!(block_on(receipt).is_stored());
    assert!(
        producer
            .send_slice(b"wait", None)
            .expect("accepted")
            .wait()
            .is_stored()
    );
    let (sender, receiver) = mpsc::channel();
    for number in 0..100 {
        let sender = sender.clone();
        let receipt = producer.send(Record::new("callback")).expect("accepted");
        receipt
            .on_resolved(move |outcome| sender.send((number, outcome)).expect("the test listens"));
    }
    for _ in 0..100 {
        let (_, outcome) = receiver
            .recv_timeout(PATIENCE)
            .expect("a callback for each");
        assert!(outcome.is_stored(), "{outcome}");
    }
}

#[test]
fn many_threads_share_a_producer_and_keep_their_own_order() {
    const THREADS: u32 = 4;
    const RECORDS: u32 = 3000;
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("threads");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .partitioning(Partitioning::Partition(0))
        .build()
        .expect("a new topic");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let producer = producer.clone();
            scope.spawn(move || {
                for number in 0..RECORDS {
                    let payload = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                    // Dropping receipts loses nothing.
                    drop(producer.send(Record::new(payload)).expect("accepted"));
                }
            });
        }
    });
    assert!(producer.flush(PATIENCE));
    let mut next = [0; THREADS as usize];
    for record in read_back(&engine, &stream, "topic", 0) {
        let (thread, number) = record.payload.split_at(4);
        let thread = u32::from_le_bytes(thread.try_into().expect("four bytes"));
        assert_eq!(number, u32::to_le_bytes(next[thread as usize]));
        next[thread as usize] += 1;
    }
    assert_eq!(next, [RECORDS; THREADS as usize]);
    let account = producer.account();
    assert_eq!((account.accepted, account.stored), (12_000, 12_000));
}

#[test]
fn linger_waits_and_a_flush_ends_it() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("linger");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .linger_us(30_000_000)
        .build()
        .expect("a new topic");
    let receipts: Vec<_> = (0..10)
        .map(|_| producer.send(Record::new("x")).expect("accepted"))
        .collect();
    assert!(
        receipts[0]
            .wait_deadline(Instant::now() + Duration::from_millis(100))
            .is_none()
    );
    let started = Instant::now();
    assert!(producer.flush(PATIENCE));
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "the flush did not wait for the linger"
    );
    assert!(
        receipts
            .iter()
            .all(|receipt| receipt.outcome().is_some_and(|outcome| outcome.is_stored()))
    );
    assert_eq!(
        engine.stats().requests,
        1,
        "ten records lingered into one request"
    );

    let short = engine
        .producer(&stream, "topic")
        .linger_us(20_000)
        .build()
        .expect("the topic exists");
    let receipts: Vec<_> = (0..10)
        .map(|_| short.send(Record::new("y")).expect("accepted"))
        .collect();
    let started = Instant::now();
    assert!(receipts[9].wait().is_stored(), "the linger ends by itself");
    // The heartbeat, at ten seconds, would end it too.
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "the long linger of a batch before it does not hold it up"
    );
    assert_eq!(engine.stats().requests, 2);
}

#[test]
fn borrowed_payloads_of_any_size_are_stored_as_they_were() {
    let server = Server::start();
    let engine = server.engine().start();
    let stream = server.stream("borrowed");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    // Copied as small ones are, copied although an owned one would not be, and too large for a
    // batch of copied records.
    let payloads: Vec<Vec<u8>> = [0_usize, 100, 8192, 8193, 200_000, 260_000, 300_000]
        .iter()
        .map(|bytes| (0..*bytes).map(|at| (at % 251) as u8).collect())
        .collect();
    for payload in &payloads {
        drop(producer.send_slice(payload, None).expect("accepted"));
    }
    assert!(producer.flush(PATIENCE));
    let log = read_back(&engine, &stream, "topic", 0);
    assert!(
        log.iter()
            .map(|record| &record.payload[..])
            .eq(payloads.iter().map(|payload| &payload[..]))
    );
    assert!(engine.close(PATIENCE).account.all_stored());
}

#[test]
fn statistics_balance_in_every_snapshot_while_shards_run() {
    let server = Server::start();
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("statistics"), "topic")
        .create_if_missing(3)
        .batch_records_max(2)
        .build()
        .expect("a new topic");
    let snapshots = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            for number in 0..20_000_u32 {
                let record = Record::new(number.to_le_bytes().to_vec());
                drop(producer.send(record).expect("accepted"));
            }
            assert!(producer.flush(PATIENCE));
        });
        let mut snapshots = 0;
        while !sending.is_finished() {
            stats::check(&engine.stats());
            snapshots += 1;
        }
        snapshots
    });
    assert!(snapshots > 0);
    let account = engine.close(PATIENCE).account;
    let stats = engine.stats();
    assert_eq!((account.stored, stats.records), (20_000, 20_000));
    // Every request is in the latencies, also when a reader stood in the way of their hand-over.
    let (of, count) = (stats.requests, stats.latencies.total.count());
    assert_eq!(count, of);
}
