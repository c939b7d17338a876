//! The one error of encodings: what was found, where, and what would have been right.
//!
//! Every variant carries the name of a field and the byte it starts at, counted from the start of
//! the slice the decoder was given, so that a hex dump and an error message can be laid side by
//! side. Decoding errors are the peer's fault; [`WireError::Room`] is the caller's. Values built
//! through the constructors of this crate always encode. Errors are `Copy` and never allocate.

use crate::header::HeaderError;

/// Why bytes are not a value of this protocol, or do not fit where they should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The slice ends inside the field. Peer's fault, or the caller cut the slice short.
    #[error("{field} at byte {offset}: {needed} bytes needed, {found} left")]
    Truncated {
        /// The field that does not fit.
        field: &'static str,
        /// Where it starts.
        offset: usize,
        /// Bytes it needs.
        needed: usize,
        /// Bytes that are left.
        found: usize,
    },
    /// A number lies outside its range: a length, a count, a version component, a flag.
    #[error("{field} at byte {offset}: found {found}, allowed are {min} to {max}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Where it starts.
        offset: usize,
        /// The number found.
        found: u64,
        /// Smallest number allowed.
        min: u64,
        /// Largest number allowed.
        max: u64,
    },
    /// A discriminant names no kind that exists.
    #[error("{field} at byte {offset}: found {found}, which is no known kind")]
    UnknownKind {
        /// The field.
        field: &'static str,
        /// Where it is.
        offset: usize,
        /// The discriminant found.
        found: u64,
    },
    /// A value disagrees with what the rest of the bytes say it must be: reserved bytes, a
    /// checksum, a count, a length that is stated twice.
    #[error("{field} at byte {offset}: found {found:#x}, expected {expected:#x}")]
    Mismatch {
        /// The field.
        field: &'static str,
        /// Where it starts.
        offset: usize,
        /// The value found.
        found: u128,
        /// The only value that is right here.
        expected: u128,
    },
    /// Text is not UTF-8.
    #[error("{field} at byte {offset}: byte {found:#04x} is not valid UTF-8")]
    InvalidUtf8 {
        /// The field.
        field: &'static str,
        /// The first byte that is wrong, not the start of the text.
        offset: usize,
        /// That byte.
        found: u8,
    },
    /// A key occurs twice where keys are unique.
    #[error("{field} at byte {offset}: repeats the key at byte {found}")]
    Duplicate {
        /// The field.
        field: &'static str,
        /// Where the second one starts.
        offset: usize,
        /// Where the first one starts.
        found: usize,
    },
    /// Bytes follow where the value has ended.
    #[error("{field} ends at byte {offset}: {found} bytes follow")]
    Trailing {
        /// The value that was complete.
        field: &'static str,
        /// Where it ended.
        offset: usize,
        /// Bytes that follow.
        found: usize,
    },
    /// The caller's buffer is too small to encode into. Nothing was written.
    #[error("{field} encodes to {needed} bytes, the buffer has {found}")]
    Room {
        /// The value to encode.
        field: &'static str,
        /// Its encoded length.
        needed: usize,
        /// Length of the buffer.
        found: usize,
    },
    /// A header breaks its rules.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

impl WireError {
    /// The same error, seen from a slice that starts `bytes` earlier: for decoders that hand a part
    /// of their slice to another decoder.
    #[must_use]
    pub fn shifted(mut self, bytes: usize) -> Self {
        match &mut self {
            Self::Truncated { offset, .. }
            | Self::OutOfRange { offset, .. }
            | Self::UnknownKind { offset, .. }
            | Self::Mismatch { offset, .. }
            | Self::InvalidUtf8 { offset, .. }
            | Self::Trailing { offset, .. } => *offset += bytes,
            Self::Duplicate { offset, found, .. } => {
                *offset += bytes;
                *found += bytes;
            }
            Self::Room { .. } | Self::Header(_) => {}
        }
        self
    }
}
