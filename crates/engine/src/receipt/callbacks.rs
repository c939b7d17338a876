//! The thread that runs receipt callbacks, so that no user code ever runs on a shard thread.
//!
//! Started by the first registration and ended when the engine's last handle goes; callbacks queued by then still
//! run. Callbacks run one after the other, in the order their batches resolved.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::outcome::Outcome;
use crate::process;
use ringmain_io::memory::Process;

/// What runs when a record resolves.
pub(crate) type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// Queue of callbacks that are due, and the thread that runs them.
pub(crate) struct Callbacks {
    shared: Arc<Shared>,
    /// Where the threads are; unknown when forks cannot be watched for.
    process: Option<Process>,
}

struct Shared {
    state: Mutex<State>,
    due: Condvar,
}

struct State {
    queue: VecDeque<(Callback, Outcome)>,
    started: bool,
    ended: bool,
}

impl Callbacks {
    pub(crate) fn new() -> Self {
        Self {
            process: Process::this().ok(),
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queue: VecDeque::new(),
                    started: false,
                    ended: false,
                }),
                due: Condvar::new(),
            }),
        }
    }

    /// Starts the thread if it does not run yet. Without a thread (the system refuses one) callbacks run on the shard:
    /// late is worse than in the wrong place, never is worst.
    pub(crate) fn start(&self) {
        let mut state = self.shared.state();
        // In a model callbacks run where they are told.
        if state.started || cfg!(ringmain_loom) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new()
            .name("ringmain-callbacks".to_owned())
            .spawn(move || shared.run());
        match spawned {
            Ok(_) => state.started = true,
            Err(error) => {
                tracing::warn!(%error, "no thread for receipt callbacks, they run on the shard thread");
            }
        }
    }

    /// Stops a child that waits for what only its parent's threads can give.
    #[track_caller]
    pub(crate) fn assert_here(&self) {
        if let Some(process) = self.process {
            process::assert_here(process);
        }
    }

    pub(crate) fn run_later(&self, callback: Callback, outcome: Outcome) {
        let mut state = self.shared.state();
        if !state.started {
            drop(state);
            run_one(callback, outcome);
            return;
        }
        state.queue.push_back((callback, outcome));
        drop(state);
        self.shared.due.notify_one();
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
        let mut state = self.state();
        loop {
            if let Some((callback, outcome)) = state.queue.pop_front() {
                drop(state);
                run_one(callback, outcome);
                state = self.state();
            } else if state.ended {
                return;
            } else {
                state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn run_one(callback: Callback, outcome: Outcome) {
    if catch_unwind(AssertUnwindSafe(|| callback(outcome))).is_err() {
        tracing::error!(
            "a receipt callback panicked; the panic was caught and the record's outcome is {outcome}"
        );
    }
}
