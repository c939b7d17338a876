//! What the engine says in the log, and what a subscriber may do to it. One subscriber for the
//! whole process, which keeps the warnings of each test apart by what they say.

mod support;

use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringmain::{Outcome, Record};
use support::{PATIENCE, Server, Start};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps what was said; panics instead on a shard's thread when a test wants it to.
struct Log;

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    panics_on_shards: bool,
    panics: u32,
}

static SAID: Mutex<Said> = Mutex::new(Said {
    lines: Vec::new(),
    panics_on_shards: false,
    panics: 0,
});

/// One test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn said() -> MutexGuard<'static, Said> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a text takes everything");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let is_shard = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("ringmain-shard"));
        let mut said = said();
        if said.panics_on_shards && is_shard {
            said.panics += 1;
            drop(said);
            panic!("on purpose");
        }
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        if *event.metadata().level() <= Level::WARN {
            said.lines.push(line.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Starts a test's own part of the log.
fn listen() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Only the first of this process is taken, and all are the same.
    let _ = tracing::subscriber::set_global_default(Log);
    *said() = Said::default();
    turn
}

fn lines_with(what: &str) -> Vec<String> {
    let said = said();
    said.lines
        .iter()
        .filter(|line| line.contains(what))
        .cloned()
        .collect()
}

const DROPPED: &str = "the last handle of an engine was dropped";

#[test]
fn dropping_the_last_handle_says_what_was_lost() {
    let _turn = listen();
    let server = Server::stalled();
    let engine = server.engine().build().expect("a healthy broker");
    let producer = engine
        .producer(server.stream("dropped"), "topic")
        .create_if_missing(1)
        .window_requests_max(1)
        .batch_records_max(10)
        .build()
        .expect("a new topic");
    let receipts = producer
        .send_batch((0..100).map(|_| Record::new("x")))
        .expect("room");
    drop(engine);
    assert!(lines_with(DROPPED).is_empty(), "a producer is left");
    drop(producer);
    let (mut not_sent, mut unknown) = (0, 0);
    for receipt in receipts.iter() {
        match receipt.outcome() {
            Some(Outcome::NotSent { .. }) => not_sent += 1,
            Some(Outcome::Unknown { .. }) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(not_sent + unknown, 100);
    let said = lines_with(DROPPED);
    assert_eq!(said.len(), 1, "{said:?}");
    for count in [
        "WARN".to_owned(),
        format!(" not_sent={not_sent} "),
        format!(" unknown={unknown} "),
        " unanswered=0 ".to_owned(),
    ] {
        assert!(said[0].contains(&count), "{count} in {}", said[0]);
    }
}

#[test]
fn dropping_a_handle_that_leaves_nothing_behind_says_nothing() {
    let _turn = listen();
    let server = Server::embedded(ringmain_broker::Broker::builder());
    let start = |what: &str| {
        let engine = server.engine().build().expect("a healthy broker");
        let producer = engine
            .producer(server.stream(what), "topic")
            .create_if_missing(1)
            .build()
            .expect("a new topic");
        (engine, producer)
    };
    // Answered by then.
    let (engine, producer) = start("answered");
    let outcome = producer.send(Record::new("x")).expect("room").wait();
    assert!(outcome.is_stored());
    drop((producer, engine));
    // Closed before: the report has said it.
    let (engine, producer) = start("closed");
    drop(producer.send(Record::new("x")).expect("room"));
    engine.close(Duration::ZERO);
    drop((producer, engine));
    // One handle of several.
    let (engine, producer) = start("several");
    let receipt = producer.send(Record::new("x")).expect("room");
    drop(producer);
    assert!(receipt.wait().is_stored());
    assert!(engine.close(PATIENCE).drained);
    assert_eq!(lines_with(DROPPED), [""; 0]);
}

#[test]
fn a_subscriber_that_panics_on_a_shard_does_it_no_harm() {
    let _turn = listen();
    said().panics_on_shards = true;
    let server = Server::embedded(ringmain_broker::Broker::builder());
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("log"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let outcome = producer.send(Record::new("x")).expect("room").wait();
    assert!(outcome.is_stored());
    let report = engine.close(PATIENCE);
    assert!(report.drained, "{report:?}");
    assert!(said().panics > 0, "a login is said, at least");
}

#[test]
fn code_of_the_application_that_blocks_a_shard_is_reported() {
    let _turn = listen();
    let server = Server::embedded(ringmain_broker::Broker::builder());
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("slow"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    struct Slow(Vec<u8>);
    impl AsRef<[u8]> for Slow {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Slow {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(150));
        }
    }
    let payload = bytes::Bytes::from_owner(Slow(vec![0; 20_000]));
    let outcome = producer.send(Record::new(payload)).expect("room").wait();
    assert!(outcome.is_stored());
    assert!(engine.close(PATIENCE).drained);
    let said = lines_with("blocked a shard's thread");
    assert_eq!(said.len(), 1, "{said:?}");
}
