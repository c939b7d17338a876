//! Making a transport: checks, sizes, and the choice of write paths.

use std::sync::Arc;

use super::config::{CONNECTIONS_MAX, TransportConfig, WRITE_PIECES_MAX, WRITES_MAX};
use super::registration;
use super::trial::Trial;
use super::write::NOTIFICATIONS_MAX;
use crate::driver::wake::WakeShared;
use crate::driver::{CarriedBy, TRAFFIC_KINDS, Traffic, WRITE_PATHS, WritePath};
use crate::memory::Arena;
use crate::ring::{Features, RecvRing, Ring, SetupError};

/// Most entries of a completion queue (`IORING_MAX_CQ_ENTRIES`).
const COMPLETION_ENTRIES_MAX: u32 = 65_536;
/// Most entries of a submission queue that make sense here.
const SUBMISSION_ENTRIES_MAX: u32 = 4096;

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

/// What the kernel gave.
pub(super) struct Prepared {
    pub(super) ring: Ring,
    pub(super) recv_ring: Option<RecvRing>,
    /// Bytes from the start of the arena that are registered.
    pub(super) registered_bytes: usize,
    pub(super) trials: [Trial; TRAFFIC_KINDS],
    pub(super) wake: Arc<WakeShared>,
}

/// Everything that can be refused.
pub(super) fn prepare(
    config: &TransportConfig,
    arena: &Arc<Arena>,
) -> Result<Prepared, SetupError> {
    check(config, arena)?;
    let ring = build_ring(config, arena)?;
    // The few pages of the receive ring come first: the arena takes whatever locked memory is left.
    let recv_ring = registration::register_recv_ring(&ring, arena);
    let registered_bytes = registration::register_arena(&ring, arena);
    let trials = choose_paths(config.write_path, &ring.features(), registered_bytes)?;
    let wake = WakeShared::new().map_err(|source| SetupError::Descriptors {
        what: "the wake-up eventfd",
        source,
    })?;
    Ok(Prepared {
        ring,
        recv_ring,
        registered_bytes,
        trials,
        wake,
    })
}

/// Checks the options against each other and against the arena.
fn check(config: &TransportConfig, arena: &Arena) -> Result<(), SetupError> {
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
fn build_ring(config: &TransportConfig, arena: &Arena) -> Result<Ring, SetupError> {
    let completions =
        completion_entries(config.connections_max, arena.layout().recv_buffers.blocks);
    let submissions = config.submission_entries.next_power_of_two();
    // The kernel demands a completion queue no smaller than the submission queue.
    Ring::new(submissions, completions.max(submissions), &config.features)
}

/// One trial for each kind of traffic, already decided where there is no choice.
///
/// # Errors
/// [`SetupError::WritePath`] when the path that configuration demands cannot work here.
fn choose_paths(
    wanted: WritePath,
    features: &Features,
    registered_bytes: usize,
) -> Result<[Trial; TRAFFIC_KINDS], SetupError> {
    let fixed = features.vectored_fixed && registered_bytes > 0;
    match wanted {
        WritePath::Auto => Ok(Traffic::ALL.map(|traffic| {
            let mut is_candidate = [false; WRITE_PATHS];
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

/// Keeps SIGPIPE from this thread: the vectored write has no flag against it, and a peer that is
/// gone must be an errno, not a signal. Blocked, not ignored: the disposition belongs to the whole
/// process, which is not ours.
pub(super) fn block_sigpipe() {
    // SAFETY: `set` is initialised by sigemptyset before its use, and writable for the length of
    // each call.
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
