//! Builds a `SendMessages` body in the memory where it will be sent from, and around payloads that
//! stay where they are.
//!
//! Does not know where the memory comes from, allocates nothing, reads no clock and makes no ids.
//!
//! Invariants: `batch_at + BATCH_HEADER_BYTES <= end <= buffer length` and `end + referenced_bytes
//! <= BODY_BYTES_MAX`; the bytes from the end of the batch header to `end` are complete messages
//! but for the payloads by reference and, in a batch that is out of order, the checksums; the
//! prefix's count, the batch header's fields and the batch checksum are written by
//! [`BatchWriter::seal`] alone. A refused append changes nothing.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::copy::copy;
use super::layout::{
    BATCH_HEADER_BYTES, BatchHeader, MESSAGE_CHECKSUM_COVERS_FROM, MESSAGE_HEADER_BYTES,
    MessageHeader, PAYLOAD_BYTES_MAX, TIMESTAMP_SPAN_US_MAX, batch_checksum,
};
use super::reader::checksums;
use super::referenced::{Pieces, Referenced};
use super::target::{COUNT_BYTES, SendTarget};
use crate::hash::{self, Checksum};
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
    /// The record does not fit. Seal this batch and append to a fresh one; if this one is empty,
    /// the record fits no batch in a buffer of this size.
    #[error("the record takes {needed_bytes} bytes, the batch has room for {room_bytes}")]
    Full {
        /// The record's [`RecordParts::frame_bytes`].
        needed_bytes: usize,
        /// The batch's [`BatchWriter::room_bytes`].
        room_bytes: usize,
    },
    /// With the record, the batch would span more than 71.58 minutes. Seal this batch and append to
    /// a fresh one.
    #[error(
        "with the record's time {found_us} us the batch would span over {TIMESTAMP_SPAN_US_MAX} us \
         ({earliest_us} us to {latest_us} us)"
    )]
    SpanExceeded {
        /// The record's time.
        found_us: u64,
        /// The earliest time of the batch with the record.
        earliest_us: u64,
        /// The latest time of the batch with the record.
        latest_us: u64,
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

/// The times and the count of a batch that is being filled.
///
/// Invariant: `origin_us <= latest_us <= origin_us + TIMESTAMP_SPAN_US_MAX`, and `origin_us <=
/// base_us <= latest_us`, while `count > 0`.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u32,
    /// The first record's time, from which the written deltas count.
    base_us: u64,
    /// The earliest record's time, from which they have to count in the end.
    origin_us: u64,
    latest_us: u64,
}

/// How a record may join.
#[derive(Clone, Copy)]
struct Admitted {
    /// Microseconds after the first record, modulo 2^32.
    delta_us: u32,
    /// The deltas are final, and so is a checksum over them.
    in_order: bool,
}

impl Tally {
    /// Decides whether a record may join.
    #[inline]
    fn admit(&self, record: &RecordParts<'_>) -> Result<Admitted, AppendError> {
        if record.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(AppendError::PayloadTooLarge {
                found_bytes: record.payload.len(),
            });
        }
        let found_us = record.timestamp_us;
        if self.count == 0 {
            return Ok(Admitted {
                delta_us: 0,
                in_order: true,
            });
        }
        if self.origin_us == self.base_us
            && let Some(delta_us) = found_us.checked_sub(self.base_us)
            && let Ok(delta_us) = u32::try_from(delta_us)
        {
            return Ok(Admitted {
                delta_us,
                in_order: true,
            });
        }
        self.admit_out_of_order(found_us)
    }

    #[cold]
    fn admit_out_of_order(&self, found_us: u64) -> Result<Admitted, AppendError> {
        let (earliest_us, latest_us) = (self.origin_us.min(found_us), self.latest_us.max(found_us));
        if latest_us - earliest_us > TIMESTAMP_SPAN_US_MAX {
            return Err(AppendError::SpanExceeded {
                found_us,
                earliest_us,
                latest_us,
            });
        }
        Ok(Admitted {
            delta_us: found_us.wrapping_sub(self.base_us) as u32,
            in_order: false,
        })
    }

    /// Counts a record that joined.
    #[inline]
    fn add(&mut self, timestamp_us: u64) {
        if self.count == 0 {
            self.base_us = timestamp_us;
            self.origin_us = timestamp_us;
        }
        self.origin_us = self.origin_us.min(timestamp_us);
        self.latest_us = self.latest_us.max(timestamp_us);
        // Cannot wrap: 64 MiB hold fewer than 2^32 message headers.
        self.count += 1;
    }

    /// What is to be added to every written delta, modulo 2^32; 0 in a batch that is in order.
    const fn shift_us(&self) -> u32 {
        (self.base_us - self.origin_us) as u32
    }

    /// The header of the finished batch.
    ///
    /// # Panics
    ///
    /// When the batch is empty.
    fn batch_header(&self, batch_length: u64, checksums: impl Iterator<Item = U64>) -> BatchHeader {
        assert!(self.count > 0, "an empty batch must not be sent");
        let mut header = BatchHeader::unstored(self.origin_us, batch_length, self.count);
        header.batch_checksum = U64::new(batch_checksum(&header, checksums));
        header
    }
}

/// A `SendMessages` body under construction in a buffer that it owns.
///
/// The buffer's length is the batch's capacity; whatever was in it is overwritten. Payloads are
/// copied into it or stay where they are, as each append says.
#[derive(Debug)]
pub struct BatchWriter<B> {
    buf: B,
    batch_at: usize,
    end: usize,
    limit: usize,
    /// Bytes of the payloads that are not in the buffer, and how many there are.
    referenced_bytes: usize,
    referenced: u32,
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
            referenced_bytes: 0,
            referenced: 0,
            tally: Tally::default(),
        })
    }

    /// Copies a record to the end of the batch and hashes it.
    ///
    /// The first record that is earlier than the batch's first leaves the hashing of all others to
    /// the seal: each message's time counts from the earliest, and is part of its checksum.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]; the batch is as before.
    #[inline]
    pub fn append(&mut self, record: &RecordParts<'_>) -> Result<(), AppendError> {
        let admitted = self.tally.admit(record)?;
        let (needed_bytes, room_bytes) = (record.frame_bytes(), self.room_bytes());
        check_room(needed_bytes, room_bytes)?;
        let end = self.end + needed_bytes;
        let frame = &mut self.buf.as_mut()[self.end..end];
        write_frame(frame, self.tally.count, admitted.delta_us, record);
        if admitted.in_order {
            seal_frame(frame);
        }
        self.end = end;
        self.tally.add(record.timestamp_us);
        Ok(())
    }

    /// Adds a record whose payload stays where it is: hashes it, copies its user headers, and
    /// returns where the payload belongs, for a [`Referenced`]. The caller keeps those of the batch
    /// in the order of the appends, for the seal.
    ///
    /// For payloads that are too large to copy. For small ones [`BatchWriter::append`] is faster:
    /// hashing in pieces and a piece of a vectored write cost more than copying some kilobytes.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]; the batch is as before. [`AppendError::Full`] counts the record without
    /// its payload when the buffer is what is full, and with it when the frame is.
    pub fn append_referenced(&mut self, record: &RecordParts<'_>) -> Result<usize, AppendError> {
        let admitted = self.tally.admit(record)?;
        let user_headers = record.user_headers.as_bytes();
        let own_bytes = MESSAGE_HEADER_BYTES + user_headers.len();
        check_room(own_bytes, self.buf.as_ref().len() - self.end)?;
        check_room(record.frame_bytes(), BODY_BYTES_MAX - self.body_len())?;
        let own = &mut self.buf.as_mut()[self.end..self.end + own_bytes];
        let (head, tail) = own.split_at_mut(MESSAGE_HEADER_BYTES);
        write_message_header(head, self.tally.count, admitted.delta_us, record);
        tail.copy_from_slice(user_headers);
        if admitted.in_order {
            seal_around(head, record.payload, user_headers);
        }
        let at = self.end + MESSAGE_HEADER_BYTES;
        self.end += own_bytes;
        self.referenced_bytes += record.payload.len();
        self.referenced += 1;
        let frame_max = BODY_BYTES_MAX - self.referenced_bytes;
        self.limit = self.buf.as_ref().len().min(frame_max);
        self.tally.add(record.timestamp_us);
        Ok(at)
    }

    /// Bytes left for records that are copied: one fits exactly when its
    /// [`RecordParts::frame_bytes`] is not larger.
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

    /// Those of them whose payload stays where it is.
    #[must_use]
    pub const fn referenced_count(&self) -> u32 {
        self.referenced
    }

    /// Whether there is no message yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tally.count == 0
    }

    /// Bytes of the body so far: prefix, batch header and messages, payloads by reference included.
    #[must_use]
    pub const fn body_len(&self) -> usize {
        self.end + self.referenced_bytes
    }

    /// Those of them that are in the buffer.
    #[must_use]
    pub const fn own_len(&self) -> usize {
        self.end
    }

    /// The time of the earliest message, or `None` while there is none.
    #[must_use]
    pub fn origin_timestamp_us(&self) -> Option<u64> {
        (self.tally.count > 0).then_some(self.tally.origin_us)
    }

    /// Writes the batch header and the count: the body, which is all in the buffer, is ready to be
    /// sent.
    ///
    /// Hashes 8 bytes a message; reads no payload, unless a record was earlier than the first.
    ///
    /// # Panics
    ///
    /// When the batch is empty: the server drops such a request without an answer, so sending one
    /// is a defect of the caller. When it has payloads by reference.
    #[must_use]
    pub fn seal(self) -> Sealed<B> {
        self.seal_referenced::<[u8; 0]>(&[])
    }

    /// As [`BatchWriter::seal`], for a batch with payloads by reference, which are `payloads`.
    ///
    /// # Panics
    ///
    /// When the batch is empty, and when `payloads` are not those of the batch.
    #[must_use]
    pub fn seal_referenced<P: AsRef<[u8]>>(mut self, payloads: &[Referenced<P>]) -> Sealed<B> {
        assert_eq!(
            payloads.len(),
            self.referenced as usize,
            "the payloads are those of the batch"
        );
        let messages_at = self.batch_at + BATCH_HEADER_BYTES;
        let body_len = self.body_len();
        let own = &mut self.buf.as_mut()[..self.end];
        if self.tally.shift_us() > 0 {
            hash_messages(own, messages_at, payloads, self.tally.shift_us());
        }
        let batch_length = (body_len - self.batch_at) as u64;
        let header = if payloads.is_empty() {
            let checksums = checksums(&own[messages_at..]);
            self.tally.batch_header(batch_length, checksums)
        } else {
            let checksums =
                OwnWalk::new(own, messages_at, payloads).map(|(header, _)| header.checksum);
            self.tally.batch_header(batch_length, checksums)
        };
        write_batch_header(own, self.batch_at, &header);
        Sealed {
            buf: self.buf,
            own_len: self.end,
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

#[inline]
const fn check_room(needed_bytes: usize, room_bytes: usize) -> Result<(), AppendError> {
    if needed_bytes > room_bytes {
        return Err(AppendError::Full {
            needed_bytes,
            room_bytes,
        });
    }
    Ok(())
}

/// A complete `SendMessages` body at the start of a buffer, but for payloads by reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed<B> {
    /// The caller's buffer.
    pub buf: B,
    /// Bytes of the body at its start.
    pub own_len: usize,
    /// Bytes of the body, payloads by reference included.
    pub body_len: usize,
    /// Messages in the batch, at least 1.
    pub messages_count: u32,
    /// The time of the earliest message, microseconds since the Unix epoch.
    pub origin_timestamp_us: u64,
}

impl<B: AsRef<[u8]>> Sealed<B> {
    /// The body.
    ///
    /// # Panics
    ///
    /// When there are payloads by reference, which are not in the buffer.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        assert_eq!(self.own_len, self.body_len, "the body is all in the buffer");
        &self.buf.as_ref()[..self.body_len]
    }

    /// The pieces of the body in order, `payloads` being those of the seal. None is empty; together
    /// they have `body_len` bytes.
    #[must_use]
    pub fn pieces<'p, P: AsRef<[u8]>>(&self, payloads: &'p [Referenced<P>]) -> Pieces<'p, P> {
        Pieces::new(self.own_len, payloads)
    }
}

/// Moves all deltas and makes all checksums, of a batch that turned out not to be in order.
#[cold]
fn hash_messages<P: AsRef<[u8]>>(
    own: &mut [u8],
    messages_at: usize,
    payloads: &[Referenced<P>],
    shift_us: u32,
) {
    let (mut at, mut payloads) = (messages_at, payloads.iter());
    let mut next = payloads.next();
    while let Ok((header, _)) = MessageHeader::mut_from_prefix(&mut own[at..]) {
        let delta_us = header.timestamp_delta.get().wrapping_add(shift_us);
        header.timestamp_delta = U32::new(delta_us);
        let head_end = at + MESSAGE_HEADER_BYTES;
        match next.take_if(|referenced| referenced.at == head_end) {
            None => {
                let end = at + header.frame_bytes();
                seal_frame(&mut own[at..end]);
                at = end;
            }
            Some(referenced) => {
                let end = head_end + header.user_headers_length() as usize;
                let (head, user_headers) = own[at..end].split_at_mut(MESSAGE_HEADER_BYTES);
                seal_around(head, referenced.payload.as_ref(), user_headers);
                next = payloads.next();
                at = end;
            }
        }
    }
}

/// Steps through the messages in a buffer that lacks the payloads by reference.
struct OwnWalk<'a, P> {
    own: &'a [u8],
    at: usize,
    payloads: &'a [Referenced<P>],
}

impl<'a, P> OwnWalk<'a, P> {
    const fn new(own: &'a [u8], messages_at: usize, payloads: &'a [Referenced<P>]) -> Self {
        Self {
            own,
            at: messages_at,
            payloads,
        }
    }
}

impl<'a, P> Iterator for OwnWalk<'a, P> {
    /// A header, and its payload if that is by reference.
    type Item = (&'a MessageHeader, Option<&'a P>);

    fn next(&mut self) -> Option<Self::Item> {
        // Fails only at the end: every header was written by an append.
        let (header, _) = MessageHeader::ref_from_prefix(&self.own[self.at..]).ok()?;
        let head_end = self.at + MESSAGE_HEADER_BYTES;
        match self.payloads.split_first() {
            Some((referenced, rest)) if referenced.at == head_end => {
                self.payloads = rest;
                self.at = head_end + header.user_headers_length() as usize;
                Some((header, Some(&referenced.payload)))
            }
            _ => {
                self.at += header.frame_bytes();
                Some((header, None))
            }
        }
    }
}

/// Fills `frame`, which is exactly as long as the record needs, except for the checksum.
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
}

/// Fills a message's header, which is `head`, except for the checksum.
///
/// In words of 8 bytes, as the hash is about to read them: a load across two stores that are still
/// under way waits for both, which cost more than all else in an append.
#[inline]
fn write_message_header(
    head: &mut [u8],
    offset_delta: u32,
    timestamp_delta: u32,
    record: &RecordParts<'_>,
) {
    // The lengths fit their fields: `admit` has checked the payload's, and user headers have a
    // limit by type.
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

/// Writes the checksum into the header of a message whose payload is elsewhere.
fn seal_around(head: &mut [u8], payload: &[u8], user_headers: &[u8]) {
    let (stored, covered) = head.split_at_mut(MESSAGE_CHECKSUM_COVERS_FROM);
    let mut checksum = Checksum::new();
    checksum.update(covered);
    checksum.update(payload);
    checksum.update(user_headers);
    stored.copy_from_slice(&checksum.digest().to_le_bytes());
}

/// Writes the prefix of a body to the start of `buf`; returns where the batch starts. The buffer
/// comes back as an error when it has no room for one message behind that.
fn start_body<B: AsRef<[u8]> + AsMut<[u8]>>(
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
fn write_batch_header(body: &mut [u8], batch_at: usize, header: &BatchHeader) {
    let count = &mut body[batch_at - COUNT_BYTES..batch_at];
    count.copy_from_slice(header.message_count.as_bytes());
    body[batch_at..batch_at + BATCH_HEADER_BYTES].copy_from_slice(header.as_bytes());
}
