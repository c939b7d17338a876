//! A block lent to safe code, as a driver lends it to the kernel: for drivers without one.

use std::ops::Range;
use std::sync::Arc;

use super::{Mapping, SlotToken};

/// A range of a block, lent for as long as this lives. Its token can neither be changed nor
/// released meanwhile.
pub struct Lent {
    mapping: Arc<Mapping>,
    block: u32,
    offset: usize,
    len: usize,
}

impl SlotToken {
    /// Lends `range` of the block.
    ///
    /// Panics when the range is outside the block, or the arena does not check lending
    /// ([`DriverMemory::into_checked_arena`](super::DriverMemory::into_checked_arena)).
    pub fn lend(&self, range: Range<usize>) -> Lent {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "a range within the block"
        );
        let mapping = self.mapping();
        assert!(
            mapping.is_checked(),
            "safe code reads lent blocks only where every change of them is checked"
        );
        mapping.lend_begin(self.block());
        Lent {
            mapping: Arc::clone(mapping),
            block: self.block(),
            offset: self.offset() + range.start,
            len: range.len(),
        }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        let base = self.mapping.address(self.offset, self.len);
        // SAFETY: the range lies inside the mapping (asserted by `address`), which `self.mapping`
        // keeps alive, and is initialised (zero pages). Until `lend_end` in the drop, no later than
        // which this borrow ends, the count of the block is above zero, and then
        // `SlotToken::as_mut` of its one token panics in every build, because the mapping is
        // checked (asserted by `lend`). A `&mut` from before cannot be alive: `lend` borrowed the
        // token. So nobody writes while this is read.
        unsafe { std::slice::from_raw_parts(base.as_ptr(), self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.mapping.lend_end(self.block);
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent")
            .field("block", &self.block)
            .field("bytes", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arena, ArenaConfig, DriverMemory};
    use super::*;

    fn arena() -> Arc<Arena> {
        let config = ArenaConfig {
            slot_bytes: 4096,
            slots: 2,
            headers: 1,
            recv_buffer_bytes: 4096,
            recv_buffers: 1,
            huge_pages: false,
        };
        DriverMemory::new(&config).unwrap().into_checked_arena()
    }

    #[test]
    fn a_lent_range_is_read_and_comes_back_with_the_last_guard() {
        let arena = arena();
        let mut token = arena.slots().acquire().unwrap();
        token.as_mut()[10..14].copy_from_slice(b"abcd");
        let (one, other) = (token.lend(11..14), token.lend(10..10));
        assert_eq!((one.as_ref(), other.as_ref()), (&b"bcd"[..], &b""[..]));
        drop(one);
        assert!(token.is_lent());
        drop(other);
        assert!(!token.is_lent());
        token.as_mut().fill(0);
        arena.slots().release(token);
        arena.slots().assert_all_free();
    }

    #[test]
    #[should_panic(expected = "changed while the kernel may read it")]
    fn a_lent_block_cannot_be_changed() {
        let mut token = arena().slots().acquire().unwrap();
        let _lent = token.lend(0..1);
        token.as_mut();
    }

    #[test]
    #[should_panic(expected = "only after the kernel is done")]
    fn a_lent_block_cannot_be_given_back() {
        let arena = arena();
        let token = arena.slots().acquire().unwrap();
        let _lent = token.lend(0..1);
        arena.slots().release(token);
    }

    #[test]
    #[should_panic(expected = "only where every change of them is checked")]
    fn an_arena_of_the_kernel_lends_nothing_to_safe_code() {
        let memory = DriverMemory::new(&ArenaConfig::default()).unwrap();
        drop(memory.arena().slots().acquire().unwrap().lend(0..1));
    }
}
