//! A shard whose code panics, at each step of its loop and of its end: everybody who waits for it
//! returns, every record has its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use ringmain_broker::Broker;
use ringmain_wire::CommandCode;

use super::Step;
use crate::call::Call;
use crate::engine::Engine;
use crate::error::{CallError, SendError};
use crate::outcome::Outcome;
use crate::partitioner::Partitioning;
use crate::producer::Producer;
use crate::receipt::Receipt;
use crate::record::Record;

/// Far longer than anything here takes: who waits so long was forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Less than half of the budget of records by reference, more than a third: two fill it.
const LARGE: usize = 200_000;

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// An engine in front of a broker that answers everything but sends.
fn engine(broker: &Broker, shards: u16) -> Engine {
    Engine::builder()
        .server(format!("iggy://iggy:iggy@{}", broker.addr()))
        .shards(shards)
        .cores([])
        .memory_bytes_max(1 << 20)
        .slot_bytes(64 << 10)
        .huge_pages(false)
        .build()
        .expect("a healthy broker")
}

fn stalled() -> Broker {
    Broker::builder()
        .commit_delay_us(3_600_000_000)
        .start()
        .expect("a free port")
}

fn producer(engine: &Engine, topic: &str, partitions: u32) -> Producer {
    engine
        .producer("stream", topic)
        .create_if_missing(partitions)
        .delivery_timeout_us(3_600_000_000)
        .build()
        .expect("a new topic")
}

/// Sends until the shard refuses: what got in has its answer then.
fn send_until_it_ends(producer: &Producer, bytes: usize) {
    let mut receipts = Vec::new();
    let error = loop {
        match producer.send(Record::new(vec![4; bytes])) {
            Ok(receipt) => receipts.push(receipt),
            Err(error) => break error,
        }
    };
    assert_eq!(error, SendError::EngineFailed);
    for receipt in receipts {
        assert_unstored(receipt.wait_deadline(Instant::now() + FORGOTTEN));
    }
}

fn assert_unstored(outcome: Option<Outcome>) {
    assert!(
        matches!(
            outcome,
            Some(Outcome::Unknown { .. } | Outcome::NotSent { .. })
        ),
        "{outcome:?}"
    );
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + FORGOTTEN;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Threads that wait for memory, an answer, a flush, calls and purges, all of which return.
fn fail_while_threads_wait(
    engine: &Engine,
    (main, other): (&Producer, &Producer),
    receipt: &Receipt,
    faults: &[Step],
) {
    let shard = &engine.inner().shards[0].shared;
    std::thread::scope(|scope| {
        let started = Instant::now();
        let senders: Vec<ScopedJoinHandle<'_, _>> = [LARGE, 8000]
            .into_iter()
            .map(|bytes| scope.spawn(move || send_until_it_ends(main, bytes)))
            .collect();
        let waiting = scope.spawn(|| receipt.wait());
        let flushing = scope.spawn(|| main.flush(2 * FORGOTTEN));
        let calling = scope.spawn(|| {
            loop {
                let call = Call::read(CommandCode::GET_STREAMS.0, Vec::new());
                if let Err(error) = engine.call(call, 2 * FORGOTTEN) {
                    break error;
                }
            }
        });
        let purging = scope.spawn(|| {
            while !shard.has_ended() {
                drop(other.purge());
            }
            drop(other.purge());
        });
        wait_until("a sender waits for a slot", || shard.slots().has_waiters());
        wait_until("senders wait for bytes", || shard.credit().places() >= 2);
        shard.faults.lock().expect("no panic").extend(faults);
        // Has batches finished, too.
        drop(main.purge());
        for sender in senders {
            sender.join().expect("no panic");
        }
        assert_unstored(Some(waiting.join().expect("no panic")));
        assert!(flushing.join().expect("no panic"), "everything is answered");
        let error = calling.join().expect("no panic");
        assert!(matches!(error, CallError::EngineFailed { .. }), "{error}");
        purging.join().expect("no panic");
        assert!(started.elapsed() < FORGOTTEN, "{faults:?}");
    });
}

/// Everybody who can wait for a shard waits, then it fails at these steps.
fn everybody_returns(faults: &[Step]) {
    let broker = stalled();
    let engine = engine(&broker, 1);
    let by_reference_bytes = engine.stats().by_reference_bytes_free;
    let main = producer(&engine, "main", 2);
    let other = producer(&engine, "other", 1);
    let mut receipts = vec![other.send(Record::new("x")).expect("room")];
    for _ in 0..2 {
        receipts.push(main.send(Record::new(vec![1; LARGE])).expect("room"));
    }
    while let Ok(receipt) = main.try_send(Record::new(vec![2; 8000])) {
        receipts.push(receipt);
    }
    let woken = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut polled = receipts.pop().expect("several");
    let context = &mut Context::from_waker(&waker);
    assert!(Pin::new(&mut polled).poll(context).is_pending());
    let mut sending = Box::pin(main.send_async(Record::new(vec![3; LARGE])));
    assert!(sending.as_mut().poll(context).is_pending());
    let called = Arc::new(Counter::default());
    let calls = Arc::clone(&called);
    let with_callback = receipts.pop().expect("several");
    with_callback.on_resolved(move |_| {
        calls.0.fetch_add(1, Ordering::SeqCst);
    });
    fail_while_threads_wait(&engine, (&main, &other), &receipts[0], faults);
    match sending.as_mut().poll(context) {
        Poll::Ready(Err(error)) => assert_eq!(error, SendError::EngineFailed),
        other => panic!("{faults:?}: {other:?} of a shard that has ended"),
    }
    for receipt in receipts.iter().chain([&polled]) {
        assert_unstored(receipt.wait_deadline(Instant::now() + FORGOTTEN));
    }
    wait_until("both tasks are woken", || {
        woken.0.load(Ordering::SeqCst) >= 2
    });
    wait_until("the callback runs", || called.0.load(Ordering::SeqCst) == 1);
    send_until_it_ends(&main, 10);
    let report = engine.close(FORGOTTEN);
    assert!(!report.drained && report.account.balances(), "{report:?}");
    assert_eq!(report.account.in_flight, 0, "{faults:?}");
    let lost = by_reference_bytes - engine.stats().by_reference_bytes_free;
    // The batch whose end failed is the one that keeps its bytes.
    let is_end_of_batch = faults.contains(&Step::FinishBatch);
    assert!(
        lost == 0 || is_end_of_batch && lost == LARGE as u64,
        "{faults:?}: {lost}"
    );
}

#[test]
fn a_shard_that_panics_anywhere_in_its_loop_leaves_nobody_waiting() {
    for fault in [
        Step::Commands,
        Step::Timers,
        Step::Outcomes,
        Step::Lanes,
        Step::Transmit,
        Step::Serve,
        Step::Publish,
        Step::Wait,
        Step::Event,
        Step::FinishBatch,
    ] {
        everybody_returns(&[fault]);
    }
}

#[test]
fn a_shard_that_panics_again_while_it_ends_leaves_nobody_waiting() {
    for fault in [
        Step::EndLanes,
        Step::EndSealed,
        Step::EndInFlight,
        Step::EndGates,
        Step::EndCalls,
        Step::EndSessions,
        Step::EndDeferred,
        Step::EndPublish,
        Step::EndHeaders,
        Step::EndTransport,
        Step::EndMemory,
    ] {
        everybody_returns(&[Step::Serve, fault]);
    }
}

#[test]
fn the_shards_beside_one_that_ended_go_on_and_get_its_memory() {
    let broker = Broker::builder().start().expect("a free port");
    let engine = engine(&broker, 2);
    drop(producer(&engine, "both", 2));
    let producer_to = |shard: usize| {
        let lanes = &engine.inner().shards[shard].shared.lanes;
        (0..2)
            .map(|partition| {
                engine
                    .producer("stream", "both")
                    .partitioning(Partitioning::Partition(partition))
                    .build()
                    .expect("the topic exists")
            })
            .zip(0..2)
            .find(|(producer, partition)| {
                let receipt = producer.send(Record::new("x")).expect("room");
                assert!(receipt.wait().is_stored());
                let lanes = lanes.lock().expect("no panic");
                lanes.iter().any(|lane| lane.partition == *partition)
            })
            .expect("two partitions are on two shards")
            .0
    };
    let (dying, living) = (producer_to(0), producer_to(1));
    let shard = Arc::clone(&engine.inner().shards[0].shared);
    // All of the budget, and more: these wait for each other and for the shard that ends.
    let bytes = engine.stats().by_reference_bytes_free;
    let held = engine.inner().credit.try_take(bytes).expect("all free");
    std::thread::scope(|scope| {
        let failing = scope.spawn(|| dying.send(Record::new(vec![1; LARGE])));
        wait_until("it waits", || shard.credit().places() == 1);
        let going_on = scope.spawn(|| living.send(Record::new(vec![1; LARGE])));
        wait_until("both wait", || shard.credit().places() == 2);
        shard.faults.lock().expect("no panic").push(Step::Commands);
        shard.wake();
        let failed = failing.join().expect("no panic");
        assert_eq!(
            failed.expect_err("its shard ended"),
            SendError::EngineFailed
        );
        engine.inner().credit.put(held);
        let receipt = going_on.join().expect("no panic").expect("its shard lives");
        assert!(receipt.wait().is_stored());
    });
    assert_eq!(engine.stats().by_reference_bytes_free, bytes);
}
