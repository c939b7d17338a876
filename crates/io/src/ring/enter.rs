//! What the errno of `io_uring_enter` means. Pure: the table is tested without a kernel.

use super::RingError;

/// The reaction to an errno of `io_uring_enter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnterRefusal {
    /// `ETIME`: the wait is over and nothing came. Not an error.
    TimedOut,
    /// `EINTR`: a signal. Nothing was lost; the driver goes round its loop.
    Interrupted,
    /// `EAGAIN`, `ENOMEM`: the kernel cannot allocate a request now. `EBUSY`: it wants completions taken first.
    /// In each case what was not submitted is still in the queue: take completions and enter again.
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

#[cfg(test)]
mod tests {
    use super::*;

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
