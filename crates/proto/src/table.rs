//! Tables indexed by the driver's dense keys: fixed length, allocated once.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

use crate::key::Key;

/// One `T` for each key below a fixed length.
#[derive(Debug)]
pub(crate) struct Table<K, T> {
    entries: Vec<T>,
    keys: PhantomData<K>,
}

impl<K: Key, T: Clone> Table<K, T> {
    /// A table of `len` entries, each a copy of `entry`.
    pub(crate) fn new(entry: T, len: u32) -> Self {
        Self {
            entries: vec![entry; len as usize],
            keys: PhantomData,
        }
    }

    /// Bytes of a table of `len` entries.
    pub(crate) const fn bytes(len: u32) -> usize {
        len as usize * size_of::<T>()
    }

    /// The entry of a key, `None` when the key is out of range.
    pub(crate) fn get(&self, key: K) -> Option<&T> {
        self.entries.get(key.index())
    }

    /// Every key, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> + use<K, T> {
        (0..self.entries.len() as u32).map(K::at)
    }
}

impl<K: Key, T> Index<K> for Table<K, T> {
    type Output = T;

    fn index(&self, key: K) -> &T {
        &self.entries[key.index()]
    }
}

impl<K: Key, T> IndexMut<K> for Table<K, T> {
    fn index_mut(&mut self, key: K) -> &mut T {
        &mut self.entries[key.index()]
    }
}
