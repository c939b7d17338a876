//! Frames out of a byte stream, however it is cut, and what they hold: replies and evictions for a
//! client, requests for a server.
//!
//! The decode order is that of the protocol: `size` is read and bounded as soon as its bytes are
//! there, before anything is kept for the frame; `command` tells the shape; then the header of that
//! shape is checked. Bytes that are whole in the input are never copied: a frame that lies in one
//! piece of input is lent out from there, and only one that spans two pieces is put together in the
//! decoder's own buffer.
//!
//! Does not decode payloads, and does not know which requests are open.

use crate::WireError;
use crate::code::ErrorCode;
use crate::eviction::EvictionReason;
use crate::header::{
    COMMAND_EVICTION, COMMAND_REPLY, COMMAND_REQUEST, EvictionHeader, FRAME_BYTES_MAX,
    HEADER_BYTES, HeaderError, RawRequestHeader, ReplyHeader, check_size, offset,
};
use crate::operation::Operation;
use crate::result::ResultSection;

/// Cuts a stream into frames.
///
/// Invariant: between calls the buffer holds either nothing, or the start of exactly one frame and
/// less than all of it, or the one whole frame that was lent out last.
#[derive(Debug)]
pub struct FrameDecoder {
    /// The start of a frame whose rest is still to come.
    buffer: Vec<u8>,
    /// The buffer holds a whole frame that was lent out, to be dropped by the next call.
    lent: bool,
    /// `Some` once the boundaries of frames are lost; every later call returns it again.
    failed: Option<HeaderError>,
    frame_bytes_max: u32,
}

impl FrameDecoder {
    /// A decoder that takes frames up to the protocol's limit and starts without a buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffer: Vec::new(),
            lent: false,
            failed: None,
            frame_bytes_max: FRAME_BYTES_MAX as u32,
        }
    }

    /// A decoder with a buffer of `buffer_bytes` made beforehand, which takes frames up to
    /// `frame_bytes_max` bytes (at least a header, at most the protocol's limit). When the first
    /// covers the second, it never allocates again.
    #[must_use]
    pub fn with_limits(buffer_bytes: usize, frame_bytes_max: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(buffer_bytes),
            lent: false,
            failed: None,
            frame_bytes_max: frame_bytes_max.clamp(HEADER_BYTES, FRAME_BYTES_MAX) as u32,
        }
    }

    /// The next frame for a client, `None` when `input` is used up. Advances `input` past what it
    /// took.
    ///
    /// # Errors
    ///
    /// [`HeaderError`]. After one that [loses framing](HeaderError::loses_framing) every later call
    /// returns it again; after any other the frame is skipped and the next call goes on behind it.
    pub fn next_inbound<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Inbound<'s>>, HeaderError> {
        match self.next_frame(input)? {
            Some(frame) => Inbound::decode(frame).map(Some),
            None => Ok(None),
        }
    }

    /// The next frame for a server, `None` when `input` is used up. Advances `input` past what it
    /// took.
    ///
    /// # Errors
    ///
    /// [`HeaderError::SizeTooSmall`], [`HeaderError::SizeTooLarge`]: every later call returns it
    /// again. What is wrong inside of a request is found by [`Request::operation`], as servers do
    /// not answer it with a close.
    pub fn next_request<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<InboundRequest<'s>>, HeaderError> {
        match self.next_frame(input)? {
            Some(frame) => InboundRequest::decode(frame).map(Some),
            None => Ok(None),
        }
    }

    /// The next frame, whole and of any shape, `None` when `input` is used up. Advances `input`
    /// past what it took.
    ///
    /// # Errors
    ///
    /// [`HeaderError::SizeTooSmall`], [`HeaderError::SizeTooLarge`]: every later call returns it
    /// again.
    pub fn next_frame<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'s [u8]>, HeaderError> {
        if self.lent {
            self.buffer.clear();
            self.lent = false;
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.buffer.is_empty() {
            let whole = self
                .frame_bytes(input)?
                .filter(|bytes| *bytes <= input.len());
            if let Some(bytes) = whole {
                let (frame, rest) = input.split_at(bytes);
                *input = rest;
                return Ok(Some(frame));
            }
        }
        self.gather(input)
    }

    /// Bytes of the frame that has begun and is not whole yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        if self.lent { 0 } else { self.buffer.len() }
    }

    /// Forgets a frame that has begun, and a failure: for a new connection. Keeps the buffer's
    /// memory.
    pub fn reset(&mut self) {
        self.buffer.clear();
        self.lent = false;
        self.failed = None;
    }

    /// Moves bytes of the frame that has begun from `input` to the buffer; lends it out when it is
    /// whole.
    fn gather<'s>(&'s mut self, input: &mut &[u8]) -> Result<Option<&'s [u8]>, HeaderError> {
        if self.buffer.len() < SIZE_END {
            self.take(input, SIZE_END);
        }
        let Some(bytes) = self.known_frame_bytes()? else {
            return Ok(None);
        };
        self.take(input, bytes);
        self.lent = self.buffer.len() == bytes;
        Ok(self.lent.then_some(&self.buffer[..]))
    }

    fn known_frame_bytes(&mut self) -> Result<Option<usize>, HeaderError> {
        let result = frame_bytes(&self.buffer, self.frame_bytes_max);
        self.note(result)
    }

    fn frame_bytes(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeaderError> {
        let result = frame_bytes(bytes, self.frame_bytes_max);
        self.note(result)
    }

    fn note<T>(&mut self, result: Result<T, HeaderError>) -> Result<T, HeaderError> {
        if let Err(error) = result {
            self.failed = Some(error);
        }
        result
    }

    /// Moves bytes until the buffer holds `target`, or `input` is used up. The buffer grows with
    /// what has come, not with what was announced.
    fn take(&mut self, input: &mut &[u8], target: usize) {
        let (taken, rest) = input.split_at(input.len().min(target - self.buffer.len()));
        self.buffer.extend_from_slice(taken);
        *input = rest;
    }
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::new()
    }
}

/// First byte behind the `size` field.
const SIZE_END: usize = offset::SIZE + 4;

/// Bytes of the frame that starts at the first of `bytes`; `None` while its size has not come yet.
///
/// # Errors
///
/// [`HeaderError::SizeTooSmall`], [`HeaderError::SizeTooLarge`].
pub fn frame_bytes(bytes: &[u8], frame_bytes_max: u32) -> Result<Option<usize>, HeaderError> {
    let Some(field) = bytes.get(offset::SIZE..SIZE_END) else {
        return Ok(None);
    };
    let mut size = [0; 4];
    size.copy_from_slice(field);
    let size = u32::from_le_bytes(size);
    if size > frame_bytes_max {
        return Err(HeaderError::SizeTooLarge {
            found: size,
            max: frame_bytes_max,
        });
    }
    check_size(size).map(Some)
}

/// A frame as a client sees it.
#[derive(Debug, Clone, Copy)]
pub enum Inbound<'a> {
    /// The answer to one request.
    Reply(Reply<'a>),
    /// The session is dead.
    Eviction(Eviction<'a>),
    /// A frame of another kind, which has no business on this connection.
    Foreign {
        /// Its command byte.
        command: u8,
        /// All of it.
        frame: &'a [u8],
    },
}

/// A reply whose header has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    header: &'a ReplyHeader,
    operation: Operation,
    body: &'a [u8],
}

/// An eviction whose header has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Eviction<'a> {
    header: &'a EvictionHeader,
    reason: EvictionReason,
}

/// What a reply says about its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOutcome<'a> {
    /// Done; the payload, without result section.
    Success(&'a [u8]),
    /// Refused or undecided, as the code tells; taken from the header's status.
    Status(ErrorCode),
    /// Refused or undecided, as the code tells; taken from the result section.
    Result(ErrorCode),
    /// A register whose reply is empty: the login failed for good.
    LoginFailed,
}

impl<'a> Inbound<'a> {
    /// Types one whole frame.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] of the header's own check; [`HeaderError::SizeMismatch`] when `frame` is not
    /// as long as its header says; [`HeaderError::Length`] when it is shorter than a header.
    pub fn decode(frame: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, body) = split(frame)?;
        match header[offset::COMMAND] {
            COMMAND_REPLY => {
                let header = ReplyHeader::from_bytes(header)?;
                let operation = header.check()?;
                Ok(Self::Reply(Reply {
                    header,
                    operation,
                    body,
                }))
            }
            COMMAND_EVICTION => {
                let header = EvictionHeader::from_bytes(header)?;
                let reason = header.check()?;
                Ok(Self::Eviction(Eviction { header, reason }))
            }
            command => Ok(Self::Foreign { command, frame }),
        }
    }
}

impl<'a> Reply<'a> {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a ReplyHeader {
        self.header
    }

    /// The operation as it came, which may be a server's rewrite.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// The number of the request it answers.
    #[must_use]
    pub const fn request(&self) -> u64 {
        self.header.request()
    }

    /// The body as it came, result section included.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// What it says: the header's status first, then the result section where the operation has
    /// one.
    ///
    /// # Errors
    ///
    /// [`WireError`] when there should be a result section and it is malformed, which never counts
    /// as a success.
    #[inline]
    pub fn outcome(&self) -> Result<ReplyOutcome<'a>, WireError> {
        if let Some(code) = self.header.status() {
            return Ok(ReplyOutcome::Status(code));
        }
        if self.operation == Operation::Register && self.body.is_empty() {
            return Ok(ReplyOutcome::LoginFailed);
        }
        if !self.operation.is_result_framed() {
            return Ok(ReplyOutcome::Success(self.body));
        }
        Ok(match ResultSection::decode(self.body)? {
            ResultSection::Success(payload) => ReplyOutcome::Success(payload),
            ResultSection::Rejected(code) => ReplyOutcome::Result(code),
        })
    }
}

impl<'a> Eviction<'a> {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a EvictionHeader {
        self.header
    }

    /// Why the session is dead.
    #[must_use]
    pub const fn reason(&self) -> EvictionReason {
        self.reason
    }
}

/// A frame as a server sees it.
#[derive(Debug, Clone, Copy)]
pub enum InboundRequest<'a> {
    /// A request, legal or not.
    Request(Request<'a>),
    /// A frame of another kind, which no client sends.
    Foreign {
        /// Its command byte. Servers close the connection when it is above
        /// [`COMMAND_ASSIGNED_MAX`](crate::header::COMMAND_ASSIGNED_MAX), and pass over it
        /// otherwise.
        command: u8,
        /// All of it.
        frame: &'a [u8],
    },
}

/// A request whose rules have not been checked yet.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The header, whatever it holds.
    pub header: &'a RawRequestHeader,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> InboundRequest<'a> {
    /// Types one whole frame.
    ///
    /// # Errors
    ///
    /// [`HeaderError::SizeMismatch`] when `frame` is not as long as its header says;
    /// [`HeaderError::Length`] when it is shorter than a header.
    pub fn decode(frame: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, body) = split(frame)?;
        match header[offset::COMMAND] {
            COMMAND_REQUEST => Ok(Self::Request(Request {
                header: RawRequestHeader::from_bytes(header)?,
                body,
            })),
            command => Ok(Self::Foreign { command, frame }),
        }
    }
}

impl Request<'_> {
    /// What it asks for, if it keeps the rules that servers insist on.
    ///
    /// # Errors
    ///
    /// See [`RawRequestHeader::check`].
    pub fn operation(&self) -> Result<Operation, HeaderError> {
        self.header.check()
    }
}

/// Header and body of one whole frame.
fn split(frame: &[u8]) -> Result<(&[u8], &[u8]), HeaderError> {
    let (header, body) = frame
        .split_at_checked(HEADER_BYTES)
        .ok_or(HeaderError::Length { found: frame.len() })?;
    match frame_bytes(header, u32::MAX)? {
        Some(size) if size == frame.len() => Ok((header, body)),
        size => Err(HeaderError::SizeMismatch {
            found: size.unwrap_or(0) as u32,
            expected: frame.len(),
        }),
    }
}

#[cfg(test)]
mod tests;
