//! What the errno of `io_uring_enter` means. Pure: the table is tested without a kernel.

use std::time::{Duration, Instant};

use super::RingError;

/// How long the kernel may refuse every enter before the ring is called broken. What passes, passes
/// in milliseconds; and what is in flight has no answer before its ring works or is given up.
pub(crate) const REFUSED_MAX: Duration = Duration::from_secs(2);

/// Refusals in a row after which the thread sleeps instead of only letting others run.
const YIELDS_MAX: u32 = 8;
/// The first such sleep; each is twice as long as the one before, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// The longest. Short beside every timeout there is, so that deadlines are kept meanwhile.
const PAUSE_MAX: Duration = Duration::from_micros(3_200);

/// A wait that lasted this long was a wait, and what ended it a signal.
const INTERRUPTED_WAIT_MIN: Duration = Duration::from_micros(200);

/// The reaction to an errno of `io_uring_enter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnterRefusal {
    /// `ETIME`: the wait is over and nothing came. Not an error.
    TimedOut,
    /// `EINTR`: a signal ended a wait. Nothing was lost; the driver goes round its loop.
    Interrupted,
    /// `EAGAIN`, `ENOMEM`: the kernel cannot allocate a request now. `EBUSY`: it wants completions
    /// taken first. In each case what was not submitted is still in the queue: take completions and
    /// enter again.
    Retry,
    /// The ring is beyond use.
    Fatal(RingError),
}

impl EnterRefusal {
    pub(super) fn of(errno: i32) -> Self {
        let broken = |meaning| Self::Fatal(RingError::Broken { errno, meaning });
        match errno {
            libc::ETIME => Self::TimedOut,
            libc::EINTR => Self::Interrupted,
            libc::EAGAIN | libc::ENOMEM | libc::EBUSY => Self::Retry,
            libc::EEXIST => Self::Fatal(RingError::WrongThread),
            libc::EPERM | libc::EACCES | libc::ENOSYS => {
                Self::Fatal(RingError::Forbidden { errno })
            }
            libc::EBADF => broken("the ring's descriptor is closed"),
            libc::EBADFD => broken("the ring is disabled"),
            libc::EFAULT => broken("an address is outside our memory"),
            libc::EINVAL => broken("a flag or an argument is invalid"),
            libc::ENXIO => broken("the ring is being torn down"),
            libc::EOPNOTSUPP => broken("the descriptor is not a ring"),
            libc::EOWNERDEAD => broken("the submission thread of the kernel is gone"),
            _ => Self::Fatal(RingError::Undocumented { errno }),
        }
    }
}

/// What the thread does before it enters again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Nothing.
    GoOn,
    /// Lets others run: they hold what the kernel is short of.
    Yield,
    /// Sleeps. The loop turns after each sleep, so deadlines are looked at all the time.
    Sleep(Duration),
    /// The kernel has refused for [`REFUSED_MAX`].
    GiveUp,
}

/// Refusals in a row. Time is an argument, so that lasting refusals are tested without a kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    in_row: u32,
    /// When the first of the row came.
    since: Option<Instant>,
}

impl Refusals {
    /// True while a row lasts, when it matters how long a wait was.
    pub(super) fn is_row(&self) -> bool {
        self.in_row > 0
    }

    /// An enter went through: the row is over.
    pub(super) fn passed(&mut self) {
        if self.is_row() {
            *self = Self::default();
        }
    }

    /// An enter was refused, and what was queued is queued still.
    pub(super) fn refused(&mut self, now: Instant) -> Pace {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= REFUSED_MAX {
            return Pace::GiveUp;
        }
        self.pause()
    }

    /// A wait was interrupted after `waited`, while nothing was queued. That is a signal, as a
    /// rule: only waits that all end at once make the thread pause, and none of them breaks the
    /// ring.
    pub(super) fn interrupted(&mut self, waited: Duration) -> Pace {
        if waited < INTERRUPTED_WAIT_MIN {
            return self.pause();
        }
        self.in_row /= 2;
        Pace::GoOn
    }

    fn pause(&mut self) -> Pace {
        let doublings = self.in_row.checked_sub(YIELDS_MAX);
        self.in_row = self.in_row.saturating_add(1);
        match doublings {
            None => Pace::Yield,
            Some(doublings) => Pace::Sleep(
                PAUSE_MIN
                    .saturating_mul(1 << doublings.min(16))
                    .min(PAUSE_MAX),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals every few microseconds, as a kernel that refuses at once gives them, until `steps`
    /// or the end; returns the paces and the time they took.
    fn drive(step: fn(&mut Refusals, Instant) -> Pace, steps: usize) -> (Vec<Pace>, Duration) {
        let started = Instant::now();
        let (mut refusals, mut now, mut paces) = (Refusals::default(), started, Vec::new());
        while paces.len() < steps && paces.last() != Some(&Pace::GiveUp) {
            now += Duration::from_micros(5);
            let pace = step(&mut refusals, now);
            if let Pace::Sleep(pause) = pace {
                now += pause;
            }
            paces.push(pace);
        }
        (paces, now - started)
    }

    #[test]
    fn lasting_refusals_yield_then_sleep_then_give_up() {
        let (paces, took) = drive(Refusals::refused, usize::MAX);
        assert!(paces[..8].iter().all(|pace| *pace == Pace::Yield));
        assert_eq!(paces[8], Pace::Sleep(PAUSE_MIN));
        assert!(paces.contains(&Pace::Sleep(PAUSE_MAX)));
        assert_eq!(paces.last(), Some(&Pace::GiveUp));
        assert!(took >= REFUSED_MAX && took < REFUSED_MAX + 2 * PAUSE_MAX);
        assert!(paces.len() < 1000, "{} tries are a spin", paces.len());
    }

    #[test]
    fn a_row_ends_with_the_first_enter_that_goes_through() {
        let started = Instant::now();
        let mut refusals = Refusals::default();
        for _ in 0..20 {
            refusals.refused(started);
        }
        refusals.passed();
        assert_eq!(refusals.refused(started + 2 * REFUSED_MAX), Pace::Yield);
    }

    #[test]
    fn waits_that_are_interrupted_at_once_pause_and_break_nothing() {
        let at_once = |refusals: &mut Refusals, _| refusals.interrupted(Duration::from_micros(1));
        let (paces, took) = drive(at_once, 10_000);
        assert!(!paces.contains(&Pace::GiveUp), "signals end no ring");
        assert!(took > Duration::from_secs(10), "{took:?} is a spin");
    }

    #[test]
    fn a_profiler_at_a_thousand_a_second_costs_no_pause() {
        let mut refusals = Refusals::default();
        for _ in 0..10_000 {
            let pace = refusals.interrupted(Duration::from_millis(1));
            assert_eq!(pace, Pace::GoOn);
        }
    }

    #[test]
    fn passing_conditions_are_never_fatal_and_the_rest_is() {
        for errno in 1..=133 {
            let fatal = matches!(EnterRefusal::of(errno), EnterRefusal::Fatal(_));
            let passing = [
                libc::ETIME,
                libc::EINTR,
                libc::EAGAIN,
                libc::ENOMEM,
                libc::EBUSY,
            ]
            .contains(&errno);
            assert_eq!(fatal, !passing, "errno {errno}");
        }
    }

    #[test]
    fn another_thread_is_named() {
        assert_eq!(
            EnterRefusal::of(libc::EEXIST),
            EnterRefusal::Fatal(RingError::WrongThread)
        );
    }
}
