//! Handles, receipts and futures dropped at any moment lose no accepted record and block no slot.

mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use ringmain::{Engine, Outcome, Producer, Record};
use support::{Draws, PATIENCE, Server, Start, read_back};

/// A waker that only counts.
#[derive(Default)]
struct Counter(AtomicU64);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What one thread did: the numbers it knows to be accepted.
struct Dropper<'a> {
    engine: &'a Engine,
    stream: &'a str,
    called: &'a Arc<AtomicU64>,
    accepted: Vec<u64>,
    with_callback: u64,
}

impl Dropper<'_> {
    fn producer(&self) -> Producer {
        self.engine
            .producer(self.stream, "topic")
            .build()
            .expect("the topic exists")
    }

    /// One record, and something dropped on the way. Large records make others wait for memory.
    fn step(&mut self, producer: &Producer, number: u64, draws: &mut Draws) {
        let size = if draws.below(8) == 0 { 60_000 } else { 100 };
        let mut payload = number.to_le_bytes().to_vec();
        payload.resize(size, 7);
        let record = Record::new(payload);
        match draws.below(5) {
            0 => drop(producer.send(record).expect("accepted")),
            1 => {
                let receipt = producer.send(record).expect("accepted");
                let called = Arc::clone(self.called);
                receipt.on_resolved(move |outcome| {
                    assert!(outcome.is_stored());
                    called.fetch_add(1, Ordering::Relaxed);
                });
                self.with_callback += 1;
            }
            2 => {
                // A receipt whose task went away after it was polled.
                let mut receipt = pin!(producer.send(record).expect("accepted"));
                let waker = Waker::from(Arc::new(Counter::default()));
                let _ = receipt.as_mut().poll(&mut Context::from_waker(&waker));
            }
            3 => {
                let receipt = producer.send(record).expect("accepted");
                let waited =
                    receipt.wait_deadline(Instant::now() + Duration::from_micros(draws.below(300)));
                assert!(waited.is_none_or(|outcome| outcome.is_stored()));
            }
            _ => {
                // A send whose task went away, mostly while it waited for memory.
                let mut send = pin!(producer.send_async(record));
                match send.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(sent) => drop(sent.expect("accepted")),
                    Poll::Pending => return,
                }
            }
        }
        self.accepted.push(number);
    }
}

#[test]
fn dropping_anything_at_any_moment_loses_nothing_and_blocks_nothing() {
    const THREADS: u64 = 4;
    const STEPS: u64 = 1500;
    let server = Server::start();
    let stream = server.stream("dropped");
    // So little that senders wait for slots and for bytes all the time.
    let engine = server.engine().memory_bytes_max(512 << 10).start();
    drop(
        engine
            .producer(&stream, "topic")
            .create_if_missing(1)
            .build()
            .expect("a new topic"),
    );
    let called = Arc::new(AtomicU64::new(0));
    let (mut accepted, mut with_callback) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (engine, stream, called) = (&*engine, stream.as_str(), &called);
                scope.spawn(move || {
                    let mut draws = Draws::new(thread);
                    let mut dropper = Dropper {
                        engine,
                        stream,
                        called,
                        accepted: Vec::new(),
                        with_callback: 0,
                    };
                    let mut producer = dropper.producer();
                    for step in 0..STEPS {
                        if draws.below(100) == 0 {
                            // The last handle of this producer, with records on their way.
                            producer = dropper.producer();
                        }
                        dropper.step(&producer, thread << 32 | step, &mut draws);
                    }
                    dropper
                })
            })
            .collect();
        for thread in threads {
            let mut dropper = thread.join().expect("no panic");
            accepted.append(&mut dropper.accepted);
            with_callback += dropper.with_callback;
        }
    });
    let report = engine.close(PATIENCE);
    assert!(
        report.drained && report.account.all_stored(),
        "{}",
        report.account
    );
    assert_eq!(report.account.accepted, accepted.len() as u64);
    let reader = server.engine().start();
    let mut stored: Vec<u64> = read_back(&reader, &stream, "topic", 0)
        .iter()
        .map(|record| u64::from_le_bytes(*record.payload.first_chunk().expect("eight bytes")))
        .collect();
    stored.sort_unstable();
    accepted.sort_unstable();
    assert!(stored == accepted, "exactly what was accepted is stored");
    // The thread of callbacks runs on after the close.
    let deadline = Instant::now() + PATIENCE;
    while called.load(Ordering::Relaxed) < with_callback {
        assert!(Instant::now() < deadline, "a callback for each");
        std::thread::yield_now();
    }
}

#[test]
fn the_last_handle_dropped_in_the_middle_answers_everything() {
    let server = Server::stalled();
    for records in [1, 100, 3000] {
        let engine = server.engine().build().expect("a server that takes logins");
        let producer = engine
            .producer(server.stream("handles"), "topic")
            .create_if_missing(2)
            .build()
            .expect("a new topic");
        drop(engine);
        let receipts = producer
            .send_batch((0..records).map(|_| Record::new(vec![1; 300])))
            .expect("accepted");
        let waiting = producer.send_async(Record::new("last"));
        drop(waiting);
        drop(producer);
        for receipt in receipts.iter() {
            assert!(matches!(
                receipt.outcome(),
                Some(Outcome::Unknown { .. } | Outcome::NotSent { .. })
            ));
        }
    }
}
