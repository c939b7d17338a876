//! Every interleaving of a shard that resolves a batch and those who wait for it, register, or go
//! away.
//!
//! Somebody who is not told shows as a deadlock of the model or as a count of 0.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::{BatchCell, BatchOutcome, Callbacks, CellPool, Receipt};
use crate::sync::{AtomicUsize, Ordering};
use crate::user_code::Deferred;

const STORED: BatchOutcome = BatchOutcome::Stored {
    partition: 3,
    base_offset: 100,
};

/// Counts how often it was woken or called.
struct Counter(AtomicUsize);

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn cell() -> Arc<BatchCell> {
    Arc::new(BatchCell::new(Arc::new(Callbacks::unlimited())))
}

fn resolving(cell: &Arc<BatchCell>) -> loom::thread::JoinHandle<()> {
    let cell = Arc::clone(cell);
    loom::thread::spawn(move || cell.resolve(STORED, &mut Deferred::default()))
}

/// A thread of its own for each wait: the model's `unpark` must not meet a thread that waits for
/// something else.
fn waiting(cell: &Arc<BatchCell>, index: u32) -> loom::thread::JoinHandle<()> {
    let receipt = Receipt::new(Arc::clone(cell), index);
    loom::thread::spawn(move || assert!(receipt.wait().is_stored()))
}

#[test]
fn loom_a_thread_that_waits_is_released_and_sees_the_outcome() {
    loom::model(|| {
        let cell = cell();
        let waiting = waiting(&cell, 1);
        cell.resolve(STORED, &mut Deferred::default());
        waiting.join().expect("no panic");
    });
}

#[test]
fn loom_two_threads_that_wait_are_both_released() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let cell = cell();
        let threads = [waiting(&cell, 0), waiting(&cell, 1)];
        cell.resolve(STORED, &mut Deferred::default());
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
}

#[test]
fn loom_a_future_that_was_pending_is_woken() {
    loom::model(|| {
        let cell = cell();
        let shard = resolving(&cell);
        let mut receipt = Receipt::new(Arc::clone(&cell), 0);
        let (first, second) = (Counter::new(), Counter::new());
        let mut pending = None;
        // Polled twice, by tasks of different wakers: the later one counts.
        for counter in [&first, &second] {
            let waker = Waker::from(Arc::clone(counter));
            let mut context = Context::from_waker(&waker);
            match Pin::new(&mut receipt).poll(&mut context) {
                Poll::Ready(outcome) => {
                    assert!(outcome.is_stored());
                    pending = None;
                    break;
                }
                Poll::Pending => pending = Some(counter),
            }
        }
        shard.join().expect("no panic");
        if let Some(counter) = pending {
            assert_eq!(counter.count(), 1, "the latest waker, once");
        }
        assert!(receipt.outcome().is_some_and(|outcome| outcome.is_stored()));
    });
}

#[test]
fn loom_a_callback_runs_exactly_once() {
    loom::model(|| {
        let cell = cell();
        let shard = resolving(&cell);
        let called = Counter::new();
        let calls = Arc::clone(&called);
        Receipt::new(Arc::clone(&cell), 0).on_resolved(move |outcome| {
            assert!(outcome.is_stored());
            calls.0.fetch_add(1, Ordering::SeqCst);
        });
        shard.join().expect("no panic");
        assert_eq!(called.count(), 1);
    });
}

#[test]
fn loom_a_receipt_that_is_dropped_does_not_hold_up_the_others() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let cell = cell();
        let waiting = waiting(&cell, 1);
        let dropping = {
            let mut receipt = Receipt::new(Arc::clone(&cell), 0);
            loom::thread::spawn(move || {
                let waker = Waker::from(Counter::new());
                // Ready or not, its task goes away.
                let _ = Pin::new(&mut receipt).poll(&mut Context::from_waker(&waker));
            })
        };
        cell.resolve(STORED, &mut Deferred::default());
        waiting.join().expect("no panic");
        dropping.join().expect("no panic");
    });
}

#[test]
fn loom_a_cell_is_reused_without_taking_an_outcome_from_its_last_receipt() {
    loom::model(|| {
        let mut pool = CellPool::new(Arc::new(Callbacks::unlimited()));
        let first = pool.take();
        let waiting = waiting(&first, 0);
        first.resolve(STORED, &mut Deferred::default());
        drop(first);
        // The same cell or another: it has no outcome, and whoever waits for the first gets that of
        // the first.
        let second = pool.take();
        assert_eq!(second.outcome(0), None);
        waiting.join().expect("no panic");
        assert_eq!(second.outcome(0), None, "nobody resolved it");
    });
}
