//! Making a transport: checks, sizes, registrations, and the choice of write paths.

use std::io;
use std::sync::Arc;

use super::config::{
    CONNECTIONS_MAX, CarriedBy, TRAFFIC_KINDS, Traffic, TransportConfig, WRITE_PIECES_MAX,
    WRITES_MAX, WritePath,
};
use super::trial::Trial;
use super::write::NOTIFICATIONS_MAX;
use crate::memory::Arena;
use crate::ring::{Features, RecvRing, Ring, SetupError, memlock_bytes};

/// Largest buffer the kernel registers.
const FIXED_BUFFER_BYTES_MAX: usize = 1 << 30;
/// Most entries of a completion queue (`IORING_MAX_CQ_ENTRIES`).
const COMPLETION_ENTRIES_MAX: u32 = 65_536;
/// Most entries of a submission queue that make sense here.
const SUBMISSION_ENTRIES_MAX: u32 = 4096;
/// Index of the arena among the registered buffers; it is the only one.
pub(super) const ARENA_BUFFER: u16 = 0;

const _: () = {
    let most = completion_entries(CONNECTIONS_MAX, crate::memory::RECV_BUFFERS_MAX);
    assert!(
        most <= COMPLETION_ENTRIES_MAX,
        "the completion queue holds everything that can be in flight"
    );
};

/// Completions that can be waiting at once: one line for each thing in flight.
const fn completion_entries(connections_max: u16, recv_buffers: u32) -> u32 {
    let connection = 1 // connect or write
        + 1 // end of a receive
        + NOTIFICATIONS_MAX // zero-copy sends whose memory the kernel still holds
        + 2; // cancellations of connect, or of receive and write
    let wake = 1; // read of the eventfd
    // Each receive completion with data holds a buffer, so there are no more of them than buffers.
    (connections_max as u32 * connection + recv_buffers + wake).next_power_of_two()
}

/// Checks the options against each other and against the arena.
pub(super) fn check(config: &TransportConfig, arena: &Arena) -> Result<(), SetupError> {
    let fail = |option, found: u32, rule| {
        Err(SetupError::Option {
            option,
            found: u64::from(found),
            rule,
        })
    };
    if !(1..=CONNECTIONS_MAX).contains(&config.connections_max) {
        return fail(
            "connections_max",
            u32::from(config.connections_max),
            "a shard has 1 to 1024 connections",
        );
    }
    if !(2..=WRITE_PIECES_MAX).contains(&config.write_pieces_max) {
        return fail(
            "write_pieces_max",
            config.write_pieces_max,
            "a write gathers 2 to 65536 pieces",
        );
    }
    if !(1..=WRITES_MAX).contains(&config.writes_max) {
        return fail(
            "writes_max",
            u32::from(config.writes_max),
            "a connection has 1 to 8 writes out",
        );
    }
    if !(1..=SUBMISSION_ENTRIES_MAX).contains(&config.submission_entries) {
        return fail(
            "submission_entries",
            config.submission_entries,
            "a submission queue has 1 to 4096 entries",
        );
    }
    if arena.layout().recv_buffers.blocks < u32::from(config.connections_max) {
        return fail(
            "connections_max",
            u32::from(config.connections_max),
            "the arena must have a receive buffer for each connection, for kernels without multishot receives",
        );
    }
    Ok(())
}

/// The ring, with a completion queue for everything that can be in flight.
pub(super) fn build_ring(config: &TransportConfig, arena: &Arena) -> Result<Ring, SetupError> {
    let completions =
        completion_entries(config.connections_max, arena.layout().recv_buffers.blocks);
    let submissions = config.submission_entries.next_power_of_two();
    // The kernel demands a completion queue no smaller than the submission queue.
    Ring::new(submissions, completions.max(submissions), &config.features)
}

/// Hands the receive buffers to the kernel as a ring; `None` when that is switched off, unknown or refused, which
/// leaves single receives.
pub(super) fn register_recv_ring(ring: &Ring, arena: &Arc<Arena>) -> Option<RecvRing> {
    if !ring.features().multishot_recv {
        return None;
    }
    RecvRing::register(&ring.submitter(), arena)
        .inspect_err(|error| {
            // EINVAL: unknown (before 5.19). ENOMEM: locked memory. Whatever it is, receiving works without.
            tracing::warn!(%error, memlock_bytes = memlock_bytes(), "no ring of receive buffers; receives are single");
        })
        .ok()
}

/// Registers headers and slots as one fixed buffer, or as many of them as the limit of locked memory allows.
/// Returns the bytes registered, from the start of the arena.
pub(super) fn register_arena(ring: &Ring, arena: &Arc<Arena>) -> usize {
    if !ring.features().registered_arena {
        return 0;
    }
    let wanted = arena.layout().registered_bytes_wanted();
    let slots = &arena.layout().slots;
    let try_register = |bytes: usize| -> io::Result<()> {
        let iovec = libc::iovec {
            iov_base: arena.mapping().address(0, bytes).as_ptr().cast(),
            iov_len: bytes,
        };
        // SAFETY: the range is the beginning of the arena's mapping, which outlives the ring: the transport holds
        // the arena and closes its ring first.
        unsafe { ring.submitter().register_buffers(&[iovec]) }
    };
    // Bytes up to the end of slot `count - 1`.
    let bytes_of = |count: u32| slots.offset + slots.block_bytes * count as usize;
    let fits_kernel = (0..=slots.blocks)
        .rev()
        .find(|count| bytes_of(*count) <= FIXED_BUFFER_BYTES_MAX)
        .unwrap_or(0);

    // Binary search for the most slots that are taken; the first try is all of them, which nearly always succeeds.
    let (mut taken, mut refused, mut tried) = (0, fits_kernel + 1, fits_kernel);
    let mut reason = None;
    while tried > taken {
        match try_register(bytes_of(tried)) {
            Ok(()) => {
                taken = tried;
                if taken + 1 == refused {
                    break;
                }
                // Registered now; a larger try needs it gone. A ring without buffers has nothing to unregister.
                let _ = ring.submitter().unregister_buffers();
            }
            Err(error) => {
                refused = tried;
                let is_limit = error.raw_os_error() == Some(libc::ENOMEM);
                reason = Some(error);
                if !is_limit {
                    // EFAULT, EINVAL, EOPNOTSUPP, EBUSY, a filter: no smaller piece would fare better.
                    taken = 0;
                    break;
                }
            }
        }
        tried = taken + (refused - taken) / 2;
    }
    let registered = if taken == 0 {
        0
    } else {
        settle_registration(ring, taken, refused, &try_register, &bytes_of)
    };
    if registered < wanted {
        warn_partial(registered, wanted, reason);
    }
    registered
}

/// The search may have ended on a refusal: then the size found before is registered again.
fn settle_registration(
    ring: &Ring,
    taken: u32,
    refused: u32,
    try_register: &impl Fn(usize) -> io::Result<()>,
    bytes_of: &impl Fn(u32) -> usize,
) -> usize {
    assert!(taken < refused);
    let _ = ring.submitter().unregister_buffers();
    match try_register(bytes_of(taken)) {
        Ok(()) => bytes_of(taken),
        Err(_) => 0,
    }
}

fn warn_partial(registered: usize, wanted: usize, reason: Option<io::Error>) {
    let reason = reason.map_or_else(
        || "the kernel registers at most 1 GiB as one buffer".to_owned(),
        |e| e.to_string(),
    );
    tracing::warn!(
        registered_bytes = registered,
        wanted_bytes = wanted,
        memlock_bytes = memlock_bytes(),
        reason,
        "not all of the arena is registered; the rest is sent unregistered. Raise RLIMIT_MEMLOCK (ulimit -l)"
    );
}

/// One trial for each kind of traffic, already decided where there is no choice.
///
/// # Errors
/// [`SetupError::WritePath`] when the path that configuration demands cannot work here.
pub(super) fn choose_paths(
    wanted: WritePath,
    features: &Features,
    registered_bytes: usize,
) -> Result<[Trial; TRAFFIC_KINDS], SetupError> {
    let fixed = features.vectored_fixed && registered_bytes > 0;
    match wanted {
        WritePath::Auto => Ok(Traffic::ALL.map(|traffic| {
            let mut is_candidate = [false; super::config::WRITE_PATHS];
            is_candidate[CarriedBy::WritevFixed as usize] = fixed && traffic.is_registered();
            is_candidate[CarriedBy::SendZc as usize] = features.send_zc && traffic.is_large();
            Trial::new(is_candidate)
        })),
        WritePath::SendMsg => Ok([Trial::forced(CarriedBy::SendMsg); TRAFFIC_KINDS]),
        WritePath::SendZc if features.send_zc => {
            Ok([Trial::forced(CarriedBy::SendZc); TRAFFIC_KINDS])
        }
        WritePath::SendZc => Err(SetupError::WritePath {
            path: "send_zc",
            reason: "this kernel has no zero-copy sendmsg, or the feature is switched off",
            remedy: "run Linux 6.1 or newer",
        }),
        WritePath::WritevFixed if fixed => Ok(Traffic::ALL.map(|traffic| {
            Trial::forced(if traffic.is_registered() {
                CarriedBy::WritevFixed
            } else {
                CarriedBy::SendMsg
            })
        })),
        WritePath::WritevFixed if features.vectored_fixed => Err(SetupError::WritePath {
            path: "writev_fixed",
            reason: "none of the arena could be registered",
            remedy: "raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=)",
        }),
        WritePath::WritevFixed => Err(SetupError::WritePath {
            path: "writev_fixed",
            reason: "this kernel has no vectored write from registered buffers, or the feature is switched off",
            remedy: "run Linux 6.15 or newer",
        }),
    }
}

/// Keeps SIGPIPE from this thread: the vectored write has no flag against it, and a peer that is gone must be an
/// errno, not a signal. Blocked, not ignored: the disposition belongs to the whole process, which is not ours.
pub(super) fn block_sigpipe() {
    // SAFETY: `set` is initialised by sigemptyset before its use, and writable for the length of each call.
    let result = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut())
    };
    assert!(result == 0, "SIG_BLOCK with a valid set has no error");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(trials: &[Trial; TRAFFIC_KINDS]) -> [Option<CarriedBy>; TRAFFIC_KINDS] {
        trials.map(|trial| trial.decided())
    }

    #[test]
    fn auto_tries_only_what_can_work() {
        let all = Features::default();
        let trials = choose_paths(WritePath::Auto, &all, 1).unwrap();
        assert_eq!(
            decided(&trials),
            [None, None, Some(CarriedBy::SendMsg), None]
        );

        let unregistered = choose_paths(WritePath::Auto, &all, 0).unwrap();
        assert_eq!(
            decided(&unregistered),
            [
                Some(CarriedBy::SendMsg),
                None,
                Some(CarriedBy::SendMsg),
                None
            ]
        );

        let old = Features {
            vectored_fixed: false,
            send_zc: false,
            ..all
        };
        let trials = choose_paths(WritePath::Auto, &old, 1).unwrap();
        assert_eq!(decided(&trials), [Some(CarriedBy::SendMsg); TRAFFIC_KINDS]);
    }

    #[test]
    fn a_demanded_path_that_cannot_work_is_an_error_with_a_remedy() {
        let all = Features::default();
        let none = Features {
            vectored_fixed: false,
            send_zc: false,
            ..all
        };
        let cases = [
            (WritePath::WritevFixed, all, 0, "RLIMIT_MEMLOCK"),
            (WritePath::WritevFixed, none, 1, "6.15"),
            (WritePath::SendZc, none, 1, "6.1"),
        ];
        for (path, features, registered, remedy) in cases {
            let error = choose_paths(path, &features, registered).expect_err("refused");
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }

    #[test]
    fn the_completion_queue_grows_with_what_can_be_in_flight() {
        assert_eq!(completion_entries(64, 64), 2048);
        assert_eq!(completion_entries(1, 1), 32);
    }
}
