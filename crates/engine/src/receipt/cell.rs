//! The cell that the receipts of one batch share, and the pool it returns to.
//!
//! Invariants: the outcome is written once, by the shard; after it is written no waiter can be registered, so none is
//! forgotten. A cell is reused only when the pool holds the last reference to it.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Instant;

use ringmain_wire::ErrorCode;

use super::callbacks::{Callback, Callbacks};
use crate::hooks::{self, Mutation};
use crate::outcome::{NotSentReason, Outcome};
use crate::sync::{self, Mutex, MutexGuard, OnceLock, Thread, park, park_timeout};

/// Resolved cells a lane keeps for reuse. A lane has `window` batches out and a few receipts held by tasks that have not run
/// yet; cells past this number are freed when their last receipt goes.
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

/// Who is told when a batch resolves.
pub(crate) enum Waiter {
    Task(Waker),
    Thread(Thread),
    Callback(u32, Callback),
}

/// State shared by the receipts of one batch.
pub(crate) struct BatchCell {
    outcome: OnceLock<BatchOutcome>,
    waiters: Mutex<Vec<Waiter>>,
    callbacks: Arc<Callbacks>,
}

impl BatchCell {
    pub(crate) fn new(callbacks: Arc<Callbacks>) -> Self {
        Self {
            outcome: OnceLock::new(),
            waiters: Mutex::new(Vec::new()),
            callbacks,
        }
    }

    pub(crate) fn outcome(&self, index: u32) -> Option<Outcome> {
        self.outcome.get().map(|outcome| outcome.record(index))
    }

    pub(crate) fn is_resolved(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Writes the answer and tells everybody. `scratch` must be empty and comes back empty; it exists so that the
    /// steady state moves waiters without allocating and wakes them without holding the lock.
    pub(crate) fn resolve(self: &Arc<Self>, outcome: BatchOutcome, scratch: &mut Vec<Waiter>) {
        debug_assert!(scratch.is_empty());
        let first = self.outcome.set(outcome).is_ok();
        assert!(first, "a batch was resolved twice");
        scratch.append(&mut self.waiters());
        if hooks::commits(Mutation::WaiterForgotten) {
            scratch.pop();
        }
        for waiter in scratch.drain(..) {
            match waiter {
                Waiter::Task(waker) => waker.wake(),
                Waiter::Thread(thread) => thread.unpark(),
                Waiter::Callback(index, callback) => {
                    self.callbacks.run_later(callback, outcome.record(index));
                }
            }
        }
    }

    /// Parks the thread until the cell resolves or `deadline` passes.
    pub(crate) fn wait(&self, deadline: Option<Instant>) {
        self.callbacks.assert_here();
        {
            let mut waiters = self.waiters();
            if self.outcome.get().is_some() {
                return;
            }
            waiters.push(Waiter::Thread(sync::current()));
        }
        while self.outcome.get().is_none() {
            match deadline {
                None => park(),
                Some(deadline) => {
                    let now = Instant::now();
                    if now >= deadline {
                        return;
                    }
                    park_timeout(deadline - now);
                }
            }
        }
    }

    /// Registers a waker, or replaces the one at `place`. Returns its place, or `None` when the cell has resolved.
    pub(crate) fn register_waker(&self, place: Option<u32>, waker: &Waker) -> Option<u32> {
        self.callbacks.assert_here();
        let mut waiters = self.waiters();
        if self.outcome.get().is_some() {
            return None;
        }
        if let Some(place) = place {
            match &mut waiters[place as usize] {
                Waiter::Task(known) => known.clone_from(waker),
                Waiter::Thread(_) | Waiter::Callback(..) => {
                    unreachable!("places are never reused before the end")
                }
            }
            return Some(place);
        }
        let place = u32::try_from(waiters.len()).expect("fewer waiters than records");
        waiters.push(Waiter::Task(waker.clone()));
        Some(place)
    }

    /// Registers a callback; runs it at once when the cell has resolved meanwhile.
    pub(crate) fn register_callback(&self, index: u32, callback: Callback) {
        self.callbacks.assert_here();
        let mut waiters = self.waiters();
        let Some(outcome) = self.outcome(index) else {
            self.callbacks.start();
            waiters.push(Waiter::Callback(index, callback));
            return;
        };
        drop(waiters);
        callback(outcome);
    }

    /// The list, also after a panic of another thread while it held the lock: pushing and draining cannot leave it
    /// half changed.
    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cells of one lane, reused in the order they were made. Used under the lane's lock.
///
/// Holds every cell without an outcome, so that a flush can wait for them, and some resolved ones for reuse.
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

    /// A cell nobody else holds, for a batch that will be resolved. Allocates only while the pool warms up or receipts
    /// are held in large numbers.
    pub(crate) fn take(&mut self) -> Arc<BatchCell> {
        for _ in 0..CELLS_PROBED_MAX.min(self.cells.len()) {
            let Some(mut cell) = self.cells.pop_front() else {
                break;
            };
            if let Some(free) = Arc::get_mut(&mut cell) {
                free.outcome.take();
                free.waiters
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clear();
                self.cells.push_back(Arc::clone(&cell));
                return cell;
            }
            if cell.outcome.get().is_none() || self.cells.len() < CELLS_POOLED_MAX {
                self.cells.push_back(cell);
            }
        }
        let cell = Arc::new(BatchCell::new(Arc::clone(&self.callbacks)));
        self.cells.push_back(Arc::clone(&cell));
        cell
    }

    /// Whether no cell is without an outcome.
    pub(crate) fn are_resolved(&self) -> bool {
        self.cells.iter().all(|cell| cell.outcome.get().is_some())
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
                .filter(|cell| cell.outcome.get().is_none())
                .map(Arc::clone),
        );
    }
}
