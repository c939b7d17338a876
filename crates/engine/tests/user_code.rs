//! Code of the application that runs on the engine's threads: wakers, owners of payloads,
//! callbacks. It may panic, and ask for what it must not wait for; records, other tasks and other
//! threads do not notice.

mod support;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain::{Call, CallError, Outcome, Producer, Receipt, Record, SendError};
use ringmain_broker::Broker;
use ringmain_wire::CommandCode;
use support::{Checked, PATIENCE, PROMPT, Server, Start};

/// Long enough that everything registers before the broker answers, so that the engine's threads
/// run it.
const COMMIT_DELAY_US: u64 = 200_000;

/// Runs what a test wants run, once, where it is woken or dropped.
struct Act(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Act {
    fn new(act: impl FnOnce() + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(act))))
    }

    fn run(&self) {
        let act = self.0.lock().expect("no panic while it is held").take();
        if let Some(act) = act {
            act();
        }
    }
}

impl Wake for Act {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

fn waker(act: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(Act::new(act)))
}

/// A payload that travels by reference; its owner acts when it is dropped.
fn owned(act: impl FnOnce() + Send + 'static) -> Bytes {
    struct Owner(Vec<u8>, Act);

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.run();
        }
    }

    Bytes::from_owner(Owner(vec![1; 20_000], Act::new(act)))
}

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn slow() -> (Server, Checked) {
    let server = Server::embedded(Broker::builder().commit_delay_us(COMMIT_DELAY_US));
    let engine = server.engine().memory_bytes_max(1 << 20).start();
    (server, engine)
}

fn producer(server: &Server, engine: &Checked) -> Producer {
    engine
        .producer(server.stream("user-code"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic")
}

fn is_pending<F: Future + Unpin>(future: &mut F, waker: &Waker) -> bool {
    Pin::new(future)
        .poll(&mut Context::from_waker(waker))
        .is_pending()
}

fn stored(receipt: &Receipt, what: &str) {
    let outcome = receipt.wait_deadline(Instant::now() + PATIENCE);
    assert!(
        outcome.is_some_and(|outcome| outcome.is_stored()),
        "{what}: {outcome:?}"
    );
}

fn panics() {
    panic!("on purpose");
}

fn read_call() -> Call {
    Call::read(CommandCode::GET_STREAMS.0, Bytes::new())
}

/// Fills the slots, without a batch in flight that would be answered sooner.
fn fill(producer: &Producer) -> Vec<Receipt> {
    std::iter::from_fn(|| producer.try_send(Record::new(vec![2; 5000])).ok()).collect()
}

/// What panics, and how it comes to be called. Gives the receipts of the records that it took.
type Case = (&'static str, fn(&Checked, &Producer) -> Vec<Receipt>);

fn hostile_code() -> [Case; 6] {
    [
        ("the waker of a receipt", |_, producer| {
            let mut receipt = producer.send(Record::new("x")).expect("room");
            assert!(is_pending(&mut receipt, &waker(panics)));
            vec![receipt]
        }),
        ("the waker of a call", |engine, _| {
            let mut call = Box::pin(engine.call_async(read_call(), PATIENCE));
            // Answered sooner than anything else; later than this poll in all likelihood.
            let _ = is_pending(&mut call, &waker(panics));
            std::mem::forget(call);
            Vec::new()
        }),
        (
            "the waker of a send that waits for bytes",
            |engine, producer| {
                let bytes = engine.stats().by_reference_bytes_free as usize;
                let first = producer.send(Record::new(vec![1; bytes])).expect("room");
                let mut second = Box::pin(producer.send_async(Record::new(vec![1; bytes])));
                assert!(is_pending(&mut second, &waker(panics)));
                stored(&first, "the bytes come back");
                drop(second);
                vec![first]
            },
        ),
        (
            "the waker of a send that waits for a slot",
            |_, producer| {
                let filled = fill(producer);
                let mut waiting = Box::pin(producer.send_async(Record::new("x")));
                assert!(is_pending(&mut waiting, &waker(panics)));
                stored(filled.last().expect("some"), "the slots come back");
                drop(waiting);
                filled
            },
        ),
        ("the owners of two payloads of one batch", |_, producer| {
            let payloads = [owned(panics), owned(panics)];
            payloads
                .map(|payload| producer.send(Record::new(payload)).expect("room"))
                .into()
        }),
        ("callbacks", |_, producer| {
            for _ in 0..2 {
                let receipt = producer.send(Record::new("x")).expect("room");
                receipt.on_resolved(|_| panics());
            }
            Vec::new()
        }),
    ]
}

#[test]
fn what_panics_on_a_shard_spares_everybody_else() {
    for (what, start) in hostile_code() {
        let (server, engine) = slow();
        let (producer, other) = (producer(&server, &engine), producer(&server, &engine));
        let mut innocent = producer.send(Record::new("x")).expect("room");
        let receipts = start(&engine, &producer);
        let counter = Arc::new(Counter::default());
        let is_early = is_pending(&mut innocent, &Waker::from(Arc::clone(&counter)));
        let later = producer.send(Record::new("y")).expect("room");
        for receipt in receipts.iter().chain([&innocent, &later]) {
            stored(receipt, what);
        }
        let elsewhere = other.send(Record::new("z")).expect("the shard lives");
        stored(&elsewhere, what);
        assert_eq!(
            counter.0.load(Ordering::SeqCst),
            usize::from(is_early),
            "{what}"
        );
        let report = engine.close(PATIENCE);
        assert!(
            report.drained && report.account.all_stored(),
            "{what}: {report:?}"
        );
    }
}

/// What a shard's thread is asked for, from a waker and from the drop of a payload's owner.
fn asks(act: impl Fn(&Producer) + Clone + Send + 'static) {
    for by_waker in [true, false] {
        let (server, engine) = slow();
        let producer = producer(&server, &engine);
        let (done, is_done) = mpsc::channel();
        let act = {
            let (act, producer) = (act.clone(), producer.clone());
            move || {
                act(&producer);
                done.send(()).expect("the test waits");
            }
        };
        if by_waker {
            let mut receipt = producer.send(Record::new("x")).expect("room");
            assert!(is_pending(&mut receipt, &waker(act)));
            is_done.recv_timeout(PATIENCE).expect("it returns");
            stored(&receipt, "its own receipt");
        } else {
            let receipt = producer.send(Record::new(owned(act))).expect("room");
            is_done.recv_timeout(PATIENCE).expect("it returns");
            stored(&receipt, "its own receipt");
        }
        let next = producer.send(Record::new("y")).expect("the shard lives");
        stored(&next, "the next one");
    }
}

#[test]
fn a_send_on_a_shards_thread_is_refused_rather_than_waiting_for_itself() {
    asks(|producer| {
        let filled = fill(producer);
        assert!(!filled.is_empty(), "there was room for some");
        let error = producer.send(Record::new("x")).expect_err("no room");
        assert_eq!(error, SendError::OnShardThread);
        let soon = Instant::now() + PATIENCE;
        let refused = producer.send_deadline(Record::new("x"), soon);
        assert_eq!(
            refused.expect_err("no room").error,
            SendError::OnShardThread
        );
        let mut batch = producer.send_batch([Record::new("x")]);
        assert_eq!(
            batch.as_mut().expect_err("no room").error,
            SendError::OnShardThread
        );
    });
}

#[test]
fn a_wait_on_a_shards_thread_panics_rather_than_waiting_for_itself() {
    fn caught<R>(wait: impl FnOnce() -> R) {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait));
        let panic = caught.err().expect("it cannot wait");
        let text = panic.downcast::<String>().expect("a text");
        assert!(text.contains("a thread of the application"), "{text}");
    }
    asks(|producer| {
        let receipt = producer.send(Record::new("x")).expect("room");
        caught(|| receipt.wait());
        caught(|| producer.flush(PATIENCE));
        caught(|| producer.purge());
        caught(|| producer.close(PATIENCE));
    });
}

#[test]
fn a_call_on_a_shards_thread_is_refused() {
    let (server, engine) = slow();
    let producer = producer(&server, &engine);
    let (result, results) = mpsc::channel();
    let handle = engine.clone();
    let mut receipt = producer.send(Record::new("x")).expect("room");
    let act = move || {
        let called = handle.call(read_call(), PATIENCE);
        result
            .send(called.expect_err("refused"))
            .expect("the test waits");
    };
    assert!(is_pending(&mut receipt, &waker(act)));
    let error = results.recv_timeout(PATIENCE).expect("it returns");
    assert!(matches!(error, CallError::OnShardThread), "{error}");
}

#[test]
fn the_last_handle_may_go_on_a_shards_thread() {
    let server = Server::embedded(Broker::builder().commit_delay_us(COMMIT_DELAY_US));
    let engine = server.engine().build().expect("a healthy broker");
    let producer = engine
        .producer(server.stream("last"), "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let mut first = producer.send(Record::new("x")).expect("room");
    let (gone, is_gone) = mpsc::channel();
    let (kept, receipts) = mpsc::channel();
    let act = move || {
        // Cannot be answered before this returns.
        kept.send(producer.send(Record::new("y")).expect("room"))
            .expect("the test waits");
        drop(producer);
        gone.send(()).expect("the test waits");
    };
    assert!(is_pending(&mut first, &waker(act)));
    drop(engine);
    let started = Instant::now();
    is_gone
        .recv_timeout(PATIENCE)
        .expect("it does not wait for itself");
    assert!(started.elapsed() < PROMPT);
    let second = receipts.recv().expect("sent before");
    let outcome = second.wait_deadline(Instant::now() + PATIENCE);
    assert!(
        matches!(
            outcome,
            Some(Outcome::NotSent { .. } | Outcome::Unknown { .. })
        ),
        "{outcome:?}"
    );
}

/// A broker that answers at once, and an engine whose first callback waits until it is let go.
struct Stuck {
    _server: Server,
    engine: Checked,
    producer: Producer,
    /// Its records wait in the engine until they are flushed, so that nothing is answered before it
    /// is registered for.
    lingering: Producer,
    ran: Arc<AtomicUsize>,
    let_go: mpsc::Sender<()>,
}

const MEMORY_BYTES: u64 = 256 << 10;

impl Stuck {
    fn new() -> Self {
        let server = Server::embedded(Broker::builder());
        let engine = server
            .engine()
            .memory_bytes_max(MEMORY_BYTES)
            .slot_bytes(16 << 10)
            .start();
        let producer = producer(&server, &engine);
        let lingering = engine
            .producer(server.stream("lingering"), "topic")
            .create_if_missing(1)
            .linger_us(60_000_000)
            .build()
            .expect("a new topic");
        let (let_go, wait) = mpsc::channel::<()>();
        let ran = Arc::new(AtomicUsize::new(0));
        let stuck = Self {
            _server: server,
            engine,
            producer,
            lingering,
            ran,
            let_go,
        };
        let ran = Arc::clone(&stuck.ran);
        stuck
            .lingering
            .send(Record::new("x"))
            .expect("room")
            .on_resolved(move |_| {
                // Ends when it is let go, or when the test ends.
                let _ = wait.recv();
                ran.fetch_add(1, Ordering::SeqCst);
            });
        assert!(stuck.lingering.flush(PATIENCE));
        stuck
    }

    /// Sends with callbacks until callbacks, and nothing else, hold more back. Gives how many wait:
    /// those that were registered after the answer ran at once.
    fn fill(&self) -> usize {
        let mut sent = 0;
        loop {
            match self.producer.try_send(Record::new("x")) {
                Ok(receipt) => {
                    let ran = Arc::clone(&self.ran);
                    receipt.on_resolved(move |_| {
                        ran.fetch_add(1, Ordering::SeqCst);
                    });
                    sent += 1;
                }
                // Slots come back as soon as the broker has answered.
                Err(_) if self.producer.account().in_flight > 0 => std::thread::yield_now(),
                Err(refused) => {
                    assert_eq!(refused.error, SendError::Full);
                    return sent - self.ran.load(Ordering::SeqCst);
                }
            }
        }
    }
}

#[test]
fn callbacks_that_fall_behind_hold_sends_back_within_the_memory() {
    let stuck = Stuck::new();
    let waiting = stuck.fill();
    let ran_at_once = stuck.ran.load(Ordering::SeqCst);
    // Each counts 128 bytes and what it captured, against what records by reference leave free.
    let room = (MEMORY_BYTES / 2 / 136) as usize;
    assert!(
        room / 2 < waiting && waiting <= room + 1,
        "{waiting} of {room}"
    );
    let stats = stuck.engine.stats();
    assert_eq!(stats.callbacks_waiting, waiting as u64 + 1);
    assert_eq!(
        stats.slots_free, stats.slots,
        "the records themselves are answered"
    );
    let soon = Instant::now() + Duration::from_millis(20);
    let late = stuck.producer.send_deadline(Record::new("x"), soon);
    assert_eq!(late.expect_err("no room").error, SendError::DeadlineOver);
    let counter = Arc::new(Counter::default());
    let mut sending = pin!(stuck.producer.send_async(Record::new("x")));
    let waker = Waker::from(Arc::clone(&counter));
    assert!(
        sending
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let blocked = {
        let producer = stuck.producer.clone();
        std::thread::spawn(move || {
            producer
                .send_batch([Record::new("x")])
                .map(|sent| sent.len())
        })
    };
    stuck.let_go.send(()).expect("the callback waits");
    assert_eq!(blocked.join().expect("no panic").expect("room"), 1);
    let polled = loop {
        match sending.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(sent) => break sent,
            Poll::Pending => std::thread::yield_now(),
        }
    };
    stored(&polled.expect("room"), "held back");
    let report = stuck.engine.close(PATIENCE);
    assert!(
        report.drained && report.callbacks_waiting == 0,
        "{report:?}"
    );
    let ran = stuck.ran.load(Ordering::SeqCst);
    assert_eq!(ran, ran_at_once + waiting + 1);
}

#[test]
fn close_says_which_callbacks_have_not_run() {
    let stuck = Stuck::new();
    let waiting = stuck.fill();
    let report = stuck.engine.close(Duration::from_millis(50));
    assert!(report.account.all_stored(), "{report:?}");
    assert!(!report.drained, "callbacks are left");
    assert_eq!(report.callbacks_waiting, waiting as u64 + 1);
    assert_eq!(stuck.engine.close(PATIENCE), report, "the same report");
}

#[test]
fn a_callback_that_sends_or_closes_waits_neither_for_itself_nor_for_those_behind_it() {
    let stuck = Stuck::new();
    let (said, says) = mpsc::channel();
    let (producer, engine) = (stuck.producer.clone(), stuck.engine.clone());
    let receipt = stuck.lingering.send(Record::new("x")).expect("room");
    receipt.on_resolved(move |_| {
        // Callbacks fill their room, this one and many behind it: a send is let through.
        let receipt = producer.send(Record::new("from a callback")).expect("room");
        said.send((receipt.wait(), engine.close(PATIENCE)))
            .expect("the test waits");
    });
    assert!(stuck.lingering.flush(PATIENCE));
    let waiting = stuck.fill();
    stuck.let_go.send(()).expect("the callback waits");
    let (outcome, report) = says.recv_timeout(PATIENCE).expect("it returns");
    assert!(outcome.is_stored(), "{outcome}");
    assert_eq!(report.callbacks_waiting, waiting as u64, "all but itself");
}
