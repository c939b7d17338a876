//! The application's code on the engine's threads: which thread this is, and what is put off until
//! everything of a turn is answered.
//!
//! ```text
//!   answer a batch:  outcome written -> threads released -> wakers, owners of payloads: put off
//!   end of the turn: those who wait for memory served -> what was put off runs, each contained
//! ```
//!
//! So a waker that panics, blocks or takes its time finds every record answered and every thread
//! released. One that blocks still holds the shard up, which is logged.

use std::cell::Cell;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain_io::foreign::{contained, drop_each};

use crate::outcome::Outcome;
use crate::receipt::{Callback, Waiter};

/// Past this time the application's code is reported for holding a shard up.
const HELD_UP_MAX: Duration = Duration::from_millis(100);

/// Wakers and payloads that a shard has room for from the start.
const DEFERRED_LEN: usize = 256;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Whatever the application likes.
    Application,
    /// It runs a shard, of this engine or another: it must never wait for one.
    Shard,
    /// It runs the callbacks of receipts: it must never wait for one of them.
    Callbacks,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Application) };
}

/// Says what this thread does from now on.
pub(crate) fn set_role(role: Role) {
    ROLE.set(role);
}

/// What this thread does. A thread that ends may not know any more.
pub(crate) fn role() -> Role {
    ROLE.try_with(Cell::get).unwrap_or(Role::Application)
}

/// For calls that would wait for a shard and have no error to say that they must not.
///
/// # Panics
/// On the thread of a shard.
#[track_caller]
pub(crate) fn assert_may_wait(call: &'static str) {
    assert!(
        role() != Role::Shard,
        "{call} would wait on a shard's own thread, where wakers and the owners of payloads run: \
         call it on a thread of the application"
    );
}

/// Code of the application that is due. Dropping it runs it.
#[derive(Default)]
pub(crate) struct Deferred {
    pub(crate) wakers: Vec<Waker>,
    /// Callbacks for which there is no thread.
    pub(crate) callbacks: Vec<(Callback, Outcome)>,
    /// Their owners are the application's.
    pub(crate) payloads: Vec<Bytes>,
    /// Waiters of one batch on their way. Empty between calls.
    pub(crate) scratch: Vec<Waiter>,
}

impl Deferred {
    /// With room, for a thread that must not allocate.
    pub(crate) fn with_room() -> Self {
        Self {
            wakers: Vec::with_capacity(DEFERRED_LEN),
            callbacks: Vec::new(),
            payloads: Vec::with_capacity(DEFERRED_LEN),
            scratch: Vec::with_capacity(DEFERRED_LEN),
        }
    }

    /// Nothing is due.
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty() && self.callbacks.is_empty() && self.payloads.is_empty()
    }

    /// Runs all of it, each piece on its own.
    pub(crate) fn run(&mut self) {
        if self.is_empty() {
            return;
        }
        let started = Instant::now();
        for waker in self.wakers.drain(..) {
            contained("a waker", || waker.wake());
        }
        for (callback, outcome) in self.callbacks.drain(..) {
            callback.run(outcome);
        }
        drop_each("the owner of a payload", &mut self.payloads);
        let held_up = started.elapsed();
        if held_up >= HELD_UP_MAX && role() == Role::Shard {
            ringmain_io::log!(
                warn,
                held_up_ms = held_up.as_millis(),
                "a waker or the owner of a payload blocked a shard's thread, and with it every \
                 record of that shard: hand slow work to a thread of the application"
            );
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.run();
    }
}
