//! The ring of one shard: setup, submission, completions, and what the kernel says about them.
//!
//! Completions are copied to a fixed array before anyone looks at them: dispatching while walking
//! the kernel's queue would keep its slots occupied during callbacks, and a callback that submits
//! and waits would walk the same queue inside the walk.
//!
//! What it does not do: know sockets or connections. It carries operations and their user data.

mod diagnose;
mod enter;
mod error;
mod recv_ring;
mod setup;
mod user_data;

use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, Submitter, cqueue, squeue};

use enter::{EnterRefusal, Pace, Refusals};

pub use crate::driver::Features;
pub(crate) use diagnose::memlock_bytes;
pub use error::{RingError, SetupError};
pub(crate) use recv_ring::{RECV_GROUP, RecvRing};
pub(crate) use user_data::{Op, UserData};

/// Completions taken over at once. At 16 bytes each the array is one page; what does not fit stays
/// in the kernel's queue, which is sized for everything in flight, until the next round.
const BATCH_COMPLETIONS: usize = 256;

/// The longest stay in the kernel: its clock counts nanoseconds in 63 bits, and a longer wait would
/// be one that is over at once.
const STAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
const _: () = assert!(STAY_MAX.as_nanos() <= i64::MAX as u128);

/// What the kernel says about one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Completion {
    pub(crate) user_data: u64,
    /// Bytes or another nonnegative answer; a negative errno otherwise.
    pub(crate) result: i32,
    /// `IORING_CQE_F_*`.
    pub(crate) flags: u32,
}

/// Counters of the ring itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingCounters {
    pub(crate) enters: u64,
    pub(crate) submissions: u64,
    pub(crate) completions: u64,
    pub(crate) submission_queue_full: u64,
    pub(crate) completion_overflows: u64,
    pub(crate) enter_retries: u64,
    pub(crate) enter_interrupts: u64,
    pub(crate) sleeps: u64,
}

/// How long one [`Ring::enter`] may stay in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Not at all: submit, and run what is due.
    Look,
    /// Until something completes.
    Sleep,
    /// Until something completes, or this long.
    SleepFor(Duration),
}

/// One io_uring and the completions last taken from it.
pub(crate) struct Ring {
    uring: IoUring,
    features: Features,
    /// An idle shard is not waiting for a disk: where the kernel can tell (Linux 6.15), it does not
    /// count it so.
    sleep_flags: EnterFlags,
    counters: RingCounters,
    refusals: Refusals,
    /// Why the ring is beyond use, once it is: the kernel is not asked again.
    broken: Option<RingError>,
    batch: Box<[Completion; BATCH_COMPLETIONS]>,
    /// `next <= taken <= BATCH_COMPLETIONS`; those from `next` on are not dispatched yet.
    batch_next: usize,
    batch_taken: usize,
    /// The kernel's count of lost completions when it was last read.
    lost_seen: u32,
}

impl Ring {
    /// Sets a ring up with the best flags that `wanted` allows and the kernel takes.
    ///
    /// # Errors
    /// [`SetupError`] with cause and remedy.
    pub(crate) fn new(
        sq_entries: u32,
        cq_entries: u32,
        wanted: &Features,
    ) -> Result<Self, SetupError> {
        let setup::Built { uring, features } = setup::build(sq_entries, cq_entries, wanted)?;
        let sleep_flags = if uring.params().is_feature_no_iowait() {
            EnterFlags::NO_IOWAIT
        } else {
            EnterFlags::empty()
        };
        Ok(Self {
            uring,
            features,
            sleep_flags,
            counters: RingCounters::default(),
            refusals: Refusals::default(),
            broken: None,
            batch: Box::new([Completion::default(); BATCH_COMPLETIONS]),
            batch_next: 0,
            batch_taken: 0,
            lost_seen: 0,
        })
    }

    /// The wanted features that this kernel has.
    pub(crate) fn features(&self) -> Features {
        self.features
    }

    pub(crate) fn counters(&self) -> RingCounters {
        self.counters
    }

    pub(crate) fn sq_entries(&self) -> u32 {
        self.uring.params().sq_entries()
    }

    pub(crate) fn cq_entries(&self) -> u32 {
        self.uring.params().cq_entries()
    }

    /// For registrations at setup.
    pub(crate) fn submitter(&self) -> Submitter<'_> {
        self.uring.submitter()
    }

    /// Queues one operation; flushes when the queue is full. False when it is full even so: the
    /// kernel is short of something, the caller keeps the operation and tries again after taking
    /// completions.
    ///
    /// # Safety
    /// All memory the operation names must stay valid, and unchanged or unread as the operation
    /// demands, until its last completion.
    ///
    /// # Errors
    /// [`RingError`] of the flush.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> Result<bool, RingError> {
        // SAFETY: the caller's promise.
        if unsafe { self.uring.submission().push(entry) }.is_ok() {
            return Ok(true);
        }
        self.counters.submission_queue_full += 1;
        self.enter(Stay::Look)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.uring.submission().push(entry) }.is_ok())
    }

    /// True when completions lie in the kernel's queue.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.uring.completion().is_empty()
    }

    /// True when only an enter makes the kernel go on: operations are queued, or completion work is
    /// deferred.
    pub(crate) fn wants_enter(&mut self) -> bool {
        let queue = self.uring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Submits what is queued, runs what the kernel has deferred, and stays as long as told. Pauses
    /// for some milliseconds at most while the kernel refuses; the caller then goes round its loop
    /// and comes back.
    ///
    /// # Errors
    /// [`RingError`] when the ring is beyond use, for ever after. What passes by itself is counted
    /// and is `Ok`.
    pub(crate) fn enter(&mut self, stay: Stay) -> Result<(), RingError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        self.counters.enters += 1;
        let entered = self.refusals.is_row().then(Instant::now);
        let submitter = self.uring.submitter();
        let sleep = |args: &SubmitArgs<'_, '_>| {
            submitter.submit_with_args_and_flags(1, args, self.sleep_flags)
        };
        let result = match stay {
            Stay::Look => submitter.submit(),
            Stay::Sleep => sleep(&SubmitArgs::new()),
            Stay::SleepFor(duration) => {
                let duration = duration.min(STAY_MAX);
                sleep(&SubmitArgs::new().timespec(&Timespec::from(duration)))
            }
        };
        if stay != Stay::Look {
            self.counters.sleeps += 1;
        }
        match result {
            Ok(submitted) => {
                self.counters.submissions += submitted as u64;
                self.refusals.passed();
                Ok(())
            }
            Err(error) => self.refused(stay, entered, error.raw_os_error().unwrap_or(0)),
        }
    }

    #[cold]
    fn refused(
        &mut self,
        stay: Stay,
        entered: Option<Instant>,
        errno: i32,
    ) -> Result<(), RingError> {
        // Only a wait can be interrupted, and the kernel waits after it has taken what is queued.
        let is_wait = stay != Stay::Look && self.uring.submission().is_empty();
        let pace = match EnterRefusal::of(errno) {
            EnterRefusal::TimedOut => {
                self.refusals.passed();
                return Ok(());
            }
            EnterRefusal::Interrupted if is_wait => {
                self.counters.enter_interrupts += 1;
                // Of the first of a row it is not known.
                self.refusals
                    .interrupted(entered.map_or(Duration::ZERO, |entered| entered.elapsed()))
            }
            EnterRefusal::Interrupted | EnterRefusal::Retry => {
                self.counters.enter_retries += 1;
                self.refusals.refused(Instant::now())
            }
            EnterRefusal::Fatal(error) => {
                self.broken = Some(error);
                return Err(error);
            }
        };
        match pace {
            Pace::GoOn => {}
            Pace::Yield => std::thread::yield_now(),
            Pace::Sleep(pause) => std::thread::sleep(pause),
            Pace::GiveUp => {
                let error = RingError::Refused { errno };
                self.broken = Some(error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Copies waiting completions to the batch, which must have been drained.
    pub(crate) fn take_completions(&mut self) {
        assert!(
            self.batch_next == self.batch_taken,
            "a batch is drained before the next is taken"
        );
        // The flag: completions are set aside, none is lost. The count: the kernel had no memory to
        // set one aside.
        let is_overflowing = self.uring.submission().cq_overflow();
        let completions = self.uring.completion();
        let lost = completions.overflow().wrapping_sub(self.lost_seen);
        self.lost_seen = completions.overflow();
        self.counters.completion_overflows += u64::from(is_overflowing) + u64::from(lost);
        self.batch_next = 0;
        self.batch_taken = 0;
        for (place, entry) in self.batch.iter_mut().zip(completions) {
            *place = Completion {
                user_data: entry.user_data(),
                result: entry.result(),
                flags: entry.flags(),
            };
            self.batch_taken += 1;
        }
        self.counters.completions += self.batch_taken as u64;
    }

    /// The next completion of the batch.
    pub(crate) fn next_completion(&mut self) -> Option<Completion> {
        let completion = *self.batch[..self.batch_taken].get(self.batch_next)?;
        self.batch_next += 1;
        Some(completion)
    }
}

impl Completion {
    /// More completions of the same operation follow.
    pub(crate) fn has_more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The kernel is done with the memory of a zero-copy send.
    pub(crate) fn is_notification(&self) -> bool {
        cqueue::notif(self.flags)
    }

    /// The provided buffer that holds the data.
    pub(crate) fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}
