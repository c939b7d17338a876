//! Cuts a connection's bytes into frames without copying large ones.
//!
//! ```text
//!            connection buffer (4 KiB idle, 64 KiB busy)         frame buffer (one, while a large frame arrives)
//!   socket -> [ frame | frame | frame | first part of a large ] -> [ first part | the rest, read in place     ]
//!                 borrowed by the core                                 given to the core, kept by the log
//! ```
//!
//! Memory follows the bytes that arrived, never the length a peer announced: a frame buffer starts
//! at 256 KiB, or at the size of the frame before, and doubles as it fills. It has a little room
//! behind the frame for the beginning of the next, so that of a run of large frames next to nothing
//! is copied and each is one read. In sink mode the rest of a large frame is read over and over
//! into the connection buffer.

use ringmain_wire::header::HEADER_BYTES;

use crate::frame::Frame;

/// Connection buffer of a quiet connection.
const BUFFER_BYTES_IDLE: usize = 4 << 10;

/// Connection buffer of a busy connection. Frames up to this size are handled where they were read.
const BUFFER_BYTES_BUSY: usize = 64 << 10;

/// Connection buffer of a busy connection in sink mode, where it is all the memory there is.
const BUFFER_BYTES_SINK: usize = 1 << 20;

/// First size of a frame buffer.
const FRAME_BUFFER_BYTES: usize = 256 << 10;

/// Bytes of a frame that sink mode looks at: the header and the longest metadata of a
/// `SendMessages`.
pub(crate) const SINK_HEAD_BYTES: usize = HEADER_BYTES + 1024;

/// What is read behind a large frame to see what follows: a header and a bit.
const LOOK_AHEAD_BYTES: usize = 1 << 10;

/// Small reads in a row after which a busy connection is quiet again.
const QUIET_READS: u32 = 16;

const _: () = {
    assert!(
        BUFFER_BYTES_IDLE >= SINK_HEAD_BYTES,
        "a head fits the smallest buffer"
    );
    assert!(BUFFER_BYTES_IDLE < BUFFER_BYTES_BUSY);
};

/// The size field broke the framing: close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FramingLost;

/// Reads the size field: the only check that decides where the next frame begins.
fn frame_size(header: &[u8], size_max: usize) -> Result<usize, FramingLost> {
    let mut size = [0; 4];
    size.copy_from_slice(&header[48..52]);
    let size = u32::from_le_bytes(size) as usize;
    if (HEADER_BYTES..=size_max).contains(&size) {
        Ok(size)
    } else {
        Err(FramingLost)
    }
}

/// A large frame that is arriving.
#[derive(Debug)]
struct Partial {
    /// Bytes so far; empty while a read owns it.
    buffer: Vec<u8>,
    size: usize,
}

/// Where the next read goes: `buffer[from..from + room]`.
#[derive(Debug)]
pub(crate) struct ReadTarget {
    pub(crate) buffer: Vec<u8>,
    pub(crate) from: usize,
    pub(crate) room: usize,
}

/// The frame cutter of one connection.
#[derive(Debug)]
pub(crate) struct Assembler {
    buffer: Vec<u8>,
    /// First byte of `buffer` that is not consumed.
    consumed: usize,
    /// `Some` exactly while a large frame arrives; nothing of `buffer` is unconsumed then.
    partial: Option<Partial>,
    /// Bytes of the current frame that sink mode still throws away.
    skip: usize,
    /// Sink mode: the head of the frame whose rest is being thrown away. Handed out behind the last
    /// byte of it, as a whole frame would be: an answer any earlier would leave that byte without
    /// the acknowledgement that rides on the answer, and a sender of zero-copy writes waiting for
    /// the peer's delayed one.
    head: Vec<u8>,
    head_due: bool,
    sink: bool,
    size_max: usize,
    quiet_reads: u32,
    busy: bool,
    /// Size of the large frame before, 0 when the frame before was not large.
    run_of: usize,
}

impl Assembler {
    /// `size_max` is the largest frame; `sink` throws bodies away.
    pub(crate) fn new(size_max: usize, sink: bool) -> Self {
        Self {
            buffer: Vec::new(),
            consumed: 0,
            partial: None,
            skip: 0,
            head: Vec::new(),
            head_due: false,
            sink,
            size_max,
            quiet_reads: 0,
            busy: false,
            run_of: 0,
        }
    }

    /// Memory that a partial frame holds.
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial
            .as_ref()
            .map_or(0, |partial| partial.buffer.capacity())
    }

    /// Hands out the memory for the next read. Give it back with [`Assembler::filled`].
    pub(crate) fn read_target(&mut self) -> ReadTarget {
        if let Some(partial) = &mut self.partial {
            let mut buffer = std::mem::take(&mut partial.buffer);
            let from = buffer.len();
            let end = partial.size + LOOK_AHEAD_BYTES;
            if from == buffer.capacity() {
                buffer.reserve_exact(from.min(end - from));
            }
            let room = buffer.capacity().min(end) - from;
            return ReadTarget { buffer, from, room };
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.drain(..self.consumed);
        self.consumed = 0;
        let wanted = self.buffer_bytes();
        if buffer.capacity() < wanted {
            buffer.reserve_exact(wanted - buffer.len());
        } else if buffer.capacity() > wanted && buffer.len() <= wanted {
            buffer.shrink_to(wanted);
        }
        let from = buffer.len();
        let most = if self.run_of > 0 {
            LOOK_AHEAD_BYTES
        } else {
            usize::MAX
        };
        let room = (buffer.capacity() - from).min(most);
        ReadTarget { buffer, from, room }
    }

    /// Takes the memory back after a read of `bytes` bytes.
    pub(crate) fn filled(&mut self, buffer: Vec<u8>, bytes: usize) {
        if let Some(partial) = &mut self.partial {
            partial.buffer = buffer;
            if partial.buffer.len() > partial.size {
                self.buffer.drain(..self.consumed);
                self.consumed = 0;
                self.buffer
                    .extend_from_slice(&partial.buffer[partial.size..]);
                partial.buffer.truncate(partial.size);
            }
            return;
        }
        let filled_up = buffer.len() == buffer.capacity() && self.run_of == 0;
        self.buffer = buffer;
        if filled_up {
            self.busy = true;
            self.quiet_reads = 0;
        } else if bytes < BUFFER_BYTES_IDLE {
            self.quiet_reads += 1;
            if self.quiet_reads >= QUIET_READS {
                self.busy = false;
            }
        }
    }

    /// The next frame, `None` when more bytes are needed. `allocate` is asked for memory of at
    /// least so many bytes when a large frame begins.
    pub(crate) fn next_frame(
        &mut self,
        allocate: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Option<Frame<'_>>, FramingLost> {
        if let Some(partial) = &self.partial {
            if partial.buffer.len() < partial.size {
                return Ok(None);
            }
            return Ok(self.partial.take().map(|partial| {
                self.run_of = partial.size;
                Frame::Owned(partial.buffer)
            }));
        }
        if self.skip > 0 {
            let skipped = self.skip.min(self.buffer.len() - self.consumed);
            self.skip -= skipped;
            self.consumed += skipped;
            if self.skip > 0 {
                return Ok(None);
            }
        }
        if std::mem::take(&mut self.head_due) {
            return Ok(Some(Frame::Head(&self.head)));
        }
        let available = self.buffer.len() - self.consumed;
        if available < HEADER_BYTES {
            return Ok(None);
        }
        let size = frame_size(&self.buffer[self.consumed..], self.size_max)?;
        if self.sink {
            return Ok(self.next_head(size, available));
        }
        if available >= size {
            let start = self.consumed;
            self.consumed += size;
            self.run_of = 0;
            return Ok(Some(Frame::Borrowed(&self.buffer[start..start + size])));
        }
        if size > BUFFER_BYTES_BUSY {
            let first = FRAME_BUFFER_BYTES.max(self.run_of).max(available);
            let mut buffer = allocate(size.min(first) + LOOK_AHEAD_BYTES);
            buffer.extend_from_slice(&self.buffer[self.consumed..]);
            self.consumed = self.buffer.len();
            self.partial = Some(Partial { buffer, size });
        } else if size > self.buffer.capacity() || self.run_of > 0 {
            self.run_of = 0;
            self.busy = true;
            self.quiet_reads = 0;
        }
        Ok(None)
    }

    fn next_head(&mut self, size: usize, available: usize) -> Option<Frame<'_>> {
        let head = size.min(SINK_HEAD_BYTES);
        if available < head {
            return None;
        }
        let start = self.consumed;
        if available >= size {
            self.consumed += size;
            return Some(Frame::Head(&self.buffer[start..start + head]));
        }
        self.head.clear();
        self.head
            .extend_from_slice(&self.buffer[start..start + head]);
        self.head_due = true;
        self.consumed += available;
        self.skip = size - available;
        None
    }

    fn buffer_bytes(&self) -> usize {
        match (self.busy, self.sink) {
            (false, _) => BUFFER_BYTES_IDLE,
            (true, false) => BUFFER_BYTES_BUSY,
            (true, true) => BUFFER_BYTES_SINK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(size: usize, fill: u8) -> Vec<u8> {
        let mut frame = vec![fill; size];
        frame[48..52].copy_from_slice(&(size as u32).to_le_bytes());
        frame
    }

    /// Feeds `bytes` in reads of at most `step` bytes and collects what comes out.
    fn feed(assembler: &mut Assembler, mut bytes: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let mut target = assembler.read_target();
            assert!(target.room > 0, "a read always has room");
            let taken = step.min(target.room).min(bytes.len());
            assert_eq!(target.buffer.len(), target.from);
            target.buffer.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            assembler.filled(target.buffer, taken);
            while let Some(frame) = assembler
                .next_frame(Vec::with_capacity)
                .expect("the sizes are legal")
            {
                frames.push(match frame {
                    Frame::Borrowed(bytes) | Frame::Head(bytes) => bytes.to_vec(),
                    Frame::Owned(bytes) => bytes,
                });
            }
        }
        frames
    }

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let sizes = [256, 300, 5000, 70_000, 256, 65_536, 65_537, 600_000, 257];
        let frames: Vec<_> = sizes
            .iter()
            .zip(1..)
            .map(|(size, fill)| frame(*size, fill))
            .collect();
        let stream = frames.concat();
        for step in [1, 7, 255, 256, 4096, 65_536, stream.len()] {
            let mut assembler = Assembler::new(1 << 20, false);
            assert!(
                feed(&mut assembler, &stream, step) == frames,
                "reads of {step} bytes"
            );
            assert_eq!(assembler.partial_bytes(), 0);
        }
    }

    #[test]
    fn a_sink_sees_heads_and_keeps_no_body() {
        let sizes = [256, 300, 70_000, 600_000, 2000];
        let frames: Vec<_> = sizes
            .iter()
            .zip(1..)
            .map(|(size, fill)| frame(*size, fill))
            .collect();
        let heads: Vec<_> = frames
            .iter()
            .map(|frame| frame[..frame.len().min(SINK_HEAD_BYTES)].to_vec())
            .collect();
        for step in [1, 1000, 65_536] {
            let mut assembler = Assembler::new(1 << 20, true);
            assert!(
                feed(&mut assembler, &frames.concat(), step) == heads,
                "reads of {step} bytes"
            );
        }
    }

    #[test]
    fn a_frame_comes_out_of_a_sink_with_its_last_byte() {
        let mut assembler = Assembler::new(1 << 20, true);
        let large = frame(70_000, 1);
        assert!(feed(&mut assembler, &large[..69_999], 4096).is_empty());
        assert_eq!(feed(&mut assembler, &large[69_999..], 4096).len(), 1);
        assert!(feed(&mut assembler, &large[..69_999], 4096).is_empty());
        let rest = [&large[69_999..], &frame(256, 2)].concat();
        assert_eq!(feed(&mut assembler, &rest, 4096).len(), 2);
    }

    #[test]
    fn an_announced_length_costs_no_memory_until_bytes_arrive() {
        let mut assembler = Assembler::new(64 << 20, false);
        let mut header = frame(256, 0);
        header[48..52].copy_from_slice(&(64_u32 << 20).to_le_bytes());
        assert!(feed(&mut assembler, &header, 256).is_empty());
        assert_eq!(
            assembler.partial_bytes(),
            FRAME_BUFFER_BYTES + LOOK_AHEAD_BYTES
        );
    }

    #[test]
    fn a_size_below_a_header_or_above_the_limit_loses_the_framing() {
        for size in [0_u32, 100, 255, (1 << 20) + 1, u32::MAX] {
            let mut assembler = Assembler::new(1 << 20, false);
            let mut target = assembler.read_target();
            target.buffer.extend_from_slice(&frame(256, 0));
            target.buffer[48..52].copy_from_slice(&size.to_le_bytes());
            assembler.filled(target.buffer, 256);
            assert_eq!(
                assembler.next_frame(Vec::with_capacity).err(),
                Some(FramingLost),
                "size {size}"
            );
        }
    }

    #[test]
    fn a_busy_connection_that_falls_quiet_gives_its_buffer_back() {
        let mut assembler = Assembler::new(1 << 20, false);
        feed(&mut assembler, &frame(256, 0).repeat(600), 65_536);
        assert!(assembler.buffer.capacity() >= BUFFER_BYTES_BUSY);
        for _ in 0..=QUIET_READS {
            feed(&mut assembler, &frame(256, 0), 256);
        }
        assert!(assembler.buffer.capacity() < 2 * BUFFER_BYTES_IDLE);
    }
}
