//! Replies that nobody reads. Alone in its process, because it measures the process.

mod support;

use std::time::{Duration, Instant};

use ringmain_broker::Broker;
use ringmain_wire::operation::CommandCode;
use support::{Client, poll_body, send_body};

/// Records that one poll returns.
const REPLY_BYTES: usize = 32 << 20;

/// Clients that poll and never read.
const CLIENTS: u128 = 8;

/// Polls of each.
const POLLS: u64 = 4;

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

#[test]
fn clients_that_never_read_hold_no_more_than_the_bound_and_one_reply() {
    let broker = Broker::builder()
        .outbound_bytes_max(16 << 20)
        .start()
        .expect("a broker");
    let mut worker = Client::login(broker.addr(), 1);
    assert_eq!(worker.create_stream("s").result(), 0);
    assert_eq!(worker.create_topic("s", "t", 1).result(), 0);
    let body = send_body("s", "t", 0, &[&vec![7; 1 << 20]]);
    for _ in 0..REPLY_BYTES >> 20 {
        assert_eq!(worker.send(&body).status(), 0);
    }
    let before = resident_bytes();
    let mut unread: Vec<_> = (0..CLIENTS)
        .map(|id| Client::login(broker.addr(), 10 + id))
        .collect();
    for client in &mut unread {
        for _ in 0..POLLS {
            client.write_read(
                CommandCode::POLL_MESSAGES,
                &poll_body("s", "t", 0, (1, 0), 1 << 20),
            );
        }
    }
    // One client's first poll is answered, and the rest of it not read. Those of the others are
    // refused.
    let refused = POLLS * (CLIENTS as u64 - 1);
    let deadline = Instant::now() + Duration::from_secs(30);
    while broker.stats().refusals < refused {
        assert!(Instant::now() < deadline, "{}", broker.stats());
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(
        grown < 3 * REPLY_BYTES,
        "{grown} bytes for replies that nobody reads"
    );
    assert_eq!(broker.stats().refusals, refused);
    worker.assert_silence();
    drop(unread);
}
