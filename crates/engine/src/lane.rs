//! A lane: one partition of one topic, where application threads append and one shard takes away.
//!
//! ```text
//!   application threads                                   shard
//!   lock, append, unlock    --- sealed queue (full) --->  submit to the connection's window
//!                           --- announced queue ------->  room? then lock, seal the open batch, unlock
//! ```
//!
//! A full batch is sealed by the thread that filled it. A batch that is not full is sealed by the
//! shard when the partition has room for a request: so batches grow while requests are out, and
//! never wait when none is.
//!
//! Invariants: sealed batches enter the shard's queue under the lane's lock, so they are in record
//! order. `announced` is true while the lane is in the shard's queue or the shard watches it; it
//! changes under the lock only. The shard never blocks on the lock: it tries, and asks the holder
//! through `wanted` to seal for it.
//!
//! While a lane has batches before the next one, that one cannot go out, and what lets it go wakes
//! the shard anyway: an answer, or the completion of a write. So `is_window_full` spares the
//! application a wake-up for each batch. The two sides cannot miss each other: the application
//! queues, then looks at the flag; the shard takes the flag back, then looks at the queues.

#[cfg(all(test, ringmain_loom))]
mod loom_tests;
mod open;
mod run;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use ringmain_proto::{LaneConfig, LaneKey, Micros};
use ringmain_wire::{MessageIdGenerator, Partitioning, SendTarget};

use crate::error::SendError;
use crate::hooks::{self, Mutation, Point};
use crate::ledger::Ledger;
use crate::receipt::{BatchCell, Callbacks, CellPool, Receipt};
use crate::shard::ShardShared;
use crate::topic::TopicName;

use open::OpenBatch;
pub(crate) use open::{Held, Incoming, Payload, Time};

/// The shard did not find the lane busy since it last had it.
const WANTED_NOT: u8 = 0;
/// The shard wanted the batch if its linger was over; whoever held the lane has to look.
const WANTED_LINGERED: u8 = 1;
/// The shard wanted the batch if its deadline was near.
const WANTED_EXPIRING: u8 = 2;
/// The shard wanted the batch whatever its linger.
const WANTED_NOW: u8 = 4;

/// Where a lane is.
pub(crate) struct LanePlace {
    /// Dense within its shard.
    pub(crate) index: u32,
    /// Its connection, dense within its shard.
    pub(crate) conn: u16,
    /// Its name on that connection.
    pub(crate) key: LaneKey,
    /// Its connection, dense within the engine.
    pub(crate) seat: u16,
}

/// One partition of one topic.
pub(crate) struct Lane {
    pub(crate) place: LanePlace,
    pub(crate) config: LaneConfig,
    pub(crate) topic: Arc<TopicName>,
    pub(crate) partition: u32,
    pub(crate) shard: Arc<ShardShared>,
    state: Mutex<LaneState>,
    /// The shard failed to get the lock and wants the holder to seal.
    wanted: AtomicU8,
    /// Batches sealed so far, for sticky partitioning.
    seals: AtomicU32,
    /// Records that strict order lost, each of which halted the lane. Counted by the shard.
    losses: AtomicU32,
    /// Set by the shard while it has no room for another batch of this lane.
    is_window_full: AtomicBool,
}

struct LaneState {
    open: Option<OpenBatch>,
    cells: CellPool,
    ids: MessageIdGenerator,
    announced: bool,
    /// The losses that the last [`Lane::resume`] accepted.
    resumed_losses: u32,
}

/// How often lanes without room are looked through for records whose deadline comes close.
pub(crate) const SWEEP_US: u64 = 20_000;

/// Batches whose deadline is not after this moment are taken whether there is room for them or not.
pub(crate) fn expiring_before(now: Micros) -> Micros {
    now.after(2 * SWEEP_US)
}

/// What a shard got when it asked for the open batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sealing {
    /// It is in the sealed queue.
    Sealed,
    /// There was none.
    Empty,
    /// It lingers until then.
    NotDue(Micros),
    /// Another thread holds the lock; it was asked to seal.
    Busy,
}

/// Which open batches a shard wants sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealRule {
    /// Those whose linger is over.
    Lingered,
    /// All.
    All,
    /// Those whose delivery deadline is not after this moment.
    Expiring(Micros),
}

/// What came of an attempt to append.
pub(crate) enum Appended {
    /// Accepted.
    Accepted(Receipt),
    /// Not accepted: a slot is needed first.
    NeedsSlot,
}

impl Lane {
    pub(crate) fn new(
        place: LanePlace,
        config: LaneConfig,
        topic: Arc<TopicName>,
        partition: u32,
        shard: Arc<ShardShared>,
        callbacks: &Arc<Callbacks>,
        id_base: u128,
    ) -> Self {
        Self {
            place,
            config,
            topic,
            partition,
            shard,
            state: Mutex::new(LaneState {
                open: None,
                cells: CellPool::new(Arc::clone(callbacks)),
                ids: MessageIdGenerator::new(id_base),
                announced: false,
                resumed_losses: 0,
            }),
            wanted: AtomicU8::new(WANTED_NOT),
            seals: AtomicU32::new(0),
            is_window_full: AtomicBool::new(false),
            losses: AtomicU32::new(0),
        }
    }

    /// Batches sealed so far, wrapping.
    pub(crate) fn seals(&self) -> u32 {
        self.seals.load(Ordering::Relaxed)
    }

    pub(crate) fn target(&self) -> SendTarget<'_> {
        SendTarget {
            stream: self.topic.stream(),
            topic: self.topic.topic(),
            partitioning: Partitioning::PartitionId(self.partition),
        }
    }

    /// Appends one record to the open batch, opening and sealing batches as needed. Takes from
    /// `held` what it uses; when a slot is missing there and none is free, nothing has changed but
    /// that a full batch was sealed.
    ///
    /// # Errors
    /// [`SendError`]: the record can never be accepted.
    pub(crate) fn append(
        self: &Arc<Self>,
        ledger: &Arc<Ledger>,
        record: &mut Incoming<'_>,
        held: &mut Held,
    ) -> Result<Appended, SendError> {
        let mut wake = false;
        let appended = self.append_locked(&mut self.state(), ledger, record, held, &mut wake);
        // After the lock is free: a wake-up may be a system call.
        if wake {
            self.shard.wake();
        }
        appended
    }

    fn append_locked(
        self: &Arc<Self>,
        state: &mut LaneState,
        ledger: &Arc<Ledger>,
        record: &mut Incoming<'_>,
        held: &mut Held,
        wake: &mut bool,
    ) -> Result<Appended, SendError> {
        if ledger.is_closed() {
            return Err(SendError::Closed);
        }
        // A shard says so before it takes this lock to answer what is open: nothing gets in behind
        // its back.
        if self.shard.has_ended() {
            return Err(SendError::EngineFailed);
        }
        let joined = match &mut state.open {
            Some(open) => {
                let makers = (&mut state.ids, &mut state.cells);
                open.join(self, ledger, makers, record, held)?
            }
            None => false,
        };
        if !joined {
            *wake |= self.seal(state);
            let Some(slot) = held.slot.take().or_else(|| self.shard.slots().try_take(())) else {
                return Ok(Appended::NeedsSlot);
            };
            match OpenBatch::start(slot, self, ledger, record, &mut state.ids, held) {
                Ok(form) => {
                    let cell = state.cells.take();
                    state.open = Some(OpenBatch::new(form, cell, self, ledger));
                }
                Err((slot, error)) => {
                    held.slot = Some(slot);
                    return Err(error);
                }
            }
        }
        let open = state.open.as_ref().expect("just appended to");
        let receipt = Receipt::new(Arc::clone(open.cell()), open.count() - 1);
        *wake |= self.settle_open(state);
        Ok(Appended::Accepted(receipt))
    }

    /// What follows an append: a batch that is full or wanted is sealed, one that the shard does
    /// not know of announced. True when the shard is to be woken.
    fn settle_open(self: &Arc<Self>, state: &mut LaneState) -> bool {
        let Some(open) = &state.open else {
            return false;
        };
        let is_wanted = match self.wanted.load(Ordering::Relaxed) {
            WANTED_NOT => false,
            wanted => {
                // Asked once: a shard that still wants it comes again by itself.
                self.wanted.store(WANTED_NOT, Ordering::Relaxed);
                self.is_wanted(open, wanted)
            }
        };
        if open.is_full() || is_wanted {
            return self.seal(state);
        }
        if state.announced {
            return false;
        }
        state.announced = true;
        self.shard.announce(Arc::clone(self));
        self.wants_wake()
    }

    /// Whether the shard would have taken the batch, had it got the lock.
    fn is_wanted(&self, open: &OpenBatch, wanted: u8) -> bool {
        let now = self.shard.now();
        wanted & WANTED_NOW != 0
            || wanted & WANTED_LINGERED != 0 && open.linger_until() <= now
            || wanted & WANTED_EXPIRING != 0 && open.deadline() <= expiring_before(now)
    }

    /// Whether the shard has to be woken for what was just queued.
    fn wants_wake(&self) -> bool {
        hooks::pass(Point::Queued);
        if hooks::commits(Mutation::WakeForgotten) {
            return false;
        }
        // Pairs with the fence of the shard after `set_window_full(false)`: see the module.
        fence(Ordering::SeqCst);
        !self.is_window_full.load(Ordering::Relaxed)
    }

    /// The shard's word on whether it has room for another batch of this lane. After taking it
    /// back, it passes a sequentially consistent fence and looks at its queues.
    pub(crate) fn set_window_full(&self, is_full: bool) {
        self.is_window_full.store(is_full, Ordering::Relaxed);
    }

    /// Seals the open batch if `rule` says so. The shard's side; never blocks.
    pub(crate) fn try_seal(self: &Arc<Self>, now: Micros, rule: SealRule) -> Sealing {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let wanted = match rule {
                    SealRule::Lingered => WANTED_LINGERED,
                    SealRule::Expiring(_) => WANTED_EXPIRING,
                    SealRule::All => WANTED_NOW,
                };
                self.wanted.fetch_or(wanted, Ordering::Relaxed);
                return Sealing::Busy;
            }
        };
        self.wanted.store(WANTED_NOT, Ordering::Relaxed);
        let Some(open) = &state.open else {
            state.announced = false;
            return Sealing::Empty;
        };
        let due_at = match rule {
            SealRule::All => now,
            SealRule::Lingered => open.linger_until(),
            SealRule::Expiring(moment) if open.deadline() <= moment => now,
            SealRule::Expiring(_) => return Sealing::NotDue(open.deadline()),
        };
        if due_at > now {
            return Sealing::NotDue(due_at);
        }
        state.announced = false;
        self.seal(&mut state);
        Sealing::Sealed
    }

    /// Seals the open batch whatever its age: for flush and close, on the caller's thread. Collects
    /// the cells that have no outcome yet.
    pub(crate) fn seal_for_flush(self: &Arc<Self>, unresolved: &mut Vec<Arc<BatchCell>>) {
        let mut state = self.state();
        let wake = self.seal(&mut state);
        state.cells.unresolved(unresolved);
        drop(state);
        if wake {
            self.shard.wake();
        }
    }

    /// Tells records that come from now on apart from those before: where strict order has halted
    /// the lane, the shard lets them pass and nothing else. Without effect on a lane that has lost
    /// nothing since: what it loses later, nobody has accepted.
    pub(crate) fn resume(self: &Arc<Self>) {
        let losses = self.losses();
        let mut state = self.state();
        if state.resumed_losses == losses {
            return;
        }
        let wake = self.seal(&mut state);
        state.resumed_losses = losses;
        drop(state);
        if wake {
            self.shard.wake();
        }
    }

    /// A batch of the lane is not stored, and the order is strict. Counted before its answer is
    /// told, so that an application that knows of it resumes behind it.
    pub(crate) fn count_loss(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn losses(&self) -> u32 {
        self.losses.load(Ordering::Acquire)
    }

    /// Has the records of the open batch counted as accepted: for who looks at an account.
    pub(crate) fn count_open(&self) {
        if let Some(open) = &mut self.state().open {
            open.count_accepted();
        }
    }

    /// Whether every record has its answer. False when another thread holds the lane.
    pub(crate) fn is_answered(&self) -> bool {
        let Ok(state) = self.state.try_lock() else {
            return false;
        };
        state.open.is_none() && state.cells.are_resolved()
    }

    /// Whether every record has its answer and the shard does not look at the lane: neither its
    /// queues nor its protocol client hold anything of it. False when another thread holds the
    /// lane.
    pub(crate) fn is_idle(&self) -> bool {
        let Ok(state) = self.state.try_lock() else {
            return false;
        };
        state.open.is_none() && !state.announced && state.cells.are_resolved()
    }

    /// Frees what a lane holds that is used no more; its shard keeps the rest until the place has
    /// another lane.
    pub(crate) fn give_up(&self) {
        self.state().cells.clear();
    }

    /// Moves the open batch to the shard's queue. True when there was one and the shard is to be
    /// woken for it.
    fn seal(self: &Arc<Self>, state: &mut LaneState) -> bool {
        let Some(open) = state.open.take() else {
            return false;
        };
        self.seals.fetch_add(1, Ordering::Relaxed);
        self.shard
            .push_sealed(open.seal(Arc::clone(self), state.resumed_losses, self.shard.now()));
        self.wants_wake()
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
