//! A wake-up between two tasks of the broker's one thread: set any number of times, taken once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// At most one task waits on a signal at a time.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: Cell<bool>,
    /// `Some` exactly while a task waits.
    waiter: RefCell<Option<Waker>>,
}

impl Signal {
    /// Raises the signal and wakes the waiter.
    pub(crate) fn raise(&self) {
        self.raised.set(true);
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }

    /// Waits until the signal is raised, and lowers it.
    pub(crate) async fn raised(&self) {
        poll_fn(|context| {
            if self.raised.take() {
                self.waiter.take();
                return Poll::Ready(());
            }
            *self.waiter.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
