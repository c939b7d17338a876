//! Builds a `SendMessages` body in the memory where it will be sent from.
//!
//! Does not know where the memory comes from, allocates nothing, reads no clock and makes no ids.
//!
//! Invariants: `batch_at + BATCH_HEADER_BYTES <= end <= limit <= buffer length`; the bytes from the end of the batch
//! header to `end` are complete messages with their checksums; the prefix's count, the batch header's fields and the
//! batch checksum are written by [`BatchWriter::seal`] alone. A refused append changes nothing.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use super::copy::copy;
use super::layout::{
    BATCH_HEADER_BYTES, BatchHeader, MESSAGE_CHECKSUM_COVERS_FROM, MESSAGE_HEADER_BYTES,
    MessageHeader, PAYLOAD_BYTES_MAX, TIMESTAMP_SPAN_US_MAX, batch_checksum,
};
use super::reader::checksums;
use super::target::{COUNT_BYTES, SendTarget};
use crate::hash;
use crate::header::BODY_BYTES_MAX;
use crate::user_headers::UserHeaders;

/// One record to send, by reference.
#[derive(Debug, Clone, Copy)]
pub struct RecordParts<'a> {
    /// The message's id. Unique ids come from [`MessageIdGenerator`](crate::MessageIdGenerator).
    pub id: u128,
    /// When the record happened, microseconds since the Unix epoch.
    pub timestamp_us: u64,
    /// 0 to 64,000,000 bytes.
    pub payload: &'a [u8],
    /// [`UserHeaders::EMPTY`] for none.
    pub user_headers: UserHeaders<'a>,
}

impl RecordParts<'_> {
    /// Bytes that the record takes in a batch: to be compared with [`BatchWriter::room_bytes`].
    #[must_use]
    pub const fn frame_bytes(&self) -> usize {
        MESSAGE_HEADER_BYTES + self.payload.len() + self.user_headers.as_bytes().len()
    }
}

/// Why a batch did not take a record. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The record does not fit. Seal this batch and append to a fresh one; if this one is empty, the record fits no
    /// batch in a buffer of this size.
    #[error("the record takes {needed_bytes} bytes, the batch has room for {room_bytes}")]
    Full {
        /// The record's [`RecordParts::frame_bytes`].
        needed_bytes: usize,
        /// The batch's [`BatchWriter::room_bytes`].
        room_bytes: usize,
    },
    /// The record is earlier than the first one. Seal this batch and append to a fresh one, or call
    /// [`BatchWriter::rebase`] and append again.
    #[error("the record's time {found_us} us is before the batch's origin {origin_us} us")]
    BeforeOrigin {
        /// The batch's origin.
        origin_us: u64,
        /// The record's time.
        found_us: u64,
    },
    /// The record is more than 71.58 minutes after the batch's origin. Seal this batch and append to a fresh one.
    #[error(
        "the record's time {found_us} us is over {TIMESTAMP_SPAN_US_MAX} us after the batch's origin {origin_us} us"
    )]
    SpanExceeded {
        /// The batch's origin.
        origin_us: u64,
        /// The record's time.
        found_us: u64,
    },
    /// The caller's payload is larger than the server takes. No batch will take it.
    #[error("the payload has {found_bytes} bytes, the server takes {PAYLOAD_BYTES_MAX}")]
    PayloadTooLarge {
        /// The payload's length.
        found_bytes: usize,
    },
}

/// A buffer that cannot hold a send with even one empty message. The buffer comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a send needs at least {needed_bytes} bytes here, the buffer has {found_bytes}")]
pub struct BufferTooSmall<B> {
    /// The caller's buffer.
    pub buf: B,
    /// Bytes for the prefix, the batch header and one message header.
    pub needed_bytes: usize,
    /// Bytes of the buffer.
    pub found_bytes: usize,
}

/// The time window and count of a batch that is being filled.
///
/// Invariant: `origin_us <= latest_us <= origin_us + TIMESTAMP_SPAN_US_MAX` while `count > 0`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) count: u32,
    pub(super) origin_us: u64,
    latest_us: u64,
}

impl Tally {
    /// Decides whether a record may join; returns its `timestamp_delta`.
    #[inline]
    pub(super) fn admit(&self, record: &RecordParts<'_>) -> Result<u32, AppendError> {
        if record.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(AppendError::PayloadTooLarge {
                found_bytes: record.payload.len(),
            });
        }
        let found_us = record.timestamp_us;
        let origin_us = if self.count == 0 {
            found_us
        } else {
            self.origin_us
        };
        let Some(delta_us) = found_us.checked_sub(origin_us) else {
            return Err(AppendError::BeforeOrigin {
                origin_us,
                found_us,
            });
        };
        // Exactly `TIMESTAMP_SPAN_US_MAX` fits a u32.
        u32::try_from(delta_us).map_err(|_| AppendError::SpanExceeded {
            origin_us,
            found_us,
        })
    }

    /// Counts a record that joined.
    #[inline]
    pub(super) fn add(&mut self, timestamp_us: u64) {
        if self.count == 0 {
            self.origin_us = timestamp_us;
        }
        self.latest_us = self.latest_us.max(timestamp_us);
        // Cannot wrap: 64 MiB hold fewer than 2^32 message headers.
        self.count += 1;
    }

    /// The header of the finished batch.
    ///
    /// # Panics
    ///
    /// When the batch is empty.
    pub(super) fn batch_header(
        &self,
        batch_length: u64,
        checksums: impl Iterator<Item = U64>,
    ) -> BatchHeader {
        assert!(self.count > 0, "an empty batch must not be sent");
        let mut header = BatchHeader::unstored(self.origin_us, batch_length, self.count);
        header.batch_checksum = U64::new(batch_checksum(&header, checksums));
        header
    }
}

/// A `SendMessages` body under construction in a buffer that it owns.
///
/// The buffer's length is the batch's capacity; whatever was in it is overwritten.
#[derive(Debug)]
pub struct BatchWriter<B> {
    buf: B,
    batch_at: usize,
    end: usize,
    limit: usize,
    tally: Tally,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> BatchWriter<B> {
    /// Starts an empty batch for `target` in `buf`.
    ///
    /// # Errors
    ///
    /// The caller's buffer is smaller than a send of one empty message; it is handed back.
    pub fn new(buf: B, target: &SendTarget<'_>) -> Result<Self, BufferTooSmall<B>> {
        let (buf, batch_at) = start_body(buf, target)?;
        let limit = buf.as_ref().len().min(BODY_BYTES_MAX);
        Ok(Self {
            buf,
            batch_at,
            end: batch_at + BATCH_HEADER_BYTES,
            limit,
            tally: Tally::default(),
        })
    }

    /// Copies a record to the end of the batch and hashes it.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]; the batch is as before.
    #[inline]
    pub fn append(&mut self, record: &RecordParts<'_>) -> Result<(), AppendError> {
        let timestamp_delta = self.tally.admit(record)?;
        let (needed_bytes, room_bytes) = (record.frame_bytes(), self.room_bytes());
        if needed_bytes > room_bytes {
            return Err(AppendError::Full {
                needed_bytes,
                room_bytes,
            });
        }
        let end = self.end + needed_bytes;
        let frame = &mut self.buf.as_mut()[self.end..end];
        write_frame(frame, self.tally.count, timestamp_delta, record);
        self.end = end;
        self.tally.add(record.timestamp_us);
        Ok(())
    }

    /// Moves the batch's origin back to `origin_us`, so that a record of that time can follow.
    ///
    /// Every message's time counts from the origin and is part of its checksum, so this hashes the whole batch
    /// again. It pays when a late record is rare or the batch is small, compared with an early seal.
    ///
    /// # Errors
    ///
    /// [`AppendError::SpanExceeded`] when the latest message would then be over 71.58 minutes after the origin; the
    /// batch is as before.
    pub fn rebase(&mut self, origin_us: u64) -> Result<(), AppendError> {
        let tally = &mut self.tally;
        if tally.count == 0 || origin_us >= tally.origin_us {
            return Ok(());
        }
        if tally.latest_us - origin_us > TIMESTAMP_SPAN_US_MAX {
            return Err(AppendError::SpanExceeded {
                origin_us,
                found_us: tally.latest_us,
            });
        }
        let shift_us = (tally.origin_us - origin_us) as u32;
        tally.origin_us = origin_us;
        let mut rest = &mut self.buf.as_mut()[self.batch_at + BATCH_HEADER_BYTES..self.end];
        while let Ok((header, _)) = MessageHeader::mut_from_prefix(rest) {
            header.timestamp_delta += shift_us;
            let frame_bytes = header.frame_bytes();
            let (frame, behind) = rest.split_at_mut(frame_bytes);
            seal_frame(frame);
            rest = behind;
        }
        Ok(())
    }

    /// Bytes left for messages: a record fits exactly when its [`RecordParts::frame_bytes`] is not larger.
    #[must_use]
    #[inline]
    pub const fn room_bytes(&self) -> usize {
        self.limit - self.end
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

    /// Bytes of the body so far: prefix, batch header and messages.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        self.end
    }

    /// The time of the earliest message, or `None` while there is none.
    #[must_use]
    pub fn origin_timestamp_us(&self) -> Option<u64> {
        (self.tally.count > 0).then_some(self.tally.origin_us)
    }

    /// Writes the batch header and the count: the body is ready to be sent.
    ///
    /// Hashes 8 bytes a message; reads no payload.
    ///
    /// # Panics
    ///
    /// When the batch is empty: the server drops such a request without an answer, so sending one is a defect of
    /// the caller.
    #[must_use]
    pub fn seal(mut self) -> Sealed<B> {
        let body = &mut self.buf.as_mut()[..self.end];
        let checksums = checksums(&body[self.batch_at + BATCH_HEADER_BYTES..]);
        let batch_length = (self.end - self.batch_at) as u64;
        let header = self.tally.batch_header(batch_length, checksums);
        write_batch_header(body, self.batch_at, &header);
        Sealed {
            buf: self.buf,
            body_len: self.end,
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

/// A complete `SendMessages` body at the start of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed<B> {
    /// The caller's buffer.
    pub buf: B,
    /// Bytes of the body at its start.
    pub body_len: usize,
    /// Messages in the batch, at least 1.
    pub messages_count: u32,
    /// The time of the earliest message, microseconds since the Unix epoch.
    pub origin_timestamp_us: u64,
}

impl<B: AsRef<[u8]>> Sealed<B> {
    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.buf.as_ref()[..self.body_len]
    }
}

/// Fills `frame`, which is exactly as long as the record needs.
#[inline]
fn write_frame(
    frame: &mut [u8],
    offset_delta: u32,
    timestamp_delta: u32,
    record: &RecordParts<'_>,
) {
    let (head, rest) = frame.split_at_mut(MESSAGE_HEADER_BYTES);
    let (payload, user_headers) = rest.split_at_mut(record.payload.len());
    write_message_header(head, offset_delta, timestamp_delta, record);
    copy(payload, record.payload);
    if !user_headers.is_empty() {
        user_headers.copy_from_slice(record.user_headers.as_bytes());
    }
    seal_frame(frame);
}

/// Fills a message's header, which is `head`, except for the checksum.
///
/// In words of 8 bytes, as the hash is about to read them: a load across two stores that are still under way waits
/// for both, which cost more than all else in an append.
#[inline]
pub(super) fn write_message_header(
    head: &mut [u8],
    offset_delta: u32,
    timestamp_delta: u32,
    record: &RecordParts<'_>,
) {
    // The lengths fit their fields: `admit` has checked the payload's, and user headers have a limit by type.
    let user_headers_length = record.user_headers.as_bytes().len() as u64;
    let payload_length = record.payload.len() as u64;
    let words = [
        record.id as u64,
        (record.id >> 64) as u64,
        u64::from(offset_delta) | u64::from(timestamp_delta) << 32,
        user_headers_length | payload_length << 32,
        0,
    ];
    let (fields, _) = head[MESSAGE_CHECKSUM_COVERS_FROM..].as_chunks_mut::<8>();
    for (field, word) in fields.iter_mut().zip(words) {
        *field = word.to_le_bytes();
    }
}

/// Writes a complete frame's checksum.
#[inline]
fn seal_frame(frame: &mut [u8]) {
    let (checksum, covered) = frame.split_at_mut(MESSAGE_CHECKSUM_COVERS_FROM);
    checksum.copy_from_slice(&hash::checksum(covered).to_le_bytes());
}

/// Writes the prefix of a body to the start of `buf`; returns where the batch starts. The buffer comes back as an
/// error when it has no room for one message behind that.
pub(super) fn start_body<B: AsRef<[u8]> + AsMut<[u8]>>(
    mut buf: B,
    target: &SendTarget<'_>,
) -> Result<(B, usize), BufferTooSmall<B>> {
    let batch_at = target.prefix_bytes();
    let needed_bytes = batch_at + BATCH_HEADER_BYTES + MESSAGE_HEADER_BYTES;
    let found_bytes = buf.as_ref().len();
    if found_bytes < needed_bytes {
        return Err(BufferTooSmall {
            buf,
            needed_bytes,
            found_bytes,
        });
    }
    target.write_prefix(&mut buf.as_mut()[..batch_at], 0);
    Ok((buf, batch_at))
}

/// Writes the count at the end of the prefix and the header of the batch behind it.
pub(super) fn write_batch_header(body: &mut [u8], batch_at: usize, header: &BatchHeader) {
    let count = &mut body[batch_at - COUNT_BYTES..batch_at];
    count.copy_from_slice(header.message_count.as_bytes());
    body[batch_at..batch_at + BATCH_HEADER_BYTES].copy_from_slice(header.as_bytes());
}
