//! Back-pressure: a stock of something limited, and the queue of those who wait for it.
//!
//! ```text
//!   take, nobody waits ----> stock            put ----> stock --> served in order: first come, first served
//!   take, somebody waits --> queue ^                                  |
//!                              '--------------- grant ----------------'
//! ```
//!
//! Used twice: for the slots of a shard (each grant is one slot) and for the bytes that records by reference may
//! hold. A waiter for much is not overtaken by waiters for little that came later: nobody takes from the stock while
//! somebody waits. Blocking, deadline and async waiters share the one queue.
//!
//! Invariants: `waiting` is the queue's length; a waiter is in the queue exactly while its state is not `Granted`;
//! whoever puts something back or queues up serves the queue afterwards, so no grant is left lying.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::sync::{
    self, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, Thread, fence, park, park_timeout,
};

/// Something limited that is taken and put back, from any thread, without waiting.
pub(crate) trait Stock {
    /// How much is asked for.
    type Want: Copy;
    /// What is given. Dropping it leaks it: it goes back through [`Gate::put`].
    type Grant;
    /// Takes `want` if there is enough.
    fn try_take(&self, want: Self::Want) -> Option<Self::Grant>;
    /// Puts it back.
    fn put(&self, grant: Self::Grant);
}

/// A [`Stock`] with a fair queue in front.
pub(crate) struct Gate<S: Stock> {
    stock: S,
    waiting: AtomicUsize,
    queue: Mutex<Queue<S>>,
}

struct Queue<S: Stock> {
    waiters: VecDeque<Arc<Waiter<S>>>,
    closed: bool,
}

struct Waiter<S: Stock> {
    want: S::Want,
    state: Mutex<State<S::Grant>>,
}

enum State<G> {
    Waiting(Wake),
    Granted(G),
    /// Granted and collected, given up, or dismissed; the queue drops it when it comes to it.
    Gone,
}

/// What a waiter finds when it looks.
enum Found<G> {
    Nothing,
    Grant(G),
    Dismissal,
}

enum Wake {
    Thread(Thread),
    Task(Waker),
}

impl Wake {
    fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

impl<S: Stock> Gate<S> {
    pub(crate) fn new(stock: S) -> Self {
        Self {
            stock,
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(Queue {
                waiters: VecDeque::new(),
                closed: false,
            }),
        }
    }

    pub(crate) fn stock(&self) -> &S {
        &self.stock
    }

    /// Takes without waiting; `None` when there is not enough or others wait already.
    pub(crate) fn try_take(&self, want: S::Want) -> Option<S::Grant> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.stock.try_take(want)
    }

    /// Puts something back and serves who waits for it.
    pub(crate) fn put(&self, grant: S::Grant) {
        self.put_quietly(grant);
        self.serve_waiting();
    }

    /// Puts something back and leaves who waits for it to a later [`Gate::serve_waiting`], which must follow: for
    /// several grants in a row, of which the first would otherwise switch to a thread that soon waits again.
    pub(crate) fn put_quietly(&self, grant: S::Grant) {
        self.stock.put(grant);
    }

    /// Serves who waits, after [`Gate::put_quietly`].
    pub(crate) fn serve_waiting(&self) {
        // Pairs with the fence in `enqueue`: either the waiter's look at the stock sees what was just put, or this
        // load sees the waiter.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.serve();
        }
    }

    /// What the first who still waits wants.
    #[cfg(feature = "simulation")]
    pub(crate) fn first_want(&self) -> Option<S::Want> {
        let queue = self.queue();
        let mut waiting = queue.waiters.iter();
        let first = waiting.find(|waiter| matches!(*waiter.state(), State::Waiting(_)))?;
        Some(first.want)
    }

    #[cfg(all(test, not(ringmain_loom)))]
    fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits for a grant, until `deadline` if there is one. `None` after the deadline, and when the gate is closed.
    pub(crate) fn take_blocking(
        &self,
        want: S::Want,
        deadline: Option<Instant>,
    ) -> Option<S::Grant> {
        if let Some(grant) = self.try_take(want) {
            return Some(grant);
        }
        let waiter = self.enqueue(want, Wake::Thread(sync::current()));
        loop {
            match waiter.collect() {
                Found::Grant(grant) => return Some(grant),
                Found::Dismissal => return None,
                Found::Nothing => {}
            }
            match deadline {
                None => park(),
                Some(deadline) => {
                    let now = Instant::now();
                    if now >= deadline {
                        let grant = waiter.give_up();
                        self.serve();
                        return grant;
                    }
                    park_timeout(deadline - now);
                }
            }
        }
    }

    /// Dismisses everybody who waits now or later without a grant: the engine closes.
    pub(crate) fn close(&self) {
        let dismissed = {
            let mut queue = self.queue();
            queue.closed = true;
            std::mem::take(&mut queue.waiters)
        };
        self.waiting.fetch_sub(dismissed.len(), Ordering::SeqCst);
        for waiter in dismissed {
            let mut state = waiter.state();
            if matches!(*state, State::Waiting(_))
                && let State::Waiting(wake) = std::mem::replace(&mut *state, State::Gone)
            {
                drop(state);
                wake.wake();
            }
        }
    }

    fn enqueue(&self, want: S::Want, wake: Wake) -> Arc<Waiter<S>> {
        let waiter = Arc::new(Waiter {
            want,
            state: Mutex::new(State::Waiting(wake)),
        });
        {
            let mut queue = self.queue();
            if queue.closed {
                waiter.give_up();
                drop(queue);
                return waiter;
            }
            queue.waiters.push_back(Arc::clone(&waiter));
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        self.serve();
        waiter
    }

    /// Grants from the head of the queue until the stock does not have what the head wants.
    fn serve(&self) {
        // Woken outside of the lock: a waker may run code that comes back here.
        while let Some(wake) = self.serve_one() {
            wake.wake();
        }
    }

    fn serve_one(&self) -> Option<Wake> {
        let mut queue = self.queue();
        loop {
            let head = Arc::clone(queue.waiters.front()?);
            let mut state = head.state();
            let is_waiting = matches!(*state, State::Waiting(_));
            let grant = if is_waiting {
                Some(self.stock.try_take(head.want)?)
            } else {
                None
            };
            queue.waiters.pop_front();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            let Some(grant) = grant else { continue };
            if let State::Waiting(wake) = std::mem::replace(&mut *state, State::Granted(grant)) {
                return Some(wake);
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Stock> Waiter<S> {
    fn state(&self) -> MutexGuard<'_, State<S::Grant>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come of the wait so far; a grant is given once.
    fn collect(&self) -> Found<S::Grant> {
        let mut state = self.state();
        if matches!(*state, State::Waiting(_)) {
            return Found::Nothing;
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::Granted(grant) => Found::Grant(grant),
            State::Waiting(_) | State::Gone => Found::Dismissal,
        }
    }

    /// Stops waiting. `Some` when the grant came just before.
    fn give_up(&self) -> Option<S::Grant> {
        match std::mem::replace(&mut *self.state(), State::Gone) {
            State::Granted(grant) => Some(grant),
            State::Waiting(_) | State::Gone => None,
        }
    }
}

/// A wait for a grant as a future. Dropping it gives the place in the queue up and puts a grant back.
pub(crate) struct Take<S: Stock> {
    gate: Arc<Gate<S>>,
    want: S::Want,
    waiter: Option<Arc<Waiter<S>>>,
}

impl<S: Stock> Take<S> {
    pub(crate) fn new(gate: Arc<Gate<S>>, want: S::Want) -> Self {
        Self {
            gate,
            want,
            waiter: None,
        }
    }
}

impl<S: Stock> Unpin for Take<S> {}

impl<S: Stock> Future for Take<S> {
    /// `None` when the gate was closed meanwhile.
    type Output = Option<S::Grant>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Grant>> {
        if self.waiter.is_none() {
            if let Some(grant) = self.gate.try_take(self.want) {
                return Poll::Ready(Some(grant));
            }
            self.waiter = Some(self.gate.enqueue(self.want, Wake::Task(cx.waker().clone())));
        }
        let waiter = self.waiter.as_ref().expect("set above");
        {
            let mut state = waiter.state();
            if let State::Waiting(wake) = &mut *state {
                *wake = Wake::Task(cx.waker().clone());
                return Poll::Pending;
            }
        }
        let found = waiter.collect();
        self.waiter = None;
        Poll::Ready(match found {
            Found::Grant(grant) => Some(grant),
            Found::Nothing | Found::Dismissal => None,
        })
    }
}

impl<S: Stock> Drop for Take<S> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            match waiter.give_up() {
                Some(grant) => self.gate.put(grant),
                // The place in the queue may be the head, which holds up those behind it.
                None => self.gate.serve(),
            }
        }
    }
}

/// A number of units, as a stock.
pub(crate) struct Units {
    available: AtomicU64,
    total: u64,
}

impl Units {
    pub(crate) fn new(total: u64) -> Self {
        Self {
            available: AtomicU64::new(total),
            total,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn available(&self) -> u64 {
        self.available.load(Ordering::Relaxed)
    }
}

impl Stock for Units {
    type Want = u64;
    type Grant = u64;

    fn try_take(&self, want: u64) -> Option<u64> {
        self.available
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |available| {
                available.checked_sub(want)
            })
            .ok()
            .map(|_| want)
    }

    fn put(&self, grant: u64) {
        let before = self.available.fetch_add(grant, Ordering::AcqRel);
        assert!(before + grant <= self.total, "more was put back than taken");
    }
}

#[cfg(all(test, ringmain_loom))]
mod loom_tests;
#[cfg(all(test, not(ringmain_loom)))]
mod tests;
