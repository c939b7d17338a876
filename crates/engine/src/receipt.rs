//! What a producer gives for each accepted record: the promise of one [`Outcome`].
//!
//! A receipt is a future, a blocking wait and a callback registration. It holds no memory of the
//! record: dropping it frees nothing early and cancels nothing, keeping it blocks nothing. All
//! receipts of one producer in a batch share one cell, so a receipt costs one reference count and
//! no allocation.

mod callbacks;
mod cell;
#[cfg(all(test, ringmain_loom))]
mod loom_tests;
#[cfg(all(test, not(ringmain_loom)))]
mod tests;
mod waiters;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use ringmain_io::foreign::contained;

use crate::outcome::{Account, Outcome};
use crate::user_code::assert_may_wait;

pub(crate) use callbacks::{Backlog, Callback, Callbacks};
pub(crate) use cell::{BatchCell, BatchOutcome, CellPool};
pub(crate) use waiters::Waiter;

/// The promise of one record's [`Outcome`].
///
/// As a future it may be polled from any runtime, and again after it was ready.
///
/// Its waker is called on the engine's thread, after every answer of that turn was given and every
/// waiting thread released. A panic in it is caught and logged; one that blocks holds all records
/// of that thread up, which is logged, too.
#[must_use = "a receipt tells whether the record was stored; drop it explicitly when that does not matter"]
pub struct Receipt {
    cell: Arc<BatchCell>,
    /// The record's place in its batch.
    index: u32,
    /// Where this receipt's waker is registered in the cell, once it is.
    registered: Option<u32>,
}

impl Receipt {
    pub(crate) fn new(cell: Arc<BatchCell>, index: u32) -> Self {
        Self {
            cell,
            index,
            registered: None,
        }
    }

    /// The record's place in its batch, from 0.
    #[cfg(feature = "simulation")]
    pub(crate) fn place(&self) -> u32 {
        self.index
    }

    /// The outcome, if it is known by now.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.cell.outcome(self.index)
    }

    /// True when both records are of one producer and travel in one batch. They resolve together:
    /// whoever measures needs one time for both. Records of several producers that share a request
    /// resolve one producer after the other.
    #[must_use]
    pub fn same_batch(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }

    /// Blocks until the outcome is known. Every receipt resolves at the latest a little after the
    /// producer's delivery timeout, or when the engine is dropped.
    ///
    /// # Panics
    /// On the engine's own thread (in a waker, or when the owner of a payload is dropped), unless
    /// the outcome is known: it would wait for itself.
    pub fn wait(&self) -> Outcome {
        loop {
            if let Some(outcome) = self.wait_until(None) {
                return outcome;
            }
        }
    }

    /// Blocks until the outcome is known or `deadline` has passed; `None` in the latter case.
    ///
    /// # Panics
    /// As [`Receipt::wait`] does.
    #[must_use]
    pub fn wait_deadline(&self, deadline: Instant) -> Option<Outcome> {
        self.wait_until(Some(deadline))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Option<Outcome> {
        if let Some(outcome) = self.outcome() {
            return Some(outcome);
        }
        assert_may_wait("Receipt::wait");
        self.cell.wait(deadline);
        self.outcome()
    }

    /// Runs `callback` with the outcome once it is known: on the engine's callback thread, or at
    /// once on this one when it is known already. A panic in it is caught and logged.
    ///
    /// Callbacks run one after the other, so a slow one delays the others. What waits to run counts
    /// against `memory_bytes_max`, as far as it is known (not what a captured pointer leads to):
    /// when callbacks fall behind, sends wait for them. Sends within a callback do not.
    pub fn on_resolved(self, callback: impl FnOnce(Outcome) + Send + 'static) {
        match self.outcome() {
            Some(outcome) => contained("a receipt callback", || callback(outcome)),
            None => self.cell.register_callback(self.index, Box::new(callback)),
        }
    }
}

impl Future for Receipt {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        let registered = self.registered;
        match self.cell.register_waker(registered, cx.waker()) {
            Some(place) => {
                self.registered = Some(place);
                Poll::Pending
            }
            // Resolved between the look and the registration.
            None => Poll::Ready(self.outcome().expect("a closed cell has an outcome")),
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(place) = self.registered
            && !self.cell.is_resolved()
        {
            self.cell.unregister(place);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt")
            .field("index", &self.index)
            .field("outcome", &self.outcome())
            .finish()
    }
}

/// Receipts of consecutive records, as [`Producer::send_batch`](crate::Producer::send_batch) gives
/// them: one entry a batch rather than one a record.
#[derive(Default)]
#[must_use = "receipts tell whether the records were stored; drop them explicitly when that does not matter"]
pub struct Receipts {
    spans: Vec<Span>,
    len: usize,
}

/// Records `first .. first + count` of one batch.
struct Span {
    cell: Arc<BatchCell>,
    first: u32,
    count: u32,
}

impl Receipts {
    /// Appends one receipt; joins it to the last span when it continues it.
    pub fn push(&mut self, receipt: Receipt) {
        self.push_span(&receipt.cell, receipt.index, 1);
    }

    /// Appends the receipts of `count` records in a row of one batch.
    pub(crate) fn push_span(&mut self, cell: &Arc<BatchCell>, first: u32, count: u32) {
        self.len += count as usize;
        match self.spans.last_mut() {
            Some(last) if Arc::ptr_eq(&last.cell, cell) && last.first + last.count == first => {
                last.count += count;
            }
            _ => self.spans.push(Span {
                cell: Arc::clone(cell),
                first,
                count,
            }),
        }
    }

    /// How many receipts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The receipts, in the order of the records.
    pub fn iter(&self) -> impl Iterator<Item = Receipt> + '_ {
        self.spans.iter().flat_map(|span| {
            (span.first..span.first + span.count)
                .map(|index| Receipt::new(Arc::clone(&span.cell), index))
        })
    }

    /// Blocks until every outcome is known or `deadline` has passed, and returns the sums so far.
    ///
    /// # Panics
    /// As [`Receipt::wait`] does.
    #[must_use]
    pub fn wait_deadline(&self, deadline: Instant) -> Account {
        let mut account = Account::default();
        for span in &self.spans {
            let first = Receipt::new(Arc::clone(&span.cell), span.first);
            let outcome = first.wait_deadline(deadline);
            account.accepted += u64::from(span.count);
            match outcome {
                Some(outcome) => account.add(outcome, u64::from(span.count)),
                None => account.in_flight += u64::from(span.count),
            }
        }
        account
    }
}

impl fmt::Debug for Receipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipts").field("len", &self.len).finish()
    }
}
