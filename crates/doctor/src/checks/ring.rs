//! io_uring: what forbids it, and what of it this kernel has.

use super::unreadable;
use crate::parse;
use crate::{Check, Facts, Ring};

/// What a host without a ring costs.
const EPOLL: &str = "the engine takes epoll instead; a driver of io_uring alone is refused";

/// Bit of `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![ring(facts), kernel(facts), sysctl(facts), seccomp(facts)];
    checks.extend(features(facts.ring.as_ref()));
    checks
}

fn ring(facts: &Facts) -> Check {
    const ID: &str = "io_uring";
    match &facts.ring {
        None => Check::unknown(ID, "no ring was tried"),
        Some(Ok(_)) => Check::fine(ID, "a ring was made, and carried an operation"),
        Some(Err(cause)) => Check::slower(
            ID,
            cause.clone(),
            EPOLL,
            "what the lines sysctl, seccomp, kernel and locked_memory say",
        ),
    }
}

fn kernel(facts: &Facts) -> Check {
    const ID: &str = "kernel";
    let Some(release) = &facts.host.release else {
        return unreadable(ID, "the kernel's release");
    };
    let found = format!("Linux {release}");
    match parse::release(release) {
        None => Check::unknown(ID, format!("{found}, which is no release known here")),
        Some(version) if version < (5, 11) => Check::slower(
            ID,
            found,
            EPOLL,
            "install a kernel of 5.11 or newer, best 6.15 or newer",
        ),
        Some(version) if version < (6, 15) => Check::slower(
            ID,
            found,
            "what 6.0 to 6.15 brought is done without",
            "install a kernel of 6.15 or newer",
        ),
        Some(_) => Check::fine(ID, found),
    }
}

fn sysctl(facts: &Facts) -> Check {
    const ID: &str = "sysctl";
    const COMMAND: &str = "sysctl -w kernel.io_uring_disabled=0";
    let host = &facts.host;
    let version = host.release.as_deref().and_then(parse::release);
    match (host.io_uring_disabled, version) {
        (Some(0), _) => Check::fine(ID, "kernel.io_uring_disabled is 0"),
        (Some(1), _) => match host.capabilities {
            Some(mask) if mask >> CAP_SYS_ADMIN & 1 == 1 => Check::fine(
                ID,
                "kernel.io_uring_disabled is 1, and this process has CAP_SYS_ADMIN",
            ),
            // A member of kernel.io_uring_group may, too: only trying tells.
            _ if matches!(facts.ring, Some(Ok(_))) => Check::fine(
                ID,
                "kernel.io_uring_disabled is 1, and this process is let through",
            ),
            _ => Check::slower(ID, "kernel.io_uring_disabled is 1", EPOLL, COMMAND),
        },
        (Some(level), _) => {
            let found = format!("kernel.io_uring_disabled is {level}");
            Check::slower(ID, found, EPOLL, COMMAND)
        }
        (None, Some(version)) if version < (6, 6) => {
            Check::fine(ID, "this kernel has no switch for io_uring")
        }
        (None, _) => unreadable(ID, "kernel.io_uring_disabled"),
    }
}

fn seccomp(facts: &Facts) -> Check {
    const ID: &str = "seccomp";
    match (facts.host.seccomp_mode, &facts.ring) {
        (Some(0), _) => Check::fine(ID, "no filter"),
        (Some(_), Some(Ok(_))) => Check::fine(ID, "a filter, and it lets io_uring through"),
        (Some(_), Some(Err(cause))) if cause.contains("seccomp") => Check::slower(
            ID,
            "a filter forbids io_uring",
            EPOLL,
            "docker run --security-opt seccomp=tuning/seccomp/ringmain.json ...",
        ),
        (Some(_), _) => Check::unknown(ID, "a filter; whether it forbids io_uring is not known"),
        (None, _) => unreadable(ID, "the seccomp mode"),
    }
}

/// One check for each thing of io_uring that ringmain uses when it is there.
fn features(ring: Option<&Result<Ring, String>>) -> Vec<Check> {
    type Row = (&'static str, fn(&Ring) -> bool, &'static str, &'static str);
    const ROWS: [Row; 7] = [
        (
            "single_issuer",
            |ring| ring.features.single_issuer,
            "the kernel locks on every submission",
            "install a kernel of 6.0 or newer",
        ),
        (
            "defer_taskrun",
            |ring| ring.features.defer_taskrun,
            "the kernel interrupts the shard for each completion",
            "install a kernel of 6.1 or newer",
        ),
        (
            "registered_arena",
            |ring| ring.registered_bytes > 0,
            "every write goes through user addresses",
            "raise the limit of locked memory: see the line locked_memory",
        ),
        (
            "multishot_recv",
            |ring| ring.features.multishot_recv,
            "each receive is submitted anew",
            "install a kernel of 6.0 or newer",
        ),
        (
            "vectored_fixed",
            |ring| ring.features.vectored_fixed,
            "no vectored write from registered memory",
            "install a kernel of 6.15 or newer",
        ),
        (
            "send_zc",
            |ring| ring.features.send_zc,
            "large writes are copied",
            "install a kernel of 6.1 or newer",
        ),
        (
            "send_zc_wait_all",
            |ring| ring.features.send_zc_wait_all,
            "a short zero-copy write comes back to be resumed",
            "install a kernel of 6.1 or newer",
        ),
    ];
    ROWS.iter()
        .map(|(id, has, cost, command)| match ring {
            Some(Ok(ring)) if has(ring) => Check::fine(id, "a ring here has it"),
            Some(Ok(_)) => Check::slower(id, "a ring here lacks it", *cost, *command),
            _ => Check::unknown(id, "no ring to ask"),
        })
        .collect()
}
