//! A ring that stops working while the broker runs. Each error in a process of its own, because a
//! filter of system calls meets every thread of its process and cannot be taken back.

mod support;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringmain_broker::{Broker, BrokerStats, Driver, StartError};
use ringmain_wire::operation::CommandCode;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use support::Client;

/// How long the processor time of the broker is watched.
const WATCHED: Duration = Duration::from_secs(2);

/// Processor time of the broker's threads so far.
fn cpu_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
    let nanoseconds = tasks.filter_map(|task| {
        let task = task.ok()?.path();
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let times = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let ours = name.starts_with("ringmain-");
        ours.then(|| times.split(' ').next()?.parse::<u64>().ok())?
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Set in the processes that try one error each: its number.
const ERROR: &str = "RINGMAIN_TEST_RING_ERROR";

#[test]
fn a_ring_that_fails_for_good_neither_spins_nor_keeps_the_broker_from_ending() {
    if let Ok(errno) = std::env::var(ERROR) {
        fail_with(errno.parse().expect("a number"));
        return;
    }
    let errors = [
        libc::EPERM,
        libc::ENOMEM,
        libc::EINTR,
        libc::EAGAIN,
        libc::EBUSY,
    ];
    let children = errors.map(|errno| {
        let mut itself = Command::new(std::env::current_exe().expect("this test's own binary"));
        let child = itself
            .env(ERROR, errno.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        (errno, child.expect("a process"))
    });
    for (errno, child) in children {
        let output = child.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "error {errno}: {said}");
    }
}

/// Lets the ring of a running broker fail with `errno` from now on.
fn fail_with(errno: i32) {
    let broker = match Broker::builder().driver(Driver::IoUring).start() {
        Err(StartError::Ring { source, .. }) => {
            println!("skipped: no io_uring here: {source}");
            return;
        }
        broker => broker.expect("a broker"),
    };
    let mut client = Client::login(broker.addr(), 7);
    client.assert_silence();
    let filter = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_io_uring_enter, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        std::env::consts::ARCH.try_into().expect("a known machine"),
    );
    let filter: BpfProgram = filter
        .and_then(BpfProgram::try_from)
        .expect("a filter of one call");
    seccompiler::apply_filter_all_threads(&filter).expect("this process may filter itself");
    // Wakes the broker out of the call that it waits in, which it made before the filter came.
    client.write_read(CommandCode::PING, &[]);

    let deadline = Instant::now() + Duration::from_secs(20);
    while broker.stats() != BrokerStats::default() {
        assert!(Instant::now() < deadline, "the failure is never noticed");
    }
    let before = cpu_time();
    std::thread::sleep(WATCHED);
    let used = cpu_time() - before;
    assert!(
        used < WATCHED / 10,
        "{used:?} of processor time in {WATCHED:?}"
    );
    let begun = Instant::now();
    drop(broker);
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?} to end",
        begun.elapsed()
    );
}
