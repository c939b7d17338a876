//! How long the requests of a lane take, and after which silence one is taken for lost.
//!
//! The estimate is TCP's (RFC 6298): a mean and a deviation, each moved by a fraction of what a new
//! sample differs by, from requests that were transmitted once, because of others nobody knows
//! which transmission was answered.
//!
//! A request is lost when it was read and is not answered: sends fall off full queues without a
//! word. Two signs show that before [`crate::Config::request_timeout_us`] is over, and both need
//! proof that the server has read past it:
//!
//! - Requests of the same lane that were sent after it are answered. A partition answers in its
//!   order.
//! - It is the oldest of its lane, the lane's own pace says that it is overdue, and something that
//!   was sent after it on the connection is answered; for want of anything else, a ping. A server
//!   that stands still answers none.
//!
//! Being wrong costs a transmission that the server recognises as a duplicate. Where servers have
//! no memory of duplicates it may cost a duplicate, hence the proof and the floors here.

/// How long a request of a lane takes, from the hand-over to the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Mean, microseconds; 0 before the first sample.
    mean_us: u32,
    /// Mean deviation, microseconds.
    deviation_us: u32,
}

/// Least silence after which a request may be taken for lost by its lane's pace: TCP's of Linux. A
/// commit that waits for a disk, or a delayed acknowledgement of 40 ms, stays below it.
const OVERDUE_US_MIN: u64 = 200_000;

/// The same while the pace is not known: TCP's.
const OVERDUE_US_UNKNOWN: u64 = 1_000_000;

/// Requests answered out of turn that show that one was lost: TCP's three duplicate
/// acknowledgements.
pub(crate) const PASSED_BY_MAX: u8 = 3;

/// Least time after which being passed by counts.
const PASSED_BY_US_MIN: u64 = 10_000;

/// Longest silence before a request is sent again, unless the request timeout is longer.
const SILENCE_US_MAX: u64 = 10_000_000;

impl Pace {
    pub(crate) const UNKNOWN: Self = Self {
        mean_us: 0,
        deviation_us: 0,
    };

    /// Takes a request's time into account.
    pub(crate) fn take(&mut self, sample_us: u64) {
        let sample_us = u32::try_from(sample_us).unwrap_or(u32::MAX).max(1);
        if *self == Self::UNKNOWN {
            self.mean_us = sample_us;
            self.deviation_us = sample_us / 2;
            return;
        }
        let difference_us = self.mean_us.abs_diff(sample_us);
        self.deviation_us = self.deviation_us - self.deviation_us / 4 + difference_us / 4;
        self.mean_us = self.mean_us - self.mean_us / 8 + sample_us / 8;
    }

    /// Silence after which a request is overdue.
    pub(crate) fn overdue_us(self) -> u64 {
        if self == Self::UNKNOWN {
            return OVERDUE_US_UNKNOWN;
        }
        let us = u64::from(self.mean_us) + 4 * u64::from(self.deviation_us);
        us.max(OVERDUE_US_MIN)
    }

    /// Time since the hand-over after which being passed by counts.
    pub(crate) fn passed_by_us(self) -> u64 {
        (2 * u64::from(self.mean_us)).max(PASSED_BY_US_MIN)
    }
}

/// A silence that doubles with each that came before it, up to the longest.
pub(crate) fn growing_us(us: u64, silences: u8, request_timeout_us: u64) -> u64 {
    let longest_us = SILENCE_US_MAX.max(request_timeout_us);
    let factor = 1 << silences.min(40);
    us.saturating_mul(factor).min(longest_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_pace_is_learned_and_the_floor_holds() {
        let mut pace = Pace::UNKNOWN;
        assert_eq!(pace.overdue_us(), OVERDUE_US_UNKNOWN);
        for _ in 0..100 {
            pace.take(300);
        }
        assert_eq!(pace.overdue_us(), OVERDUE_US_MIN);
        assert_eq!(pace.passed_by_us(), PASSED_BY_US_MIN);
        for _ in 0..100 {
            pace.take(2_000_000);
        }
        assert!((1_900_000..2_300_000).contains(&pace.overdue_us()));
    }

    #[test]
    fn an_uneven_pace_is_given_more_time() {
        let mut pace = Pace::UNKNOWN;
        for turn in 0..100 {
            pace.take(if turn % 2 == 0 { 100_000 } else { 500_000 });
        }
        assert!(pace.overdue_us() > 900_000, "{}", pace.overdue_us());
        pace.take(u64::MAX);
        pace.take(0);
        assert!(pace.overdue_us() > 1_000_000_000);
    }

    #[test]
    fn silences_double_up_to_the_longest() {
        let grown = |silences| growing_us(100_000, silences, 100_000);
        assert_eq!(
            [0, 1, 2, 3].map(grown),
            [100_000, 200_000, 400_000, 800_000]
        );
        assert_eq!([7, 39, 200].map(grown), [SILENCE_US_MAX; 3]);
        assert_eq!(growing_us(30_000_000, 9, 30_000_000), 30_000_000);
    }
}
