//! Every size on every write path and with every fallback of this kernel, with tiny socket buffers
//! so that writes come back short.

mod support;

use std::time::Instant;

use bytes::Bytes;
use ringmain::{DriverKind, EngineBuilder, Features, Record, SocketOptions, Stats, WritePath};
use support::{Checked, PATIENCE, Server};

/// Sizes around every threshold: a word of the hash, the copy threshold, a slot less what is not
/// payload, a receive buffer, a batch by reference. The largest that the tests send comes in a test
/// of its own.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 63, 64, 65, 255, 4096];
    for edge in [32 << 10, 64 << 10, 1 << 20] {
        sizes.extend([edge - 1088, edge - 1, edge, edge + 1]);
    }
    sizes.extend([0, 3, 0]);
    sizes
}

/// Bytes that repeat after a prime number of them, so that a piece that is shifted or repeated is
/// seen.
fn payload(index: usize, size: usize) -> Bytes {
    let block: Vec<u8> = (0..251).map(|at| (at * 31 + index) as u8).collect();
    let mut payload = block.repeat(size.div_ceil(block.len()));
    payload.truncate(size);
    payload.into()
}

/// Sends a record of each size and checks each byte on the way back. `None` when this kernel lacks
/// the path.
fn check(what: &str, builder: EngineBuilder, sizes: &[usize], server: &Server) -> Option<Stats> {
    let engine = match builder.build() {
        Ok(engine) => Checked::new(engine),
        Err(cause) if support::lacks_path(&cause) => {
            println!("skipped on this kernel: {what}: {cause}");
            return None;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    let stream = server.stream("paths");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let records = sizes
        .iter()
        .enumerate()
        .map(|(index, size)| Record::new(payload(index, *size)));
    let receipts = producer.send_batch(records).expect("accepted");
    let account = receipts.wait_deadline(Instant::now() + PATIENCE);
    assert_eq!(account.stored, sizes.len() as u64, "{what}: {account}");
    for (index, size) in sizes.iter().enumerate() {
        let polled = engine
            .poll(&stream, "topic", 0, index as u64, 1, PATIENCE)
            .expect("a poll");
        assert_eq!(polled.records[0].offset, index as u64, "{what}");
        assert!(
            polled.records[0].payload == payload(index, *size),
            "{what}: record {index} of {size} bytes"
        );
    }
    assert!(engine.close(PATIENCE).drained, "{what}");
    Some(engine.stats())
}

/// Less than a record takes, so that writes come back short.
fn small_buffers() -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: Some(8192),
        ..SocketOptions::default()
    }
}

const PATHS: [WritePath; 4] = [
    WritePath::Auto,
    WritePath::WritevFixed,
    WritePath::SendMsg,
    WritePath::SendZc,
];

#[test]
fn every_write_path_delivers_every_size() {
    let server = Server::start();
    for path in PATHS {
        let builder = server.engine().write_path(path);
        check(&format!("{path:?}"), builder, &sizes(), &server);
        let builder = server
            .engine()
            .write_path(path)
            .socket_options(small_buffers());
        let stats = check(
            &format!("{path:?}, small buffers"),
            builder,
            &sizes(),
            &server,
        );
        // A zero-copy send is continued by the kernel.
        if path != WritePath::SendZc && path != WritePath::Auto {
            assert!(
                stats.is_none_or(|stats| stats.transport.short_writes > 0),
                "{path:?}"
            );
        }
    }
}

#[test]
fn the_largest_records_arrive_whole() {
    let server = Server::start();
    let sizes = [20_000_000, 0, 60_000_000, 1];
    let builder = server.engine().memory_bytes_max(160 << 20);
    check("the largest", builder, &sizes, &server);
}

#[test]
fn the_options_of_memory_and_waiting_change_nothing_that_arrives() {
    let server = Server::start();
    let cases = [
        ("huge pages", server.engine().huge_pages(true)),
        ("busy polling", server.engine().busy_poll_us(200)),
        (
            "least slots",
            server.engine().slot_bytes(4096).memory_bytes_max(4 << 20),
        ),
        ("one slot holds all", server.engine().slot_bytes(2 << 20)),
        ("several shards", server.engine().shards(3)),
    ];
    for (what, builder) in cases {
        check(what, builder, &sizes(), &server);
    }
}

/// Switches one feature off.
type Switch = fn(&mut Features);

#[test]
fn every_feature_can_be_missing() {
    let server = Server::start();
    // Each switch alone, and all of them together.
    let switches: [(&str, Switch); 7] = [
        ("single issuer", |features| {
            // Deferred work needs it.
            features.single_issuer = false;
            features.defer_taskrun = false;
        }),
        ("deferred work", |features| {
            features.defer_taskrun = false;
        }),
        ("registered arena", |features| {
            features.registered_arena = false;
        }),
        ("multishot receive and provided buffers", |features| {
            features.multishot_recv = false;
        }),
        ("vectored fixed", |features| {
            features.vectored_fixed = false;
        }),
        ("zero copy", |features| {
            features.send_zc = false;
        }),
        ("waiting sends", |features| {
            features.send_zc_wait_all = false;
        }),
    ];
    let mut cases = Vec::new();
    let mut none = Features::default();
    for (name, switch_off) in switches {
        let mut features = Features::default();
        switch_off(&mut features);
        switch_off(&mut none);
        cases.push((format!("no {name}"), features));
    }
    cases.push(("no feature at all".to_owned(), none));
    for (what, features) in cases {
        let paths = if features.send_zc { 4 } else { 3 };
        for path in &PATHS[..paths] {
            let builder = server.engine().features(features).write_path(*path);
            let what = format!("{what}, {path:?}");
            if let Some(stats) = check(&what, builder, &sizes(), &server) {
                let used = stats.shards[0].features;
                assert!(!used.multishot_recv || features.multishot_recv, "{what}");
                assert!(
                    features.registered_arena || stats.transport.registered_bytes == 0,
                    "{what}"
                );
            }
        }
    }
}

/// Set in the child process of the test below.
const IN_CHILD: &str = "RINGMAIN_TEST_LOCKED_BYTES";

/// The limit of locked memory belongs to a whole process, so each case is a child.
#[test]
fn locked_memory_refused_is_told_and_costs_no_byte() {
    let name = "locked_memory_refused_is_told_and_costs_no_byte";
    if let Ok(limit) = std::env::var(IN_CHILD) {
        return send_under_limit(limit.parse().expect("a number"));
    }
    // SAFETY: geteuid takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: other processes of this user count against the same limit");
    }
    for limit_bytes in [4_u64 << 20, 300 << 10] {
        let output = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", name, "--nocapture"])
            .env(IN_CHILD, limit_bytes.to_string())
            .output()
            .expect("a child");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "limit {limit_bytes}: {text}"
        );
    }
}

fn send_under_limit(limit_bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: limit_bytes,
        rlim_max: limit_bytes,
    };
    // SAFETY: `limit` is readable for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
    let user = 1_000_000 + std::process::id();
    // A user of its own, because the limit does not bind root and counts all processes of a user.
    // SAFETY: setresuid takes no memory of ours; it concerns this child process only.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
    let server = Server::start();
    let stats = check("little locked memory", server.engine(), &sizes(), &server);
    let stats = stats.expect("Auto always works");
    if stats.shards[0].driver == DriverKind::Epoll {
        return println!("nothing is locked on epoll");
    }
    let transport = stats.transport;
    assert!(
        transport.registered_bytes < transport.registered_bytes_wanted,
        "the statistics tell what is missing: {transport:?}"
    );
}
