//! Errors of setting a ring up, with the likely cause and the remedy, and of running it.

use std::io;

use crate::driver::{DriverError, DriverErrorKind};
use crate::memory::ArenaError;

/// A shard's kernel side could not be set up. Each variant says whose fault it is and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The host's administrator switched io_uring off.
    #[error(
        "io_uring is switched off on this host: kernel.io_uring_disabled is {level}; set it to 0 \
         (sysctl -w kernel.io_uring_disabled=0){hint}",
        hint = if *.level == 1 { ", or run as a member of kernel.io_uring_group or with CAP_SYS_ADMIN" } else { "" }
    )]
    Disabled {
        /// Value of the sysctl: 1 forbids unprivileged processes, 2 forbids all.
        level: u8,
    },
    /// A seccomp filter forbids a system call of io_uring; the default profiles of container
    /// runtimes do.
    #[error(
        "{call} is forbidden by a seccomp filter ({source}); container runtimes block io_uring by default: run with \
         a profile that allows io_uring_setup, io_uring_enter and io_uring_register"
    )]
    Seccomp {
        /// The refused system call.
        call: &'static str,
        /// The errno of the filter.
        source: io::Error,
    },
    /// A system call was refused for lack of permission, and neither the sysctl nor a filter
    /// explains it.
    #[error(
        "{call} is not permitted ({source}); a security module or the sandbox of this process forbids io_uring"
    )]
    Forbidden {
        /// The refused system call.
        call: &'static str,
        /// The errno.
        source: io::Error,
    },
    /// The kernel has no io_uring, or one without something that is needed.
    #[error("this kernel ({release}) has no {feature}; it needs Linux {needed} or newer")]
    KernelTooOld {
        /// Release of the running kernel.
        release: String,
        /// What is missing.
        feature: &'static str,
        /// First release that has it.
        needed: &'static str,
    },
    /// The write path demanded by configuration cannot work here.
    #[error("write path `{path}` was demanded, but {reason}; choose `auto`, or {remedy}")]
    WritePath {
        /// The path.
        path: &'static str,
        /// Why not.
        reason: &'static str,
        /// What would make it work.
        remedy: &'static str,
    },
    /// The limit of locked memory leaves no room for the ring itself. The limit is the user's, over
    /// all processes.
    #[error(
        "no locked memory left for the ring: RLIMIT_MEMLOCK is {limit_bytes} bytes ({source}); raise it \
         (ulimit -l, LimitMEMLOCK= in a systemd unit)"
    )]
    LockedMemory {
        /// The limit in force.
        limit_bytes: u64,
        /// The errno.
        source: io::Error,
    },
    /// No descriptor left.
    #[error(
        "no file descriptor left for {what} ({source}); raise the limit (ulimit -n, LimitNOFILE=)"
    )]
    Descriptors {
        /// What it was for.
        what: &'static str,
        /// The errno.
        source: io::Error,
    },
    /// An option of [`TransportConfig`](crate::transport::TransportConfig) is out of range: the
    /// caller's fault.
    #[error("transport option `{option}` is {found}, but {rule}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The value given.
        found: u64,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// The memory of the shard.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// A refusal without a known cause.
    #[error("{call} failed: {source}")]
    Refused {
        /// The system call and what it was for.
        call: &'static str,
        /// The errno.
        source: io::Error,
    },
}

impl SetupError {
    /// True when this host, its rules or its kernel have no ring for us, so that a driver without
    /// one may work. False for what the caller asked for, and for what any driver needs.
    pub fn is_refusal_of_io_uring(&self) -> bool {
        match self {
            Self::Disabled { .. }
            | Self::Seccomp { .. }
            | Self::Forbidden { .. }
            | Self::KernelTooOld { .. }
            | Self::LockedMemory { .. }
            | Self::Refused { .. } => true,
            Self::WritePath { .. }
            | Self::Descriptors { .. }
            | Self::Option { .. }
            | Self::Arena(_) => false,
        }
    }
}

/// The ring of a running shard stopped working. The shard cannot go on; its connections are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// `EEXIST`: the transport was used from a thread other than the one that made it.
    #[error("the ring was entered from a thread that does not own it")]
    WrongThread,
    /// `EPERM`, `EACCES`, `ENOSYS`: a filter was installed after the ring was set up.
    #[error(
        "io_uring_enter is forbidden since the ring was set up (errno {errno}): a seccomp filter came later"
    )]
    Forbidden {
        /// The errno.
        errno: i32,
    },
    /// `EAGAIN`, `EBUSY`, `ENOMEM` or `EINTR`, and nothing else for two seconds.
    #[error(
        "the kernel has refused every io_uring_enter for two seconds (errno {errno}): this host is out of memory, or \
         a filter refuses the call"
    )]
    Refused {
        /// The errno of the last refusal.
        errno: i32,
    },
    /// `EBADF`, `EBADFD`, `EFAULT`, `EINVAL`, `ENXIO`, `EOPNOTSUPP`: we passed something wrong, or
    /// somebody closed our descriptor.
    #[error("io_uring_enter rejects our arguments (errno {errno}): {meaning}")]
    Broken {
        /// The errno.
        errno: i32,
        /// What it means for this call.
        meaning: &'static str,
    },
    /// The read of our own eventfd failed: the shard could not be woken any more.
    #[error(
        "the wake-up eventfd cannot be read (errno {errno}): somebody closed or changed our descriptor"
    )]
    Wake {
        /// The errno.
        errno: i32,
    },
    /// An errno this call does not document.
    #[error("io_uring_enter failed with an errno it does not document: {errno}")]
    Undocumented {
        /// The errno.
        errno: i32,
    },
}

impl From<RingError> for DriverError {
    fn from(error: RingError) -> Self {
        let kind = match error {
            RingError::WrongThread => DriverErrorKind::WrongThread,
            RingError::Forbidden { .. } => DriverErrorKind::Forbidden,
            RingError::Refused { .. } => DriverErrorKind::Exhausted,
            RingError::Broken { .. } | RingError::Wake { .. } | RingError::Undocumented { .. } => {
                DriverErrorKind::Broken
            }
        };
        Self::new(kind, error)
    }
}
