//! From the errno of a setup call to the likely cause and the remedy.
//!
//! The mapping is a pure function of the errno and of [`Evidence`] about the host, so that hosts
//! this code never ran on are tested like the one it runs on.

use std::io;

use super::SetupError;

/// `Seccomp:` in `/proc/self/status` when a filter is installed.
const SECCOMP_MODE_FILTER: u8 = 2;

/// What the host says about itself. `None` where it says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// `kernel.io_uring_disabled`: 0 allowed, 1 privileged only, 2 nobody. Linux 6.6.
    pub(crate) disabled_level: Option<u8>,
    /// Seccomp mode of this thread: 0 none, 2 filter.
    pub(crate) seccomp_mode: Option<u8>,
    /// `RLIMIT_MEMLOCK`.
    pub(crate) memlock_bytes: u64,
    /// Kernel release, as `uname -r` prints it.
    pub(crate) release: String,
}

impl Evidence {
    /// Asks the host.
    pub(crate) fn read() -> Self {
        Self {
            disabled_level: read_number("/proc/sys/kernel/io_uring_disabled"),
            seccomp_mode: std::fs::read_to_string("/proc/thread-self/status")
                .ok()
                .and_then(|status| {
                    status
                        .lines()
                        .find_map(|line| line.strip_prefix("Seccomp:")?.trim().parse().ok())
                }),
            memlock_bytes: memlock_bytes(),
            release: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map(|release| release.trim().to_owned())
                .unwrap_or_else(|_| "unknown".to_owned()),
        }
    }

    fn is_filtered(&self) -> bool {
        self.seccomp_mode == Some(SECCOMP_MODE_FILTER)
    }

    /// An error that says a feature is missing here.
    pub(crate) fn too_old(&self, feature: &'static str, needed: &'static str) -> SetupError {
        SetupError::KernelTooOld {
            release: self.release.clone(),
            feature,
            needed,
        }
    }
}

/// The error of `call` (`io_uring_setup`, `io_uring_register` or `io_uring_enter`), explained.
pub(crate) fn diagnose(call: &'static str, source: io::Error, evidence: &Evidence) -> SetupError {
    match source.raw_os_error() {
        // The sysctl and a filter both answer EPERM; the sysctl can be read, so it is asked first.
        // It forbids the setup and nothing after it.
        Some(libc::EPERM) => match evidence.disabled_level {
            Some(level @ 1..) if call == "io_uring_setup" => SetupError::Disabled { level },
            _ if evidence.is_filtered() => SetupError::Seccomp { call, source },
            _ => SetupError::Forbidden { call, source },
        },
        Some(libc::EACCES) if evidence.is_filtered() => SetupError::Seccomp { call, source },
        Some(libc::EACCES) => SetupError::Forbidden { call, source },
        // Some filters pretend that the system call does not exist.
        Some(libc::ENOSYS) if evidence.is_filtered() => SetupError::Seccomp { call, source },
        Some(libc::ENOSYS) => evidence.too_old(
            "io_uring, or was built without it (CONFIG_IO_URING)",
            "5.11",
        ),
        // Rings count as locked memory before 5.12 and again in recent releases.
        Some(libc::ENOMEM) if evidence.memlock_bytes != u64::MAX => SetupError::LockedMemory {
            limit_bytes: evidence.memlock_bytes,
            source,
        },
        Some(libc::EMFILE | libc::ENFILE) => SetupError::Descriptors {
            what: "the ring",
            source,
        },
        // ENOMEM without a limit, EINVAL after every fallback, EFAULT, and whatever else there is.
        _ => SetupError::Refused { call, source },
    }
}

fn read_number(path: &str) -> Option<u8> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The soft limit of locked memory, `u64::MAX` when there is none.
pub(crate) fn memlock_bytes() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    limit.current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(disabled_level: Option<u8>, seccomp_mode: Option<u8>, release: &str) -> Evidence {
        Evidence {
            disabled_level,
            seccomp_mode,
            memlock_bytes: 65_536,
            release: release.to_owned(),
        }
    }

    fn explain(errno: i32, evidence: &Evidence) -> (SetupError, String) {
        let error = diagnose(
            "io_uring_setup",
            io::Error::from_raw_os_error(errno),
            evidence,
        );
        let text = error.to_string();
        (error, text)
    }

    #[test]
    fn the_sysctl_is_named_with_its_value_and_remedy() {
        let (error, text) = explain(libc::EPERM, &host(Some(2), Some(0), "6.8.0"));
        assert!(
            matches!(error, SetupError::Disabled { level: 2 }),
            "{error:?}"
        );
        assert!(
            text.contains("kernel.io_uring_disabled=0") && !text.contains("CAP_SYS_ADMIN"),
            "{text}"
        );
        let (_, text) = explain(libc::EPERM, &host(Some(1), Some(2), "6.8.0"));
        assert!(
            text.contains("is 1") && text.contains("CAP_SYS_ADMIN"),
            "{text}"
        );
    }

    #[test]
    fn a_filter_is_blamed_for_what_only_a_filter_does() {
        for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
            let (error, text) = explain(errno, &host(Some(0), Some(2), "6.8.0"));
            assert!(matches!(error, SetupError::Seccomp { .. }), "{error:?}");
            assert!(
                text.contains("container") && text.contains("io_uring_enter"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_sysctl_is_not_blamed_for_what_comes_after_the_setup() {
        for call in ["io_uring_register", "io_uring_enter"] {
            let refused = io::Error::from_raw_os_error(libc::EPERM);
            let error = diagnose(call, refused, &host(Some(2), Some(2), "6.8.0"));
            assert!(matches!(error, SetupError::Seccomp { .. }), "{error:?}");
        }
    }

    #[test]
    fn without_sysctl_and_filter_a_sandbox_is_blamed() {
        for errno in [libc::EPERM, libc::EACCES] {
            let (error, _) = explain(errno, &host(None, None, "5.15.0"));
            assert!(matches!(error, SetupError::Forbidden { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_kernel_without_io_uring_is_named_with_its_release() {
        let (error, text) = explain(libc::ENOSYS, &host(None, Some(0), "4.19.0-26-amd64"));
        assert!(
            matches!(error, SetupError::KernelTooOld { .. }),
            "{error:?}"
        );
        assert!(
            text.contains("4.19.0-26-amd64") && text.contains("5.11"),
            "{text}"
        );
    }

    #[test]
    fn no_memory_is_blamed_on_the_locked_memory_limit_where_there_is_one() {
        let limited = host(None, Some(0), "6.18.0");
        let (error, text) = explain(libc::ENOMEM, &limited);
        assert!(
            matches!(
                error,
                SetupError::LockedMemory {
                    limit_bytes: 65_536,
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(text.contains("ulimit -l"), "{text}");
        let unlimited = Evidence {
            memlock_bytes: u64::MAX,
            ..limited
        };
        let (error, _) = explain(libc::ENOMEM, &unlimited);
        assert!(matches!(error, SetupError::Refused { .. }), "{error:?}");
    }

    #[test]
    fn descriptors_and_the_rest() {
        for errno in [libc::EMFILE, libc::ENFILE] {
            let (error, text) = explain(errno, &host(Some(0), Some(0), "6.8.0"));
            assert!(matches!(error, SetupError::Descriptors { .. }), "{error:?}");
            assert!(text.contains("ulimit -n"), "{text}");
        }
        for errno in [libc::EINVAL, libc::EFAULT, libc::EIO] {
            let (error, text) = explain(errno, &host(Some(0), Some(2), "6.8.0"));
            assert!(matches!(error, SetupError::Refused { .. }), "{error:?}");
            assert!(text.starts_with("io_uring_setup failed"), "{text}");
        }
    }

    #[test]
    fn this_host_gives_evidence() {
        let evidence = Evidence::read();
        assert!(
            evidence.release.starts_with(|c: char| c.is_ascii_digit()),
            "{evidence:?}"
        );
        assert!(evidence.seccomp_mode.is_some(), "{evidence:?}");
    }
}
