//! Whether the confirmed batches of a lane were stored in order, as far as replies can tell; and
//! how many were not.
//!
//! Two batches of a lane, the earlier `n` and the later `m`, are confirmed in either order:
//!
//! - `m` first: then `n` was overtaken unless its offset is below `m`'s. The bound is kept with
//!   `n`, see [`crate::batch::Batch::below_offset`].
//! - `n` first, while `m` is in the window: then `n` may have been overtaken if its own order is in
//!   doubt, which only the confirmation of `m` can settle. [`Doubts`] remembers `n` until then.
//!
//! Every batch that was overtaken is counted at least once; a lost reply can make one count that
//! was not.

/// Confirmed batches of a lane that may have been overtaken by one that is still in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubts {
    count: u32,
    /// The lowest number among them.
    number_min: u64,
    /// The highest number that was in the window when one of them was confirmed. Later ones were
    /// sent afterwards.
    until: u64,
    /// The highest offset among them, the maximum when one has no known offset.
    offset_max: u64,
}

impl Doubts {
    pub(crate) const NONE: Self = Self {
        count: 0,
        number_min: u64::MAX,
        until: 0,
        offset_max: 0,
    };

    /// Adds a confirmed batch, with the highest number in the window.
    pub(crate) fn add(&mut self, number: u64, offset: Option<u64>, newest: u64) {
        self.count = self.count.saturating_add(1);
        self.number_min = self.number_min.min(number);
        self.until = self.until.max(newest);
        self.offset_max = self.offset_max.max(offset.unwrap_or(u64::MAX));
    }

    /// Forgets them once every request that could have overtaken them is resolved.
    pub(crate) fn expire(&mut self, oldest_unresolved: u64) {
        if oldest_unresolved > self.until {
            *self = Self::NONE;
        }
    }

    /// Takes the confirmation of `number` into account. Returns how many it may have overtaken:
    /// they are settled.
    pub(crate) fn settle(&mut self, number: u64, offset: Option<u64>) -> u32 {
        let is_later = number > self.number_min && number <= self.until;
        if !is_later || offset.is_some_and(|offset| offset > self.offset_max) {
            return 0;
        }
        core::mem::replace(self, Self::NONE).count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers 3, 4 and 5 confirmed in doubt, while 9 was the newest in the window.
    fn doubts() -> Doubts {
        let mut doubts = Doubts::NONE;
        for (number, offset) in [(4, Some(40)), (3, Some(30)), (5, Some(50))] {
            doubts.add(number, offset, 9);
        }
        doubts
    }

    #[test]
    fn a_later_confirmation_without_proof_settles_all_at_once() {
        for offset in [None, Some(10), Some(35), Some(50)] {
            let mut doubts = doubts();
            assert_eq!(doubts.settle(6, offset), 3, "{offset:?}");
            assert_eq!(doubts.settle(7, offset), 0, "each is counted once");
        }
    }

    #[test]
    fn an_offset_above_all_an_earlier_number_and_one_sent_afterwards_settle_nothing() {
        let mut doubts = doubts();
        for (number, offset) in [(6, Some(51)), (2, None), (3, None), (10, None)] {
            assert_eq!(doubts.settle(number, offset), 0, "{number} {offset:?}");
        }
        assert_eq!(doubts.settle(9, None), 3);
    }

    #[test]
    fn they_last_until_the_newest_of_then_is_resolved() {
        let mut doubts = doubts();
        doubts.expire(9);
        assert_eq!(doubts.settle(9, None), 3);
        let mut doubts = self::doubts();
        doubts.expire(10);
        assert_eq!(doubts, Doubts::NONE);
    }

    #[test]
    fn one_without_an_offset_can_be_proved_by_none() {
        let mut doubts = doubts();
        doubts.add(6, None, 9);
        assert_eq!(doubts.settle(7, Some(u64::MAX - 1)), 4);
    }
}
