//! Every scripted fault of the broker, on every write path: each record has one answer, and the log
//! agrees with it.
//!
//! A table of faults, each row run with several setups of the engine and audited by reading back.
//! What a row promises beyond the audit is its last column.

mod support;

use std::sync::Mutex;
use std::time::Instant;

use ringmain::{
    Account, EngineBuilder, ErrorCode, Features, NotSentReason, Ordering, Outcome, Partitioning,
    SocketOptions, Stats, WritePath,
};
use ringmain_broker::{Act, Action, Fault, RestartState, Script};
use ringmain_wire::{EvictionReason, Operation};
use support::{Log, PATIENCE, PROMPT, Server, audit, numbered};

const RECORDS: u32 = 1000;
const PARTITIONS: u32 = 2;

/// How the engine is set up for a row.
#[derive(Clone, Copy)]
struct Setup {
    path: WritePath,
    features: Features,
    shards: u16,
    connections: u16,
    sockets: SocketOptions,
    ordering: Ordering,
    request_timeout_us: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            path: WritePath::Auto,
            features: Features::default(),
            shards: 1,
            connections: 1,
            sockets: SocketOptions::default(),
            ordering: Ordering::Pipelined,
            request_timeout_us: 100_000,
        }
    }
}

/// What a run gave.
struct Report {
    account: Account,
    stats: Stats,
    log: Log,
    /// Records that strict order did not send, because one ahead of them is not stored.
    behind: u64,
}

impl Report {
    fn all_stored(&self) {
        assert!(self.account.all_stored(), "{}", self.account);
    }

    /// Nothing was refused or given up without having been sent, but for what strict order kept
    /// back.
    fn stored_or_unknown(&self) {
        let Account {
            stored,
            stored_offset_unknown,
            unknown,
            accepted,
            ..
        } = self.account;
        assert_eq!(
            stored + stored_offset_unknown + unknown + self.behind,
            accepted,
            "{}",
            self.account
        );
    }
}

impl Setup {
    fn engine(&self, server: &Server) -> EngineBuilder {
        server
            .engine()
            .request_timeout_us(self.request_timeout_us)
            .write_path(self.path)
            .features(self.features)
            .shards(self.shards)
            .connections(self.connections)
            .socket_options(self.sockets)
    }

    /// Sends numbered records through the faults, waits for every answer and audits the log. `None`
    /// when this kernel lacks the write path.
    fn run(&self, script: Script) -> Option<Report> {
        let server = Server::faulty(script);
        let stream = server.stream("faults");
        let engine = match self.engine(&server).build() {
            Ok(engine) => support::Checked::new(engine),
            Err(cause) if support::lacks_path(&cause) => {
                println!("skipped on this kernel: {:?}: {cause}", self.path);
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let producer = engine
            .producer(&stream, "topic")
            .create_if_missing(PARTITIONS)
            .partitioning(Partitioning::Balanced)
            .ordering(self.ordering)
            .batch_records_max(10)
            .build()
            .expect("a new topic");
        let receipts = producer
            .send_batch((0..RECORDS).map(numbered))
            .expect("all accepted");
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
        engine.close(PATIENCE);
        // After the end: while a shard runs, its counters may be some milliseconds old.
        let stats = engine.stats();
        let log = audit(&server, &stream, PARTITIONS, &outcomes);
        if stats.overtaken == 0 && account.unknown == 0 {
            assert!(log.is_sorted, "nothing was overtaken, so order holds");
        }
        let broker = server.broker().stats();
        assert_eq!(broker.swallowed, 0, "nothing is confirmed and not stored");
        assert_eq!(broker.checksum_failures, 0);
        let is_behind = |outcome: &&Outcome| {
            let reason = NotSentReason::BehindUnstored;
            **outcome == Outcome::NotSent { reason }
        };
        Some(Report {
            account,
            stats,
            log,
            behind: outcomes.iter().filter(is_behind).count() as u64,
        })
    }
}

/// A row: its name, its faults, and what holds afterwards beyond the audit.
type Row = (&'static str, Script, fn(&Report));

fn sends(action: Action) -> Fault {
    Fault::on(Operation::SendMessages).action(action)
}

fn act(act: Act) -> Fault {
    sends(Action::Broker(act))
}

fn restart(down_us: u64) -> Fault {
    act(Act::Restart {
        state: RestartState::Kept,
        down_us,
    })
}

/// What must hold without a single retry: a slow machine must not look like silence.
fn rows_of_patience() -> Vec<Row> {
    let lost_windows = act(Act::LoseWindows).at(20).every(40).times(2);
    vec![
        ("no fault", Script::new(), |report| {
            report.all_stored();
            assert_eq!(report.stats.retries, 0);
            assert!(report.log.is_sorted);
        }),
        (
            "lost windows",
            Script::new().fault(lost_windows),
            Report::all_stored,
        ),
    ]
}

/// Requests that the server refuses.
fn rows_of_refusals() -> Vec<Row> {
    let not_accepted = Action::Refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED);
    let not_committed = Action::Refuse(ErrorCode::TRANSIENT_NOT_COMMITTED);
    let no_topic = ErrorCode::new(2010).expect("not zero");
    let one = |fault| Script::new().fault(fault);
    vec![
        (
            "refusals as not accepted",
            one(sends(not_accepted).at(3).every(4).times(20)),
            |report| {
                report.all_stored();
                // A refusal of a copy that was sent for silence may come after the answer to the
                // first one.
                let refusals = report.stats.retries_not_admitted + report.stats.replies_late;
                assert!(refusals >= 20, "{refusals}");
            },
        ),
        (
            "refusals as not committed",
            one(sends(not_committed).at(3).every(4).times(20)),
            |report| {
                report.all_stored();
                // A refusal of a copy that was sent for silence may come after the answer to the
                // first one.
                let refusals = report.stats.retries_outcome_unknown + report.stats.replies_late;
                assert!(refusals >= 20, "{refusals}");
            },
        ),
        (
            "permanent refusals",
            one(sends(Action::Refuse(no_topic)).at(7).every(30).times(3)),
            |report| {
                let Account {
                    rejected, stored, ..
                } = report.account;
                assert!(
                    (3..=30).contains(&rejected),
                    "three batches: {}",
                    report.account
                );
                assert_eq!(rejected + stored + report.behind, u64::from(RECORDS));
            },
        ),
        (
            "permanent results",
            one(sends(Action::Reject(no_topic)).at(7).every(30).times(3)),
            |report| {
                assert!(
                    (3..=30).contains(&report.account.rejected),
                    "{}",
                    report.account
                );
                assert_eq!(report.account.not_sent, report.behind);
            },
        ),
    ]
}

/// Replies that are lost, late, out of order or in pieces.
fn rows_of_replies() -> Vec<Row> {
    let one = |fault| Script::new().fault(fault);
    vec![
        (
            "silence",
            one(sends(Action::Drop).at(4).every(11).times(8)),
            |report| {
                report.all_stored();
                assert!(report.stats.retries_after_silence >= 8);
            },
        ),
        (
            "commits whose replies are lost",
            one(sends(Action::CommitAndCut).at(5).every(15).times(5)),
            |report| {
                report.all_stored();
                assert!(
                    report.account.stored_offset_unknown > 0,
                    "duplicates have no offset"
                );
                assert!(report.stats.logins >= 6, "{}", report.stats.logins);
            },
        ),
        (
            "late replies",
            one(sends(Action::Delay { us: 20_000 }).at(2).every(13).times(0)),
            |report| {
                report.all_stored();
                assert_eq!(report.stats.replies_foreign, 0);
            },
        ),
        (
            "replies later than the patience",
            one(sends(Action::Delay { us: 150_000 })
                .at(2)
                .every(40)
                .times(3)),
            |report| {
                report.all_stored();
                assert!(report.stats.retries_after_silence > 0);
            },
        ),
        (
            "replies out of order",
            one(sends(Action::Reorder { replies: 2 })
                .at(3)
                .every(7)
                .times(0)),
            |report| {
                report.all_stored();
                assert_eq!(report.stats.replies_foreign, 0);
            },
        ),
        (
            "replies in pieces",
            one(sends(Action::Pieces { bytes: 7 }).every(2).times(0)),
            Report::all_stored,
        ),
        (
            "a server that stops reading",
            one(sends(Action::StallReading { us: 200_000 })
                .at(10)
                .every(60)
                .times(2)),
            Report::all_stored,
        ),
    ]
}

/// Faults of sessions and of the whole broker.
fn rows_of_brokers() -> Vec<Row> {
    let one = |fault| Script::new().fault(fault);
    let cut = || sends(Action::CommitAndCut);
    vec![
        (
            "a broker that comes back",
            one(restart(50_000).at(30).every(40).times(2)),
            |report| {
                report.all_stored();
                assert!(report.stats.disconnects >= 2);
            },
        ),
        (
            "a lost client table",
            one(act(Act::LoseClientTable).at(20).every(40).times(2)),
            Report::all_stored,
        ),
        (
            "a lost client table and a new login",
            one(act(Act::LoseClientTable).at(20)).fault(cut().at(30)),
            |report| {
                report.stored_or_unknown();
            },
        ),
        (
            "epochs that go back",
            one(act(Act::JumpEpochBack { by: 100 }).at(20)).fault(cut().at(30)),
            |report| {
                report.stored_or_unknown();
                assert!(report.stats.coverage_losses > 0);
            },
        ),
        (
            "commits held and released",
            one(act(Act::HoldCommits).at(10)).fault(act(Act::ReleaseCommits).at(20)),
            Report::all_stored,
        ),
    ]
}

/// All that a healthy log survives, together.
fn everything_at_once() -> Row {
    let script = Script::new()
        .fault(restart(10_000).at(60))
        .fault(
            sends(Action::StallReading { us: 50_000 })
                .at(10)
                .every(70)
                .times(2),
        )
        .fault(sends(Action::Drop).at(17).every(45).times(4))
        .fault(sends(Action::CommitAndCut).at(31).every(60).times(2))
        .fault(
            sends(Action::Refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED))
                .at(5)
                .every(8)
                .times(0),
        )
        .fault(
            sends(Action::Refuse(ErrorCode::TRANSIENT_NOT_COMMITTED))
                .at(6)
                .every(19)
                .times(0),
        )
        .fault(sends(Action::Pieces { bytes: 11 }).at(2).every(3).times(0));
    ("everything at once", script, Report::all_stored)
}

/// Runs every row in a setup.
fn run_all(setup: Setup, also: fn(&Report)) {
    let mut rows = rows_of_refusals();
    rows.extend(rows_of_replies());
    rows.extend(rows_of_brokers());
    rows.push(everything_at_once());
    run_rows(rows, setup, also);
    let patient = Setup {
        request_timeout_us: 30_000_000,
        ..setup
    };
    run_rows(rows_of_patience(), patient, also);
}

/// Runs rows in a setup, some at a time: they mostly wait. A row's name is that of its thread.
fn run_rows(rows: Vec<Row>, setup: Setup, also: fn(&Report)) {
    let rows = Mutex::new(rows);
    let next = || rows.lock().expect("no panic while it is held").pop();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((name, script, holds)) = next() {
                    let row = std::thread::Builder::new().name(format!("{name}, {:?}", setup.path));
                    let run = row.spawn_scoped(scope, move || {
                        if let Some(report) = setup.run(script) {
                            holds(&report);
                            also(&report);
                        }
                    });
                    run.expect("a thread").join().expect("a row that holds");
                }
            });
        }
    });
}

/// Send buffers of the kernel's least size, so that writes come back short wherever they may.
fn tiny_sockets() -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: Some(1),
        ..SocketOptions::default()
    }
}

#[test]
fn every_fault_is_survived_on_the_vectored_path_over_several_shards() {
    let setup = Setup {
        path: WritePath::WritevFixed,
        shards: 2,
        connections: 4,
        ..Setup::default()
    };
    run_all(setup, |_| ());
}

#[test]
fn every_fault_is_survived_with_no_feature_and_short_writes() {
    let setup = Setup {
        path: WritePath::SendMsg,
        features: Features::NONE,
        sockets: tiny_sockets(),
        ..Setup::default()
    };
    run_all(setup, |_| ());
}

#[test]
fn every_fault_is_survived_with_zero_copy() {
    let setup = Setup {
        path: WritePath::SendZc,
        connections: 2,
        ..Setup::default()
    };
    run_all(setup, |_| ());
}

#[test]
fn strict_ordering_holds_through_every_fault() {
    let setup = Setup {
        ordering: Ordering::Strict,
        ..Setup::default()
    };
    run_all(setup, |report| {
        assert_eq!(report.stats.overtaken, 0);
        assert!(report.log.is_sorted);
        let is_lossless = report.account.all_stored();
        assert_eq!(is_lossless, report.behind == 0, "{}", report.account);
    });
}

#[test]
fn every_eviction_ends_in_a_new_session_or_in_an_honest_answer() {
    for byte in 1..=15 {
        let window = if byte == 14 { (2, 1) } else { (0, 0) };
        let reason = EvictionReason::from_wire(byte, window.0, window.1).expect("fifteen reasons");
        println!("{reason}");
        let script = Script::new().fault(sends(Action::Evict(reason)).at(10).every(40).times(3));
        let started = Instant::now();
        let report = Setup::default().run(script).expect("Auto always works");
        println!("{}", report.account);
        assert!(
            started.elapsed() < PROMPT,
            "no answer waited for a deadline"
        );
        match reason {
            // The session is resumed, and its memory of duplicates holds.
            EvictionReason::StaleClient | EvictionReason::SessionError => report.all_stored(),
            EvictionReason::NoSession
            | EvictionReason::SessionTooLow
            | EvictionReason::SessionReleaseMismatch => report.stored_or_unknown(),
            _ => {}
        }
    }
}
