//! The cell that the receipts of one producer's records in a batch share, and the pool it returns
//! to.
//!
//! Invariants: the outcome is written once, by the shard; after it is written no waiter can be
//! registered, so none is forgotten. A cell is reused only when the pool holds the last reference
//! to it.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Instant;

use ringmain_wire::ErrorCode;

use super::callbacks::Callbacks;
use super::waiters::{Waiter, Waiters};
use crate::hooks::{self, Mutation};
use crate::outcome::{NotSentReason, Outcome};
use crate::sync::{self, Mutex, MutexGuard, OnceLock, park, park_timeout};
use crate::user_code::Deferred;

/// Resolved cells a lane keeps for reuse. A lane has `window` batches out and a few receipts held
/// by tasks that have not run yet; cells past this number are freed when their last receipt goes.
const CELLS_POOLED_MAX: usize = 64;

/// How many pooled cells are looked at before a new one is made. The oldest is nearly always free.
const CELLS_PROBED_MAX: usize = 4;

/// The answer for all records of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchOutcome {
    Stored { partition: u32, base_offset: u64 },
    StoredOffsetUnknown { partition: u32 },
    Rejected { code: ErrorCode },
    NotSent { reason: NotSentReason },
    Unknown { request: u64 },
}

impl BatchOutcome {
    /// The answer for the record at `index` of the batch.
    pub(crate) fn record(self, index: u32) -> Outcome {
        match self {
            Self::Stored {
                partition,
                base_offset,
            } => Outcome::Stored {
                partition,
                offset: base_offset + u64::from(index),
            },
            Self::StoredOffsetUnknown { partition } => Outcome::StoredOffsetUnknown { partition },
            Self::Rejected { code } => Outcome::Rejected { code },
            Self::NotSent { reason } => Outcome::NotSent { reason },
            Self::Unknown { request } => Outcome::Unknown { request },
        }
    }
}

/// What a cell is resolved with.
#[derive(Clone)]
struct Answer {
    outcome: BatchOutcome,
    /// Places of records that were taken out of the batch, in order.
    removed: Option<Arc<[u32]>>,
}

impl Answer {
    /// The answer for the record that was appended at `index`.
    fn record(&self, index: u32) -> Outcome {
        let before = |removed: &[u32]| removed.partition_point(|place| *place < index);
        let gone = self.removed.as_deref().map_or(0, before);
        self.outcome.record(index - gone as u32)
    }
}

/// State shared by the receipts of one producer's records in a batch.
pub(crate) struct BatchCell {
    answer: OnceLock<Answer>,
    /// Nobody runs the application's code while this is held: wakers are cloned and dropped
    /// outside.
    waiters: Mutex<Waiters>,
    callbacks: Arc<Callbacks>,
}

impl BatchCell {
    pub(crate) fn new(callbacks: Arc<Callbacks>) -> Self {
        Self {
            answer: OnceLock::new(),
            waiters: Mutex::new(Waiters::default()),
            callbacks,
        }
    }

    pub(crate) fn outcome(&self, index: u32) -> Option<Outcome> {
        self.answer.get().map(|answer| answer.record(index))
    }

    pub(crate) fn is_resolved(&self) -> bool {
        self.answer.get().is_some()
    }

    /// Writes the answer, releases the threads that wait and hands the callbacks over. The wakers
    /// of tasks are put off to `deferred`.
    pub(crate) fn resolve(&self, outcome: BatchOutcome, deferred: &mut Deferred) {
        self.resolve_without(None, outcome, deferred);
    }

    /// The same for a batch from which the records of the places `removed` were taken.
    pub(crate) fn resolve_without(
        &self,
        removed: Option<Arc<[u32]>>,
        outcome: BatchOutcome,
        deferred: &mut Deferred,
    ) {
        debug_assert!(deferred.scratch.is_empty());
        let first = self.answer.set(Answer { outcome, removed }).is_ok();
        assert!(first, "a batch was resolved twice");
        let Deferred {
            wakers,
            callbacks,
            scratch,
            ..
        } = deferred;
        self.waiters().take_all(scratch, |index, callback| {
            let outcome = self.outcome(index).expect("set above");
            callbacks.push((callback, outcome));
        });
        if hooks::commits(Mutation::WaiterForgotten) {
            scratch.pop();
        }
        for waiter in scratch.drain(..) {
            match waiter {
                Waiter::Task(waker) => wakers.push(waker),
                Waiter::Thread(thread) => thread.unpark(),
            }
        }
        if !callbacks.is_empty() {
            self.callbacks.run_later(callbacks);
        }
    }

    /// Parks the thread until the cell resolves or `deadline` passes.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        self.callbacks.assert_here();
        let place = {
            let mut waiters = self.waiters();
            if self.answer.get().is_some() {
                return;
            }
            waiters.add(Waiter::Thread(sync::current()))
        };
        while self.answer.get().is_none() {
            match deadline {
                None => park(),
                Some(deadline) => {
                    let now = Instant::now();
                    if now >= deadline {
                        self.unregister(place);
                        return;
                    }
                    park_timeout(deadline - now);
                }
            }
        }
    }

    /// Registers a waker, or replaces the one at `place`. Returns its place, or `None` when the
    /// cell has resolved.
    pub(crate) fn register_waker(&self, place: Option<u32>, waker: &Waker) -> Option<u32> {
        self.callbacks.assert_here();
        if let Some(place) = place {
            let mut waiters = self.waiters();
            if self.answer.get().is_some() {
                return None;
            }
            if waiters.waker(place).will_wake(waker) {
                return Some(place);
            }
        }
        let waker = waker.clone();
        let mut waiters = self.waiters();
        if self.answer.get().is_some() {
            return None;
        }
        let Some(place) = place else {
            return Some(waiters.add(Waiter::Task(waker)));
        };
        let replaced = std::mem::replace(waiters.waker(place), waker);
        drop(waiters);
        drop(replaced);
        Some(place)
    }

    /// Gives a place up. Without effect when the cell has resolved: then the place is gone already.
    pub(crate) fn unregister(&self, place: u32) {
        if !self.callbacks.is_here() {
            return;
        }
        let mut waiters = self.waiters();
        if self.answer.get().is_some() {
            // It may be on its way out just now; the lock is not what orders that.
            return;
        }
        let removed = waiters.remove(place);
        drop(waiters);
        drop(removed);
    }

    /// Registers a callback; runs it at once when the cell has resolved meanwhile.
    pub(crate) fn register_callback(&self, index: u32, run: Box<dyn FnOnce(Outcome) + Send>) {
        self.callbacks.assert_here();
        let callback = self.callbacks.charge(run);
        let mut waiters = self.waiters();
        if self.answer.get().is_none() {
            waiters.add_callback(index, callback);
            return;
        }
        drop(waiters);
        let outcome = self.outcome(index).expect("looked at above");
        callback.run(outcome);
    }

    #[cfg(all(test, not(ringmain_loom)))]
    pub(super) fn places(&self) -> usize {
        self.waiters().places()
    }

    /// The table, also after a panic of another thread while it held the lock: nothing that can
    /// panic leaves it half changed.
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cells of one lane, reused in the order they were made. Used under the lane's lock.
///
/// Holds every cell without an outcome, so that a flush can wait for them, and some resolved ones
/// for reuse.
pub(crate) struct CellPool {
    cells: VecDeque<Arc<BatchCell>>,
    callbacks: Arc<Callbacks>,
}

impl CellPool {
    pub(crate) fn new(callbacks: Arc<Callbacks>) -> Self {
        Self {
            cells: VecDeque::with_capacity(CELLS_POOLED_MAX),
            callbacks,
        }
    }

    /// A cell nobody else holds, for a batch that will be resolved. Allocates only while the pool
    /// warms up or receipts are held in large numbers.
    pub(crate) fn take(&mut self) -> Arc<BatchCell> {
        for _ in 0..CELLS_PROBED_MAX.min(self.cells.len()) {
            let Some(mut cell) = self.cells.pop_front() else {
                break;
            };
            if let Some(free) = Arc::get_mut(&mut cell) {
                // A resolved cell has no waiters, and a new one never had any.
                free.answer.take();
                self.cells.push_back(Arc::clone(&cell));
                return cell;
            }
            if cell.answer.get().is_none() || self.cells.len() < CELLS_POOLED_MAX {
                self.cells.push_back(cell);
            }
        }
        let cell = Arc::new(BatchCell::new(Arc::clone(&self.callbacks)));
        self.cells.push_back(Arc::clone(&cell));
        cell
    }

    /// Whether no cell is without an outcome.
    pub(crate) fn are_resolved(&self) -> bool {
        self.cells.iter().all(|cell| cell.answer.get().is_some())
    }

    /// Forgets the cells, all of them resolved.
    pub(crate) fn clear(&mut self) {
        assert!(self.are_resolved(), "a flush must find what is unanswered");
        self.cells = VecDeque::new();
    }

    /// Collects the cells that have no outcome yet.
    pub(crate) fn unresolved(&self, into: &mut Vec<Arc<BatchCell>>) {
        into.extend(
            self.cells
                .iter()
                .filter(|cell| cell.answer.get().is_none())
                .map(Arc::clone),
        );
    }
}
