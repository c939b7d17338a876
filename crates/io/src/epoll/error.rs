//! How the driver fails for good.

use rustix::io::Errno;

use crate::driver::{DriverError, DriverErrorKind};

/// The kernel refuses the system call by which the driver waits. The shard cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {errno}")]
pub struct EpollError {
    call: &'static str,
    errno: Errno,
}

impl EpollError {
    pub(super) fn new(call: &'static str, errno: Errno) -> Self {
        Self { call, errno }
    }
}

impl From<EpollError> for DriverError {
    fn from(error: EpollError) -> Self {
        let kind = match error.errno {
            Errno::PERM | Errno::ACCESS | Errno::NOSYS => DriverErrorKind::Forbidden,
            Errno::NOMEM => DriverErrorKind::Exhausted,
            _ => DriverErrorKind::Broken,
        };
        Self::new(kind, error)
    }
}
