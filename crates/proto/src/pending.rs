//! Request numbers of unresolved sends, to batches: a fixed open-addressing table.
//!
//! Numbers come from one rising counter, so the number's low bits are the hash: neighbours sit side
//! by side and a collision needs two numbers a table length apart. The table is at most half full,
//! so every search ends. Deletion moves the followers back, so there are no tombstones and nothing
//! degrades with time. Peers choose what is looked up, never what is stored.

use alloc::vec;
use alloc::vec::Vec;

use crate::BatchKey;

/// Request number to batch. Number 0 marks a free entry: sends never have it.
#[derive(Debug)]
pub(crate) struct Pending {
    entries: Vec<(u64, BatchKey)>,
    mask: usize,
    len: usize,
}

const FREE: (u64, BatchKey) = (0, BatchKey(u32::MAX));

impl Pending {
    /// A table for at most `requests_max` numbers.
    pub(crate) fn new(requests_max: u32) -> Self {
        let len = Self::entries_len(requests_max);
        Self {
            entries: vec![FREE; len],
            mask: len - 1,
            len: 0,
        }
    }

    /// Bytes of the table.
    pub(crate) const fn bytes(requests_max: u32) -> usize {
        Self::entries_len(requests_max) * size_of::<(u64, BatchKey)>()
    }

    const fn entries_len(requests_max: u32) -> usize {
        (requests_max as usize * 2).next_power_of_two()
    }

    /// Numbers stored.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The batch sent under `request`.
    pub(crate) fn find(&self, request: u64) -> Option<BatchKey> {
        let (found, key) = self.entries[self.position(request)];
        (request != 0 && found == request).then_some(key)
    }

    /// Stores a number that is not stored yet.
    pub(crate) fn insert(&mut self, request: u64, key: BatchKey) {
        assert!(request != 0, "number 0 is register's");
        assert!(
            self.len * 2 < self.entries.len(),
            "room for every batch key"
        );
        let position = self.position(request);
        assert!(self.entries[position].0 == 0, "numbers are never reused");
        self.entries[position] = (request, key);
        self.len += 1;
    }

    /// Removes a stored number.
    pub(crate) fn remove(&mut self, request: u64) {
        let mut hole = self.position(request);
        assert!(
            request != 0 && self.entries[hole].0 == request,
            "only stored numbers are removed"
        );
        self.len -= 1;
        let mut next = hole;
        loop {
            next = (next + 1) & self.mask;
            let (number, key) = self.entries[next];
            if number == 0 {
                break;
            }
            // An entry may move back to the hole when its home is not in the cyclic range (hole,
            // next].
            let distance_home = next.wrapping_sub(number as usize) & self.mask;
            let distance_hole = next.wrapping_sub(hole) & self.mask;
            if distance_home >= distance_hole {
                self.entries[hole] = (number, key);
                hole = next;
            }
        }
        self.entries[hole] = FREE;
    }

    /// Where the number is, or where it would be stored.
    fn position(&self, request: u64) -> usize {
        let mut position = request as usize & self.mask;
        while self.entries[position].0 != request && self.entries[position].0 != 0 {
            position = (position + 1) & self.mask;
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_like_a_map(steps in prop::collection::vec((any::<bool>(), 1u64..40), 1..400)) {
            let mut table = Pending::new(8);
            let mut model = HashMap::new();
            for (insert, request) in steps {
                if insert && model.len() < 8 && !model.contains_key(&request) {
                    let key = BatchKey(request as u32);
                    table.insert(request, key);
                    model.insert(request, key);
                } else if model.remove(&request).is_some() {
                    table.remove(request);
                }
                prop_assert_eq!(table.len(), model.len());
                for request in 0..60 {
                    prop_assert_eq!(table.find(request), model.get(&request).copied());
                }
            }
        }
    }
}
