//! Kernels that refuse io_uring, at the start and later: a broker says so, works on epoll, or ends;
//! it never hangs and never spins. The refusals are filters of system calls, as containers have
//! them.

mod support;

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use ringmain_broker::{Broker, Driver, StartError};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use support::Client;

const CALLS: [(&str, i64); 3] = [
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
];

const ERRORS: [i32; 3] = [libc::EPERM, libc::ENOSYS, libc::EACCES];

/// More than a start or a stop takes, the ten seconds of a start that gives up not counted.
const SOON: Duration = Duration::from_secs(8);

/// A filter that lets one system call fail.
fn refusing(call: i64, errno: i32) -> BpfProgram {
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().expect("a known machine"),
    );
    filter
        .and_then(BpfProgram::try_from)
        .expect("a filter of one call")
}

/// Runs a test in a thread that may not make a system call, and neither may the threads it starts.
fn without<T: Send>(call: i64, errno: i32, test: impl FnOnce() -> T + Send) -> T {
    let filter = refusing(call, errno);
    std::thread::scope(|scope| {
        let refused = scope.spawn(move || {
            seccompiler::apply_filter(&filter).expect("this process may filter itself");
            test()
        });
        refused.join().expect("the test holds")
    })
}

#[test]
fn io_uring_that_is_asked_for_and_refused_is_an_error_that_names_the_call() {
    for (name, call) in CALLS {
        for errno in ERRORS {
            let start = || Broker::builder().driver(Driver::IoUring).start();
            let begun = Instant::now();
            let error = without(call, errno, start).expect_err("the call is refused");
            let text = error.to_string();
            let StartError::Ring { call, source, .. } = error else {
                panic!("{name} with {errno}: {text}");
            };
            assert_eq!((call, source.raw_os_error()), (name, Some(errno)));
            assert!(text.contains(name) && text.contains("seccomp"), "{text}");
            assert!(begun.elapsed() < SOON, "{name} with {errno}");
        }
    }
}

#[test]
fn where_io_uring_is_refused_a_broker_uses_epoll_and_ends_when_told() {
    for (name, call) in CALLS {
        for errno in ERRORS {
            let start = || Broker::builder().start().expect("epoll carries it");
            let broker = without(call, errno, start);
            assert_eq!(broker.driver(), Driver::Epoll, "{name} with {errno}");
            Client::login(broker.addr(), 7).assert_silence();
            assert_eq!(broker.stats().logins, 1);
            let begun = Instant::now();
            drop(broker);
            assert!(begun.elapsed() < SOON, "{name} with {errno}");
        }
    }
}

#[test]
fn a_broker_that_can_accept_nothing_still_ends_when_told() {
    let start = || {
        let builder = Broker::builder().driver(Driver::Epoll);
        builder.start().expect("it listens")
    };
    let broker = without(libc::SYS_accept4, libc::EMFILE, start);
    let waiting = Client::connect(broker.addr(), 7);
    assert_eq!(broker.stats().connections_accepted, 0);
    let begun = Instant::now();
    drop(broker);
    assert!(begun.elapsed() < SOON);
    drop(waiting);
}

#[test]
fn an_address_in_use_is_told_apart() {
    let taken = Broker::builder().start().expect("a broker");
    let listen = taken.addr().to_string();
    let error = Broker::builder()
        .listen(listen)
        .start()
        .expect_err("in use");
    let StartError::Listen { source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), io::ErrorKind::AddrInUse);
}
