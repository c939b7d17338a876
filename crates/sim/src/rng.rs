//! Pseudo-random numbers of a run: one stream per concern, all from one seed.
//!
//! Role: a draw of one concern never shifts the draws of another, so a change of the workload
//! leaves the network of a seed as it was. Does not: provide entropy; nothing here is fit for
//! secrets. Invariant: the sequence of a `(seed, stream)` pair never changes. That is why the
//! generator stands here in full (SplitMix64, Steele, Lea and Flood 2014) instead of coming from a
//! crate that may change it: kept seeds must replay.

/// A concern with random numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Stream {
    /// Parameters of the run, drawn before it begins.
    Draws = 1,
    /// What the clients submit, and when.
    Workload = 2,
    /// Latencies and fragment sizes of the network.
    Network = 3,
    /// Latencies of the broker.
    Broker = 4,
    /// When a fault fires.
    Faults = 5,
    /// Seeds handed to the clients under test.
    Clients = 6,
}

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// The generator of `seed` itself.
    #[must_use]
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The generator of one concern of run `seed`.
    #[must_use]
    pub(crate) fn stream(seed: u64, stream: Stream) -> Self {
        // Two outputs of a generator at `seed ^ salt` decide the start, so neighbouring seeds and
        // streams share nothing although SplitMix64 walks its state by a constant.
        let mut root = Self::new(seed ^ (stream as u64).wrapping_mul(0xd605_1a2b_7f4c_9e3d));
        let state = root.next_u64() ^ root.next_u64().rotate_left(32);
        Self { state }
    }

    /// The next 64 bits.
    pub(crate) const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0. The bias is below `bound / 2^64`.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a number below 0 does not exist");
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a range runs upwards");
        let width = (high - low).wrapping_add(1);
        if width == 0 {
            return self.next_u64();
        }
        low + self.below(width)
    }

    /// A number in `low..=high` whose magnitude is even: small ones are as likely as large ones.
    /// Rates, sizes and times are drawn so, because bugs live at both ends of the scale.
    pub(crate) const fn scaled(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a range runs upwards");
        let bits_low = 64 - low.leading_zeros() as u64;
        let bits_high = 64 - high.leading_zeros() as u64;
        let bits = self.between(bits_low, bits_high) as u32;
        let floor = if bits == 0 { 0 } else { 1u64 << (bits - 1) };
        let ceiling = if bits == 0 { 0 } else { floor + (floor - 1) };
        let floor = if floor < low { low } else { floor };
        let ceiling = if ceiling > high { high } else { ceiling };
        self.between(floor, ceiling)
    }

    /// True `ppm` times in a million.
    pub(crate) const fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < ppm as u64
    }

    /// One of `items`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64) as usize;
        &items[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_seed_zero_is_the_published_one() {
        let mut rng = Rng::new(0);
        let drawn = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(
            drawn,
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
    }

    #[test]
    fn streams_of_one_seed_and_neighbouring_seeds_differ() {
        let mut firsts: Vec<u64> = Vec::new();
        for seed in 0..64 {
            for stream in [
                Stream::Draws,
                Stream::Workload,
                Stream::Network,
                Stream::Broker,
                Stream::Faults,
            ] {
                firsts.push(Rng::stream(seed, stream).next_u64());
            }
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 64 * 5);
    }

    #[test]
    fn ranges_reach_both_ends_and_never_leave() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[(rng.between(10, 14) - 10) as usize] = true;
            assert!((3..=900).contains(&rng.scaled(3, 900)));
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.between(9, 9), 9);
        assert_eq!(rng.scaled(0, 0), 0);
        assert_eq!(Rng::new(1).between(0, u64::MAX), Rng::new(1).next_u64());
    }

    #[test]
    fn chances_are_met_in_the_long_run() {
        let mut rng = Rng::new(3);
        let hits = (0..100_000).filter(|_| rng.chance(100_000)).count();
        assert!(
            (9_500..10_500).contains(&hits),
            "{hits} of 100000 at one in ten"
        );
        assert!((0..1000).all(|_| !rng.chance(0)));
        assert!((0..1000).all(|_| rng.chance(1_000_000)));
    }
}
