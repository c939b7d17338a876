//! What a decoder says about bytes it refuses: which field, where, what was found, what was expected.
//!
//! Does not say what to do: the caller knows whether the bytes came from a peer, a file or its own code. Holds no
//! copy of the input and allocates nothing, so refusing hostile input costs nothing.

/// Why bytes were refused, at one field of one structure.
///
/// `offset` counts from the first byte of the slice that was handed to the decoder that returned the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: {fault}")]
pub struct WireError {
    /// The protocol's own name of the field, for example `batch_length`.
    pub field: &'static str,
    /// Where the field starts in the decoder's input, in bytes.
    pub offset: usize,
    /// What was found there, and what would have been right.
    pub fault: Fault,
}

/// The kinds of fault; each carries what was found and what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The input ends before the field does.
    #[error("needs {needed} bytes, {available} are there")]
    Truncated {
        /// Bytes the field occupies.
        needed: usize,
        /// Bytes from the field's start to the end of the input.
        available: usize,
    },
    /// Bytes remain after the last field of a structure that must fill its input.
    #[error("{count} bytes follow the end of the structure")]
    Trailing {
        /// How many.
        count: usize,
    },
    /// A number outside the range that the protocol allows.
    #[error("found {found}, allowed is {min} to {max}")]
    OutOfRange {
        /// The number in the input.
        found: u64,
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A number that disagrees with another part of the same input.
    #[error("found {found}, the rest of the input says {expected}")]
    Mismatch {
        /// The number in the input.
        found: u64,
        /// What the rest of the input makes it.
        expected: u64,
    },
    /// A byte that must be zero is not.
    #[error("reserved byte is {found:#04x}, must be zero")]
    NotZero {
        /// The first byte that is not zero.
        found: u8,
    },
    /// Bytes that must be UTF-8 are not.
    #[error("not valid UTF-8")]
    NotUtf8,
    /// A stored checksum is not the checksum of the bytes it covers.
    #[error("stored checksum {stored:#018x}, computed {computed:#018x}")]
    Checksum {
        /// The checksum in the input.
        stored: u64,
        /// The checksum of the bytes it covers.
        computed: u64,
    },
}

impl WireError {
    /// An error about `field`, which starts at `offset` of the decoder's input.
    #[must_use]
    pub const fn new(field: &'static str, offset: usize, fault: Fault) -> Self {
        Self {
            field,
            offset,
            fault,
        }
    }

    /// The same error seen from a structure that starts `bytes` before the decoder's input did.
    #[must_use]
    pub const fn shifted(mut self, bytes: usize) -> Self {
        self.offset = self.offset.saturating_add(bytes);
        self
    }
}
