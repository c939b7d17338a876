//! Sockets: accepts, cuts bytes into frames, writes what the state queues. Decides nothing.
//!
//! ```text
//!   listener --accept--> connection: a reading task and a writing task
//!                          reader: socket -> Assembler -> commands::receive
//!                          writer: State::next_outgoing -> socket
//!   control  --command-> State                        (the handle in another thread)
//!   timer    --due-----> State::tick
//!   watch    --calls---> a task that notices a ring that fails  (a thread of its own)
//! ```
//!
//! Every call into the state ends with [`Shared::settle`], which wakes the writers, readers and the
//! timer that have something new to do. A reader stops while its writer is behind, see
//! [`State::is_behind`].

mod assembler;
mod connection;
mod control;
mod pause;
mod probe;
mod runtime;
mod signal;
mod watch;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use monoio::io::{CancelHandle, Canceller};

pub(crate) use self::assembler::{Assembler, FramingLost};
pub(crate) use self::control::{Command, Control};
pub(crate) use self::probe::RingRefused;
pub(crate) use self::runtime::{Setup, StartRefused, run};
use self::signal::Signal;
use crate::config::Now;
use crate::state::{ConnectionKey, State};

/// The broker's clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Now {
            monotonic_us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// The instant of a monotonic time.
    fn instant(&self, monotonic_us: u64) -> Option<Instant> {
        self.started
            .checked_add(Duration::from_micros(monotonic_us))
    }
}

/// What the tasks of one connection share.
#[derive(Default)]
struct Handle {
    /// There is something to write, or the connection is to be closed.
    outgoing: Signal,
    /// There is room to go on reading.
    room: Signal,
    /// Ends the operation that is in flight on the socket.
    canceller: RefCell<Canceller>,
    /// The socket is to be dropped without ceremony.
    aborted: Cell<bool>,
}

impl Handle {
    fn cancel_handle(&self) -> CancelHandle {
        self.canceller.borrow().handle()
    }

    /// Ends both tasks at their next step.
    fn abort(&self) {
        self.aborted.set(true);
        self.interrupt();
        self.outgoing.raise();
        self.room.raise();
    }

    /// Wakes the reader out of its read.
    fn interrupt(&self) {
        let fresh = self.canceller.take().cancel();
        *self.canceller.borrow_mut() = fresh;
    }
}

/// What all tasks of the broker's thread share. Borrows of the state never span an await.
pub(crate) struct Shared {
    state: RefCell<State>,
    clock: Clock,
    handles: RefCell<HashMap<ConnectionKey, Rc<Handle>>>,
    /// Scratch of `settle`.
    touched: RefCell<Vec<ConnectionKey>>,
    /// The next due time may have changed.
    timer: Signal,
    timer_due_us: Cell<Option<u64>>,
    /// Memory of partial frames.
    inbound_bytes: Cell<usize>,
    /// A connection is gone.
    gone: Signal,
    /// The broker ends.
    stop: Signal,
    stopping: Cell<bool>,
}

impl Shared {
    fn new(state: State, clock: Clock) -> Self {
        Self {
            state: RefCell::new(state),
            clock,
            handles: RefCell::default(),
            touched: RefCell::default(),
            timer: Signal::default(),
            timer_due_us: Cell::new(None),
            inbound_bytes: Cell::new(0),
            gone: Signal::default(),
            stop: Signal::default(),
            stopping: Cell::new(false),
        }
    }

    /// Calls into the state and wakes whoever has something to do because of it.
    fn with_state<R>(&self, call: impl FnOnce(&mut State, Now) -> R) -> R {
        let result = call(&mut self.state.borrow_mut(), self.clock.now());
        self.settle();
        result
    }

    fn settle(&self) {
        let mut touched = self.touched.borrow_mut();
        let due_us = {
            let mut state = self.state.borrow_mut();
            state.take_touched(&mut touched);
            state.next_due_us()
        };
        let handles = self.handles.borrow();
        for key in touched.drain(..) {
            if let Some(handle) = handles.get(&key) {
                handle.outgoing.raise();
                handle.room.raise();
            }
        }
        if due_us != self.timer_due_us.get() {
            self.timer_due_us.set(due_us);
            self.timer.raise();
        }
    }

    /// Makes a connection known, so that it can be ended before its tasks first run.
    fn add_handle(&self, key: ConnectionKey) -> Rc<Handle> {
        let handle = Rc::new(Handle::default());
        self.handles.borrow_mut().insert(key, Rc::clone(&handle));
        handle
    }

    /// Ends every connection at once.
    fn abort_all(&self) {
        let handles: Vec<_> = self.handles.borrow().values().cloned().collect();
        for handle in handles {
            handle.abort();
        }
    }
}
