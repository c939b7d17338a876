//! A shard: one pinned thread, one ring, its connections; and what other threads see of it.
//!
//! This file is the meeting point: the queues between application threads and the shard thread. The
//! thread itself is in the modules below, and touches nothing else of the engine.
//!
//! ```text
//!  run       the loop: events, time, submit, transmit, wait
//!  core      the tables: connections, lanes, batches
//!  attempt   connecting: which address, how long, what came of it
//!  inbound   bytes -> frames -> the protocol's decisions
//!  outbound  decisions -> headers and pieces -> vectored writes
//!  lanes     which lane may hand over its open batch now
//!  calls     control calls
//!  watch     questions about topics, asked again and again
//!  outcomes  answers -> receipts, memory freed
//!  purge     what a producer gives up
//! ```

mod addresses;
mod attempt;
mod calls;
mod connection;
mod core;
#[cfg(all(test, not(ringmain_loom)))]
mod fault_tests;
mod inbound;
mod lanes;
mod outbound;
mod outcomes;
mod purge;
mod run;
mod start;
#[cfg(all(test, not(ringmain_loom)))]
mod tests;
#[cfg(feature = "simulation")]
mod turned;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use ringmain_proto::Micros;

use crate::batch::{PayloadList, SealedBatch};
use crate::clock::Clock;
use crate::error::CallError;
use crate::gate::{Gate, Stock, Units};
use crate::lane::Lane;
use crate::ledger::Ledger;
use crate::outcome::NotSentReason;
use crate::owed::Others;
use crate::record::Record;
use crate::resolver::Resolved;
use crate::sessions::Sessions;
use crate::stats::ShardStats;
use crate::topic::{Topic, TopicNews};
use ringmain_io::driver::WakeHandle;
use ringmain_io::memory::{Arena, SlotToken};

pub(crate) use calls::{CallCell, OwedCall};
#[cfg(feature = "simulation")]
pub(crate) use start::start_turned;
pub(crate) use start::{ShardConfig, ShardStart, ShardThread, start};
#[cfg(feature = "simulation")]
pub(crate) use turned::Turned;

/// What is said of a shard that ended by a panic.
const PANICKED: &str =
    "the shard's thread panicked, which is a defect of ringmain; its message is on standard error";

/// The free slots of a shard, as a stock.
pub(crate) struct Slots(Arc<Arena>);

impl Slots {
    pub(crate) fn new(arena: Arc<Arena>) -> Self {
        Self(arena)
    }

    pub(crate) fn free(&self) -> u32 {
        self.0.slots().free()
    }
}

impl Stock for Slots {
    type Want = ();
    type Grant = SlotToken;

    fn try_take(&self, (): ()) -> Option<SlotToken> {
        self.0.slots().acquire()
    }

    fn put(&self, grant: SlotToken) {
        self.0.slots().release(grant);
    }
}

/// What an application thread asks of a shard beside sending.
pub(crate) enum Command {
    /// Make a control call.
    Call(OwedCall),
    /// Ask about a topic again and again: a producer holds it.
    Watch { topic: Arc<Topic>, refresh_us: u64 },
    /// No producer holds the topic any more.
    Unwatch { topic: Arc<Topic> },
    /// Give up everything of one producer that is not answered.
    Purge(OwedPurge),
    /// A lookup for a connection has an answer.
    Resolved {
        conn: usize,
        lookup: u64,
        resolved: Resolved,
    },
    /// Resolve everything by `deadline`, log out, end.
    Close { deadline: Micros },
}

impl Command {
    /// What comes of it after the shard's end. Dropping it is enough for all but calls, which are
    /// told why.
    fn end(self, shard: &ShardShared) {
        if let Self::Call(cell) = self {
            cell.end(shard.why_no_call());
        }
    }
}

/// A purge in progress.
pub(crate) struct PurgeRequest {
    /// Whose batches.
    pub(crate) ledger: Arc<Ledger>,
    /// Whether the records that were never sent are wanted back.
    pub(crate) hand_back: bool,
    /// What came back, by partition.
    pub(crate) taken: Mutex<Vec<(u32, Record)>>,
    /// True when the shard has carried it out.
    pub(crate) done: Signal,
}

impl PurgeRequest {
    pub(crate) fn new(ledger: Arc<Ledger>, hand_back: bool) -> Self {
        Self {
            ledger,
            hand_back,
            taken: Mutex::new(Vec::new()),
            done: Signal::default(),
        }
    }
}

/// The shard's side of a purge. Dropping it says that it is over, whatever went wrong.
pub(crate) struct OwedPurge(pub(crate) Arc<PurgeRequest>);

impl Drop for OwedPurge {
    fn drop(&mut self) {
        self.0.done.set();
    }
}

/// A step of the loop or of the end, for tests that have each of them fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Commands,
    Timers,
    Outcomes,
    Lanes,
    Transmit,
    Serve,
    Publish,
    Wait,
    Event,
    FinishBatch,
    EndLanes,
    EndSealed,
    EndInFlight,
    EndGates,
    EndCalls,
    EndSessions,
    EndDeferred,
    EndPublish,
    EndHeaders,
    EndTransport,
    EndMemory,
}

/// A condition that becomes true once.
#[derive(Default)]
pub(crate) struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits at most `within`; says whether it is set.
    pub(crate) fn wait(&self, within: Duration) -> bool {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_set, _) = self
            .changed
            .wait_timeout_while(is_set, within, |is_set| !*is_set)
            .unwrap_or_else(PoisonError::into_inner);
        *is_set
    }
}

/// What other threads see of a shard.
pub(crate) struct ShardShared {
    clock: Clock,
    wake: WakeHandle,
    slots: Arc<Gate<Slots>>,
    credit: Arc<Gate<Units>>,
    /// Sealed batches in record order of each lane. As many places as slots, and each batch holds a
    /// slot: never full.
    sealed: ArrayQueue<SealedBatch>,
    /// Lanes with an open batch that the shard does not know of. As many places as lanes: never
    /// full.
    announced: ArrayQueue<Arc<Lane>>,
    /// Empty lists for payloads by reference, to be reused.
    payload_lists: ArrayQueue<PayloadList>,
    /// Memory for batches of several producers, to be reused.
    others: ArrayQueue<Box<Others>>,
    commands: Mutex<Vec<Command>>,
    /// The lane in each place, for the shard's end.
    lanes: Mutex<Vec<Arc<Lane>>>,
    pub(crate) news: Arc<TopicNews>,
    /// Somebody waits for memory: lingering batches are to go at once.
    hurry: AtomicBool,
    ended: AtomicBool,
    /// Set when the thread has answered everything and touches nothing any more.
    pub(crate) end: Signal,
    pub(crate) stats: ShardStats,
    pub(crate) sessions: Sessions,
    /// Steps that are to panic.
    #[cfg(test)]
    pub(crate) faults: Mutex<Vec<Step>>,
}

impl ShardShared {
    pub(crate) fn new(
        clock: Clock,
        wake: WakeHandle,
        arena: &Arc<Arena>,
        credit: Arc<Gate<Units>>,
        lanes_max: u32,
        conns: usize,
    ) -> Self {
        let slots = arena.slots().blocks() as usize;
        Self {
            clock,
            news: Arc::new(TopicNews::new(wake.clone())),
            wake,
            slots: Arc::new(Gate::new(Slots::new(Arc::clone(arena)))),
            credit,
            sealed: ArrayQueue::new(slots),
            announced: ArrayQueue::new(lanes_max.max(1) as usize),
            payload_lists: ArrayQueue::new(slots),
            others: ArrayQueue::new(slots),
            commands: Mutex::new(Vec::with_capacity(16)),
            lanes: Mutex::new(Vec::new()),
            hurry: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            end: Signal::default(),
            stats: ShardStats::default(),
            sessions: Sessions::new(conns),
            #[cfg(test)]
            faults: Mutex::new(Vec::new()),
        }
    }

    /// Why records that never left are not sent, now that the shard ends.
    fn why_not_sent(&self) -> NotSentReason {
        match self.sessions.failure() {
            None => NotSentReason::Closed,
            Some(_) => NotSentReason::EngineFailed,
        }
    }

    /// Why there are no calls any more.
    fn why_no_call(&self) -> CallError {
        match self.sessions.failure() {
            None => CallError::Closed,
            Some(cause) => CallError::EngineFailed { cause },
        }
    }

    /// Passes a step.
    #[inline]
    pub(crate) fn at(&self, step: Step) {
        #[cfg(test)]
        {
            let faults = self.faults.lock().expect("no panic while it is held");
            let is_faulty = faults.contains(&step);
            drop(faults);
            assert!(!is_faulty, "on purpose: {step:?}");
        }
        #[cfg(not(test))]
        let _ = step;
    }

    /// Microseconds since the engine started.
    pub(crate) fn now(&self) -> Micros {
        self.clock.now()
    }

    pub(crate) fn slots(&self) -> &Arc<Gate<Slots>> {
        &self.slots
    }

    /// Slots, free or not.
    #[cfg(feature = "simulation")]
    pub(crate) fn slots_count(&self) -> u32 {
        self.slots.stock().0.slots().blocks()
    }

    pub(crate) fn credit(&self) -> &Arc<Gate<Units>> {
        &self.credit
    }

    /// Makes the shard look at its queues. No system call while it is awake.
    pub(crate) fn wake(&self) {
        self.wake.wake();
    }

    /// Queues a sealed batch. Called under its lane's lock; the caller wakes the shard afterwards.
    pub(crate) fn push_sealed(&self, batch: SealedBatch) {
        let pushed = self.sealed.push(batch).is_ok();
        assert!(
            pushed,
            "a batch holds a slot, and there is a place for each slot"
        );
    }

    /// Queues a lane with an open batch. Called under its lock, once until the shard has looked.
    pub(crate) fn announce(&self, lane: Arc<Lane>) {
        let pushed = self.announced.push(lane).is_ok();
        assert!(
            pushed,
            "a lane is announced once, and there is a place for each lane"
        );
    }

    /// An empty list for payloads, with room for a batch after the first uses.
    pub(crate) fn take_payload_list(&self) -> PayloadList {
        self.payload_lists
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(crate::limits::GATHER_RECORDS_MAX as usize))
    }

    /// Memory for a batch of several producers.
    pub(crate) fn take_others(&self) -> Box<Others> {
        let slot_bytes = || self.slots.stock().0.slots().block_bytes() as usize;
        let others = self.others.pop();
        others.unwrap_or_else(|| Others::with_room(slot_bytes()))
    }

    fn keep_others(&self, others: Option<Box<Others>>) {
        if let Some(others) = others {
            drop(self.others.push(others));
        }
    }

    fn keep_payload_list(&self, list: PayloadList) {
        debug_assert!(list.is_empty(), "an owner's drop runs apart, and contained");
        if list.capacity() == 0 {
            return;
        }
        // More lists than slots exist only for a moment; the surplus is freed.
        drop(self.payload_lists.push(list));
    }

    /// Queues a command. After the shard's end it is over at once.
    pub(crate) fn command(&self, command: Command) {
        let mut commands = self.commands();
        // Under the lock: what is in the list before the shard empties it for the last time is
        // answered by that.
        if self.has_ended() {
            drop(commands);
            command.end(self);
            return;
        }
        commands.push(command);
        drop(commands);
        self.wake();
    }

    /// Keeps a new lane, so that its open batch is found when the shard ends, instead of the one
    /// that was given up in its place. False when the shard has ended.
    pub(crate) fn keep_lane(&self, lane: Arc<Lane>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let index = lane.place.index as usize;
        if index < lanes.len() {
            lanes[index] = lane;
        } else {
            // Also when the shard has ended and took the list.
            lanes.push(lane);
        }
        !self.has_ended()
    }

    /// Somebody waits for memory, so nothing may linger.
    pub(crate) fn hurry(&self) {
        if !self.hurry.swap(true, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// True when the thread has ended and nothing will be sent any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn commands(&self) -> MutexGuard<'_, Vec<Command>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
