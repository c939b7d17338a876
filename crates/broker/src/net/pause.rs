//! How long to wait before something that failed is tried again: longer each time, and never long.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);

/// The pauses of one row of failures.
#[derive(Debug, Default)]
pub(super) struct Pause {
    taken: u32,
}

impl Pause {
    /// Pauses so far.
    pub(super) fn taken(&self) -> u32 {
        self.taken
    }

    /// The next pause: twice the one before, up to half a second.
    pub(super) fn next(&mut self) -> Duration {
        let pause = SHORTEST
            .saturating_mul(1 << self.taken.min(16))
            .min(LONGEST);
        self.taken = self.taken.saturating_add(1);
        pause
    }

    /// It worked.
    pub(super) fn reset(&mut self) {
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_second_and_begin_again() {
        let mut pause = Pause::default();
        let mut milliseconds: Vec<_> = (0..8).map(|_| pause.next().as_millis()).collect();
        assert_eq!(milliseconds, [10, 20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(pause.taken(), 8);
        pause.reset();
        milliseconds.push(pause.next().as_millis());
        assert_eq!(milliseconds.last(), Some(&10));
        let mut forever = Pause { taken: u32::MAX };
        assert_eq!(forever.next(), LONGEST);
    }
}
