//! The pieces of one write and how far it has come.
//!
//! ```text
//! pieces   [  done  ][ partly done | rest ][ ... ][ ... ]
//! iovecs    0   ..  first^ moved forward           end
//! ```
//!
//! Invariants, checked after each change: `first <= iovecs <= pieces_max`; `done_bytes <= bytes`;
//! the iovecs from `first` on describe exactly the bytes that are not done, in order; none of them
//! is empty.
//!
//! It keeps alive what the kernel reads: blocks by lending, `Bytes` by holding them. Nothing is let
//! go before [`WriteQueue::clear`]. All tables have their final size from the start.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::foreign;
use crate::memory::{Mapping, SlotToken};

/// Most iovecs the kernel takes in one call (`UIO_MAXIOV`).
pub(crate) const IOVECS_MAX: usize = 1024;

/// See the module.
pub(crate) struct WriteQueue {
    /// Never grows past the capacity it starts with, so its place in memory is fixed.
    iovecs: Vec<libc::iovec>,
    pieces_max: usize,
    first: usize,
    bytes: u64,
    done_bytes: u64,
    /// Pieces outside the registered part of the arena.
    foreign_pieces: usize,
    blocks: Vec<u32>,
    held: Vec<Bytes>,
    /// The header of a `sendmsg` in flight. Here because the kernel reads it when the operation is
    /// submitted.
    message: Box<libc::msghdr>,
}

/// What goes out with one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) iovecs: *const libc::iovec,
    pub(crate) len: u32,
    pub(crate) bytes: u64,
}

impl WriteQueue {
    pub(crate) fn new(pieces_max: usize) -> Self {
        // SAFETY: `msghdr` is a plain C struct of integers and pointers; all zeroes is a valid
        // value.
        let message = Box::new(unsafe { std::mem::zeroed() });
        Self {
            iovecs: Vec::with_capacity(pieces_max),
            pieces_max,
            first: 0,
            bytes: 0,
            done_bytes: 0,
            foreign_pieces: 0,
            blocks: Vec::with_capacity(pieces_max),
            held: Vec::with_capacity(pieces_max),
            message,
        }
    }

    pub(crate) fn room_pieces(&self) -> usize {
        self.pieces_max - self.iovecs.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn done_bytes(&self) -> u64 {
        self.done_bytes
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done_bytes == self.bytes
    }

    /// True when every piece lies in the registered part of the arena.
    pub(crate) fn is_registered(&self) -> bool {
        self.foreign_pieces == 0
    }

    /// Appends a range of a block of `mapping`, of which the first `registered_bytes` are
    /// registered, and lends the block. An empty range is no piece.
    pub(crate) fn push_range(
        &mut self,
        mapping: &Arc<Mapping>,
        token: &SlotToken,
        range: Range<usize>,
        registered_bytes: usize,
    ) {
        assert!(
            Arc::ptr_eq(token.mapping(), mapping),
            "a block of this driver's arena"
        );
        assert!(
            range.start <= range.end && range.end <= token.len(),
            "a range within the block"
        );
        if range.is_empty() {
            return;
        }
        let is_registered = token.offset() + range.end <= registered_bytes;
        // SAFETY: the range is inside the block (asserted), so the start is.
        let base = unsafe { token.base().add(range.start) };
        self.push_block(mapping, token.block(), base, range.len(), is_registered);
    }

    /// Appends a range of a block and lends the block.
    pub(crate) fn push_block(
        &mut self,
        mapping: &Mapping,
        block: u32,
        base: NonNull<u8>,
        len: usize,
        registered: bool,
    ) {
        mapping.lend_begin(block);
        self.blocks.push(block);
        self.push_piece(base.as_ptr(), len, registered);
    }

    /// Appends bytes of the caller and holds them.
    pub(crate) fn push_bytes(&mut self, bytes: Bytes) {
        self.push_piece(bytes.as_ptr().cast_mut(), bytes.len(), false);
        self.held.push(bytes);
    }

    fn push_piece(&mut self, base: *mut u8, len: usize, registered: bool) {
        assert!(self.iovecs.len() < self.pieces_max, "room for the piece");
        assert!(
            len > 0 && self.first == 0 && self.done_bytes == 0,
            "pieces come before the first byte leaves"
        );
        self.iovecs.push(libc::iovec {
            iov_base: base.cast(),
            iov_len: len,
        });
        self.bytes += len as u64;
        self.foreign_pieces += usize::from(!registered);
    }

    /// The next bytes, in as many iovecs as the kernel takes. Empty when everything is done.
    pub(crate) fn window(&self) -> Window {
        let end = self.iovecs.len().min(self.first + IOVECS_MAX);
        let iovecs = &self.iovecs[self.first..end];
        Window {
            iovecs: iovecs.as_ptr(),
            len: iovecs.len() as u32,
            bytes: iovecs.iter().map(|iovec| iovec.iov_len as u64).sum(),
        }
    }

    /// The window as a message header, for `sendmsg`. Valid until the next call.
    pub(crate) fn message(&mut self, window: &Window) -> *const libc::msghdr {
        self.message.msg_iov = window.iovecs.cast_mut();
        self.message.msg_iovlen = window.len as _;
        &raw const *self.message
    }

    /// Offers the next bytes to a socket that does not block, and notes what it took: how much of
    /// how much.
    pub(crate) fn send(&mut self, socket: impl AsFd) -> rustix::io::Result<(u64, u64)> {
        let window = self.window();
        let iovecs = window.iovecs.cast::<IoSlice<'_>>();
        // SAFETY: `IoSlice` has the layout of `iovec`. The window lies in the table of this queue,
        // which nobody changes before the call below is over. Each piece is alive and unchanged
        // until `clear`: its block is lent, or its `Bytes` is held.
        let pieces = unsafe { std::slice::from_raw_parts(iovecs, window.len as usize) };
        let mut control = SendAncillaryBuffer::default();
        let taken = sendmsg(socket, pieces, &mut control, SendFlags::NOSIGNAL)? as u64;
        self.advance(taken);
        Ok((taken, window.bytes))
    }

    /// The kernel took the next `taken` bytes.
    pub(crate) fn advance(&mut self, taken: u64) {
        assert!(
            taken <= self.bytes - self.done_bytes,
            "the kernel takes no more than it was given"
        );
        self.done_bytes += taken;
        let mut left = taken as usize;
        while left > 0 {
            let iovec = &mut self.iovecs[self.first];
            if left < iovec.iov_len {
                // Not dereferenced here; stays inside the piece because `left` is less than its
                // length.
                iovec.iov_base = iovec.iov_base.cast::<u8>().wrapping_add(left).cast();
                iovec.iov_len -= left;
                break;
            }
            left -= iovec.iov_len;
            self.first += 1;
        }
        self.check_invariants();
    }

    /// Ends the loan of every block and lets go of every `Bytes`. Only when no operation of this
    /// write is in flight, notifications included.
    pub(crate) fn clear(&mut self, mapping: &Mapping) {
        for block in self.blocks.drain(..) {
            mapping.lend_end(block);
        }
        foreign::drop_each("the owner of a payload", &mut self.held);
        self.iovecs.clear();
        (self.first, self.foreign_pieces) = (0, 0);
        (self.bytes, self.done_bytes) = (0, 0);
    }

    fn check_invariants(&self) {
        assert!(self.first <= self.iovecs.len() && self.iovecs.len() <= self.pieces_max);
        assert!(self.done_bytes <= self.bytes);
        debug_assert_eq!(
            self.iovecs[self.first..]
                .iter()
                .map(|iovec| iovec.iov_len as u64)
                .sum::<u64>(),
            self.bytes - self.done_bytes
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a window as the kernel would.
    fn read_window(window: &Window) -> Vec<u8> {
        (0..window.len as usize)
            .flat_map(|index| {
                // SAFETY: the queue under test holds the pieces and the table; both outlive this
                // call.
                unsafe {
                    let iovec = *window.iovecs.add(index);
                    std::slice::from_raw_parts(iovec.iov_base.cast::<u8>(), iovec.iov_len).to_vec()
                }
            })
            .collect()
    }

    fn queue_of(pieces: &[Vec<u8>]) -> (WriteQueue, Vec<u8>) {
        let mut queue = WriteQueue::new(pieces.len().max(1));
        pieces
            .iter()
            .for_each(|piece| queue.push_bytes(Bytes::from(piece.clone())));
        (queue, pieces.concat())
    }

    #[test]
    fn a_write_cut_at_every_offset_resumes_at_that_byte() {
        let pieces: Vec<Vec<u8>> = [1usize, 7, 1, 256, 3, 64, 1]
            .iter()
            .map(|len| vec![*len as u8; *len])
            .collect();
        let total = pieces.concat().len();
        for cut in 0..=total {
            let (mut queue, all) = queue_of(&pieces);
            queue.advance(cut as u64);
            assert_eq!(read_window(&queue.window()), all[cut..], "cut at {cut}");
            assert_eq!(queue.is_done(), cut == total);
        }
    }

    proptest! {
        #[test]
        fn any_run_of_short_writes_delivers_every_byte_in_order(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..40),
            cuts in prop::collection::vec(1usize..60, 1..2_000),
        ) {
            let (mut queue, all) = queue_of(&pieces);
            let mut delivered = Vec::new();
            for cut in cuts.into_iter().chain(std::iter::repeat(usize::MAX)) {
                if queue.is_done() {
                    break;
                }
                let window = read_window(&queue.window());
                let taken = cut.min(window.len());
                delivered.extend_from_slice(&window[..taken]);
                queue.advance(taken as u64);
                prop_assert_eq!(queue.done_bytes(), delivered.len() as u64);
            }
            prop_assert_eq!(delivered, all);
        }
    }

    #[test]
    fn more_pieces_than_the_kernel_takes_go_in_several_windows() {
        let pieces: Vec<Vec<u8>> = (0..2 * IOVECS_MAX + 5)
            .map(|index| vec![index as u8; 2])
            .collect();
        let (mut queue, all) = queue_of(&pieces);
        let mut delivered = Vec::new();
        let mut windows = Vec::new();
        while !queue.is_done() {
            let window = queue.window();
            windows.push(window.len as usize);
            delivered.extend(read_window(&window));
            queue.advance(window.bytes);
        }
        assert_eq!(windows, [IOVECS_MAX, IOVECS_MAX, 5]);
        assert_eq!(delivered, all);
    }

    #[test]
    fn clearing_returns_every_loan_and_every_byte() {
        let mapping = Mapping::new(4096, 2, false).unwrap();
        let base = mapping.address(0, 4096);
        let payload = Bytes::from(vec![1; 100]);
        let mut queue = WriteQueue::new(4);
        queue.push_block(&mapping, 0, base, 10, true);
        queue.push_block(&mapping, 1, base, 10, true);
        queue.push_block(&mapping, 1, base, 10, true);
        assert!(queue.is_registered());
        queue.push_bytes(payload.clone());
        assert!(!queue.is_registered() && !payload.is_unique());
        assert_eq!(
            (mapping.lent(0), mapping.lent(1), queue.room_pieces()),
            (1, 2, 0)
        );
        queue.clear(&mapping);
        assert_eq!(
            (mapping.lent(0), mapping.lent(1), queue.room_pieces()),
            (0, 0, 4)
        );
        assert!(payload.is_unique() && queue.bytes() == 0 && queue.is_registered());
    }

    #[test]
    #[should_panic(expected = "no more than it was given")]
    fn more_taken_than_given_is_a_bug() {
        let (mut queue, _) = queue_of(&[vec![0; 3]]);
        queue.advance(4);
    }

    #[test]
    #[should_panic(expected = "room for the piece")]
    fn a_piece_beyond_the_capacity_is_a_bug() {
        let (mut queue, _) = queue_of(&[vec![0; 3]]);
        queue.push_bytes(Bytes::from_static(b"x"));
    }
}
