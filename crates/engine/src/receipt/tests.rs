//! Receipts without an engine: waking, late registration, reuse of cells.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::{BatchCell, BatchOutcome, Callbacks, CellPool, Receipt, Receipts};
use crate::outcome::Outcome;

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn cell() -> Arc<BatchCell> {
    Arc::new(BatchCell::new(Arc::new(Callbacks::new())))
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
    cell.resolve(STORED, &mut Vec::new());
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
    cell.resolve(STORED, &mut Vec::new());
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
    cell.resolve(STORED, &mut Vec::new());
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
    cell.resolve(STORED, &mut Vec::new());
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
    let mut pool = CellPool::new(Arc::new(Callbacks::new()));
    let first = pool.take();
    first.resolve(STORED, &mut Vec::new());
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
    a.resolve(STORED, &mut Vec::new());
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
