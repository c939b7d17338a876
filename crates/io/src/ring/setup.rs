//! Setting a ring up: the best set of flags this kernel takes, what it turns out to have, and a
//! first operation that proves its use.

use std::io;
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};

use super::diagnose::{Evidence, diagnose};
use super::enter::EnterRefusal;
use super::{Features, SetupError};

/// How long the first operation may take, which does nothing.
const FIRST_MAX: Duration = Duration::from_secs(2);
/// Pause between two tries while the kernel refuses what passes by itself.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// A ring with what was found out about it.
pub(super) struct Built {
    pub(super) uring: IoUring,
    pub(super) features: Features,
}

/// One set of setup flags. The first that the kernel takes is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rung {
    /// Linux 6.0.
    single_issuer: bool,
    /// Linux 6.1, with `single_issuer`.
    defer_taskrun: bool,
    /// `COOP_TASKRUN`, `TASKRUN_FLAG` and `SUBMIT_ALL`: Linux 5.19. The first is left out under
    /// `defer_taskrun`, which goes further.
    cooperative: bool,
}

/// The sets to try, best first, under what the configuration allows.
fn rungs(wanted: &Features) -> impl Iterator<Item = Rung> {
    let single_issuer = wanted.single_issuer;
    let defer_taskrun = single_issuer && wanted.defer_taskrun;
    let best = Rung {
        single_issuer,
        defer_taskrun,
        cooperative: true,
    };
    let mut next = Some(best);
    std::iter::from_fn(move || {
        let rung = next?;
        next = match rung {
            Rung {
                defer_taskrun: true,
                ..
            } => Some(Rung {
                defer_taskrun: false,
                ..rung
            }),
            Rung {
                single_issuer: true,
                ..
            } => Some(Rung {
                single_issuer: false,
                ..rung
            }),
            Rung {
                cooperative: true, ..
            } => Some(Rung {
                cooperative: false,
                ..rung
            }),
            _ => None,
        };
        Some(rung)
    })
}

/// Builds the ring and probes it. `features` of the result are those of `wanted` that the kernel
/// has.
pub(super) fn build(
    sq_entries: u32,
    cq_entries: u32,
    wanted: &Features,
) -> Result<Built, SetupError> {
    let (mut uring, rung) = build_best(sq_entries, cq_entries, wanted)?;
    let evidence = Evidence::read;
    let params = uring.params();
    if !params.is_feature_ext_arg() {
        return Err(evidence().too_old("timeouts of io_uring_enter (IORING_FEAT_EXT_ARG)", "5.11"));
    }
    // Each of these came before the one above, so this is a promise of the kernel, not a case to
    // handle.
    assert!(
        params.is_feature_nodrop()
            && params.is_feature_submit_stable()
            && params.is_feature_fast_poll()
    );

    let mut probe = Probe::new();
    uring
        .submitter()
        .register_probe(&mut probe)
        .map_err(|source| diagnose("io_uring_register (probe)", source, &evidence()))?;
    try_out(&mut uring)?;
    // Flags of operations cannot be probed; an operation of the same release stands in for them.
    let linux_6_0 = probe.is_supported(opcode::SendZc::CODE);
    let features = Features {
        single_issuer: rung.single_issuer,
        defer_taskrun: rung.defer_taskrun,
        registered_arena: wanted.registered_arena,
        multishot_recv: wanted.multishot_recv && linux_6_0,
        vectored_fixed: wanted.vectored_fixed
            && wanted.registered_arena
            && probe.is_supported(opcode::WritevFixed::CODE),
        send_zc: wanted.send_zc && probe.is_supported(opcode::SendMsgZc::CODE),
        send_zc_wait_all: wanted.send_zc_wait_all && probe.is_supported(opcode::SendMsgZc::CODE),
    };
    Ok(Built { uring, features })
}

/// Has the ring carry out one operation that does nothing. A filter can let a ring be made and
/// forbid its use, and a shard that finds out in its loop has nobody left to tell.
fn try_out(uring: &mut IoUring) -> Result<(), SetupError> {
    const CALL: &str = "io_uring_enter";
    let nop = opcode::Nop::new().build();
    // SAFETY: the operation names no memory.
    unsafe { uring.submission().push(&nop) }.expect("a new queue has room");
    let deadline = Instant::now() + FIRST_MAX;
    let patience = Timespec::from(FIRST_MAX);
    loop {
        let args = SubmitArgs::new().timespec(&patience);
        let refusal = uring.submitter().submit_with_args(1, &args).err();
        if let Some(completion) = uring.completion().next() {
            return match completion.result() {
                0.. => Ok(()),
                errno => Err(SetupError::Refused {
                    call: "a first operation in the ring",
                    source: io::Error::from_raw_os_error(-errno),
                }),
            };
        }
        if let Some(source) = refusal {
            let errno = source.raw_os_error().unwrap_or(0);
            if matches!(EnterRefusal::of(errno), EnterRefusal::Fatal(_)) {
                return Err(diagnose(CALL, source, &Evidence::read()));
            }
            if Instant::now() >= deadline {
                return Err(SetupError::Refused { call: CALL, source });
            }
            std::thread::sleep(FIRST_PAUSE);
        } else if Instant::now() >= deadline {
            return Err(SetupError::Refused {
                call: CALL,
                source: io::Error::from(io::ErrorKind::TimedOut),
            });
        }
    }
}

fn build_best(
    sq_entries: u32,
    cq_entries: u32,
    wanted: &Features,
) -> Result<(IoUring, Rung), SetupError> {
    let mut refusal = None;
    for rung in rungs(wanted) {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(cq_entries);
        if rung.cooperative {
            builder.setup_submit_all().setup_taskrun_flag();
            if rung.defer_taskrun {
                builder.setup_defer_taskrun();
            } else {
                builder.setup_coop_taskrun();
            }
        }
        if rung.single_issuer {
            builder.setup_single_issuer();
        }
        match builder.build(sq_entries) {
            Ok(uring) => return Ok((uring, rung)),
            // Unknown flags: try without the newest.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = Some(error),
            Err(error) => return Err(diagnose("io_uring_setup", error, &Evidence::read())),
        }
    }
    let refusal = refusal.expect("there is at least one rung");
    Err(diagnose("io_uring_setup", refusal, &Evidence::read()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_go_down_one_feature_at_a_time() {
        let all: Vec<_> = rungs(&Features::default()).collect();
        let flags = |rung: &Rung| (rung.defer_taskrun, rung.single_issuer, rung.cooperative);
        assert_eq!(
            all.iter().map(flags).collect::<Vec<_>>(),
            [
                (true, true, true),
                (false, true, true),
                (false, false, true),
                (false, false, false)
            ]
        );
    }

    #[test]
    fn what_is_switched_off_is_on_no_rung() {
        let wanted = Features {
            single_issuer: false,
            ..Features::default()
        };
        assert!(rungs(&wanted).all(|rung| !rung.single_issuer && !rung.defer_taskrun));
        let wanted = Features {
            defer_taskrun: false,
            ..Features::default()
        };
        assert!(rungs(&wanted).all(|rung| !rung.defer_taskrun));
        assert!(rungs(&wanted).next().is_some_and(|rung| rung.single_issuer));
    }

    #[test]
    fn this_kernel_has_no_feature_that_was_switched_off() {
        let built = build(8, 64, &Features::NONE).unwrap();
        assert_eq!(built.features, Features::NONE);
        assert!(built.uring.params().cq_entries() >= 64);
    }
}
