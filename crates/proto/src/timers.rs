//! One timer for each owner, kept in an indexed binary heap: arm, move and cancel in `O(log
//! owners)`, no allocation.
//!
//! Owners are dense numbers from 0. Timers of the same instant fire by rising owner, so runs repeat
//! exactly.

use alloc::vec;
use alloc::vec::Vec;

use crate::Micros;

const NOT_ARMED: u32 = u32::MAX;

/// Timers of owners `0..owners`.
#[derive(Debug)]
pub(crate) struct Timers {
    /// Heap of armed owners, the earliest first.
    heap: Vec<u32>,
    /// Where each owner is in the heap, [`NOT_ARMED`] when it is not.
    slot: Vec<u32>,
    /// When each armed owner fires.
    at: Vec<Micros>,
}

impl Timers {
    pub(crate) fn new(owners: u32) -> Self {
        let len = owners as usize;
        Self {
            heap: Vec::with_capacity(len),
            slot: vec![NOT_ARMED; len],
            at: vec![Micros::ZERO; len],
        }
    }

    /// Bytes of the heap, the back references and the times.
    pub(crate) const fn bytes(owners: u32) -> usize {
        owners as usize * (size_of::<u32>() + size_of::<u32>() + size_of::<Micros>())
    }

    /// When the earliest timer fires.
    pub(crate) fn earliest(&self) -> Option<Micros> {
        self.heap.first().map(|&owner| self.at[owner as usize])
    }

    /// When the owner's timer fires, `None` when it is not armed.
    pub(crate) fn armed(&self, owner: u32) -> Option<Micros> {
        (self.slot[owner as usize] != NOT_ARMED).then(|| self.at[owner as usize])
    }

    /// Arms the owner's timer or moves it. [`Micros::MAX`] cancels: it means "never".
    pub(crate) fn arm(&mut self, owner: u32, at: Micros) {
        if at == Micros::MAX {
            return self.cancel(owner);
        }
        self.at[owner as usize] = at;
        let mut position = self.slot[owner as usize] as usize;
        if position == NOT_ARMED as usize {
            position = self.heap.len();
            assert!(position < self.slot.len(), "one entry for each owner");
            self.heap.push(owner);
            self.slot[owner as usize] = position as u32;
        }
        let position = self.sift_up(position);
        self.sift_down(position);
    }

    /// Disarms the owner's timer, if it is armed.
    pub(crate) fn cancel(&mut self, owner: u32) {
        let position = self.slot[owner as usize];
        if position == NOT_ARMED {
            return;
        }
        let position = position as usize;
        self.slot[owner as usize] = NOT_ARMED;
        let last = self.heap.pop().expect("an armed owner is in the heap");
        if last != owner {
            self.place(position, last);
            let position = self.sift_up(position);
            self.sift_down(position);
        }
    }

    /// Disarms and returns the earliest timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Micros) -> Option<u32> {
        let owner = *self.heap.first()?;
        if self.at[owner as usize] > now {
            return None;
        }
        self.cancel(owner);
        Some(owner)
    }

    fn place(&mut self, position: usize, owner: u32) {
        self.heap[position] = owner;
        self.slot[owner as usize] = position as u32;
    }

    fn earlier(&self, left: u32, right: u32) -> bool {
        (self.at[left as usize], left) < (self.at[right as usize], right)
    }

    fn sift_up(&mut self, mut position: usize) -> usize {
        let owner = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.earlier(owner, self.heap[parent]) {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, owner);
        position
    }

    fn sift_down(&mut self, mut position: usize) {
        let owner = self.heap[position];
        loop {
            let mut child = 2 * position + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.earlier(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if !self.earlier(self.heap[child], owner) {
                break;
            }
            self.place(position, self.heap[child]);
            position = child;
        }
        self.place(position, owner);
    }

    /// Panics unless heap order and back references hold.
    pub(crate) fn check_invariants(&self) {
        for (position, &owner) in self.heap.iter().enumerate() {
            assert_eq!(
                self.slot[owner as usize] as usize, position,
                "owner {owner} points to its heap entry"
            );
            assert!(
                position == 0 || !self.earlier(owner, self.heap[(position - 1) / 2]),
                "no entry is earlier than its parent"
            );
        }
        let armed = self.slot.iter().filter(|&&slot| slot != NOT_ARMED).count();
        assert_eq!(armed, self.heap.len(), "every armed owner is in the heap");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fires_like_a_sorted_list(steps in prop::collection::vec((0u8..4, 0u32..9, 0u64..50), 1..300)) {
            let mut timers = Timers::new(9);
            let mut model = BTreeMap::<u32, u64>::new();
            for (step, owner, at) in steps {
                match step {
                    0 | 1 => {
                        timers.arm(owner, Micros(at));
                        model.insert(owner, at);
                    }
                    2 => {
                        timers.cancel(owner);
                        model.remove(&owner);
                    }
                    _ => {
                        let due = model.iter().map(|(&owner, &at)| (at, owner)).min().filter(|due| due.0 <= at);
                        prop_assert_eq!(timers.pop_due(Micros(at)), due.map(|due| due.1));
                        if let Some((_, owner)) = due {
                            model.remove(&owner);
                        }
                    }
                }
                timers.check_invariants();
                prop_assert_eq!(timers.earliest().map(|at| at.0), model.values().min().copied());
                prop_assert_eq!(timers.armed(owner).map(|at| at.0), model.get(&owner).copied());
            }
        }
    }

    #[test]
    fn never_is_not_armed() {
        let mut timers = Timers::new(1);
        timers.arm(0, Micros(5));
        timers.arm(0, Micros::MAX);
        assert_eq!(timers.armed(0), None);
        assert_eq!(timers.pop_due(Micros::MAX), None);
    }
}
