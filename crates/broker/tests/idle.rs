//! Idle connections: how many, and what one costs. Alone in its process, because it measures the
//! process.

mod support;

use std::net::TcpStream;

use ringmain_broker::Broker;
use support::Client;

const IDLE: usize = 5_000;

/// What an idle connection may cost, kernel memory not counted.
const BYTES_EACH_MAX: usize = 64 << 10;

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: usize = statm
        .split(' ')
        .nth(1)
        .expect("a second field")
        .parse()
        .expect("a number");
    pages * 4096
}

/// Connections that this process can have besides its other files: each takes two, one at either
/// end.
fn connections_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("Linux tells");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .expect("a limit");
    let soft = line.split_whitespace().nth(3).expect("a soft limit");
    soft.parse::<usize>()
        .map_or(IDLE, |files| (files.saturating_sub(200) / 2).min(IDLE))
}

/// Opens connections. Half of them have logged in.
fn connect(broker: &Broker, count: usize) -> Vec<TcpStream> {
    let open = |index: usize| {
        let id = 1000 + index as u128;
        if index.is_multiple_of(2) {
            Client::connect(broker.addr(), id)
        } else {
            Client::login(broker.addr(), id)
        }
    };
    (0..count).map(|index| open(index).socket).collect()
}

#[test]
fn five_thousand_idle_connections_are_fine_and_small() {
    let broker = Broker::builder().start().expect("a broker");
    let mut worker = Client::login(broker.addr(), 1);
    worker.assert_silence();
    let before = resident_bytes();
    let idle = connect(&broker, connections_max());
    worker.assert_silence();
    let each = resident_bytes().saturating_sub(before) / idle.len();
    println!(
        "{} idle connections, {each} bytes each, both ends in one process",
        idle.len()
    );
    assert!(
        each < BYTES_EACH_MAX,
        "an idle connection costs {each} bytes"
    );
    assert_eq!(broker.stats().connections_open, idle.len() as u64 + 1);
    drop(idle);
    worker.assert_silence();
}
