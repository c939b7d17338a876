//! Waking the shard from other threads, without a lost wake-up and without a system call while it
//! is awake.
//!
//! ```text
//!            wake: no system call                wake: writes the eventfd
//!   AWAKE ------------------------> NOTIFIED <---------------------------- SLEEPING
//!     ^                               |                                       ^
//!     '------- wait takes the note ---'          AWAKE --- wait sleeps -------'
//! ```
//!
//! A waker first publishes its work (a queue push), then swaps the state to `NOTIFIED`. The shard
//! swaps it back to `AWAKE` before it looks at the queues. Both are read-modify-writes of one
//! atomic, so one of them is first: either the shard sees the work, or the waker sees that the
//! shard went to sleep and writes the eventfd.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::sync::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const SLEEPING: u8 = 1;
const NOTIFIED: u8 = 2;

/// Wakes one driver from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WakeHandle {
    shared: Arc<WakeShared>,
}

#[derive(Debug)]
pub(crate) struct WakeShared {
    state: WakeState,
    /// `None` for a driver without a kernel, which looks at the state.
    eventfd: Option<OwnedFd>,
}

impl WakeHandle {
    /// Makes the driver's `wait` return, now or when it is called next, with [`Event::Woken`]. Work
    /// that was published before the call is visible to the shard after that event. Harmless after
    /// the driver is gone.
    ///
    /// [`Event::Woken`]: super::Event::Woken
    pub fn wake(&self) {
        if self.shared.state.notify() {
            self.shared.signal();
        }
    }
}

/// The shard's side of wake-ups, for a driver without a kernel.
#[cfg(feature = "simulation")]
#[derive(Debug)]
pub struct WakeBoard(Arc<WakeShared>);

#[cfg(feature = "simulation")]
impl Default for WakeBoard {
    fn default() -> Self {
        Self(Arc::new(WakeShared {
            state: WakeState::default(),
            eventfd: None,
        }))
    }
}

#[cfg(feature = "simulation")]
impl WakeBoard {
    /// A handle for other threads.
    pub fn handle(&self) -> WakeHandle {
        self.0.handle()
    }

    /// What the two sides agree on.
    pub fn state(&self) -> &WakeState {
        self.0.state()
    }
}

impl WakeShared {
    /// The two ends: handles for others, this for the shard.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        // Blocking on purpose: a read of a non-blocking descriptor would come back with EAGAIN
        // instead of waiting in the ring.
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Self {
            state: WakeState::default(),
            eventfd: Some(eventfd),
        }))
    }

    pub(crate) fn handle(self: &Arc<Self>) -> WakeHandle {
        WakeHandle {
            shared: Arc::clone(self),
        }
    }

    pub(crate) fn state(&self) -> &WakeState {
        &self.state
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        let eventfd = self.eventfd.as_ref();
        eventfd.expect("a driver of the kernel has one").as_fd()
    }

    pub(crate) fn signal(&self) {
        let Some(eventfd) = &self.eventfd else {
            return;
        };
        let one = 1u64.to_ne_bytes();
        loop {
            let error = match rustix::io::write(eventfd, &one) {
                Ok(written) if written == one.len() => return,
                Ok(written) => panic!("a write to our eventfd took {written} bytes"),
                Err(error) => error,
            };
            // EAGAIN cannot happen: the descriptor blocks, and at most one signal is outstanding
            // per sleep.
            assert!(
                error == rustix::io::Errno::INTR,
                "write to our eventfd: {error}"
            );
        }
    }
}

/// The state alone: what the two sides agree on, without a descriptor.
#[derive(Debug, Default)]
pub struct WakeState(AtomicU8);

impl WakeState {
    /// A waker's step, after it has published its work. True: the shard sleeps and must be
    /// signalled.
    pub fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == SLEEPING
    }

    /// The shard's step before it sleeps. False: somebody woke it since; it must not sleep.
    pub fn sleep_begin(&self) -> bool {
        self.0
            .compare_exchange(AWAKE, SLEEPING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The shard's step after it slept, or instead of sleeping. True: somebody woke it since the
    /// last call.
    pub fn take(&self) -> bool {
        self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// True when `take` would be, without taking: for the spin loop.
    pub fn is_notified(&self) -> bool {
        self.0.load(Ordering::Relaxed) == NOTIFIED
    }
}

#[cfg(all(test, not(ringmain_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wake_while_awake_costs_no_signal_and_forbids_the_next_sleep() {
        let state = WakeState::default();
        assert!(!state.notify());
        assert!(!state.notify());
        assert!(!state.sleep_begin());
        assert!(state.take());
        assert!(!state.take());
        assert!(state.sleep_begin());
    }

    #[test]
    fn only_the_first_waker_of_a_sleep_signals() {
        let state = WakeState::default();
        assert!(state.sleep_begin());
        assert!(state.notify());
        assert!(!state.notify());
        assert!(state.take());
    }
}

/// What models of other hand-overs need of this one.
#[cfg(ringmain_loom)]
pub mod model {
    use loom::sync::{Condvar, Mutex};

    pub use super::WakeState;

    /// The eventfd: a signal stays until it is read.
    #[derive(Debug, Default)]
    pub struct Signal {
        is_set: Mutex<bool>,
        changed: Condvar,
    }

    impl Signal {
        /// Sets it.
        pub fn set(&self) {
            *self.is_set.lock().unwrap() = true;
            self.changed.notify_one();
        }

        /// Waits until it is set, and takes it.
        pub fn wait(&self) {
            let mut is_set = self.is_set.lock().unwrap();
            while !*is_set {
                is_set = self.changed.wait(is_set).unwrap();
            }
            *is_set = false;
        }
    }
}

/// Every interleaving of wakers and shard, with every value the memory model allows:
/// `RUSTFLAGS="--cfg ringmain_loom" cargo test -p ringmain-io --lib loom`.
#[cfg(all(test, ringmain_loom))]
mod loom_tests {
    use super::model::Signal;
    use super::*;
    use loom::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Shared {
        state: WakeState,
        signal: Signal,
        /// Work of each waker. Relaxed throughout: the wake state alone has to make it visible.
        work: [AtomicUsize; 2],
    }

    /// The shard sleeps whenever it may, and ends only when it has seen all work: a lost wake-up is
    /// a deadlock.
    fn serve(shared: &Shared, wakers: usize) {
        let mut seen = 0;
        while seen < wakers {
            if shared.state.sleep_begin() {
                shared.signal.wait();
            }
            if shared.state.take() {
                seen = shared
                    .work
                    .iter()
                    .map(|work| work.load(Ordering::Relaxed))
                    .sum();
            }
        }
    }

    fn run(wakers: usize, has_completion: bool) {
        // Three preemptions find every two-sided race; without a bound the lock of the signal alone
        // takes hours.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = loom::sync::Arc::new(Shared::default());
            let mut threads = Vec::new();
            for waker in 0..wakers {
                let shared = shared.clone();
                threads.push(loom::thread::spawn(move || {
                    shared.work[waker].store(1, Ordering::Relaxed);
                    if shared.state.notify() {
                        shared.signal.set();
                    }
                }));
            }
            if has_completion {
                // The ring also returns for other reasons, at any moment.
                let shared = shared.clone();
                threads.push(loom::thread::spawn(move || shared.signal.set()));
            }
            serve(&shared, wakers);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn loom_no_wake_up_is_lost_between_two_wakers_and_the_shard() {
        run(2, false);
    }

    #[test]
    fn loom_no_wake_up_is_lost_when_completions_wake_the_shard_too() {
        run(1, true);
    }
}
