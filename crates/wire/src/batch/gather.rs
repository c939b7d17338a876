//! Builds a `SendMessages` body whose payloads stay where they are, for a vectored write.
//!
//! ```text
//! buffer   [prefix][batch header][message header 0][user headers 0][message header 1][user headers 1]
//! pieces   <---------------- own ----------------->
//!                                payload 0
//!                                                  <------------- own -------------->
//!                                payload 1
//!                                                                                    <---- own ----->
//! ```
//!
//! The buffer holds everything but the payloads, in order; the body is the buffer with each payload put in behind its
//! message's header. For `n` messages that is at most `2 n + 1` pieces. A payload is read once, to hash it, and
//! never held: the caller keeps it unchanged until the body has been written for the last time.
//!
//! For records that are too large to copy. For small ones [`BatchWriter`](super::BatchWriter) is faster: hashing in
//! pieces and a piece of a vectored write cost more than copying some kilobytes.

use core::ops::Range;

use zerocopy::FromBytes;

use super::layout::{
    BATCH_HEADER_BYTES, MESSAGE_CHECKSUM_COVERS_FROM, MESSAGE_HEADER_BYTES, MessageHeader,
};
use super::target::SendTarget;
use super::writer::{
    AppendError, BufferTooSmall, RecordParts, Tally, start_body, write_batch_header,
    write_message_header,
};
use crate::hash::Checksum;
use crate::header::BODY_BYTES_MAX;

/// A `SendMessages` body under construction around payloads that stay where they are.
///
/// Invariants: `batch_at + BATCH_HEADER_BYTES <= end <= buffer length`; `end + payload_bytes <= BODY_BYTES_MAX`; a
/// refused append changes nothing.
#[derive(Debug)]
pub struct GatherBatch<B> {
    buf: B,
    batch_at: usize,
    end: usize,
    buf_bytes: usize,
    payload_bytes: usize,
    tally: Tally,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> GatherBatch<B> {
    /// Starts an empty batch for `target`, with `buf` for everything but the payloads.
    ///
    /// # Errors
    ///
    /// The caller's buffer is smaller than the prefix, the batch header and one message header; it is handed back.
    pub fn new(buf: B, target: &SendTarget<'_>) -> Result<Self, BufferTooSmall<B>> {
        let (buf, batch_at) = start_body(buf, target)?;
        let buf_bytes = buf.as_ref().len();
        Ok(Self {
            buf,
            batch_at,
            end: batch_at + BATCH_HEADER_BYTES,
            buf_bytes,
            payload_bytes: 0,
            tally: Tally::default(),
        })
    }

    /// Adds a record by reference: hashes its payload and copies its user headers.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]; the batch is as before. [`AppendError::Full`] counts the record without its payload when
    /// the buffer is what is full, and with it when the frame is.
    pub fn append(&mut self, record: &RecordParts<'_>) -> Result<(), AppendError> {
        let timestamp_delta = self.tally.admit(record)?;
        let user_headers = record.user_headers.as_bytes();
        let own_bytes = MESSAGE_HEADER_BYTES + user_headers.len();
        check_room(own_bytes, self.buffer_room_bytes())?;
        check_room(record.frame_bytes(), self.frame_room_bytes())?;
        let own = &mut self.buf.as_mut()[self.end..self.end + own_bytes];
        let (head, tail) = own.split_at_mut(MESSAGE_HEADER_BYTES);
        write_message_header(head, self.tally.count, timestamp_delta, record);
        tail.copy_from_slice(user_headers);
        let (stored, covered) = head.split_at_mut(MESSAGE_CHECKSUM_COVERS_FROM);
        let mut checksum = Checksum::new();
        checksum.update(covered);
        checksum.update(record.payload);
        checksum.update(user_headers);
        stored.copy_from_slice(&checksum.digest().to_le_bytes());
        self.end += own_bytes;
        self.payload_bytes += record.payload.len();
        self.tally.add(record.timestamp_us);
        Ok(())
    }

    /// Bytes left in the buffer. A record takes [`MESSAGE_HEADER_BYTES`] and its user headers.
    #[must_use]
    pub const fn buffer_room_bytes(&self) -> usize {
        self.buf_bytes.saturating_sub(self.end)
    }

    /// Bytes left in the frame. A record takes its [`RecordParts::frame_bytes`].
    #[must_use]
    pub const fn frame_room_bytes(&self) -> usize {
        BODY_BYTES_MAX - self.body_len()
    }

    /// Messages so far.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.tally.count
    }

    /// Whether there is no message yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tally.count == 0
    }

    /// Bytes of the body so far, payloads included.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        self.end + self.payload_bytes
    }

    /// Writes the batch header and the count: the body is ready to be sent.
    ///
    /// # Panics
    ///
    /// When the batch is empty, as [`BatchWriter::seal`](super::BatchWriter::seal) does.
    #[must_use]
    pub fn seal(mut self) -> SealedGather<B> {
        let body_len = self.body_len();
        let own = &mut self.buf.as_mut()[..self.end];
        let messages = &own[self.batch_at + BATCH_HEADER_BYTES..];
        let batch_length = (body_len - self.batch_at) as u64;
        let checksums = OwnWalk::new(messages).map(|(header, _)| header.checksum);
        let header = self.tally.batch_header(batch_length, checksums);
        write_batch_header(own, self.batch_at, &header);
        SealedGather {
            buf: self.buf,
            own_len: self.end,
            batch_at: self.batch_at,
            body_len,
            messages_count: self.tally.count,
            origin_timestamp_us: self.tally.origin_us,
        }
    }

    /// Gives the batch up and the buffer back.
    #[must_use]
    pub fn into_buf(self) -> B {
        self.buf
    }
}

const fn check_room(needed_bytes: usize, room_bytes: usize) -> Result<(), AppendError> {
    if needed_bytes > room_bytes {
        return Err(AppendError::Full {
            needed_bytes,
            room_bytes,
        });
    }
    Ok(())
}

/// A complete `SendMessages` body in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedGather<B> {
    /// The caller's buffer: everything but the payloads, at its start.
    pub buf: B,
    own_len: usize,
    batch_at: usize,
    /// Bytes of the body, payloads included.
    pub body_len: usize,
    /// Messages in the batch, at least 1.
    pub messages_count: u32,
    /// The time of the earliest message, microseconds since the Unix epoch.
    pub origin_timestamp_us: u64,
}

impl<B: AsRef<[u8]>> SealedGather<B> {
    /// The pieces of the body in order. None is empty; together they have `body_len` bytes.
    #[must_use]
    pub fn pieces(&self) -> GatherPieces<'_> {
        let messages_at = self.batch_at + BATCH_HEADER_BYTES;
        GatherPieces {
            walk: OwnWalk::new(&self.buf.as_ref()[messages_at..self.own_len]),
            messages_at,
            own_len: self.own_len,
            own_at: 0,
            payload: None,
            index: 0,
        }
    }
}

/// A piece of a body: a range of the buffer, or the payload of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatherPiece {
    /// These bytes of the buffer.
    Own(Range<usize>),
    /// The whole payload of the message with this index, in the order of the appends.
    Payload {
        /// Index of the message in the batch.
        index: u32,
        /// Bytes of its payload.
        bytes: u32,
    },
}

/// The pieces of a [`SealedGather`] in order.
#[derive(Debug, Clone)]
pub struct GatherPieces<'a> {
    walk: OwnWalk<'a>,
    messages_at: usize,
    own_len: usize,
    own_at: usize,
    payload: Option<GatherPiece>,
    index: u32,
}

impl Iterator for GatherPieces<'_> {
    type Item = GatherPiece;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(payload) = self.payload.take() {
            return Some(payload);
        }
        let start = self.own_at;
        // Messages without a payload do not end a piece.
        for (header, header_end) in self.walk.by_ref() {
            let index = self.index;
            self.index += 1;
            if header.payload_length() > 0 {
                let bytes = header.payload_length();
                self.payload = Some(GatherPiece::Payload { index, bytes });
                self.own_at = self.messages_at + header_end;
                return Some(GatherPiece::Own(start..self.own_at));
            }
        }
        self.own_at = self.own_len;
        (start < self.own_len).then_some(GatherPiece::Own(start..self.own_len))
    }
}

/// Steps through message headers and user headers that follow one another without payloads.
#[derive(Debug, Clone)]
struct OwnWalk<'a> {
    messages: &'a [u8],
    at: usize,
}

impl<'a> OwnWalk<'a> {
    const fn new(messages: &'a [u8]) -> Self {
        Self { messages, at: 0 }
    }
}

impl<'a> Iterator for OwnWalk<'a> {
    /// A header and where it ends.
    type Item = (&'a MessageHeader, usize);

    fn next(&mut self) -> Option<Self::Item> {
        // Fails only at the end: every header was written by `append`.
        let (header, _) = MessageHeader::ref_from_prefix(&self.messages[self.at..]).ok()?;
        let header_end = self.at + MESSAGE_HEADER_BYTES;
        self.at = header_end + header.user_headers_length() as usize;
        Some((header, header_end))
    }
}
