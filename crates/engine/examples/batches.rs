//! How many requests records make, whatever their times, their sizes and their producers.
//!
//!     cargo run --release -p ringmain --example batches
//!
//! 200,000 records at 100,000 a second with a linger of 5 ms, to an embedded broker. The table of
//! `benches/README.md` is the output of this.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringmain::{Engine, Record};
use ringmain_broker::Broker;

const RECORDS: u64 = 200_000;
const RECORDS_PER_MS: u64 = 100;

/// One row of the table.
struct Case {
    name: &'static str,
    producers: usize,
    /// The time of a record: of now, its number and something random.
    time_us: fn(u64, u64, u64) -> u64,
    payload_bytes: fn(u64) -> usize,
}

const PLAIN: Case = Case {
    name: "each record with the time of its send",
    producers: 1,
    time_us: |now, _, _| now,
    payload_bytes: |_| 100,
};

const CASES: [Case; 7] = [
    PLAIN,
    Case {
        name: "up to 1 ms earlier, at random",
        time_us: |now, _, random| now - random % 1_000,
        ..PLAIN
    },
    Case {
        name: "up to 50 ms earlier, at random",
        time_us: |now, _, random| now - random % 50_000,
        ..PLAIN
    },
    Case {
        name: "falling times",
        time_us: |_, number, _| 1_700_000_000_000_000 - number,
        ..PLAIN
    },
    Case {
        name: "two producers of the topic in turns",
        producers: 2,
        ..PLAIN
    },
    Case {
        name: "9,000 bytes, by reference, every hundredth",
        payload_bytes: |number| if number % 100 == 0 { 9_000 } else { 100 },
        ..PLAIN
    },
    Case {
        name: "9,000 bytes, by reference, every other",
        payload_bytes: |number| if number % 2 == 0 { 9_000 } else { 100 },
        ..PLAIN
    },
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| records | requests | records a request |\n|---|---:|---:|");
    for case in &CASES {
        run(case)?;
    }
    Ok(())
}

fn run(case: &Case) -> Result<(), Box<dyn std::error::Error>> {
    let broker = Broker::builder().start()?;
    let engine = Engine::builder()
        .server(format!("iggy://iggy:iggy@{}", broker.addr()))
        .build()?;
    let producers = (0..case.producers)
        .map(|_| {
            engine
                .producer("stream", "topic")
                .create_if_missing(1)
                .linger_us(5_000)
                .build()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut random = 88_172_645_463_325_252_u64;
    let started = Instant::now();
    let mut turns = producers.iter().cycle();
    let mut number = 0;
    while number < RECORDS {
        let due = started.elapsed().as_micros() as u64 * RECORDS_PER_MS / 1_000;
        while number < due.min(RECORDS) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let time_us = (case.time_us)(now.as_micros() as u64, number, random);
            let record = Record::new(vec![7; (case.payload_bytes)(number)]).timestamp_us(time_us);
            if let Some(producer) = turns.next() {
                drop(producer.send(record)?);
            }
            number += 1;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    assert!(producers[0].flush(Duration::from_secs(60)), "all answered");
    let stats = engine.stats();
    println!(
        "| {} | {} | {:.0} |",
        case.name,
        stats.requests,
        stats.records_per_request()
    );
    engine.close(Duration::from_secs(5));
    Ok(())
}
