//! How many requests records make, whatever their times, their sizes and their producers; and that
//! each keeps its time, its place and its answer.
//!
//! Every batch lingers for a minute and the window is never full, so that only what fills a batch
//! ends it and no count depends on a clock.

mod support;

use ringmain::{Engine, Outcome, Producer, ProducerBuilder, Record};
use support::{Draws, PATIENCE, Server, Start, read_back};

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
    println!("{} {}: {requests}", case.name, producers.len());
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
