//! Atomics, locks and threads of the hand-overs between threads: the standard library's, or loom's,
//! which tries every interleaving (`RUSTFLAGS="--cfg ringmain_loom" cargo test -p ringmain --lib
//! loom`).
//!
//! Only what the models need; everything else uses the standard library directly.

#[cfg(not(ringmain_loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Mutex, MutexGuard, OnceLock},
    thread::{Thread, current, park, park_timeout},
};

#[cfg(ringmain_loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::{Thread, current, park},
};
#[cfg(ringmain_loom)]
pub(crate) use model::{OnceLock, park_timeout};

/// What loom does not have.
#[cfg(ringmain_loom)]
mod model {
    use std::time::Duration;

    use super::{AtomicBool, Mutex, Ordering};

    /// There is no time in a model; its waits have no deadline.
    pub(crate) fn park_timeout(_: Duration) {
        loom::thread::yield_now();
    }

    /// The standard library's, for values that can be cloned: written once, and seen by whoever
    /// sees that it is set.
    pub(crate) struct OnceLock<T> {
        is_set: AtomicBool,
        value: Mutex<Option<T>>,
    }

    impl<T: Clone> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self {
                is_set: AtomicBool::new(false),
                value: Mutex::new(None),
            }
        }

        pub(crate) fn get(&self) -> Option<T> {
            if !self.is_set.load(Ordering::Acquire) {
                return None;
            }
            let place = self.value.lock().expect("no panic while it is held");
            place.clone()
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            let mut place = self.value.lock().expect("no panic while it is held");
            if place.is_some() {
                return Err(value);
            }
            *place = Some(value);
            self.is_set.store(true, Ordering::Release);
            Ok(())
        }

        pub(crate) fn take(&mut self) -> Option<T> {
            let value = self.get();
            *self = Self::new();
            value
        }
    }
}
