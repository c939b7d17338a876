//! Message ids: unique, and cheap enough for every record.
//!
//! An id is 128 bits: a random base, drawn once, plus a counter. Taking one is an addition; there
//! is no system call, no clock and no shared memory. Wire has no entropy of its own, so the base
//! comes from the caller.
//!
//! Two generators, in this process or any other, repeat each other only if one base falls into the
//! stretch of ids that the other has used. With `g` generators of `n` ids each the chance is below
//! `g * g * n / 2^128`: a thousand generators that each make a million ids a second for a year
//! (3e13) come to 1e-19.
//!
//! The ids are not secrets: whoever sees one can guess the next.

/// Makes the ids of messages. Not shared between threads: each has its own, with a base of its own.
#[derive(Debug, Clone)]
pub struct MessageIdGenerator {
    next: u128,
}

impl MessageIdGenerator {
    /// A generator that starts at `base`: 128 random bits, drawn anew for each generator at each
    /// process start.
    #[must_use]
    pub const fn new(base: u128) -> Self {
        Self { next: base }
    }

    /// The next id, never 0: servers and SDKs read 0 as "no id chosen".
    #[must_use]
    #[inline]
    pub const fn next_id(&mut self) -> u128 {
        if self.next == 0 {
            self.next = 1;
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_from_the_base() {
        let mut ids = MessageIdGenerator::new(7);
        assert_eq!([ids.next_id(), ids.next_id(), ids.next_id()], [7, 8, 9]);
    }

    #[test]
    fn zero_is_skipped_at_the_start_and_at_the_wrap() {
        assert_eq!(MessageIdGenerator::new(0).next_id(), 1);
        let mut ids = MessageIdGenerator::new(u128::MAX);
        assert_eq!([ids.next_id(), ids.next_id()], [u128::MAX, 1]);
    }
}
