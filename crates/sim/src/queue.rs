//! Virtual time: events wait in the order of their instants, and the clock jumps from one to the
//! next.
//!
//! Role: the only clock of a run. Does not: know what an event is. Invariants: time never goes
//! back; events of one instant leave in the order in which they were scheduled, so a run is a
//! function of its seed.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

struct Entry<E> {
    at_us: u64,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    const fn key(&self) -> (u64, u64) {
        (self.at_us, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events in virtual time.
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    sequence: u64,
    now_us: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
            now_us: 0,
        }
    }
}

impl<E> EventQueue<E> {
    /// The instant of the event popped last, in microseconds since the run began.
    #[must_use]
    pub(crate) const fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Schedules `event` for `at_us`. An instant that is over means now.
    pub(crate) fn push(&mut self, at_us: u64, event: E) {
        self.sequence += 1;
        let at_us = at_us.max(self.now_us);
        self.heap.push(Reverse(Entry {
            at_us,
            sequence: self.sequence,
            event,
        }));
    }

    /// Schedules `event` for `delay_us` from now.
    pub(crate) fn push_after(&mut self, delay_us: u64, event: E) {
        self.push(self.now_us.saturating_add(delay_us), event);
    }

    /// Takes the earliest event and moves the clock to its instant.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let Reverse(entry) = self.heap.pop()?;
        assert!(entry.at_us >= self.now_us, "virtual time went back");
        self.now_us = entry.at_us;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_by_instant_and_then_by_age() {
        let mut queue = EventQueue::default();
        for (at_us, event) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')] {
            queue.push(at_us, event);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, "abcd");
        assert_eq!(queue.now_us(), 30);
    }

    #[test]
    fn an_instant_that_is_over_means_now() {
        let mut queue = EventQueue::default();
        queue.push(50, 'x');
        assert_eq!(queue.pop(), Some('x'));
        queue.push(10, 'y');
        assert_eq!(queue.pop(), Some('y'));
        assert_eq!(queue.now_us(), 50);
    }
}
