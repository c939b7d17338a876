//! A table by number whose entries are made when they are needed, and stay where they are: reading
//! takes no lock.
//!
//! Memory follows the highest number in use: at most about twice its entries, each a pointer and a
//! mark.

use std::sync::OnceLock;

/// Entries of the first bucket; each further bucket has twice as many as the one before it.
const FIRST: u64 = 8;

/// Enough for every `u32`.
const BUCKETS: usize = 30;

/// See the module.
pub(crate) struct Growing<T> {
    buckets: [OnceLock<Box<[OnceLock<T>]>>; BUCKETS],
}

impl<T> Growing<T> {
    pub(crate) fn new() -> Self {
        Self {
            buckets: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (bucket, at) = place_of(index);
        self.buckets[bucket].get()?[at].get()
    }

    /// Sets an entry once.
    ///
    /// # Errors
    /// The value, when there is one already.
    pub(crate) fn set(&self, index: u32, value: T) -> Result<(), T> {
        let (bucket, at) = place_of(index);
        let bucket = self.buckets[bucket].get_or_init(|| {
            let len = FIRST << bucket;
            (0..len).map(|_| OnceLock::new()).collect()
        });
        bucket[at].set(value)
    }

    /// Every entry that is set, by rising number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let buckets = self.buckets.iter().filter_map(OnceLock::get);
        buckets.flat_map(|bucket| bucket.iter().filter_map(OnceLock::get))
    }
}

/// Bucket `b` holds `FIRST << b` entries, from `(FIRST << b) - FIRST` on.
fn place_of(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + FIRST;
    let bucket = shifted.ilog2() - FIRST.ilog2();
    let at = shifted - (FIRST << bucket);
    let at = usize::try_from(at).expect("below twice a u32, and pointers have 64 bits");
    (bucket as usize, at)
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, FIRST, Growing, place_of};

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(place_of(index), expected, "{index}");
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        let (bucket, at) = place_of(u32::MAX);
        assert!(bucket == BUCKETS - 1 && at < (FIRST as usize) << bucket);
    }

    #[test]
    fn entries_are_set_once_and_found() {
        let table = Growing::new();
        for index in [1_000_000, 7, 8, 0, 1999] {
            assert_eq!(table.get(index), None);
            assert_eq!(table.set(index, index), Ok(()));
            assert_eq!(table.set(index, 0), Err(0));
            assert_eq!(table.get(index), Some(&index));
        }
        assert!(table.iter().eq(&[0, 7, 8, 1999, 1_000_000]));
    }
}
