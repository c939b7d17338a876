//! A frame as it came: what the sockets give to the commands.

use ringmain_wire::header::HEADER_BYTES;

/// One frame, or in sink mode its head.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    /// A whole frame in the connection buffer.
    Borrowed(&'a [u8]),
    /// A whole frame in its own memory.
    Owned(Vec<u8>),
    /// The first bytes of a frame whose rest is thrown away.
    Head(&'a [u8]),
}

impl Frame<'_> {
    /// All bytes that there are, the header first.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) | Self::Head(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }

    /// The bytes behind the header.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes()[HEADER_BYTES..]
    }
}
