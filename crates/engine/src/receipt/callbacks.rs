//! The thread that runs receipt callbacks, and the memory that waiting callbacks hold.
//!
//! Started by the first registration and ended when the engine's last handle goes; callbacks queued
//! by then still run. Callbacks run one after the other, in the order their batches resolved.
//!
//! ```text
//!   on_resolved --charge--> cell --batch resolves--> queue --thread runs it--> charge given back
//!        |                                                                         |
//!        '-- too many bytes charged: sends wait at the gate  <---- served ---------'
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use ringmain_io::foreign::contained;

use crate::deadline::Deadline;
use crate::gate::{Gate, Stock, Units};
use crate::outcome::Outcome;
use crate::process;
use crate::sync::{AtomicU64, Ordering};
use crate::user_code::{Role, role, set_role};
use ringmain_io::memory::Process;

/// What a waiting callback costs beside what it captured: its places in the list of its batch and
/// in the queue, both of which grow by doubling, and the allocator's own.
const OVERHEAD_BYTES: u64 = 128;

/// What runs when a record resolves.
type Run = Box<dyn FnOnce(Outcome) + Send>;

/// A registered callback. Dropping it, run or not, gives its charge back.
pub(crate) struct Callback {
    run: Run,
    charge: Charge,
}

impl Callback {
    /// Runs it here and now; a panic in it is caught and logged.
    pub(crate) fn run(self, outcome: Outcome) {
        let Self { run, charge } = self;
        contained("a receipt callback", || run(outcome));
        drop(charge);
    }
}

/// The bytes of one callback that waits.
struct Charge {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.waiting -= 1;
        if state.waiting == 0 {
            self.shared.all_run.notify_all();
        }
        drop(state);
        let room = &self.shared.room;
        room.stock().bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        room.serve_waiting();
    }
}

/// The memory of callbacks that wait, as a stock: nothing is taken from it, there is room or there
/// is none.
pub(crate) struct Backlog {
    bytes: AtomicU64,
    /// Bytes that only callbacks may hold.
    own_bytes: u64,
    /// Of which callbacks may hold whatever is free.
    credit: Arc<Gate<Units>>,
}

impl Backlog {
    /// Whether another record may be accepted as far as callbacks are concerned.
    fn has_room(&self) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        bytes <= self.own_bytes || bytes <= self.own_bytes + self.credit.stock().available()
    }
}

impl Stock for Backlog {
    type Want = ();
    type Grant = ();

    fn try_take(&self, (): ()) -> Option<()> {
        self.has_room().then_some(())
    }

    fn put(&self, (): ()) {}
}

/// Queue of callbacks that are due, and the thread that runs them.
pub(crate) struct Callbacks {
    shared: Arc<Shared>,
    /// Where the threads are; unknown when forks cannot be watched for.
    process: Option<Process>,
}

struct Shared {
    state: Mutex<State>,
    due: Condvar,
    all_run: Condvar,
    room: Arc<Gate<Backlog>>,
}

struct State {
    queue: VecDeque<(Callback, Outcome)>,
    /// Callbacks registered and not run to their end, those of the queue included.
    waiting: usize,
    /// `Some` once there is a thread.
    thread: Option<ThreadId>,
    ended: bool,
}

impl Callbacks {
    /// Callbacks may hold `own_bytes` and whatever is free of `credit`.
    pub(crate) fn new(own_bytes: u64, credit: Arc<Gate<Units>>) -> Self {
        let room = Arc::new(Gate::new(Backlog {
            bytes: AtomicU64::new(0),
            own_bytes,
            credit,
        }));
        Self {
            process: Process::this().ok(),
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queue: VecDeque::new(),
                    waiting: 0,
                    thread: None,
                    ended: false,
                }),
                due: Condvar::new(),
                all_run: Condvar::new(),
                room,
            }),
        }
    }

    /// Without a limit worth the name.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self::new(u64::MAX / 2, Arc::new(Gate::new(Units::new(0))))
    }

    /// Where senders wait while callbacks hold too much memory.
    pub(crate) fn room(&self) -> &Arc<Gate<Backlog>> {
        &self.shared.room
    }

    /// Whether a record may be accepted. On the thread of callbacks always: what it waited for
    /// would be itself.
    pub(crate) fn has_room(&self) -> bool {
        self.shared.room.stock().has_room() || role() == Role::Callbacks
    }

    /// Callbacks that were registered and have not run to their end.
    pub(crate) fn waiting(&self) -> u64 {
        self.shared.state().waiting as u64
    }

    /// Charges a callback and sees to it that there is a thread and a place in the queue for it.
    pub(crate) fn charge(&self, run: Run) -> Callback {
        let bytes = size_of_val(&*run) as u64 + OVERHEAD_BYTES;
        let backlog = self.shared.room.stock();
        backlog.bytes.fetch_add(bytes, Ordering::AcqRel);
        let mut state = self.shared.state();
        state.waiting += 1;
        // Here and not on the shard's thread, which must not allocate.
        let missing = state.waiting.saturating_sub(state.queue.len());
        state.queue.reserve(missing);
        // In a model callbacks run where they are told.
        let is_started = state.thread.is_some() || cfg!(ringmain_loom);
        let started = (!is_started).then(|| self.start(&mut state));
        drop(state);
        if let Some(Err(error)) = started {
            ringmain_io::log!(
                warn,
                %error,
                "no thread for receipt callbacks: they run on the shard's thread until there is one"
            );
        }
        Callback {
            run,
            charge: Charge {
                shared: Arc::clone(&self.shared),
                bytes,
            },
        }
    }

    /// False in a child that was forked: there may be locks that nobody opens.
    pub(crate) fn is_here(&self) -> bool {
        self.process.is_none_or(|process| process.is_this())
    }

    /// Stops a child that waits for what only its parent's threads can give.
    #[track_caller]
    pub(crate) fn assert_here(&self) {
        if let Some(process) = self.process {
            process::assert_here(process);
        }
    }

    /// Each registration tries again until there is a thread. Without one, callbacks run on the
    /// shard's thread: that is the wrong place, but never would be worse.
    fn start(&self, state: &mut State) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("ringmain-callbacks".to_owned())
            .spawn(move || shared.run())?;
        state.thread = Some(thread.thread().id());
        Ok(())
    }

    /// Takes callbacks that are due. Without a thread they stay in the list, for the caller to run.
    pub(crate) fn run_later(&self, due: &mut Vec<(Callback, Outcome)>) {
        let mut state = self.shared.state();
        if state.thread.is_some() {
            state.queue.extend(due.drain(..));
            drop(state);
            self.shared.due.notify_one();
        }
    }

    /// Waits until every callback has run, at most until `deadline`, and says how many have not.
    /// Called by a callback it does not wait, and does not count that one.
    pub(crate) fn wait_all_run(&self, deadline: Deadline) -> u64 {
        let state = self.shared.state();
        if state.thread == Some(std::thread::current().id()) {
            return state.waiting as u64 - 1;
        }
        let patience = deadline.left();
        let (state, _) = self
            .shared
            .all_run
            .wait_timeout_while(state, patience, |state| state.waiting > 0)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting as u64
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.due.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        set_role(Role::Callbacks);
        let mut state = self.state();
        loop {
            if let Some((callback, outcome)) = state.queue.pop_front() {
                drop(state);
                callback.run(outcome);
                state = self.state();
            } else if state.ended {
                return;
            } else {
                state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}
