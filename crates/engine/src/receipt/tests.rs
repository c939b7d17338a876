//! Receipts without an engine: waking, late registration, reuse of cells.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::{BatchCell, BatchOutcome, Callbacks, CellPool, Receipt, Receipts};
use crate::outcome::Outcome;
use crate::user_code::Deferred;

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn cell() -> Arc<BatchCell> {
    Arc::new(BatchCell::new(Arc::new(Callbacks::unlimited())))
}

const STORED: BatchOutcome = BatchOutcome::Stored {
    partition: 3,
    base_offset: 100,
};

#[test]
fn a_record_is_stored_at_base_offset_plus_its_index() {
    let cell = cell();
    let receipt = Receipt::new(Arc::clone(&cell), 7);
    assert_eq!(receipt.outcome(), None);
    cell.resolve(STORED, &mut Deferred::default());
    assert_eq!(
        receipt.outcome(),
        Some(Outcome::Stored {
            partition: 3,
            offset: 107
        })
    );
    assert_eq!(receipt.wait(), receipt.wait());
}

#[test]
fn a_future_is_woken_once_through_its_latest_waker() {
    let cell = cell();
    let (first, second) = (Arc::new(Counter(0.into())), Arc::new(Counter(0.into())));
    let mut receipt = pin!(Receipt::new(Arc::clone(&cell), 0));
    for counter in [&first, &second] {
        let waker = Waker::from(Arc::clone(counter));
        assert!(
            receipt
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    cell.resolve(STORED, &mut Deferred::default());
    assert_eq!(first.0.load(Ordering::SeqCst), 0);
    assert_eq!(second.0.load(Ordering::SeqCst), 1);
    let polled = receipt
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(
        polled,
        Poll::Ready(Outcome::Stored { offset: 100, .. })
    ));
}

#[test]
fn a_blocked_thread_is_released_and_a_deadline_ends_the_wait() {
    let cell = cell();
    let receipt = Receipt::new(Arc::clone(&cell), 0);
    assert_eq!(
        receipt.wait_deadline(Instant::now() + Duration::from_millis(1)),
        None
    );
    let waiting = std::thread::spawn(move || receipt.wait());
    cell.resolve(STORED, &mut Deferred::default());
    assert!(waiting.join().expect("no panic").is_stored());
}

#[test]
fn callbacks_run_in_order_and_a_panic_in_one_spares_the_next() {
    let cell = cell();
    let (sender, receiver) = mpsc::channel();
    Receipt::new(Arc::clone(&cell), 0).on_resolved(|_| panic!("on purpose"));
    let early = sender.clone();
    Receipt::new(Arc::clone(&cell), 1)
        .on_resolved(move |outcome| early.send(outcome).expect("receiver lives"));
    cell.resolve(STORED, &mut Deferred::default());
    Receipt::new(Arc::clone(&cell), 2)
        .on_resolved(move |outcome| sender.send(outcome).expect("receiver lives"));
    let mut offsets: Vec<u64> = receiver
        .iter()
        .map(|outcome| match outcome {
            Outcome::Stored { offset, .. } => offset,
            other => panic!("unexpected {other}"),
        })
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [101, 102]);
}

#[test]
fn a_cell_is_reused_only_after_its_last_receipt() {
    let mut pool = CellPool::new(Arc::new(Callbacks::unlimited()));
    let first = pool.take();
    first.resolve(STORED, &mut Deferred::default());
    let receipt = Receipt::new(Arc::clone(&first), 0);
    let address = Arc::as_ptr(&first);
    drop(first);
    let second = pool.take();
    assert_ne!(
        Arc::as_ptr(&second),
        address,
        "a receipt still looks at the first"
    );
    drop(receipt);
    let third = pool.take();
    assert_eq!(Arc::as_ptr(&third), address);
    assert_eq!(third.outcome(0), None, "a reused cell starts unresolved");
}

#[test]
fn receipts_of_a_batch_take_one_span_and_iterate_in_order() {
    let (a, b) = (cell(), cell());
    let mut receipts = Receipts::default();
    for index in 0..3 {
        receipts.push(Receipt::new(Arc::clone(&a), index));
    }
    receipts.push(Receipt::new(Arc::clone(&b), 0));
    assert_eq!((receipts.len(), receipts.spans.len()), (4, 2));
    a.resolve(STORED, &mut Deferred::default());
    let account = receipts.wait_deadline(Instant::now());
    assert_eq!(
        (account.accepted, account.stored, account.in_flight),
        (4, 3, 1)
    );
    assert!(account.balances());
    let offsets: Vec<_> = receipts
        .iter()
        .filter_map(|receipt| receipt.outcome())
        .collect();
    assert_eq!(offsets.len(), 3);
}

#[test]
fn waits_that_end_early_leave_nothing_with_the_batch() {
    let cell = cell();
    let receipt = Receipt::new(Arc::clone(&cell), 0);
    for _ in 0..100 {
        assert_eq!(receipt.wait_deadline(Instant::now()), None);
        let mut polled = Receipt::new(Arc::clone(&cell), 1);
        let mut polled = pin!(&mut polled);
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(Counter(0.into())));
            let context = &mut Context::from_waker(&waker);
            assert!(polled.as_mut().poll(context).is_pending());
        }
    }
    assert_eq!(cell.places(), 1, "of those that wait at the same time");
    // Places are given up in any order, and those that still wait are all told.
    let counters: Vec<_> = (0..10).map(|_| Arc::new(Counter(0.into()))).collect();
    let mut polled: Vec<Option<Receipt>> = Vec::new();
    for counter in &counters {
        let mut receipt = Receipt::new(Arc::clone(&cell), 0);
        let waker = Waker::from(Arc::clone(counter));
        let pending = pin!(&mut receipt).poll(&mut Context::from_waker(&waker));
        assert!(pending.is_pending());
        polled.push(Some(receipt));
    }
    for place in [3, 7, 0, 9] {
        polled[place] = None;
    }
    assert_eq!(receipt.wait_deadline(Instant::now()), None);
    cell.resolve(STORED, &mut Deferred::default());
    for (counter, receipt) in counters.iter().zip(&polled) {
        let woken = counter.0.load(Ordering::SeqCst);
        assert_eq!(woken, usize::from(receipt.is_some()));
    }
}

#[test]
fn a_waker_is_cloned_and_dropped_while_nothing_is_held() {
    /// Looks at the receipts of the batch whenever it is touched.
    struct Nosy(Arc<BatchCell>);

    impl Wake for Nosy {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Nosy {
        fn drop(&mut self) {
            // Takes the lock of the cell: a deadlock when it is held.
            self.0.places();
        }
    }

    let cell = cell();
    let mut receipt = Receipt::new(Arc::clone(&cell), 0);
    for _ in 0..3 {
        let waker = Waker::from(Arc::new(Nosy(Arc::clone(&cell))));
        let context = &mut Context::from_waker(&waker);
        assert!(pin!(&mut receipt).poll(context).is_pending());
    }
    drop(receipt);
    assert_eq!(cell.places(), 1);
}

#[test]
fn callbacks_without_a_thread_run_once_everything_is_answered() {
    let cell = cell();
    let callbacks = Callbacks::unlimited();
    let mut deferred = Deferred::default();
    let called = Arc::new(Counter(0.into()));
    let mut due = Vec::new();
    for panics in [true, false] {
        let called = Arc::clone(&called);
        let cell = Arc::clone(&cell);
        let callback = callbacks.charge(Box::new(move |_| {
            called.0.fetch_add(1, Ordering::SeqCst);
            assert!(cell.is_resolved() && !panics, "on purpose");
        }));
        due.push((callback, STORED.record(0)));
    }
    deferred.callbacks.append(&mut due);
    assert_eq!(callbacks.waiting(), 2);
    cell.resolve(STORED, &mut deferred);
    drop(deferred);
    assert_eq!(called.0.load(Ordering::SeqCst), 2);
    assert_eq!(callbacks.waiting(), 0);
}

#[test]
fn a_callback_that_panics_does_not_reach_a_caller_who_comes_late() {
    let cell = cell();
    cell.resolve(STORED, &mut Deferred::default());
    Receipt::new(cell, 0).on_resolved(|_| panic!("on purpose"));
}
