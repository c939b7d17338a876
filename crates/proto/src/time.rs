//! Virtual time: microseconds of a monotonic clock that the driver owns.
//!
//! Nothing here reads a clock. Arithmetic saturates, so an absurd deadline means "never" and not a
//! wrap to the past.

/// A point in time, in microseconds since an origin that the driver chose once and never moves
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// A point that no clock reaches: as a deadline it means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The point `us` microseconds later, [`Micros::MAX`] when that is out of range.
    #[must_use]
    pub const fn after(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// Microseconds from `earlier` to `self`, 0 when `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Until when a batch may take.
///
/// A batch is given up at `at`, but not before `progress_us` have passed without progress ahead of
/// it. Progress is an answer for good, to a request of its lane that is ahead of it or to the
/// oldest open request of the connection. So a server that answers slowly is waited for however
/// much is queued, and one that does not answer is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The end without progress; [`Micros::MAX`] for never.
    pub at: Micros,
    /// Time without progress that it takes in any case, 0 for a deadline that nothing moves.
    pub progress_us: u64,
}

impl Deadline {
    /// A deadline that nothing moves.
    #[must_use]
    pub const fn fixed(at: Micros) -> Self {
        Self { at, progress_us: 0 }
    }
}

impl From<Micros> for Deadline {
    fn from(at: Micros) -> Self {
        Self::fixed(at)
    }
}
