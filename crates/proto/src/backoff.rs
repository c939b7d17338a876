//! Pauses that double, with jitter from a seed.

/// Small deterministic generator (splitmix64). Not for secrets: it spreads retries, nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that depends on nothing but the seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which is not 0. The bias is below `bound / 2^64`, of no concern for
    /// a pause.
    const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The shortest and the longest pause, microseconds, shortest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) us_min: u64,
    pub(crate) us_max: u64,
}

impl Backoff {
    /// The pause after `failures` earlier failures in a row: `us_min * 2^failures`, at most
    /// `us_max`, then drawn evenly from its upper half, so that many clients that failed together
    /// do not return together.
    pub(crate) fn pause_us(self, failures: u32, rng: &mut Rng) -> u64 {
        let doubled = self
            .us_min
            .checked_shl(failures)
            .filter(|us| us >> failures == self.us_min);
        let full = doubled.unwrap_or(self.us_max).min(self.us_max);
        full - rng.below(full / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_ceiling_and_stay_in_the_upper_half() {
        let backoff = Backoff {
            us_min: 10,
            us_max: 1_000,
        };
        let mut rng = Rng::new(7);
        for (failures, full) in [
            (0, 10),
            (1, 20),
            (6, 640),
            (7, 1_000),
            (63, 1_000),
            (64, 1_000),
            (u32::MAX, 1_000),
        ] {
            for _ in 0..200 {
                let us = backoff.pause_us(failures, &mut rng);
                assert!(
                    (full - full / 2..=full).contains(&us),
                    "{failures} failures gave {us}"
                );
            }
        }
    }

    #[test]
    fn jitter_uses_the_whole_range_and_only_the_seed() {
        let backoff = Backoff {
            us_min: 8,
            us_max: 8,
        };
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            core::array::from_fn::<u64, 64, _>(|_| backoff.pause_us(0, &mut rng))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for us in 4..=8 {
            assert!(draw(1).contains(&us), "{us} was never drawn");
        }
    }
}
