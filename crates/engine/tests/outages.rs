//! A server that stalls, dies and comes back, and a network that is cut at any byte, in the middle
//! of many records: every record is accounted for, audited by reading back.
//!
//! `RINGMAIN_TEST_RECORDS` says how many records; the default keeps a debug build quick.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringmain::{Account, Engine, OnLostCoverage, Outcome, Producer, SocketOptions};
use ringmain_broker::{Act, Action, Broker, Fault, RestartState, Script};
use ringmain_wire::Operation;
use support::{Draws, Log, PATIENCE, Proxy, Server, Start, audit, numbered};

const PARTITIONS: u32 = 2;

fn records() -> u32 {
    match std::env::var("RINGMAIN_TEST_RECORDS") {
        Ok(records) => records.parse().expect("a number of records"),
        Err(_) => 50_000,
    }
}

fn sends(action: Action) -> Fault {
    Fault::on(Operation::SendMessages).action(action)
}

/// Stalls, restarts, drops and cuts at random places among the first `requests`.
fn random_faults(seed: u64, requests: u64) -> Script {
    let mut draws = Draws::new(seed);
    let mut script = Script::new();
    for kind in 0..32 {
        let action = match kind % 8 {
            0 => Action::Broker(Act::Restart {
                state: RestartState::Kept,
                down_us: draws.below(30_000),
            }),
            1 => Action::StallReading {
                us: draws.below(50_000),
            },
            2 | 3 => Action::CommitAndCut,
            4 => Action::Drop,
            5 => Action::Delay {
                us: draws.below(150_000),
            },
            6 => Action::Reorder { replies: 3 },
            _ => Action::Pieces { bytes: 13 },
        };
        script = script.fault(sends(action).at(1 + draws.below(requests)));
    }
    script
}

/// Sends records `0..records` from several threads; the outcome of each, by number.
fn send_from_threads(producer: &Producer, records: u32) -> Vec<Outcome> {
    const THREADS: u32 = 4;
    let mut outcomes: Vec<(u32, Outcome)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let numbers = (thread..records).step_by(THREADS as usize);
                    let receipts: Vec<_> = numbers
                        .map(|number| (number, producer.send(numbered(number)).expect("accepted")))
                        .collect();
                    let answered = receipts
                        .into_iter()
                        .map(|(number, receipt)| (number, receipt.wait()));
                    answered.collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn producer(engine: &Engine, stream: &str) -> Producer {
    engine
        .producer(stream, "topic")
        .create_if_missing(PARTITIONS)
        .window_requests_max(16)
        .batch_records_max(500)
        .build()
        .expect("a new topic")
}

/// Send buffers of the kernel's least size: every write comes back short.
fn tiny_sockets() -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: Some(1),
        ..SocketOptions::default()
    }
}

#[test]
fn a_broker_that_stalls_dies_and_comes_back_with_its_log_loses_nothing() {
    let records = records();
    let server = Server::faulty(random_faults(1, u64::from(records / 500)));
    let stream = server.stream("outage");
    let engine = server
        .engine()
        .request_timeout_us(100_000)
        .shards(2)
        .connections(4)
        .build()
        .map(support::Checked::new)
        .expect("the script spares logins");
    let producer = producer(&engine, &stream);
    let started = Instant::now();
    let outcomes = send_from_threads(&producer, records);
    let report = engine.close(PATIENCE);
    println!(
        "{} in {:?}, {} faults, retries {}, logins {}",
        report.account,
        started.elapsed(),
        server.broker().stats().faults,
        engine.stats().retries,
        engine.stats().logins,
    );
    assert!(report.drained && report.account.all_stored());
    assert_eq!(report.account.accepted, u64::from(records));
    let log = audit(&server, &stream, PARTITIONS, &outcomes);
    assert_eq!(log.found.len(), records as usize);
}

#[test]
fn a_network_cut_at_any_byte_loses_nothing() {
    for seed in 1..=3 {
        let mut draws = Draws::new(seed);
        let server = Server::embedded(Broker::builder());
        // Some are cut in their login, some in a reply, most in the middle of a batch.
        let budgets = (0..20)
            .map(|_| [1 + draws.below(200_000), 1 + draws.below(20_000)])
            .collect();
        let proxy = Proxy::start(server.broker().addr(), budgets);
        let url = format!(
            "iggy://iggy:iggy@{}?reconnection_retries=unlimited",
            proxy.address()
        );
        let stream = server.stream("cuts");
        let engine = server
            .engine()
            .server(url)
            .request_timeout_us(100_000)
            .connections(2)
            .socket_options(tiny_sockets())
            .start();
        let producer = producer(&engine, &stream);
        let records = records() / 5;
        let outcomes = send_from_threads(&producer, records);
        let report = engine.close(PATIENCE);
        println!("seed {seed}: {}, {} cuts", report.account, proxy.cuts());
        assert!(proxy.cuts() >= 15, "seed {seed}: {}", proxy.cuts());
        assert!(
            report.account.all_stored(),
            "seed {seed}: {}",
            report.account
        );
        assert!(engine.stats().transport.short_writes > 0, "seed {seed}");
        let log = audit(&server, &stream, PARTITIONS, &outcomes);
        assert_eq!(log.found.len(), records as usize, "seed {seed}");
    }
}

#[test]
fn a_broker_that_comes_back_without_its_log_accounts_for_every_record() {
    for policy in [OnLostCoverage::Report, OnLostCoverage::Resend] {
        let server = Server::embedded(Broker::builder());
        let stream = server.stream("lost");
        let engine = server
            .engine()
            .request_timeout_us(100_000)
            .on_lost_coverage(policy)
            .start();
        let producer = producer(&engine, &stream);
        let is_back = AtomicBool::new(false);
        let outcomes = std::thread::scope(|scope| {
            let sending = scope.spawn(|| send_until_back(&producer, &is_back));
            while producer.account().stored < u64::from(records() / 3) {
                std::thread::yield_now();
            }
            server.broker().act(Act::Restart {
                state: RestartState::Lost,
                down_us: 10_000,
            });
            create_again(&engine, &stream);
            is_back.store(true, Ordering::SeqCst);
            sending.join().expect("no panic")
        });
        let account = engine.close(PATIENCE).account;
        println!("{policy:?}: {account}");
        assert_eq!(account.accepted, outcomes.len() as u64);
        assert!(engine.stats().coverage_losses > 0);
        let committed = server.broker().stats().records;
        audit_after_loss(
            &Log::read(&server, &stream, PARTITIONS),
            &outcomes,
            committed,
            account,
        );
    }
}

/// Sends while the broker works, dies and comes back, and as many records again afterwards.
fn send_until_back(producer: &Producer, is_back: &AtomicBool) -> Vec<Outcome> {
    let mut receipts = Vec::new();
    let mut more = records() / 2;
    while more > 0 {
        more -= u32::from(is_back.load(Ordering::SeqCst));
        let number = u32::try_from(receipts.len()).expect("counted in u32");
        receipts.push(producer.send(numbered(number)).expect("accepted"));
    }
    receipts.iter().map(|receipt| receipt.wait()).collect()
}

fn create_again(engine: &Engine, stream: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Calls fail while the connection is made again.
        let created = engine
            .create_stream(stream, PATIENCE)
            .and_then(|_| engine.create_topic(stream, "topic", PARTITIONS, PATIENCE));
        match created {
            Ok(_) => return,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Holds the outcomes against the new log. What is `Stored` and not in it was in the log that is
/// lost: each at a place of its own there, and no more of them than were committed there.
fn audit_after_loss(log: &Log, outcomes: &[Outcome], committed: u64, account: Account) {
    let mut lost = Vec::new();
    for (number, outcome) in (0..).zip(outcomes) {
        let at = log.found.get(&number).copied();
        match *outcome {
            Outcome::Stored { partition, offset } if at.is_none() => lost.push((partition, offset)),
            Outcome::Stored { partition, offset } => {
                assert_eq!(at, Some((partition, offset)), "record {number}");
            }
            Outcome::Rejected { .. } | Outcome::NotSent { .. } => {
                assert_eq!(at, None, "record {number}: {outcome}");
            }
            Outcome::StoredOffsetUnknown { .. } | Outcome::Unknown { .. } => {}
        }
    }
    let (places, of_new) = (lost.len() as u64, log.found.len() as u64);
    lost.sort_unstable();
    lost.dedup();
    assert_eq!(lost.len() as u64, places, "each had a place of its own");
    let of_old = committed - of_new;
    assert!(places <= of_old, "{places} stored in a log of {of_old}");
    assert!(
        places + account.unknown + account.stored_offset_unknown >= of_old,
        "of {of_old} in the lost log, {places} are told as stored: {account}"
    );
    assert!(places > 0 && of_new > 0, "before and after: {account}");
}
