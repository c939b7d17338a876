//! Starting: names and their addresses, servers that do not answer or are none, a kernel that
//! refuses.

mod support;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use ringmain::{BuildError, DriverChoice, DriverKind, Engine, EngineBuilder, Record, WritePath};
use ringmain_broker::Broker;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use support::{PATIENCE, PROMPT, Server, Start};

fn engine_at(hosts: &str) -> EngineBuilder {
    Engine::builder()
        .server(format!("iggy://iggy:iggy@{hosts}"))
        .cores([])
        .memory_bytes_max(4 << 20)
        .slot_bytes(64 << 10)
        .huge_pages(false)
        .connect_timeout_us(PATIENCE.as_micros() as u64)
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "Name or service not known")
}

/// An address at which nobody listens.
fn refusing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

/// Accepts connections, reads what comes, writes `answer` and ends the connection.
fn hanging_up(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            drop(stream.read(&mut [0; 4096]));
            drop(stream.write_all(answer));
        }
    });
    address
}

/// Accepts connections and never says a word.
fn silent() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

#[test]
fn one_bad_address_of_several_does_not_matter() {
    let server = Server::embedded(Broker::builder());
    let good = server.broker().addr();
    let port = good.port();
    let closed = refusing();
    let (_listener, mute) = silent();
    let stranger = hanging_up(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let cases = [
        format!("nowhere.invalid:{port},{good}"),
        format!("{good},nowhere.invalid:{port}"),
        format!("nowhere.invalid:{port},good.example:{port}"),
        format!("{closed},nowhere.invalid:{port},{good}"),
        format!("{stranger},{good}"),
        format!("{mute},{good}"),
        format!("hanging.example:{port},{good}"),
        // One name, several addresses, of which the last one is right.
        format!("several.example:{port}"),
        format!("good.example.:{port}"),
        format!("{good}/"),
    ];
    for hosts in cases {
        let engine = engine_at(&hosts)
            // Silence has to be over before the test is.
            .connect_timeout_us(3_000_000)
            .connections(2)
            .resolver(move |host, port| match host {
                "good.example" | "good.example." => Ok(vec![good]),
                "several.example" => Ok(vec![closed, closed, stranger, good]),
                "hanging.example" => loop {
                    std::thread::park();
                },
                _ => {
                    assert_ne!(port, 0);
                    Err(unknown())
                }
            })
            .build();
        let engine =
            support::Checked::new(engine.unwrap_or_else(|error| panic!("{hosts}: {error}")));
        let stream = server.stream("names");
        let producer = engine
            .producer(&stream, "topic")
            .create_if_missing(1)
            .build()
            .expect("a new topic");
        let outcome = producer.send(Record::new("x")).expect("accepted").wait();
        assert!(outcome.is_stored(), "{hosts}: {outcome}");
    }
}

#[test]
fn a_name_is_looked_up_at_each_attempt_to_connect() {
    let first = Broker::builder().start().expect("a broker");
    let at = Arc::new(Mutex::new(first.addr()));
    let looked = Arc::new(AtomicUsize::new(0));
    let (now_at, lookups) = (Arc::clone(&at), Arc::clone(&looked));
    let engine = engine_at("moving.example:8090")
        .resolver(move |host, port| {
            assert_eq!((host, port), ("moving.example", 8090));
            lookups.fetch_add(1, Ordering::SeqCst);
            Ok(vec![*now_at.lock().expect("no panic")])
        })
        .start();
    assert_eq!(looked.load(Ordering::SeqCst), 1);
    let second = Broker::builder().start().expect("a broker");
    *at.lock().expect("no panic") = second.addr();
    drop(first);
    let created = engine.create_stream("moved", PATIENCE);
    assert_eq!(created, Ok(true), "the call waits for the new connection");
    assert!(looked.load(Ordering::SeqCst) >= 2);
}

#[test]
fn names_that_lead_nowhere_are_told_with_the_resolvers_words_and_in_time() {
    let started = Instant::now();
    let error = engine_at("nowhere.invalid:8090")
        .resolver(|_, _| Err(unknown()))
        .build()
        .expect_err("no such name");
    assert!(
        matches!(&error, BuildError::Resolve { host, why } if host == "nowhere.invalid" && why.contains("not known")),
        "{error:?}"
    );
    for resolve in [
        (|_: &str, _: u16| Ok(Vec::new())) as fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
        |_, _| panic!("a resolver of the user's"),
    ] {
        let error = engine_at("nowhere.invalid:8090").resolver(resolve).build();
        assert!(
            matches!(error, Err(BuildError::Resolve { .. })),
            "{error:?}"
        );
    }
    assert!(started.elapsed() < PROMPT);

    // A resolver that hangs takes the time to connect and no more.
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let error = engine_at("hanging.example:8090")
        .connect_timeout_us(200_000)
        .resolver(move |_, _| {
            // Until the test is over.
            let _ = receiver.lock().expect("one lookup").recv();
            Err(unknown())
        })
        .build()
        .expect_err("no answer");
    let text = error.to_string();
    assert!(text.contains("hanging.example"), "{text}");
    assert!(
        text.contains("resolver") || text.contains("looking up"),
        "{text}"
    );
    assert!(started.elapsed() < PROMPT);
    drop(sender);
}

#[test]
fn why_there_is_no_login_is_told_in_words_that_help() {
    let (_listener, mute) = silent();
    let alert: &[u8] = &[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x32];
    let cases = [
        (mute, "login"),
        (hanging_up(b""), "without TLS"),
        (hanging_up(alert), "speaks TLS"),
        (refusing(), "refused"),
    ];
    for (address, expected) in cases {
        let error = engine_at(&address.to_string())
            .connect_timeout_us(300_000)
            .build()
            .expect_err("no server");
        let text = error.to_string();
        assert!(matches!(&error, BuildError::Connect(_)), "{error:?}");
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("closed by us"), "{text}");
        assert!(
            !text.contains("timeout_us"),
            "an option that the reader may not have: {text}"
        );
    }
}

/// From now on `call` fails with `errno` in this thread and those it makes: always, or, for
/// `io_uring_enter`, when this many operations are submitted at once.
fn forbid(call: libc::c_long, errno: i32, submitted: Option<u64>) {
    let rules = submitted.map_or(Vec::new(), |count| {
        let condition = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, count);
        vec![SeccompRule::new(vec![condition.expect("a condition")]).expect("a rule")]
    });
    let filter = SeccompFilter::new(
        [(call, rules)].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().expect("a known machine"),
    );
    let program: seccompiler::BpfProgram = filter.expect("a filter").try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("a filter of one's own");
}

#[test]
fn a_kernel_that_refuses_the_rings_use_is_told_at_once() {
    let server = Server::embedded(Broker::builder());
    let address = server.address();
    // Refused at setup, and refused once the shard runs: its first submission is the read of the
    // wake-up and the connect.
    let cases = [
        (libc::EPERM, None, "seccomp"),
        (libc::ENOSYS, None, "seccomp"),
        (libc::EPERM, Some(2), "a seccomp filter came later"),
        (libc::EAGAIN, Some(2), "refused every io_uring_enter"),
    ];
    // Where no ring can be made at all, none can be refused later.
    let ring = engine_at(&address).driver(DriverChoice::IoUring).build();
    let has_ring = ring.is_ok();
    drop(ring);
    let cases = cases.into_iter();
    let cases = cases.filter(|(_, submitted, _)| has_ring || submitted.is_none());
    let tries = cases.map(|(errno, submitted, expected)| {
        let address = address.clone();
        std::thread::spawn(move || {
            forbid(libc::SYS_io_uring_enter, errno, submitted);
            let started = Instant::now();
            let builder = engine_at(&address).driver(DriverChoice::IoUring);
            let error = builder.build().expect_err("refused");
            assert!(matches!(&error, BuildError::Setup(_)), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
            assert!(started.elapsed() < PROMPT + Duration::from_secs(2));
        })
    });
    for tried in tries.collect::<Vec<_>>() {
        tried.join().expect("no panic");
    }
}

#[test]
fn where_io_uring_is_refused_epoll_carries_the_records() {
    let server = Server::embedded(Broker::builder());
    let address = server.address();
    let setup = libc::SYS_io_uring_setup;
    let cases = [
        (setup, libc::EPERM),
        (setup, libc::EACCES),
        (setup, libc::ENOSYS),
        (setup, libc::ENOMEM),
        (setup, libc::EINVAL),
        (libc::SYS_io_uring_enter, libc::EPERM),
        (libc::SYS_io_uring_enter, libc::ENOSYS),
        (libc::SYS_io_uring_register, libc::EPERM),
        (libc::SYS_io_uring_register, libc::ENOSYS),
    ];
    for (number, (call, errno)) in cases.into_iter().enumerate() {
        let address = address.clone();
        let tried = std::thread::spawn(move || {
            forbid(call, errno, None);
            let only_ring = engine_at(&address).driver(DriverChoice::IoUring);
            let error = only_ring.build().expect_err("refused");
            assert!(matches!(&error, BuildError::Setup(_)), "{error:?}");
            let engine = engine_at(&address).driver(DriverChoice::Auto).start();
            let stats = engine.stats();
            assert_eq!(stats.shards[0].driver, DriverKind::Epoll);
            assert!(stats.to_json().contains("\"driver\":\"epoll\""));
            assert!(stats.to_prometheus().contains("driver=\"epoll\""));
            let producer = engine.producer(format!("refused-{number}"), "records");
            let producer = producer.create_if_missing(1).build().expect("a topic");
            let receipt = producer.send(Record::new("on epoll")).expect("accepted");
            assert!(receipt.wait().is_stored(), "{call} {errno}");
        });
        tried.join().expect("no panic");
    }
}

#[test]
fn the_driver_that_is_asked_for_runs() {
    let server = Server::embedded(Broker::builder());
    let address = server.address();
    let of_url = engine_at(&format!("{address}?driver=epoll"));
    let over_url = engine_at(&format!("{address}?driver=io_uring")).driver(DriverChoice::Epoll);
    for builder in [of_url, over_url] {
        let engine = builder.shards(2).start();
        for shard in engine.stats().shards {
            assert_eq!(shard.driver, DriverKind::Epoll);
        }
    }
    let path = engine_at(&format!("{address}?driver=epoll")).write_path(WritePath::SendZc);
    let error = path.build().expect_err("zero copy without a ring");
    assert!(
        matches!(&error, BuildError::Contradiction { .. }),
        "{error:?}"
    );
}
