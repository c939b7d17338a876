//! Those who wait for one batch: a table whose places are reused, so that waits that end early
//! leave nothing behind.
//!
//! Invariant: `free` heads a list through exactly the entries that are `Free`.

use std::task::Waker;

use super::callbacks::Callback;
use crate::sync::Thread;

/// A task or a thread that is told when a batch resolves.
pub(crate) enum Waiter {
    Task(Waker),
    Thread(Thread),
}

enum Entry {
    Taken(Waiter),
    /// With the next free place.
    Free(Option<u32>),
}

/// See the module.
#[derive(Default)]
pub(super) struct Waiters {
    entries: Vec<Entry>,
    free: Option<u32>,
    /// With the place of the record in its batch, in the order they were registered.
    callbacks: Vec<(u32, Callback)>,
}

impl Waiters {
    /// Adds one and gives its place.
    pub(super) fn add(&mut self, waiter: Waiter) -> u32 {
        let Some(place) = self.free else {
            let place = u32::try_from(self.entries.len()).expect("fewer waiters than records");
            self.entries.push(Entry::Taken(waiter));
            return place;
        };
        let taken = std::mem::replace(&mut self.entries[place as usize], Entry::Taken(waiter));
        let Entry::Free(next) = taken else {
            unreachable!("the list leads through free places")
        };
        self.free = next;
        place
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, place: u32) -> Waiter {
        let entry = &mut self.entries[place as usize];
        let Entry::Taken(waiter) = std::mem::replace(entry, Entry::Free(self.free)) else {
            panic!("a place is given up once")
        };
        self.free = Some(place);
        waiter
    }

    /// The waker at `place`.
    pub(super) fn waker(&mut self, place: u32) -> &mut Waker {
        match &mut self.entries[place as usize] {
            Entry::Taken(Waiter::Task(waker)) => waker,
            Entry::Taken(Waiter::Thread(_)) | Entry::Free(_) => {
                unreachable!("a place is the waiter's until it gives it up")
            }
        }
    }

    pub(super) fn add_callback(&mut self, index: u32, callback: Callback) {
        self.callbacks.push((index, callback));
    }

    /// Moves everybody out; the memory stays.
    pub(super) fn take_all(
        &mut self,
        waiters: &mut Vec<Waiter>,
        mut each_callback: impl FnMut(u32, Callback),
    ) {
        waiters.extend(self.entries.drain(..).filter_map(|entry| match entry {
            Entry::Taken(waiter) => Some(waiter),
            Entry::Free(_) => None,
        }));
        self.free = None;
        for (index, callback) in self.callbacks.drain(..) {
            each_callback(index, callback);
        }
    }

    /// Places in the table, taken or free: what waits cost in memory.
    #[cfg(all(test, not(ringmain_loom)))]
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }
}
