//! Reads batches: those that a producer sent, and those that a poll returns as stored.
//!
//! Nothing is copied. A [`BatchReader`] exists only for a batch whose layout has been checked from
//! end to end, so its iterator cannot fail. The checks are those of the real server, and three more
//! that no honest batch fails: no batch is empty, lengths respect the limits, and offsets and times
//! do not leave `u64`.

use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use super::layout::{
    BATCH_HEADER_BYTES, BatchHeader, MESSAGE_CHECKSUM_COVERS_FROM, MESSAGE_HEADER_BYTES,
    MessageHeader, PAYLOAD_BYTES_MAX, batch_checksum, batch_offset, message_offset,
};
use crate::error::WireError;
use crate::hash;
use crate::header::BODY_BYTES_MAX;
use crate::user_headers::{USER_HEADERS_BYTES_MAX, UserHeaders};

/// How much of a batch is checked before it is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// Layout, every message's checksum and the batch's checksum. One pass over all bytes.
    Verify,
    /// Layout only: reads the headers, never a payload. For bytes that were verified before.
    Layout,
}

/// One batch whose layout is known to be right.
#[derive(Debug, Clone, Copy)]
pub struct BatchReader<'a> {
    header: &'a BatchHeader,
    messages: &'a [u8],
}

impl<'a> BatchReader<'a> {
    /// Checks the one batch that fills `bytes`.
    ///
    /// # Errors
    ///
    /// The writer's bytes are not one batch: cut short or followed by more, a reserved byte is not
    /// zero, lengths or counts disagree or exceed the limits, there is no message, or (with
    /// [`Integrity::Verify`]) a checksum is wrong.
    pub fn decode(bytes: &'a [u8], integrity: Integrity) -> Result<Self, WireError> {
        let (batch, rest) = Self::decode_first(bytes, integrity)?;
        if !rest.is_empty() {
            return Err(WireError::Trailing {
                field: "batch",
                offset: bytes.len() - rest.len(),
                found: rest.len(),
            });
        }
        Ok(batch)
    }

    /// Checks the batch at the start of `bytes` and returns it with the bytes behind it.
    ///
    /// # Errors
    ///
    /// As [`BatchReader::decode`], except that more bytes may follow.
    pub fn decode_first(
        bytes: &'a [u8],
        integrity: Integrity,
    ) -> Result<(Self, &'a [u8]), WireError> {
        let (header, behind) =
            BatchHeader::ref_from_prefix(bytes).map_err(|_| WireError::Truncated {
                field: "batch_header",
                offset: 0,
                needed: BATCH_HEADER_BYTES,
                found: bytes.len(),
            })?;
        let messages_bytes = header.check(bytes.len())?;
        let (messages, rest) = behind.split_at(messages_bytes);
        let batch = Self { header, messages };
        batch.check_messages(integrity)?;
        Ok((batch, rest))
    }

    /// Walks all messages; they must fill the batch and be as many as the header says.
    fn check_messages(&self, integrity: Integrity) -> Result<(), WireError> {
        let mut walk = Walk::new(self.messages);
        let mut count: u64 = 0;
        while let Some(message) = walk
            .next()
            .map_err(|error| error.shifted(BATCH_HEADER_BYTES))?
        {
            let offset = BATCH_HEADER_BYTES + message.at;
            message.check(self.header, offset)?;
            if integrity == Integrity::Verify {
                message.verify(offset)?;
            }
            count += 1;
        }
        if count != u64::from(self.header.message_count()) {
            return Err(mismatch(
                "message_count",
                batch_offset::MESSAGE_COUNT,
                self.header.message_count(),
                count,
            ));
        }
        if integrity == Integrity::Verify {
            self.verify_batch_checksum()?;
        }
        Ok(())
    }

    fn verify_batch_checksum(&self) -> Result<(), WireError> {
        let computed = batch_checksum(self.header, checksums(self.messages));
        if computed != self.header.batch_checksum() {
            return Err(mismatch(
                "batch_checksum",
                batch_offset::BATCH_CHECKSUM,
                self.header.batch_checksum(),
                computed,
            ));
        }
        Ok(())
    }

    /// The header of the batch.
    #[must_use]
    pub const fn header(&self) -> &'a BatchHeader {
        self.header
    }

    /// Messages in the batch, at least 1.
    #[must_use]
    pub fn messages_count(&self) -> u32 {
        self.header.message_count()
    }

    /// The messages in order.
    #[must_use]
    pub fn messages(&self) -> Messages<'a> {
        Messages {
            header: self.header,
            walk: Walk::new(self.messages),
            left: self.header.message_count(),
        }
    }

    /// Checks what the server takes on trust but every correct producer does: the fields that the
    /// server stamps are zero, messages are numbered from 0 without a gap, the origin is the
    /// earliest message's time, and the user headers are well formed. For a test server that wants
    /// to catch its client's mistakes.
    ///
    /// # Errors
    ///
    /// The first of these that the producer got wrong.
    pub fn check_as_sent(&self) -> Result<(), WireError> {
        let header = self.header;
        for (field, offset, found) in [
            (
                "partition_id",
                batch_offset::PARTITION_ID,
                header.partition_id(),
            ),
            (
                "base_offset",
                batch_offset::BASE_OFFSET,
                header.base_offset(),
            ),
            (
                "base_timestamp",
                batch_offset::BASE_TIMESTAMP,
                header.base_timestamp_us(),
            ),
        ] {
            if found != 0 {
                return Err(mismatch(field, offset, found, 0u64));
            }
        }
        let mut earliest = u32::MAX;
        let mut walk = Walk::new(self.messages);
        let mut index: u32 = 0;
        while let Some(message) = walk.next()? {
            let offset = BATCH_HEADER_BYTES + message.at;
            let found = message.header.offset_delta();
            if found != index {
                return Err(mismatch(
                    "offset_delta",
                    offset + message_offset::OFFSET_DELTA,
                    found,
                    index,
                ));
            }
            let headers_at = offset + MESSAGE_HEADER_BYTES + message.payload.len();
            UserHeaders::decode(message.user_headers).map_err(|error| error.shifted(headers_at))?;
            earliest = earliest.min(message.header.timestamp_delta_us());
            index += 1;
        }
        if earliest != 0 {
            let origin = header.origin_timestamp_us();
            let expected = origin.saturating_add(u64::from(earliest));
            return Err(mismatch(
                "origin_timestamp",
                batch_offset::ORIGIN_TIMESTAMP,
                origin,
                expected,
            ));
        }
        Ok(())
    }
}

impl BatchHeader {
    /// Checks the header against the `available` bytes from its start, and returns the bytes of the
    /// messages.
    fn check(&self, available: usize) -> Result<usize, WireError> {
        let found = self.batch_length();
        let min = (BATCH_HEADER_BYTES + MESSAGE_HEADER_BYTES) as u64;
        let max = BODY_BYTES_MAX as u64;
        if found < min || found > max {
            return Err(WireError::OutOfRange {
                field: "batch_length",
                offset: batch_offset::BATCH_LENGTH,
                found,
                min,
                max,
            });
        }
        if found > available as u64 {
            return Err(WireError::Truncated {
                field: "batch",
                offset: 0,
                needed: found as usize,
                found: available,
            });
        }
        let message_count = self.message_count();
        if message_count == 0 {
            return Err(WireError::OutOfRange {
                field: "message_count",
                offset: batch_offset::MESSAGE_COUNT,
                found: 0,
                min: 1,
                max: u64::from(u32::MAX),
            });
        }
        check_reserved(
            "batch_header.reserved",
            batch_offset::RESERVED,
            &self.reserved,
        )?;
        Ok(found as usize - BATCH_HEADER_BYTES)
    }
}

/// One message of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    batch: &'a BatchHeader,
    frame: Frame<'a>,
}

impl<'a> Message<'a> {
    /// The header as it lies in the batch.
    #[must_use]
    pub const fn header(&self) -> &'a MessageHeader {
        self.frame.header
    }

    /// The id that the producer gave it.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.frame.header.id()
    }

    /// Its offset in the partition. Of a batch not yet stored: its index in the batch.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.batch.base_offset() + u64::from(self.frame.header.offset_delta())
    }

    /// Its time by the producer's clock, microseconds since the Unix epoch.
    #[must_use]
    pub fn timestamp_us(&self) -> u64 {
        self.batch.origin_timestamp_us() + u64::from(self.frame.header.timestamp_delta_us())
    }

    /// The payload.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.frame.payload
    }

    /// The user headers as bytes, unchecked: the server stores what it is given.
    #[must_use]
    pub const fn user_headers_bytes(&self) -> &'a [u8] {
        self.frame.user_headers
    }

    /// The user headers.
    ///
    /// # Errors
    ///
    /// The producer's bytes are not user headers, see [`UserHeaders::decode`].
    pub fn user_headers(&self) -> Result<UserHeaders<'a>, WireError> {
        UserHeaders::decode(self.frame.user_headers)
    }
}

/// The messages of a [`BatchReader`] in order.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    header: &'a BatchHeader,
    walk: Walk<'a>,
    left: u32,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // The layout was checked when the reader was made, so the walk never refuses.
        let frame = self.walk.next().ok()??;
        self.left -= 1;
        Some(Message {
            batch: self.header,
            frame,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Messages<'_> {}

/// A message where it lies: header, payload, user headers, and the place of the first in the walked
/// bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) header: &'a MessageHeader,
    pub(super) payload: &'a [u8],
    pub(super) user_headers: &'a [u8],
    at: usize,
    bytes: &'a [u8],
}

impl Frame<'_> {
    /// Checks what the walk does not need: reserved bytes and the limits of offset and time.
    fn check(&self, batch: &BatchHeader, offset: usize) -> Result<(), WireError> {
        check_reserved(
            "message_header.reserved",
            offset + message_offset::RESERVED,
            &self.header.reserved,
        )?;
        let sums = [
            (
                "offset_delta",
                message_offset::OFFSET_DELTA,
                batch.base_offset(),
                self.header.offset_delta(),
            ),
            (
                "timestamp_delta",
                message_offset::TIMESTAMP_DELTA,
                batch.origin_timestamp_us(),
                self.header.timestamp_delta_us(),
            ),
        ];
        for (field, at, base, delta) in sums {
            if base.checked_add(u64::from(delta)).is_none() {
                return Err(WireError::OutOfRange {
                    field,
                    offset: offset + at,
                    found: u64::from(delta),
                    min: 0,
                    max: u64::MAX - base,
                });
            }
        }
        Ok(())
    }

    fn verify(&self, offset: usize) -> Result<(), WireError> {
        let computed = hash::checksum(&self.bytes[MESSAGE_CHECKSUM_COVERS_FROM..]);
        if computed != self.header.checksum() {
            return Err(mismatch(
                "message.checksum",
                offset,
                self.header.checksum(),
                computed,
            ));
        }
        Ok(())
    }
}

/// Steps from message to message by the lengths in their headers; reads no payload.
#[derive(Debug, Clone)]
pub(super) struct Walk<'a> {
    messages: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(messages: &'a [u8]) -> Self {
        Self { messages, at: 0 }
    }

    /// The next message, or `None` at the end; an error when a header or what it announces goes
    /// past the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Frame<'a>>, WireError> {
        let rest = &self.messages[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let Ok((header, behind)) = MessageHeader::ref_from_prefix(rest) else {
            return Err(self.truncated("message_header", 0, MESSAGE_HEADER_BYTES));
        };
        let payload_bytes = header.payload_length() as usize;
        let user_headers_bytes = header.user_headers_length() as usize;
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(self.too_long(
                "payload_length",
                message_offset::PAYLOAD_LENGTH,
                payload_bytes,
                PAYLOAD_BYTES_MAX,
            ));
        }
        if user_headers_bytes > USER_HEADERS_BYTES_MAX {
            let max = USER_HEADERS_BYTES_MAX;
            return Err(self.too_long(
                "user_headers_length",
                message_offset::USER_HEADERS_LENGTH,
                user_headers_bytes,
                max,
            ));
        }
        let Some((payload, behind)) = behind.split_at_checked(payload_bytes) else {
            return Err(self.truncated("payload", MESSAGE_HEADER_BYTES, payload_bytes));
        };
        let Some((user_headers, _)) = behind.split_at_checked(user_headers_bytes) else {
            let start = MESSAGE_HEADER_BYTES + payload_bytes;
            return Err(self.truncated("user_headers", start, user_headers_bytes));
        };
        let at = self.at;
        self.at += header.frame_bytes();
        Ok(Some(Frame {
            header,
            payload,
            user_headers,
            at,
            bytes: &self.messages[at..self.at],
        }))
    }

    #[cold]
    fn truncated(&self, field: &'static str, start: usize, needed: usize) -> WireError {
        let offset = self.at + start;
        WireError::Truncated {
            field,
            offset,
            needed,
            found: self.messages.len() - offset,
        }
    }

    #[cold]
    fn too_long(&self, field: &'static str, start: usize, found: usize, max: usize) -> WireError {
        WireError::OutOfRange {
            field,
            offset: self.at + start,
            found: found as u64,
            min: 0,
            max: max as u64,
        }
    }
}

/// The stored checksums of messages whose layout has been checked, or that were written here.
pub(super) fn checksums(messages: &[u8]) -> impl Iterator<Item = U64> + '_ {
    let mut at = 0;
    core::iter::from_fn(move || {
        let (header, _) = MessageHeader::ref_from_prefix(messages.get(at..)?).ok()?;
        at += header.frame_bytes();
        Some(header.checksum)
    })
}

/// The batches of a poll reply, one after the other, as the server stored them.
///
/// A batch may be a slice that the server cut from a larger one: its first message then has an
/// `offset_delta` above zero, and [`Message::offset`] is right all the same. Ends after the first
/// error.
#[derive(Debug, Clone)]
pub struct StoredBatches<'a> {
    bytes: &'a [u8],
    at: usize,
    integrity: Integrity,
}

impl<'a> StoredBatches<'a> {
    /// The batches in `bytes`: a poll reply's body after partition, current offset and count.
    #[must_use]
    pub const fn new(bytes: &'a [u8], integrity: Integrity) -> Self {
        Self {
            bytes,
            at: 0,
            integrity,
        }
    }
}

impl<'a> Iterator for StoredBatches<'a> {
    type Item = Result<BatchReader<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return None;
        }
        match BatchReader::decode_first(rest, self.integrity) {
            Ok((batch, behind)) => {
                self.at = self.bytes.len() - behind.len();
                Some(Ok(batch))
            }
            Err(error) => {
                let offset = self.at;
                self.at = self.bytes.len();
                Some(Err(error.shifted(offset)))
            }
        }
    }
}

fn check_reserved(field: &'static str, offset: usize, reserved: &[u8]) -> Result<(), WireError> {
    match reserved.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(at) => Err(mismatch(field, offset + at, reserved[at], 0u8)),
    }
}

fn mismatch(
    field: &'static str,
    offset: usize,
    found: impl Into<u128>,
    expected: impl Into<u128>,
) -> WireError {
    WireError::Mismatch {
        field,
        offset,
        found: found.into(),
        expected: expected.into(),
    }
}
