//! Ends: closing in front of servers that do not answer, do not read, do not exist; purge; dropping
//! everything.

mod support;

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use ringmain::{
    BuildError, CallError, Engine, NotSentReason, Outcome, Record, SocketOptions, WritePath,
};
use ringmain_broker::{Action, Broker, Fault, Script};
use ringmain_wire::Operation;
use support::{Checked, Network, PATIENCE, PROMPT, Proxy, Server, Start, read_back};

fn engine_for(address: SocketAddr) -> ringmain::EngineBuilder {
    support::builder()
        .server(format!("iggy://iggy:iggy@{address}"))
        .cores([])
        .memory_bytes_max(4 << 20)
        .slot_bytes(64 << 10)
}

#[test]
fn a_refused_connection_fails_at_once_and_says_so() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("bound")
    };
    let started = Instant::now();
    let error = engine_for(address).build().expect_err("nobody listens");
    assert!(matches!(&error, BuildError::Connect(_)), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(started.elapsed() < PROMPT);
}

#[test]
fn a_black_hole_ends_the_build_by_its_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let started = Instant::now();
    let error = engine_for(address)
        .connect_timeout_us(200_000)
        .build()
        .expect_err("nobody answers");
    assert!(matches!(&error, BuildError::Connect(_)), "{error:?}");
    assert!(started.elapsed() >= Duration::from_millis(200) && started.elapsed() < PROMPT);
}

#[test]
fn a_wrong_password_is_told_from_an_unreachable_server() {
    let server = Server::embedded(Broker::builder());
    let url = format!("iggy://iggy:wrong@{}", server.address());
    let started = Instant::now();
    let error = Engine::builder()
        .server(url)
        .cores([])
        .build()
        .expect_err("a wrong password");
    assert!(
        matches!(&error, BuildError::Call(CallError::Login(_))),
        "{error:?}"
    );
    assert!(!error.to_string().contains("wrong@"), "{error}");
    assert!(started.elapsed() < PROMPT);
}

#[test]
fn closing_in_front_of_a_stalled_server_takes_its_time_and_no_more() {
    let server = Server::stalled();
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("stall"), "topic")
        .create_if_missing(4)
        .build()
        .expect("a new topic");
    let receipts = producer
        .send_batch((0..1000).map(|_| Record::new(vec![3; 500])))
        .expect("accepted");
    let started = Instant::now();
    let report = producer.close(Duration::from_millis(100));
    assert!(started.elapsed() < PROMPT);
    assert!(!report.drained);
    assert_eq!(
        (report.account.accepted, report.account.in_flight),
        (1000, 0),
        "{}",
        report.account
    );
    assert!(receipts.iter().all(|receipt| receipt.outcome().is_some()));
    // The engine lives on.
    let other = engine
        .producer(server.stream("after"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    drop(other.send(Record::new("x")).expect("accepted"));
    let started = Instant::now();
    let report = engine.close(Duration::from_millis(100));
    assert!(started.elapsed() < PROMPT);
    assert_eq!(report.account.accepted, 1001);
    assert!(report.account.balances());
}

#[test]
fn every_record_has_its_answer_by_its_delivery_timeout() {
    let server = Server::stalled();
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("deadline"), "topic")
        .create_if_missing(1)
        .window_requests_max(2)
        .delivery_timeout_us(300_000)
        .build()
        .expect("a new topic");
    let started = Instant::now();
    let receipts = producer
        .send_batch((0..100).map(|_| Record::new(vec![3; 5000])))
        .expect("accepted");
    let account = receipts.wait_deadline(started + PATIENCE);
    assert!(
        started.elapsed() >= Duration::from_millis(250),
        "{:?}",
        started.elapsed()
    );
    assert!(started.elapsed() < PROMPT);
    assert!(
        account.unknown > 0,
        "what was sent may be stored: {account}"
    );
    assert!(
        account.not_sent > 0,
        "what had to wait for the window never left: {account}"
    );
    assert_eq!(account.unknown + account.not_sent, 100);
}

#[test]
fn a_server_that_never_reads_again_ends_in_receipts_by_the_deadline() {
    for path in [
        WritePath::WritevFixed,
        WritePath::SendMsg,
        WritePath::SendZc,
    ] {
        deaf(path);
    }
}

fn deaf(path: WritePath) {
    let stall = Action::StallReading { us: 3_600_000_000 };
    let script = Script::new().fault(Fault::on(Operation::SendMessages).action(stall).times(0));
    let server = Server::faulty(script);
    let sockets = SocketOptions {
        send_buffer_bytes: Some(8192),
        ..SocketOptions::default()
    };
    let builder = server
        .engine()
        .memory_bytes_max(64 << 20)
        .socket_options(sockets);
    let engine = match builder.write_path(path).build() {
        Ok(engine) => Checked::new(engine),
        Err(cause) if support::lacks_path(&cause) => {
            return println!("skipped on this kernel: {path:?}: {cause}");
        }
        Err(error) => panic!("{error}"),
    };
    let producer = engine
        .producer(server.stream("deaf"), "topic")
        .create_if_missing(1)
        .delivery_timeout_us(300_000)
        .build()
        .expect("a new topic");
    let started = Instant::now();
    // More than the buffers of both sockets hold, so that a write is stuck.
    let receipts = producer
        .send_batch((0..20).map(|_| Record::new(vec![1; 1_000_000])))
        .expect("accepted");
    let account = receipts.wait_deadline(started + PATIENCE);
    assert_eq!(account.in_flight, 0, "{path:?}: {account}");
    assert!(account.stored < 20, "{path:?}: {account}");
    assert!(
        started.elapsed() < PROMPT,
        "{path:?}: {:?}",
        started.elapsed()
    );
}

#[test]
fn purge_hands_back_what_was_never_sent() {
    let server = Server::stalled();
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("purge"), "topic")
        .create_if_missing(1)
        .window_requests_max(1)
        .batch_records_max(10)
        .build()
        .expect("a new topic");
    let records: Vec<Record> = (0..60_u32)
        .map(|number| {
            Record::new(number.to_le_bytes().to_vec())
                .id(u128::from(number) + 1)
                .timestamp_us(5)
        })
        .chain([Record::new(vec![9; 200_000]).id(61).timestamp_us(6)])
        .collect();
    let receipts = producer.send_batch(records.clone()).expect("accepted");
    let purged = producer.purge();
    assert_eq!(purged.records.len() as u64 + purged.unknown, 61);
    assert!(
        purged.unknown <= 10,
        "one request was in flight at most: {}",
        purged.unknown
    );
    let back: Vec<Record> = purged
        .records
        .into_iter()
        .map(|(_, record)| record)
        .collect();
    assert!(
        back == records[records.len() - back.len()..],
        "in order and as they were"
    );
    for receipt in receipts.iter() {
        match receipt.outcome().expect("all are answered") {
            Outcome::Unknown { .. } => {}
            Outcome::NotSent { reason } => assert_eq!(reason, NotSentReason::Purged),
            other => panic!("{other}"),
        }
    }
    let account = producer.account();
    assert_eq!((account.in_flight, account.unknown), (0, purged.unknown));
    assert!(engine.close(Duration::ZERO).account.balances());
}

#[test]
fn dropping_every_handle_answers_every_receipt() {
    let server = Server::stalled();
    let engine = server.engine().build().expect("a healthy server");
    let producer = engine
        .producer(server.stream("drop"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let receipt = producer.send(Record::new("x")).expect("accepted");
    drop(engine);
    assert!(
        receipt.outcome().is_none(),
        "the producer keeps the engine alive"
    );
    drop(producer);
    assert!(receipt.outcome().is_some());
}

/// How an application ends with records that are not answered.
type End = fn(Engine, ringmain::Producer);

#[test]
fn what_an_end_gives_up_was_closed_and_not_too_late() {
    let ends: [(&str, End); 6] = [
        ("Engine::close, at once", |engine, _| {
            engine.close(Duration::ZERO);
        }),
        ("Engine::close, in a moment", |engine, _| {
            engine.close(Duration::from_millis(50));
        }),
        ("Producer::close, at once", |_, producer| {
            producer.close(Duration::ZERO);
        }),
        ("Producer::close, in a moment", |_, producer| {
            producer.close(Duration::from_millis(50));
        }),
        ("purge", |_, producer| drop(producer.purge())),
        ("drop", |engine, producer| drop((engine, producer))),
    ];
    let server = Server::stalled();
    for (what, end) in ends {
        let engine = server.engine().build().expect("a healthy server");
        let producer = engine
            .producer(server.stream("given-up"), "topic")
            .create_if_missing(1)
            .window_requests_max(1)
            .batch_records_max(10)
            .build()
            .expect("a new topic");
        let receipts = producer
            .send_batch((0..60).map(|_| Record::new("x")))
            .expect("accepted");
        end(engine, producer);
        let account = receipts.wait_deadline(Instant::now() + PATIENCE);
        assert!(account.not_sent >= 50, "{what}: {account}");
        let expected = match what {
            "purge" => NotSentReason::Purged,
            _ => NotSentReason::Closed,
        };
        for receipt in receipts.iter() {
            match receipt.outcome() {
                // What was in flight.
                Some(Outcome::Unknown { .. }) => {}
                Some(Outcome::NotSent { reason }) => assert_eq!(reason, expected, "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    // A record's own deadline that comes before that of the close is still its own.
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("late"), "topic")
        .create_if_missing(1)
        .window_requests_max(1)
        .delivery_timeout_us(50_000)
        .build()
        .expect("a new topic");
    drop(producer.send(Record::new("in flight")).expect("accepted"));
    let waiting = producer.send(Record::new("behind it")).expect("accepted");
    engine.close(PATIENCE);
    let outcome = waiting.outcome().expect("closed");
    let late = matches!(
        outcome,
        Outcome::Unknown { .. }
            | Outcome::NotSent {
                reason: NotSentReason::DeadlineOver
            }
    );
    assert!(late, "{outcome}");
}

#[test]
fn the_end_of_a_session_that_logs_out_is_no_loss() {
    let server = Server::embedded(Broker::builder());
    let engine = server.engine().connections(3).build().expect("healthy");
    engine.close(PATIENCE);
    let stats = engine.stats();
    assert_eq!((stats.logins, stats.disconnects), (3, 0));
}

#[test]
fn a_server_that_is_gone_ends_in_receipts_and_calls_that_explain() {
    let server = Server::embedded(Broker::builder());
    let engine = server.engine().start();
    let producer = engine
        .producer(server.stream("gone"), "topic")
        .create_if_missing(1)
        .delivery_timeout_us(200_000)
        .build()
        .expect("a new topic");
    assert!(
        producer
            .send(Record::new("x"))
            .expect("accepted")
            .wait()
            .is_stored()
    );
    drop(server);
    let outcome = producer.send(Record::new("y")).expect("accepted").wait();
    assert!(
        matches!(outcome, Outcome::NotSent { .. } | Outcome::Unknown { .. }),
        "{outcome}"
    );
    let error = engine
        .topic("s", "t", Duration::from_millis(100))
        .expect_err("no server");
    assert!(matches!(&error, CallError::NoSession { .. }), "{error}");
    let started = Instant::now();
    assert!(engine.close(Duration::from_secs(30)).account.balances());
    assert!(started.elapsed() < PROMPT, "nothing was left to wait for");
}

#[test]
fn a_healthy_close_drains_and_reads_back() {
    let server = Server::start();
    let stream = server.stream("drain");
    let engine = server.engine().start();
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    for _ in 0..10_000 {
        drop(producer.send_slice(&[5; 100], None).expect("accepted"));
    }
    let report = engine.close(PATIENCE);
    assert!(
        report.drained && report.account.all_stored(),
        "{}",
        report.account
    );
    let reader = server.engine().start();
    assert_eq!(read_back(&reader, &stream, "topic", 0).len(), 10_000);
}

/// How a network dies under an engine that is logged in.
#[derive(Debug, Clone, Copy)]
enum Death {
    /// The peer is gone without a word, or reads no more: half open.
    Silent(Network),
    /// The connection is cut, and what is there afterwards accepts and never answers.
    BlackHole,
}

#[test]
fn a_network_that_dies_in_any_way_ends_in_receipts_by_the_deadline() {
    for death in [
        Death::Silent(Network::Frozen),
        Death::Silent(Network::Lossy),
        Death::BlackHole,
    ] {
        let server = Server::embedded(Broker::builder());
        let proxy = Proxy::start(server.broker().addr(), Vec::new());
        let url = format!("iggy://iggy:iggy@{}", proxy.address());
        let engine = server.engine().server(url).start();
        let stream = server.stream("dies");
        let producer = engine
            .producer(&stream, "topic")
            .create_if_missing(1)
            .delivery_timeout_us(300_000)
            .build()
            .expect("a new topic");
        let first = producer.send(Record::new("x")).expect("accepted").wait();
        assert!(first.is_stored(), "{death:?}: {first}");
        match death {
            Death::Silent(network) => proxy.set(network),
            Death::BlackHole => {
                proxy.set(Network::Lossy);
                proxy.cut();
            }
        }
        let started = Instant::now();
        let receipts = producer
            .send_batch((0..200).map(|_| Record::new(vec![3; 20_000])))
            .expect("accepted");
        let account = receipts.wait_deadline(started + PATIENCE);
        assert!(
            started.elapsed() < PROMPT,
            "{death:?}: {:?}",
            started.elapsed()
        );
        assert_eq!(
            account.unknown + account.not_sent,
            200,
            "{death:?}: {account}"
        );
        // A second thought: nothing that is told as not sent is in the log.
        let at_most = 1 + account.unknown;
        proxy.set(Network::Up);
        let started = Instant::now();
        engine.close(Duration::from_millis(200));
        assert!(started.elapsed() < PROMPT, "{death:?}");
        let reader = server.engine().start();
        let stored = read_back(&reader, &stream, "topic", 0).len() as u64;
        assert!(stored <= at_most, "{death:?}: {stored} of {at_most}");
    }
}

/// One call that takes a duration, on an engine with records in flight; says whether it went well.
type Timed = fn(&Engine, &ringmain::Producer, &str, Duration) -> bool;

fn ping() -> ringmain::Call {
    ringmain::Call::read(ringmain_wire::CommandCode::PING.0, bytes::Bytes::new())
}

/// Every call of the public API that takes a duration.
const TIMED: [(&str, Timed); 9] = [
    ("Engine::close", |engine, _, _, within| {
        engine.close(within).drained
    }),
    ("Producer::close", |_, producer, _, within| {
        producer.close(within).drained
    }),
    ("Producer::flush", |_, producer, _, within| {
        producer.flush(within)
    }),
    ("Engine::call", |engine, _, _, within| {
        engine.call(ping(), within).is_ok()
    }),
    ("Engine::call_async", |engine, _, _, within| {
        support::block_on(engine.call_async(ping(), within)).is_ok()
    }),
    ("Engine::topic", |engine, _, stream, within| {
        engine.topic(stream, "topic", within).is_ok()
    }),
    ("Engine::poll", |engine, _, stream, within| {
        engine.poll(stream, "topic", 0, 0, 1, within).is_ok()
    }),
    ("Engine::create_stream", |engine, _, stream, within| {
        engine.create_stream(stream, within) == Ok(false)
    }),
    ("Engine::create_topic", |engine, _, stream, within| {
        engine.create_topic(stream, "topic", 1, within) == Ok(false)
    }),
];

#[test]
fn a_duration_without_end_is_no_limit_and_loses_nothing() {
    let endless = [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        Duration::from_secs(i64::MAX as u64),
        // These overflow no sum with an instant, but one in microseconds or in nanoseconds.
        Duration::from_secs(1 << 62),
        Duration::from_micros(u64::MAX),
        Duration::from_secs(1 << 40),
    ];
    // Slow enough that records are out when the call begins.
    let server = Server::embedded(Broker::builder().commit_delay_us(2_000));
    for (what, call) in TIMED {
        for within in endless {
            let engine = server.engine().start();
            let stream = server.stream("endless");
            let producer = engine
                .producer(&stream, "topic")
                .create_if_missing(1)
                .build()
                .expect("a new topic");
            let receipts = producer
                .send_batch((0..100).map(|_| Record::new("x")))
                .expect("accepted");
            let started = Instant::now();
            assert!(
                call(&engine, &producer, &stream, within),
                "{what}, {within:?}"
            );
            assert!(started.elapsed() < PROMPT, "{what}, {within:?}");
            let account = receipts.wait_deadline(started + PATIENCE);
            assert!(account.all_stored(), "{what}, {within:?}: {account}");
        }
    }
}
