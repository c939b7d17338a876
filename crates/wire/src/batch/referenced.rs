//! Payloads that stay where the caller has them, and the pieces of a body around them.
//!
//! ```text
//! buffer   [prefix][batch header][message header 0][user headers 0][message header 1][payload 1]
//! pieces   <---------------- own ----------------->
//!                                payload 0
//!                                                  <-------------------- own ------------------>
//! ```
//!
//! The buffer of a batch holds everything but these payloads, in order; the body is the buffer with
//! each of them put in where it belongs. For `n` of them that is at most `2 n + 1` pieces.

use core::ops::Range;
use core::slice;

/// A payload that travels by reference: where it belongs, and itself.
///
/// The caller keeps it unchanged until the body has been written for the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referenced<P> {
    /// Byte of the batch's buffer in front of which the payload goes, as
    /// [`BatchWriter::append_referenced`](super::BatchWriter::append_referenced) gave it.
    pub at: usize,
    /// The payload.
    pub payload: P,
}

/// A piece of a body: a range of the buffer, or a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'p, P> {
    /// These bytes of the buffer.
    Own(Range<usize>),
    /// All of this payload.
    Payload(&'p P),
}

/// The pieces of a body in order. None is empty.
#[derive(Debug, Clone)]
pub struct Pieces<'p, P> {
    payloads: slice::Iter<'p, Referenced<P>>,
    own_at: usize,
    own_bytes: usize,
    payload: Option<&'p P>,
}

impl<'p, P: AsRef<[u8]>> Pieces<'p, P> {
    /// The pieces of a body whose buffer holds `own_bytes`, with its payloads in the order of the
    /// appends.
    #[must_use]
    pub fn new(own_bytes: usize, payloads: &'p [Referenced<P>]) -> Self {
        Self {
            payloads: payloads.iter(),
            own_at: 0,
            own_bytes,
            payload: None,
        }
    }
}

impl<'p, P: AsRef<[u8]>> Iterator for Pieces<'p, P> {
    type Item = Piece<'p, P>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(payload) = self.payload.take() {
            return Some(Piece::Payload(payload));
        }
        let start = self.own_at;
        // A payload without bytes does not end a piece.
        let next = self
            .payloads
            .find(|referenced| !referenced.payload.as_ref().is_empty());
        self.payload = next.map(|referenced| &referenced.payload);
        self.own_at = next.map_or(self.own_bytes, |referenced| referenced.at);
        (start < self.own_at).then_some(Piece::Own(start..self.own_at))
    }
}
