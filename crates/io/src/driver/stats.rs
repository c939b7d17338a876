//! Counters of one driver. Plain integers of the shard thread; other threads get copies.
//!
//! A driver leaves at 0 what it does not have.

use super::{CarriedBy, DriverKind, Features, TRAFFIC_KINDS, WRITE_PATHS};
use crate::memory::PageKind;

/// Everything a driver counts since it started. `Copy`, so that a snapshot is one assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    /// Calls of `io_uring_enter`, or of `epoll_wait` and `ppoll`.
    pub enters: u64,
    /// Operations handed to the kernel.
    pub submissions: u64,
    /// Completions taken from the kernel, notifications included.
    pub completions: u64,
    /// Times the submission queue was full and had to be flushed early.
    pub submission_queue_full: u64,
    /// Times the kernel had to set completions aside because the queue was full. Must stay 0.
    pub completion_overflows: u64,
    /// Completions whose user data names no operation in flight. Must stay 0.
    pub stale_completions: u64,
    /// Enters the kernel refused for a moment (`EAGAIN`, `EBUSY`, `ENOMEM`) and that were repeated.
    pub enter_retries: u64,
    /// Enters ended early by a signal.
    pub enter_interrupts: u64,
    /// Times the shard slept in the kernel.
    pub sleeps: u64,
    /// Times another thread woke it from there.
    pub wakes: u64,
    /// Connections made.
    pub connects: u64,
    /// Connections that could not be made.
    pub connect_failures: u64,
    /// Connections closed, for any cause.
    pub closes: u64,
    /// Writes handed over by the shard.
    pub writes: u64,
    /// Send operations by path, resumed ones included; index [`CarriedBy`].
    pub write_operations: [u64; WRITE_PATHS],
    /// Bytes the kernel took, by path.
    pub write_bytes: [u64; WRITE_PATHS],
    /// Send operations that took less than they were given.
    pub short_writes: u64,
    /// Send operations that were repeated on a plainer path because the kernel refused the one
    /// chosen.
    pub write_fallbacks: u64,
    /// Notifications that zero-copy memory is free again.
    pub zero_copy_notifications: u64,
    /// Of those, how many say that the kernel copied after all.
    pub zero_copy_copied: u64,
    /// Receive completions with data.
    pub receives: u64,
    /// Bytes received.
    pub receive_bytes: u64,
    /// Receive requests submitted: one per completion without multishot, few with it.
    pub receive_requests: u64,
    /// Times the kernel found no receive buffer.
    pub receive_buffers_empty: u64,
    /// Bytes of the arena registered with the ring.
    pub registered_bytes: u64,
    /// Bytes of the arena that were worth registering.
    pub registered_bytes_wanted: u64,
}

/// What the kernel gave and what was chosen: fixed once the driver runs, except for the write paths
/// while they are being measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriverInfo {
    /// Which driver it is.
    pub driver: DriverKind,
    /// The features in use: switched on and offered by the kernel.
    pub features: Features,
    /// The path each kind of write takes, index [`Traffic`](super::Traffic); `None` while it is
    /// being measured.
    pub paths: [Option<CarriedBy>; TRAFFIC_KINDS],
    /// Processor time of each path in nanoseconds for each MiB, as measured; `None` where it was
    /// not.
    pub path_costs: [[Option<f64>; WRITE_PATHS]; TRAFFIC_KINDS],
    /// Entries of the submission queue.
    pub submission_entries: u32,
    /// Entries of the completion queue.
    pub completion_entries: u32,
    /// What backs the arena.
    pub page_kind: PageKind,
}
