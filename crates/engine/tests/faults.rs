//! Scripted faults of the broker: every record has one answer, and the log agrees with it.
//!
//! The audit reads the log back over an engine of its own and holds every receipt against it: what is `Stored` is at
//! its offset, what is `Rejected` or `NotSent` is not in the log, nothing is in it twice, and order holds except where
//! the engine counted overtaking.

mod support;

use std::collections::HashMap;
use std::time::Instant;

use ringmain::{
    Account, Engine, EngineBuilder, ErrorCode, Ordering, Outcome, Partitioning, Producer, Record,
    Stats,
};
use ringmain_broker::{Act, Action, Broker, Fault, RestartState, Script};
use ringmain_wire::{EvictionReason, Operation};
use support::{PATIENCE, Server, read_back, unique};

const RECORDS: u32 = 2000;
const PARTITIONS: u32 = 2;

/// A run against a broker with faults.
struct Run {
    server: Server,
    ordering: Ordering,
    window: u32,
}

/// What a run gave.
struct Report {
    account: Account,
    stats: Stats,
}

impl Run {
    fn with(script: Script) -> Self {
        Self {
            server: Server::embedded(Broker::builder().script(script)),
            ordering: Ordering::Pipelined,
            window: 8,
        }
    }

    fn strict(mut self) -> Self {
        self.ordering = Ordering::Strict;
        self
    }

    fn engine(&self) -> EngineBuilder {
        self.server.engine().request_timeout_us(100_000)
    }

    fn producer(&self, engine: &Engine, stream: &str) -> Producer {
        engine
            .producer(stream, "topic")
            .create_if_missing(PARTITIONS)
            .partitioning(Partitioning::Balanced)
            .window_requests_max(self.window)
            .ordering(self.ordering)
            .batch_records_max(10)
            .build()
            .expect("a new topic")
    }

    /// Sends numbered records, waits for every answer and audits the log.
    fn audited(&self) -> Report {
        let stream = unique("faults");
        let engine = self.engine().build().expect("the script spares logins");
        let producer = self.producer(&engine, &stream);
        let records = (0..RECORDS).map(|number| Record::new(number.to_le_bytes().to_vec()));
        let receipts = producer.send_batch(records).expect("all accepted");
        let account = receipts.wait_deadline(Instant::now() + PATIENCE);
        assert_eq!(
            account.in_flight,
            0,
            "{account}\n{}",
            engine.stats().to_json()
        );
        assert_eq!(account, producer.account());
        let outcomes: Vec<Outcome> = receipts
            .iter()
            .filter_map(|receipt| receipt.outcome())
            .collect();
        assert!(engine.close(PATIENCE).account.balances());
        // After the end: while a shard runs, its counters may be some milliseconds old.
        let stats = engine.stats();
        let ordered = stats.overtaken == 0 && account.unknown == 0;
        self.audit(&stream, &outcomes, ordered);
        if let Server::Embedded(broker) = &self.server {
            assert_eq!(
                broker.stats().swallowed,
                0,
                "nothing is confirmed without being stored"
            );
            assert_eq!(broker.stats().checksum_failures, 0);
        }
        Report { account, stats }
    }

    fn audit(&self, stream: &str, outcomes: &[Outcome], ordered: bool) {
        let engine = self.engine().build().expect("the faults are over");
        let mut found = HashMap::new();
        for partition in 0..PARTITIONS {
            let numbers: Vec<u32> = read_back(&engine, stream, "topic", partition)
                .iter()
                .map(|record| {
                    u32::from_le_bytes(record.payload[..].try_into().expect("four bytes"))
                })
                .collect();
            assert!(
                !ordered || numbers.is_sorted(),
                "order in partition {partition}"
            );
            for (offset, number) in (0_u64..).zip(numbers) {
                let twice = found.insert(number, (partition, offset));
                assert_eq!(twice, None, "record {number} is stored twice");
            }
        }
        for (number, outcome) in (0..).zip(outcomes) {
            let at = found.get(&number).copied();
            match *outcome {
                Outcome::Stored { partition, offset } => {
                    assert_eq!(at, Some((partition, offset)), "record {number}");
                }
                Outcome::StoredOffsetUnknown { partition } => {
                    assert_eq!(
                        at.map(|(found, _)| found),
                        Some(partition),
                        "record {number}"
                    );
                }
                Outcome::Rejected { .. } | Outcome::NotSent { .. } => {
                    assert_eq!(at, None, "record {number}");
                }
                Outcome::Unknown { .. } => {}
            }
        }
    }
}

fn sends(action: Action) -> Fault {
    Fault::on(Operation::SendMessages).action(action)
}

#[test]
fn refusals_are_retried_until_everything_is_stored() {
    for code in [
        ErrorCode::TRANSIENT_NOT_ACCEPTED,
        ErrorCode::TRANSIENT_NOT_COMMITTED,
    ] {
        let script = Script::new().fault(sends(Action::Refuse(code)).at(3).every(7).times(20));
        let report = Run::with(script).audited();
        assert!(report.account.all_stored(), "{code}: {}", report.account);
        assert!(
            report.stats.retries >= 20,
            "{code}: {}",
            report.stats.retries
        );
    }
}

#[test]
fn strict_ordering_holds_through_refusals_drops_and_cuts() {
    let script = Script::new()
        .fault(
            sends(Action::Refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED))
                .at(2)
                .every(9)
                .times(10),
        )
        .fault(sends(Action::Drop).at(5).every(31).times(3))
        .fault(sends(Action::CommitAndCut).at(20).every(50).times(3));
    let report = Run::with(script).strict().audited();
    assert!(report.account.all_stored(), "{}", report.account);
    assert_eq!(report.stats.overtaken, 0);
}

#[test]
fn silence_is_answered_by_resending_the_same_number() {
    let script = Script::new().fault(sends(Action::Drop).at(4).every(11).times(8));
    let report = Run::with(script).audited();
    assert!(report.account.all_stored(), "{}", report.account);
    assert!(report.stats.retries_after_silence >= 8);
}

#[test]
fn a_commit_whose_reply_is_lost_is_stored_once() {
    let script = Script::new().fault(sends(Action::CommitAndCut).at(5).every(23).times(5));
    let report = Run::with(script).audited();
    assert!(report.account.all_stored(), "{}", report.account);
    assert!(
        report.account.stored_offset_unknown > 0,
        "a duplicate is confirmed without offset"
    );
    assert!(report.stats.logins >= 6, "{}", report.stats.logins);
}

#[test]
fn late_reordered_and_cut_up_replies_find_their_requests() {
    let script = Script::new()
        .fault(sends(Action::Delay { us: 20_000 }).at(2).every(13).times(0))
        .fault(
            sends(Action::Reorder { replies: 2 })
                .at(3)
                .every(7)
                .times(0),
        )
        .fault(sends(Action::Pieces { bytes: 7 }).at(1).every(2).times(0));
    let report = Run::with(script).audited();
    assert!(report.account.all_stored(), "{}", report.account);
    assert_eq!(report.stats.replies_foreign, 0);
}

#[test]
fn a_server_that_stops_reading_for_a_while_loses_nothing() {
    let script = Script::new().fault(
        sends(Action::StallReading { us: 300_000 })
            .at(10)
            .every(60)
            .times(2),
    );
    let report = Run::with(script).audited();
    assert!(report.account.all_stored(), "{}", report.account);
}

#[test]
fn evictions_end_in_a_new_session_or_in_an_honest_answer() {
    for reason in [
        EvictionReason::StaleClient,
        EvictionReason::SessionTooLow,
        EvictionReason::SessionError,
        EvictionReason::NoSession,
    ] {
        let script = Script::new().fault(sends(Action::Evict(reason)).at(10).every(40).times(3));
        let report = Run::with(script).audited();
        let account = report.account;
        assert_eq!(
            account.stored + account.stored_offset_unknown + account.unknown,
            u64::from(RECORDS),
            "{reason}: {account}"
        );
        if reason == EvictionReason::StaleClient {
            assert!(account.all_stored(), "{account}");
        }
        assert_eq!(report.stats.evictions, 3, "{reason}");
    }
}

#[test]
fn a_permanent_refusal_fails_its_batch_and_no_other() {
    let code = ErrorCode::new(2011).expect("not zero");
    let script = Script::new().fault(sends(Action::Refuse(code)).at(7).every(50).times(3));
    let report = Run::with(script).audited();
    assert!(
        (3..=30).contains(&report.account.rejected),
        "{}",
        report.account
    );
    assert_eq!(
        report.account.rejected + report.account.stored,
        u64::from(RECORDS)
    );
}

#[test]
fn a_broker_that_dies_and_comes_back_loses_nothing() {
    let script = Script::new().fault(
        sends(Action::Broker(Act::Restart {
            state: RestartState::Kept,
            down_us: 100_000,
        }))
        .at(50)
        .every(60)
        .times(2),
    );
    let report = Run::with(script).audited();
    assert!(report.account.all_stored(), "{}", report.account);
    assert!(report.stats.disconnects >= 2);
}

#[test]
fn a_server_that_lost_everything_is_noticed() {
    let lost = Act::Restart {
        state: RestartState::Lost,
        down_us: 0,
    };
    let script = Script::new().fault(sends(Action::Broker(lost)).at(50));
    let server = Server::embedded(Broker::builder().script(script));
    let engine = server
        .engine()
        .request_timeout_us(100_000)
        .build()
        .expect("the script spares logins");
    let producer = engine
        .producer(unique("lost"), "topic")
        .create_if_missing(1)
        .batch_records_max(1)
        .delivery_timeout_us(5_000_000)
        .build()
        .expect("a new topic");
    let receipts = producer
        .send_batch((0..200).map(|_| Record::new("x")))
        .expect("accepted");
    let account = receipts.wait_deadline(Instant::now() + PATIENCE);
    assert_eq!(account.in_flight, 0);
    assert!(account.stored >= 40, "before the loss: {account}");
    assert!(account.rejected > 0, "the topic is gone: {account}");
    assert!(engine.close(PATIENCE).account.balances());
}

#[test]
fn a_partition_that_commits_nothing_for_a_while_catches_up() {
    let run = Run::with(Script::new());
    let Server::Embedded(broker) = &run.server else {
        unreachable!("made embedded")
    };
    let engine = run.engine().build().expect("a healthy server");
    let producer = run.producer(&engine, &unique("hold"));
    broker.act(Act::HoldCommits);
    let receipts = producer
        .send_batch((0..500_u32).map(|number| Record::new(number.to_le_bytes().to_vec())))
        .expect("accepted");
    assert!(
        !producer.flush(std::time::Duration::from_millis(300)),
        "nothing is committed"
    );
    broker.act(Act::ReleaseCommits);
    let account = receipts.wait_deadline(Instant::now() + PATIENCE);
    assert!(account.all_stored(), "{account}");
}

/// Sends from several threads while the broker stalls, dies and comes back, and audits every record by reading back.
/// `RINGMAIN_TEST_RECORDS` sets how many; the default keeps a debug build quick.
#[test]
fn a_long_run_through_stalls_and_restarts_accounts_for_every_record() {
    let records: u32 = std::env::var("RINGMAIN_TEST_RECORDS")
        .ok()
        .and_then(|records| records.parse().ok())
        .unwrap_or(100_000);
    let restart = Act::Restart {
        state: RestartState::Kept,
        down_us: 20_000,
    };
    let script = Script::new()
        .fault(sends(Action::Broker(restart)).at(30).every(100).times(4))
        .fault(
            sends(Action::StallReading { us: 50_000 })
                .at(10)
                .every(70)
                .times(5),
        )
        .fault(sends(Action::Drop).at(17).every(90).times(5))
        .fault(sends(Action::CommitAndCut).at(45).every(110).times(4));
    let mut run = Run::with(script);
    run.window = 16;
    let stream = unique("long");
    let engine = run
        .engine()
        .shards(2)
        .connections(4)
        .build()
        .expect("the script spares logins");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(PARTITIONS)
        .batch_records_max(500)
        .build()
        .expect("a new topic");
    let outcomes = send_from_threads(&producer, records);
    let report = engine.close(PATIENCE);
    assert_eq!(report.account.accepted, u64::from(records));
    assert!(report.account.all_stored(), "{}", report.account);
    assert!(report.drained);
    // Records of different threads interleave, so order is not audited here.
    run.audit(&stream, &outcomes, false);
}

/// The outcome of each record, in the order of the numbers they carry.
fn send_from_threads(producer: &Producer, records: u32) -> Vec<Outcome> {
    const THREADS: u32 = 4;
    let mut outcomes: Vec<(u32, Outcome)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let numbers = (thread..records).step_by(THREADS as usize);
                    let receipts: Vec<_> = numbers
                        .map(|number| {
                            (
                                number,
                                producer
                                    .send_slice(&number.to_le_bytes(), None)
                                    .expect("accepted"),
                            )
                        })
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
