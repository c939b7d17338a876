//! Which driver moves the bytes, and which one is wanted.

use std::fmt;
use std::str::FromStr;

/// The driver of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverKind {
    /// [`Transport`](crate::transport::Transport).
    IoUring,
    /// [`Epoll`](crate::epoll::Epoll).
    Epoll,
    /// A driver without a kernel.
    #[cfg(feature = "simulation")]
    Simulated,
}

impl DriverKind {
    /// The name used in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Epoll => "epoll",
            #[cfg(feature = "simulation")]
            Self::Simulated => "simulated",
        }
    }
}

/// Which driver is wanted. As text: `auto`, `io_uring` or `epoll`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverChoice {
    /// io_uring where this host allows it, otherwise epoll, which is said once in the log.
    #[default]
    Auto,
    /// io_uring, or an error that says what refuses it.
    IoUring,
    /// epoll. Works everywhere; costs more system calls, and copies what io_uring would not.
    Epoll,
}

impl DriverChoice {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::IoUring, Self::Epoll];

    /// The text of the choice.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::Epoll => "epoll",
        }
    }
}

impl fmt::Display for DriverChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no driver: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a driver: write auto, io_uring or epoll")]
pub struct UnknownDriver;

impl FromStr for DriverChoice {
    type Err = UnknownDriver;

    fn from_str(text: &str) -> Result<Self, UnknownDriver> {
        let mut choices = Self::ALL.into_iter();
        choices
            .find(|choice| choice.name() == text)
            .ok_or(UnknownDriver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_shown() {
        for choice in DriverChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for text in ["", "Auto", "uring", "epoll "] {
            assert_eq!(text.parse::<DriverChoice>(), Err(UnknownDriver));
        }
    }
}
