//! Deadlines from durations that a caller chose.
//!
//! A caller who says `Duration::MAX` means "without a limit". An instant that no clock reaches is
//! therefore no deadline at all, and no sum here overflows.

use std::time::{Duration, Instant};

/// A moment until which something is waited for; without one there is no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// `within` from now.
    pub(crate) fn within(within: Duration) -> Self {
        Self(Instant::now().checked_add(within))
    }

    /// The moment, `None` when there is no limit.
    pub(crate) fn instant(self) -> Option<Instant> {
        self.0
    }

    /// What is left; [`Duration::MAX`] when there is no limit.
    pub(crate) fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    }

    /// True when the moment has come.
    pub(crate) fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

/// A duration as the shard counts it: in microseconds, the largest number when it is longer.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_without_end_is_no_deadline() {
        let endless = [
            Duration::MAX,
            Duration::from_secs(u64::MAX),
            Duration::from_secs(i64::MAX as u64),
        ];
        for within in endless {
            let deadline = Deadline::within(within);
            assert!(deadline.instant().is_none() && !deadline.is_over());
            assert_eq!(deadline.left(), Duration::MAX);
            assert_eq!(micros(within), u64::MAX);
        }
    }

    #[test]
    fn a_duration_that_ends_is_one() {
        assert!(Deadline::within(Duration::ZERO).is_over());
        let hour = Deadline::within(Duration::from_secs(3600));
        assert!(hour.instant().is_some() && !hour.is_over());
        assert!(hour.left() > Duration::from_secs(3500));
        assert_eq!(micros(Duration::from_millis(3)), 3000);
    }
}
