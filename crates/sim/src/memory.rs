//! Memory of batches and the write that reads it.
//!
//! Role: the simulated kernel. A write reads the memory of its frames as late as it may: when it completes. Memory
//! that was given back in between is poisoned by then, so a batch that is freed too early arrives corrupted.
//! Does not: decide when memory is free; the client under test does.
//! Invariants: a slot holds one batch or none; a frame is finished when its last byte was taken.

use ringmain_proto::{BatchKey, Frame};
use ringmain_wire::header::HEADER_BYTES;
use std::collections::VecDeque;

/// Bytes of a slot. Batches of the simulated applications are small: what they hold is of no concern.
pub(crate) const SLOT_BYTES: usize = 1024;

/// What freed memory is filled with.
const POISON: u8 = 0xdd;

/// A slot of batch memory.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) body_bytes: usize,
    /// The batch in it; `None` when it is free.
    pub(crate) batch: Option<u32>,
}

/// The batch memory of a client, indexed by batch key.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let empty = || Slot {
            bytes: vec![POISON; SLOT_BYTES],
            body_bytes: 0,
            batch: None,
        };
        Self {
            slots: (0..count).map(|_| empty()).collect(),
            free: (0..count).rev().collect(),
        }
    }

    /// A free key, `None` when all are in use. The slot is taken with [`Slots::fill`].
    pub(crate) fn free_key(&self) -> Option<BatchKey> {
        self.free.last().map(|&key| BatchKey(key))
    }

    /// The memory of a free slot, to be written before it is filled.
    pub(crate) fn memory(&mut self, key: BatchKey) -> &mut [u8] {
        &mut self.slots[key.0 as usize].bytes
    }

    /// Takes the slot of [`Slots::free_key`] for a batch.
    pub(crate) fn fill(&mut self, key: BatchKey, batch: u32, body_bytes: usize) {
        let taken = self.free.pop();
        assert_eq!(taken, Some(key.0), "the slot that was offered is taken");
        let slot = &mut self.slots[key.0 as usize];
        slot.batch = Some(batch);
        slot.body_bytes = body_bytes;
    }

    /// Gives a slot back; returns its batch, `None` when it was free already.
    pub(crate) fn release(&mut self, key: BatchKey) -> Option<u32> {
        let slot = self.slots.get_mut(key.0 as usize)?;
        let batch = slot.batch.take()?;
        slot.bytes.fill(POISON);
        self.free.push(key.0);
        Some(batch)
    }

    /// The batch of a key.
    pub(crate) fn batch(&self, key: BatchKey) -> Option<u32> {
        self.slots.get(key.0 as usize)?.batch
    }

    /// Bytes of the body of a key.
    pub(crate) fn body_bytes(&self, key: BatchKey) -> usize {
        self.slots[key.0 as usize].body_bytes
    }

    /// Whether every slot is free.
    pub(crate) fn all_free(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

/// The body of a frame.
#[derive(Debug)]
pub(crate) enum Body {
    /// The slot of a batch, read when the write completes.
    Slot(BatchKey),
    /// Bytes of the driver's own.
    Owned(Vec<u8>),
}

/// A frame in a write.
#[derive(Debug)]
pub(crate) struct FrameOut {
    pub(crate) frame: Frame,
    pub(crate) header: [u8; HEADER_BYTES],
    pub(crate) body: Body,
    pub(crate) body_bytes: usize,
}

/// A vectored write in flight.
#[derive(Debug, Default)]
pub(crate) struct Write {
    frames: VecDeque<FrameOut>,
    /// Bytes of the first frame that were taken already.
    taken: usize,
}

impl Write {
    /// Adds a frame behind the others.
    pub(crate) fn push(&mut self, frame: FrameOut) {
        self.frames.push_back(frame);
    }

    /// Whether nothing is left to take.
    pub(crate) fn is_done(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes that were not taken yet.
    pub(crate) fn bytes_left(&self) -> usize {
        self.frames
            .iter()
            .map(|frame| HEADER_BYTES + frame.body_bytes)
            .sum::<usize>()
            - self.taken
    }

    /// The frames it holds.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame> {
        self.frames.iter().map(|frame| frame.frame)
    }

    /// The next `count` bytes as they are in memory now, without taking them.
    pub(crate) fn peek(&self, slots: &Slots, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count);
        let mut start = self.taken;
        for frame in &self.frames {
            let end = (HEADER_BYTES + frame.body_bytes).min(start + count - bytes.len());
            copy_range(frame, slots, start..end, &mut bytes);
            if bytes.len() == count {
                break;
            }
            start = 0;
        }
        bytes
    }

    /// Takes `count` bytes as they are in memory now. Returns them and the frames whose last byte was taken.
    pub(crate) fn take(&mut self, slots: &Slots, mut count: usize) -> (Vec<u8>, Vec<Frame>) {
        let mut bytes = Vec::with_capacity(count);
        let mut finished = Vec::new();
        while count > 0 {
            let Some(front) = self.frames.front() else {
                break;
            };
            let total = HEADER_BYTES + front.body_bytes;
            let end = total.min(self.taken + count);
            copy_range(front, slots, self.taken..end, &mut bytes);
            count -= end - self.taken;
            self.taken = end;
            if end == total {
                finished.push(front.frame);
                self.frames.pop_front();
                self.taken = 0;
            }
        }
        (bytes, finished)
    }
}

/// Copies a range of a frame, header first.
fn copy_range(frame: &FrameOut, slots: &Slots, range: std::ops::Range<usize>, bytes: &mut Vec<u8>) {
    let header = range.start.min(HEADER_BYTES)..range.end.min(HEADER_BYTES);
    bytes.extend_from_slice(&frame.header[header]);
    let body = range.start.saturating_sub(HEADER_BYTES)..range.end.saturating_sub(HEADER_BYTES);
    match &frame.body {
        Body::Slot(key) => bytes.extend_from_slice(&slots.slots[key.0 as usize].bytes[body]),
        Body::Owned(owned) => bytes.extend_from_slice(&owned[body]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write() -> (Slots, Write) {
        let mut slots = Slots::new(2);
        let key = slots.free_key().expect("a new client has free slots");
        slots.memory(key)[..3].copy_from_slice(b"abc");
        slots.fill(key, 9, 3);
        let mut write = Write::default();
        write.push(FrameOut {
            frame: Frame::Batch(key),
            header: [1; HEADER_BYTES],
            body: Body::Slot(key),
            body_bytes: 3,
        });
        let body = Body::Owned(b"xy".to_vec());
        write.push(FrameOut {
            frame: Frame::Ping,
            header: [2; HEADER_BYTES],
            body,
            body_bytes: 2,
        });
        (slots, write)
    }

    #[test]
    fn a_write_cut_anywhere_yields_the_same_bytes_and_frames() {
        let (slots, mut whole) = write();
        let count = whole.bytes_left();
        let (expected, frames) = whole.take(&slots, count);
        assert_eq!(expected.len(), 2 * HEADER_BYTES + 5);
        for step in 1..=expected.len() {
            let (slots, mut write) = write();
            let (mut bytes, mut finished) = (Vec::new(), Vec::new());
            while !write.is_done() {
                let before = write.bytes_left();
                let peeked = write.peek(&slots, step.min(before));
                let (some, done) = write.take(&slots, step);
                assert_eq!(peeked, some);
                assert_eq!(before - write.bytes_left(), some.len());
                bytes.extend(some);
                finished.extend(done);
            }
            assert_eq!((bytes, finished), (expected.clone(), frames.clone()));
        }
    }

    #[test]
    fn memory_that_is_given_back_early_arrives_poisoned() {
        let (mut slots, mut write) = write();
        let key = BatchKey(0);
        assert_eq!(slots.batch(key), Some(9));
        assert_eq!(slots.release(key), Some(9));
        let (bytes, _) = write.take(&slots, HEADER_BYTES + 3);
        assert_eq!(bytes[HEADER_BYTES..], [POISON; 3]);
        assert_eq!(slots.release(key), None);
        assert!(slots.all_free());
    }
}
