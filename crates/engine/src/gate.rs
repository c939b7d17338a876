//! Back-pressure: a stock of something limited, and the queue of those who wait for it.
//!
//! ```text
//!   take, nobody waits ----> stock            put ----> stock --> served in order: first come, first served
//!   take, somebody waits --> queue ^                                  |
//!                              '--------------- grant ----------------'
//! ```
//!
//! Used for the slots of a shard (each grant is one slot), for the bytes that records by reference
//! may hold, and for those of callbacks that have not run. A waiter for much is not overtaken by
//! waiters for little that came later: nobody takes from the stock while somebody waits. Blocking,
//! deadline and async waiters share the one queue.
//!
//! Invariants: `waiting` is the queue's length; a waiter in the queue is `Waiting` or `Gone`, and
//! fewer than half of them, or a handful, are `Gone`; whoever puts something back or queues up
//! serves the queue afterwards, so no grant is left lying. The queue's lock is taken before a
//! waiter's. Nobody runs code of the application (a waker's, its clone, its drop) while either is
//! held.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use ringmain_io::foreign::contained;

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
    /// Those in it that are `Gone`.
    gone: usize,
    closed: bool,
}

/// So many waiters that have gone stay in the queue, however few others there are.
const GONE_KEPT: usize = 16;

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
    /// Releases a thread; hands the waker of a task on.
    fn wake(self, on_task: impl FnOnce(Waker)) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => on_task(waker),
        }
    }
}

/// Wakes a task here and now.
fn wake_task(waker: Waker) {
    contained("a waker", || waker.wake());
}

impl<S: Stock> Gate<S> {
    pub(crate) fn new(stock: S) -> Self {
        Self {
            stock,
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(Queue {
                waiters: VecDeque::new(),
                gone: 0,
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

    /// Serves who waits, after [`Gate::put_quietly`].
    pub(crate) fn serve_waiting(&self) {
        self.serve_waiting_with(wake_task);
    }

    /// Puts something back and leaves who waits for it to a later [`Gate::serve_waiting`], which
    /// must follow: for several grants in a row, of which the first would otherwise switch to a
    /// thread that soon waits again.
    pub(crate) fn put_quietly(&self, grant: S::Grant) {
        self.stock.put(grant);
    }

    /// The same, for a thread that does not run the wakers of tasks itself.
    pub(crate) fn serve_waiting_with(&self, on_task: impl FnMut(Waker)) {
        // Pairs with the fence in `enqueue`: either the waiter's look at the stock sees what was
        // just put, or this load sees the waiter.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.serve_with(on_task);
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

    /// Whether somebody waits.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Places in the queue, those of waiters that have gone included.
    #[cfg(all(test, not(ringmain_loom)))]
    pub(crate) fn places(&self) -> usize {
        self.queue().waiters.len()
    }

    /// Waits for a grant, until `deadline` if there is one. `None` after the deadline, when the
    /// gate is closed or everybody was dismissed, and when `is_futile` says so, which is asked
    /// after queueing up.
    pub(crate) fn take_blocking(
        &self,
        want: S::Want,
        deadline: Option<Instant>,
        is_futile: impl Fn() -> bool,
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
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || is_futile() {
                let grant = self.give_up(&waiter);
                self.serve();
                return grant;
            }
            match left {
                None => park(),
                Some(left) => park_timeout(left),
            }
        }
    }

    /// Dismisses everybody who waits now or later without a grant: the engine closes.
    pub(crate) fn close(&self) {
        self.dismiss(true);
    }

    /// Dismisses everybody who waits now, to look again whether there is still something to wait
    /// for.
    pub(crate) fn dismiss_waiting(&self) {
        self.dismiss(false);
    }

    /// Threads are released before any task is woken.
    fn dismiss(&self, closes: bool) {
        let mut queue = self.queue();
        queue.closed |= closes;
        queue.gone = 0;
        let dismissed = std::mem::take(&mut queue.waiters);
        self.waiting.fetch_sub(dismissed.len(), Ordering::SeqCst);
        // Under the queue's lock: who gives up meanwhile must find that its place is gone, too.
        let wakes: Vec<Wake> = dismissed
            .iter()
            .filter_map(|waiter| waiter.leave(State::Gone))
            .collect();
        drop(queue);
        let mut tasks = Vec::new();
        for wake in wakes {
            wake.wake(|waker| tasks.push(waker));
        }
        tasks.into_iter().for_each(wake_task);
    }

    fn enqueue(&self, want: S::Want, wake: Wake) -> Arc<Waiter<S>> {
        let waiter = Arc::new(Waiter {
            want,
            state: Mutex::new(State::Waiting(wake)),
        });
        {
            let mut queue = self.queue();
            if queue.closed {
                let wake = waiter.leave(State::Gone);
                drop(queue);
                drop(wake);
                return waiter;
            }
            queue.waiters.push_back(Arc::clone(&waiter));
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        self.serve();
        waiter
    }

    /// Stops waiting. `Some` when the grant came just before. What is behind it in the queue is
    /// served by the caller.
    fn give_up(&self, waiter: &Waiter<S>) -> Option<S::Grant> {
        let mut queue = self.queue();
        let state = std::mem::replace(&mut *waiter.state(), State::Gone);
        if matches!(state, State::Waiting(_)) {
            queue.gone += 1;
            if queue.gone > GONE_KEPT && queue.gone * 2 > queue.waiters.len() {
                self.sweep(&mut queue);
            }
        }
        drop(queue);
        match state {
            State::Granted(grant) => Some(grant),
            State::Waiting(_) | State::Gone => None,
        }
    }

    /// Takes those out that have gone. Each is paid for by one that came, so waiting costs the same
    /// however it ends.
    fn sweep(&self, queue: &mut Queue<S>) {
        let before = queue.waiters.len();
        queue
            .waiters
            .retain(|waiter| matches!(*waiter.state(), State::Waiting(_)));
        let swept = before - queue.waiters.len();
        assert_eq!(swept, queue.gone, "waiters that have gone are counted");
        queue.gone = 0;
        self.waiting.fetch_sub(swept, Ordering::SeqCst);
    }

    /// Grants from the head of the queue until the stock does not have what the head wants.
    fn serve(&self) {
        self.serve_with(wake_task);
    }

    fn serve_with(&self, mut on_task: impl FnMut(Waker)) {
        // Woken outside of the lock: a waker may run code that comes back here.
        while let Some(wake) = self.serve_one() {
            wake.wake(&mut on_task);
        }
    }

    fn serve_one(&self) -> Option<Wake> {
        let mut queue = self.queue();
        loop {
            let head = Arc::clone(queue.waiters.front()?);
            let is_waiting = matches!(*head.state(), State::Waiting(_));
            // Only the holder of the queue's lock changes what is in the queue.
            let grant = if is_waiting {
                Some(self.stock.try_take(head.want)?)
            } else {
                None
            };
            queue.waiters.pop_front();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            match grant {
                Some(grant) => return head.leave(State::Granted(grant)),
                None => queue.gone -= 1,
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

    /// Ends the wait in `state`, and gives out whom to wake; `None` when it had ended before. The
    /// caller holds the queue's lock.
    fn leave(&self, state: State<S::Grant>) -> Option<Wake> {
        let mut known = self.state();
        if !matches!(*known, State::Waiting(_)) {
            return None;
        }
        match std::mem::replace(&mut *known, state) {
            State::Waiting(wake) => Some(wake),
            State::Granted(_) | State::Gone => None,
        }
    }

    /// Has `waker` woken from now on. False when the wait has ended.
    fn keep_waker(&self, waker: &Waker) -> bool {
        let same = match &*self.state() {
            State::Waiting(Wake::Task(known)) => known.will_wake(waker),
            State::Waiting(Wake::Thread(_)) => false,
            State::Granted(_) | State::Gone => return false,
        };
        if same {
            return true;
        }
        let wake = Wake::Task(waker.clone());
        let mut state = self.state();
        let State::Waiting(known) = &mut *state else {
            drop(state);
            drop(wake);
            return false;
        };
        let replaced = std::mem::replace(known, wake);
        drop(state);
        drop(replaced);
        true
    }
}

/// A wait for a grant as a future. Dropping it gives the place in the queue up and puts a grant
/// back.
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
        if waiter.keep_waker(cx.waker()) {
            return Poll::Pending;
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
            match self.gate.give_up(&waiter) {
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
