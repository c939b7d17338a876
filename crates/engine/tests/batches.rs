//! How many requests records make, whatever their times, their sizes and their producers; and that
//! each keeps its time, its place and its answer.
//!
//! Every batch lingers for a minute and the window is never full, so that only what fills a batch
//! ends it and no count depends on a clock.

mod support;

use std::time::Duration;

use ringmain::{
    Engine, NotSentReason, Ordering, Outcome, Producer, ProducerBuilder, Purged, Receipt, Record,
};
use ringmain_broker::{Act, Broker};
use support::{Checked, Draws, PATIENCE, Server, Start, audit, numbered, payload, read_back};

const RECORDS: u32 = 20_000;

/// Some day in 2023.
const T0: u64 = 1_700_000_000_000_000;

/// Records of a case.
struct Case {
    name: &'static str,
    time_us: fn(u64, &mut Draws) -> u64,
    payload_bytes: fn(u64) -> usize,
}

const SMALL: fn(u64) -> usize = |_| 100;

/// 100,000 records a second, each in its turn.
const RISING: fn(u64, &mut Draws) -> u64 = |number, _| T0 + number * 10;

const TIMES: [Case; 6] = [
    Case {
        name: "rising",
        time_us: RISING,
        payload_bytes: SMALL,
    },
    Case {
        name: "jitter of 1 ms",
        time_us: |number, draws| T0 + number * 10 - draws.below(1_000),
        payload_bytes: SMALL,
    },
    Case {
        name: "jitter of 50 ms",
        time_us: |number, draws| T0 + number * 10 - draws.below(50_000),
        payload_bytes: SMALL,
    },
    Case {
        name: "falling",
        time_us: |number, _| T0 - number,
        payload_bytes: SMALL,
    },
    Case {
        name: "a minute apart, to and fro",
        time_us: |number, _| T0 + number % 2 * 60_000_000,
        payload_bytes: SMALL,
    },
    Case {
        name: "falling, by reference",
        time_us: |number, _| T0 - number,
        payload_bytes: |_| 9_000,
    },
];

fn producer(engine: &Engine, stream: &str) -> ProducerBuilder {
    engine
        .producer(stream, "topic")
        .create_if_missing(1)
        .linger_us(60_000_000)
        .window_requests_max(32)
}

/// The time that makes a payload of these bytes, and bytes that differ from record to record.
fn record(number: u64, case: &Case, draws: &mut Draws) -> Record {
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize((case.payload_bytes)(number).max(8), number as u8);
    Record::new(payload).timestamp_us((case.time_us)(number, draws))
}

/// Sends records of a case from the producers in turn, checks answers and log, and says how many
/// requests it took.
fn requests(case: &Case, records: u32, producers: usize) -> u64 {
    let server = Server::start();
    let stream = server.stream("batches");
    let engine = server
        .engine()
        .memory_bytes_max(512 << 20)
        .slot_bytes(256 << 10)
        .start();
    let producers: Vec<Producer> = (0..producers)
        .map(|_| producer(&engine, &stream).build().expect("a topic"))
        .collect();
    let mut draws = Draws::new(7);
    let sent: Vec<Record> = (0..u64::from(records))
        .map(|number| record(number, case, &mut draws))
        .collect();
    let receipts: Vec<_> = sent
        .iter()
        .zip(producers.iter().cycle())
        .map(|(record, producer)| producer.send(record.clone()).expect("accepted"))
        .collect();
    assert!(producers[0].flush(PATIENCE), "{}", case.name);
    let requests = engine.stats().requests;
    for (offset, receipt) in (0..).zip(&receipts) {
        let stored = Outcome::Stored {
            partition: 0,
            offset,
        };
        assert_eq!(receipt.outcome(), Some(stored), "{}", case.name);
    }
    let stored = read_back(&engine, &stream, "topic", 0);
    assert_eq!(stored.len(), sent.len());
    for (stored, sent) in stored.iter().zip(&sent) {
        assert_eq!(
            Some(stored.origin_timestamp_us),
            sent.timestamp_us,
            "{}",
            case.name
        );
        assert!(stored.payload == sent.payload, "{}", case.name);
    }
    let share = u64::from(records) / producers.len() as u64;
    for producer in &producers {
        let account = producer.account();
        assert!(account.balances());
        assert_eq!(
            (account.stored, account.in_flight),
            (share, 0),
            "{}",
            case.name
        );
    }
    requests
}

#[test]
fn no_order_of_times_makes_more_requests() {
    let rising = requests(&TIMES[0], RECORDS, 1);
    for case in &TIMES[1..] {
        let (records, plain) = if (case.payload_bytes)(0) > 8192 {
            // 64 by reference make a request.
            (1_000, 16)
        } else {
            (RECORDS, rising)
        };
        let requests = requests(case, records, 1);
        assert!(requests <= plain, "{}: {requests} for {plain}", case.name);
    }
}

/// Copied and by reference in turn, far from the threshold and right at it.
#[test]
fn sizes_around_the_threshold_share_requests() {
    for (name, payload_bytes, requests_max) in [
        // 64 by reference make a request: the small ones between them make none.
        (
            "100 and 9000",
            (|n| [100, 9_000][n as usize % 2]) as fn(u64) -> usize,
            16,
        ),
        // 31 copied ones fill a slot: those by reference between them make none.
        ("8192 and 8193", |n| 8_192 + n as usize % 2, 17),
        // Runs of each, as a log of lines with some long ones has them.
        (
            "99 small ones, a large one",
            |n| if n % 100 == 99 { 9_000 } else { 100 },
            2,
        ),
    ] {
        let case = Case {
            name,
            time_us: RISING,
            payload_bytes,
        };
        let requests = requests(&case, 1_000, 1);
        assert!(requests <= requests_max, "{name}: {requests}");
    }
}

#[test]
fn producers_of_one_topic_share_requests() {
    let alone = requests(&TIMES[0], RECORDS, 1);
    for producers in [2, 5, 50] {
        let shared = requests(&TIMES[0], RECORDS, producers);
        assert!(
            shared <= alone,
            "{producers} producers: {shared} for {alone}"
        );
    }
    let jittered = requests(&TIMES[2], RECORDS, 2);
    assert!(jittered <= alone, "two with jitter: {jittered} for {alone}");
}

/// No record travels in a larger request than its producer wants, and none is given up with
/// another's.
#[test]
fn producers_with_other_limits_keep_them() {
    let server = Server::start();
    let engine = server.engine().start();
    for (name, limit, requests) in [
        (
            "records",
            (|producer| producer.batch_records_max(10)) as fn(ProducerBuilder) -> ProducerBuilder,
            20,
        ),
        // 96 bytes of prefix, header and such, and 148 a record: 25 in 4096.
        ("bytes", |producer| producer.batch_bytes_max(4096), 8),
        // The first goes before the second comes, which must not wait as long. Then they share.
        ("linger", |producer| producer.linger_us(30_000_000), 2),
        // Each would be given up with the other: none joins.
        (
            "timeout",
            |producer| producer.delivery_timeout_us(90_000_000),
            200,
        ),
    ] {
        let before = engine.stats().requests;
        let stream = server.stream("limits");
        let wide = producer(&engine, &stream).build().expect("a topic");
        let limited = limit(producer(&engine, &stream)).build().expect("a topic");
        for number in 0..100_u32 {
            for producer in [&wide, &limited] {
                let record = Record::new([number as u8; 100].to_vec());
                drop(producer.send(record).expect("accepted"));
            }
        }
        assert!(wide.flush(PATIENCE));
        assert_eq!(engine.stats().requests - before, requests, "{name}");
        assert_eq!(
            (wide.account().stored, limited.account().stored),
            (100, 100)
        );
    }
}

/// Three producers of one partition behind a server that holds what it is given.
struct Mixed {
    server: Server,
    stream: String,
    engine: Checked,
    producers: [Producer; 3],
    /// Whose each record is, and its receipt.
    sent: Vec<(usize, Receipt)>,
}

const MIXED: u32 = 900;

/// The time of a numbered record: in no order.
fn time_us(number: u32) -> u64 {
    T0 + u64::from(number * 7919 % 1000)
}

impl Mixed {
    fn start(ordering: Ordering) -> Self {
        let server = Server::embedded(Broker::builder());
        let stream = server.stream("mixed");
        let engine = server.engine().memory_bytes_max(64 << 20).start();
        let producers = [0, 1, 2].map(|_| {
            engine
                .producer(&stream, "topic")
                .create_if_missing(1)
                .window_requests_max(1)
                .ordering(ordering)
                .batch_records_max(20)
                .build()
                .expect("a topic")
        });
        server.broker().act(Act::HoldCommits);
        let mut draws = Draws::new(11);
        let sent = (0..MIXED)
            .map(|number| {
                let of = draws.below(3) as usize;
                let record = numbered(number).timestamp_us(time_us(number));
                (of, producers[of].send(record).expect("accepted"))
            })
            .collect();
        Self {
            server,
            stream,
            engine,
            producers,
            sent,
        }
    }

    /// Checks that these are the producer's own records, as they were, in order, and that receipts
    /// say the same.
    fn check(&self, of: usize, purged: &Purged) {
        let mut numbers = Vec::new();
        for (partition, record) in &purged.records {
            let number = u32::from_le_bytes(*record.payload.first_chunk().expect("four bytes"));
            assert_eq!(*partition, 0);
            assert!(record.payload == payload(number), "record {number}");
            assert_eq!(record.timestamp_us, Some(time_us(number)));
            numbers.push(number);
        }
        let told: Vec<u32> = (0..)
            .zip(&self.sent)
            .filter(|(_, (owner, receipt))| {
                let purged = Outcome::NotSent {
                    reason: NotSentReason::Purged,
                };
                *owner == of && receipt.outcome() == Some(purged)
            })
            .map(|(number, _)| number)
            .collect();
        assert_eq!(numbers, told, "its own, in the order of acceptance");
        let account = self.producers[of].account();
        assert_eq!((account.in_flight, account.unknown), (0, purged.unknown));
        assert_eq!(account.not_sent, numbers.len() as u64);
    }

    /// Lets the server go on, and holds every answer against the log.
    fn finish(self) -> Vec<(usize, Outcome)> {
        self.server.broker().act(Act::ReleaseCommits);
        assert!(self.producers[0].flush(PATIENCE));
        assert!(self.engine.close(PATIENCE).account.balances());
        let outcomes: Vec<(usize, Outcome)> = self
            .sent
            .iter()
            .map(|(of, receipt)| (*of, receipt.outcome().expect("closed")))
            .collect();
        let of_all: Vec<Outcome> = outcomes.iter().map(|(_, outcome)| *outcome).collect();
        assert!(audit(&self.server, &self.stream, 1, &of_all).is_sorted);
        outcomes
    }
}

#[test]
fn a_purge_takes_the_records_of_its_producer_out_of_shared_requests() {
    let mixed = Mixed::start(Ordering::Pipelined);
    for of in [0, 2] {
        let purged = mixed.producers[of].purge();
        // One request is out.
        assert!(purged.unknown <= 20, "{}", purged.unknown);
        assert!(purged.records.len() > 200, "{}", purged.records.len());
        mixed.check(of, &purged);
    }
    assert!(mixed.producers[1].account().in_flight > 200);
    let outcomes = mixed.finish();
    let mut others = outcomes.iter().filter(|(of, _)| *of == 1);
    assert!(
        others.all(|(_, outcome)| outcome.is_stored()),
        "nothing of the third is lost"
    );
}

#[test]
fn a_close_gives_up_its_own_records_in_shared_requests() {
    let mixed = Mixed::start(Ordering::Pipelined);
    let report = mixed.producers[2].close(Duration::ZERO);
    let account = report.account;
    assert!(
        !report.drained && account.in_flight == 0 && account.unknown <= 20,
        "{account}"
    );
    let outcomes = mixed.finish();
    for (of, outcome) in outcomes {
        let closed = Outcome::NotSent {
            reason: NotSentReason::Closed,
        };
        let is_told = outcome == closed || matches!(outcome, Outcome::Unknown { .. });
        assert_eq!(is_told, of == 2, "{outcome}");
        assert_eq!(outcome.is_stored(), of != 2, "{outcome}");
    }
}

/// In strict order the others are behind what was purged: they are told so, and nothing of them is
/// lost in silence.
#[test]
fn a_purge_in_strict_order_leaves_no_hole() {
    let mixed = Mixed::start(Ordering::Strict);
    let purged = mixed.producers[1].purge();
    assert!(purged.records.len() > 200, "{}", purged.records.len());
    mixed.check(1, &purged);
    let outcomes = mixed.finish();
    let first = outcomes
        .iter()
        .position(|(_, outcome)| !outcome.is_stored());
    let (before, behind) = outcomes.split_at(first.expect("some were purged"));
    assert!(before.len() <= 20);
    for (of, outcome) in behind {
        let expected = match (of, outcome) {
            (1, Outcome::NotSent { reason }) => *reason == NotSentReason::Purged,
            (_, Outcome::NotSent { reason }) => *reason == NotSentReason::BehindUnstored,
            (_, Outcome::Unknown { .. }) => true,
            _ => false,
        };
        assert!(expected, "{of}: {outcome}");
    }
}
