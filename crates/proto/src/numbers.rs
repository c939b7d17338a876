//! The shared counter of request numbers (law W4): it only rises, is never reused and never wraps.
//!
//! Sends, metadata calls and the logout take the next number. Reads and pings repeat the counter's
//! value without taking it. Their replies can only be told apart by `(operation, request)`, so
//! before a read repeats a number that an earlier read or ping of the same connection used, the
//! counter skips one: a late answer to the earlier one then matches nothing. Replies of a
//! connection never reach the next one, so there the number may be repeated.

use crate::limits::{REQUEST_END, REQUEST_LAST};

/// The counter of one client, for its whole life.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The next number to take. `REQUEST_FIRST..=REQUEST_END`.
    next: u64,
    /// The last number that a read or a ping of this connection repeated, 0 before the first.
    repeated: u64,
}

impl Numbers {
    pub(crate) const fn new(first: u64) -> Self {
        Self {
            next: first,
            repeated: 0,
        }
    }

    /// The number that would be taken next.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Whether no send and no call can take a number any more.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.next > REQUEST_LAST
    }

    /// Takes a number for a send or a metadata call, `None` when the range is used up.
    pub(crate) const fn take(&mut self) -> Option<u64> {
        if self.is_exhausted() {
            None
        } else {
            Some(self.advance())
        }
    }

    /// Takes a number for a logout: one is kept for it past the end of the others' range.
    pub(crate) const fn take_for_logout(&mut self) -> Option<u64> {
        if self.next == REQUEST_END {
            None
        } else {
            Some(self.advance())
        }
    }

    /// The connection is down: no reply to what was sent on it can come.
    pub(crate) const fn lose_connection(&mut self) {
        self.repeated = 0;
    }

    /// The number of a read, different from every earlier read's and ping's of this connection.
    /// `None` when that needs a number and none is left.
    pub(crate) const fn repeat_for_read(&mut self) -> Option<u64> {
        if self.repeated == self.next && self.take().is_none() {
            return None;
        }
        self.repeated = self.next;
        Some(self.next)
    }

    /// The number of a ping. It takes none, so two pings may share one: their answers say the same.
    pub(crate) const fn repeat_for_ping(&mut self) -> u64 {
        self.repeated = self.next;
        self.next
    }

    const fn advance(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_by_one_and_pings_take_nothing() {
        let mut numbers = Numbers::new(1);
        assert_eq!(numbers.take(), Some(1));
        assert_eq!(numbers.repeat_for_ping(), 2);
        assert_eq!(numbers.repeat_for_ping(), 2);
        assert_eq!(numbers.take(), Some(2));
    }

    #[test]
    fn a_read_never_shares_a_number_with_an_earlier_read_or_ping() {
        let mut numbers = Numbers::new(1);
        assert_eq!(numbers.repeat_for_read(), Some(1));
        assert_eq!(numbers.repeat_for_read(), Some(2));
        assert_eq!(numbers.take(), Some(2));
        assert_eq!(numbers.repeat_for_ping(), 3);
        assert_eq!(numbers.repeat_for_read(), Some(4));
    }

    #[test]
    fn the_range_ends_with_a_number_kept_for_the_logout() {
        let mut numbers = Numbers::new(REQUEST_LAST);
        assert!(!numbers.is_exhausted());
        assert_eq!(numbers.take(), Some(REQUEST_LAST));
        assert!(numbers.is_exhausted());
        assert_eq!(numbers.take(), None);
        assert_eq!(numbers.repeat_for_read(), Some(REQUEST_LAST + 1));
        assert_eq!(numbers.repeat_for_read(), None);
        numbers.lose_connection();
        assert_eq!(numbers.repeat_for_read(), Some(REQUEST_LAST + 1));
        assert_eq!(numbers.take_for_logout(), Some(REQUEST_LAST + 1));
        assert_eq!(numbers.take_for_logout(), None);
        assert_eq!(numbers.repeat_for_ping(), REQUEST_END);
    }
}
