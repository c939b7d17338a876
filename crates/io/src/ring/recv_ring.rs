//! The ring in which receive buffers are handed to the kernel (`struct io_uring_buf_ring`, Linux
//! 5.19).
//!
//! ```text
//! entry 0: addr u64 | len u32 | id u16 | tail u16     the kernel takes entries up to `tail`
//! entry 1: addr u64 | len u32 | id u16 | -
//! ```
//!
//! Invariant: a buffer is either with the kernel (between `hand_over` and the completion that names
//! it) or with us (until the next `hand_over`). There are as many entries as buffers, so the ring
//! never overflows.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use crate::memory::Arena;

/// The buffer group of the only ring there is.
pub(crate) const RECV_GROUP: u16 = 0;

/// All receive buffers of an arena, as a provided-buffer ring.
pub(crate) struct RecvRing {
    arena: Arc<Arena>,
    entries: NonNull<BufRingEntry>,
    mask: u16,
    tail: u16,
}

impl RecvRing {
    /// Registers the ring of `arena` and hands every buffer over.
    ///
    /// # Errors
    /// The errno of the registration.
    pub(crate) fn register(submitter: &Submitter<'_>, arena: &Arc<Arena>) -> io::Result<Self> {
        let base = arena.recv_ring();
        let buffers = u16::try_from(arena.layout().recv_buffers.blocks)
            .expect("at most 32768 receive buffers");
        assert!(buffers.is_power_of_two(), "entries are found by mask");
        // SAFETY: the region holds `buffers` entries of 16 bytes on a page boundary. It stays
        // mapped until the ring is gone: the transport holds the arena and drops its ring first.
        unsafe {
            submitter.register_buf_ring_with_flags(base.as_ptr() as u64, buffers, RECV_GROUP, 0)
        }?;
        let mut ring = Self {
            arena: Arc::clone(arena),
            entries: base.cast(),
            mask: buffers - 1,
            tail: 0,
        };
        for id in 0..buffers {
            ring.place(id);
        }
        ring.publish();
        Ok(ring)
    }

    /// Gives buffer `id` back to the kernel, which may write to it from now on.
    pub(crate) fn hand_over(&mut self, id: u16) {
        self.place(id);
        self.publish();
    }

    fn place(&mut self, id: u16) {
        let region = &self.arena.layout().recv_buffers;
        assert!(u32::from(id) < region.blocks, "a buffer of this ring");
        // SAFETY: the masked index is below the number of entries, all of which lie in the region
        // that `self.arena` keeps mapped. Only this thread writes entries, and the kernel does not
        // read this one before `publish`. The setters leave `tail`, which shares the first entry,
        // alone.
        let entry = unsafe {
            self.entries
                .add(usize::from(self.tail & self.mask))
                .as_mut()
        };
        entry.set_addr(self.arena.recv_buffer(u32::from(id)).as_ptr() as u64);
        entry.set_len(region.block_bytes as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the ring's base is valid, page-aligned and initialised (zero pages), and `tail`
        // is a field of its first entry that the kernel reads and only we write.
        let tail =
            unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}
