//! The latency of every single record at the cost of one time stamp a record and one a batch.
//!
//! All records of a batch resolve at one moment. The waker of the batch's first receipt takes that
//! moment on the shard thread, so it is exact however late this thread looks; the start of every
//! record is kept until then.
//!
//! ```text
//! sent() -> open group of the partition -> (next batch begins) -> closed groups, oldest first -> histogram
//! ```

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ringmain::Receipt;

use crate::exit::FirstLost;

/// Longest latency told apart, an hour; nothing lives longer than the delivery timeout.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Decimal digits that are exact.
const DIGITS: u8 = 3;

/// When a batch resolved.
struct Stamp {
    clock: Instant,
    /// Nanoseconds since `clock`; 0 until it is known.
    resolved_ns: AtomicU64,
}

impl Stamp {
    fn take(&self) {
        let now = (self.clock.elapsed().as_nanos() as u64).max(1);
        self.resolved_ns.store(now, Ordering::Release);
    }
}

impl Wake for Stamp {
    fn wake(self: Arc<Self>) {
        self.take();
    }
}

/// The records of one batch.
struct Group {
    /// Receipt of the first, which carries the waker.
    first: Receipt,
    /// Number of the first, from 0.
    number: u64,
    stamp: Arc<Stamp>,
    /// When each was due, in nanoseconds since the clock's start.
    starts_ns: Vec<u64>,
}

/// Latencies of one run.
pub(crate) struct Latency {
    clock: Instant,
    /// The batch being filled of each partition.
    open: Vec<Option<Group>>,
    /// Batches that are full, oldest first. Bounded by the engine's memory.
    closed: VecDeque<Group>,
    /// Emptied vectors, to be filled again.
    spare: Vec<Vec<u64>>,
    histogram: Histogram<u64>,
    last_resolved_ns: u64,
    lost: Option<FirstLost>,
}

impl Latency {
    /// For a topic with so many partitions.
    pub(super) fn new(partitions: u32) -> Self {
        Latency {
            clock: Instant::now(),
            open: (0..partitions).map(|_| None).collect(),
            closed: VecDeque::new(),
            spare: Vec::new(),
            histogram: Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS)
                .expect("bounds in the order that is wanted"),
            last_resolved_ns: 0,
            lost: None,
        }
    }

    /// Begins the run: times count from `clock` on.
    pub(super) fn start(&mut self, clock: Instant) {
        self.clock = clock;
    }

    /// Notes that record `number`, due at `start_ns`, was accepted for `partition`.
    pub(super) fn sent(&mut self, partition: u32, number: u64, start_ns: u64, receipt: Receipt) {
        let open = &mut self.open[partition as usize];
        if let Some(group) = open
            && group.first.same_batch(&receipt)
        {
            group.starts_ns.push(start_ns);
            return;
        }
        let mut starts_ns = self.spare.pop().unwrap_or_default();
        starts_ns.push(start_ns);
        let group = Group::begin(receipt, number, self.clock, starts_ns);
        if let Some(full) = open.replace(group) {
            self.closed.push_back(full);
            self.collect();
        }
    }

    /// Takes the batches that have resolved into the histogram, up to the oldest that has not.
    pub(super) fn collect(&mut self) {
        while let Some(group) = self.closed.front() {
            let resolved_ns = group.stamp.resolved_ns.load(Ordering::Acquire);
            if resolved_ns == 0 {
                return;
            }
            let group = self.closed.pop_front().expect("looked at above");
            self.record(group, resolved_ns);
        }
    }

    /// Takes the rest. To be called when the engine has closed, so that every record is answered.
    pub(super) fn finish(&mut self) {
        self.closed
            .extend(self.open.iter_mut().filter_map(Option::take));
        for group in std::mem::take(&mut self.closed) {
            let resolved_ns = match group.stamp.resolved_ns.load(Ordering::Acquire) {
                // The answer is there, and the waker, called right after it is written, is about to
                // run.
                0 => self.clock.elapsed().as_nanos() as u64,
                resolved_ns => resolved_ns,
            };
            self.record(group, resolved_ns);
        }
    }

    /// Latencies of the stored records, in nanoseconds.
    pub(super) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// From the start of the run to the last answer.
    pub(super) fn last_resolved(&self) -> Duration {
        Duration::from_nanos(self.last_resolved_ns)
    }

    /// The first record that is known not to be stored.
    pub(super) fn lost(&self) -> Option<FirstLost> {
        self.lost
    }

    fn record(&mut self, mut group: Group, resolved_ns: u64) {
        self.last_resolved_ns = self.last_resolved_ns.max(resolved_ns);
        let outcome = group.first.outcome().expect("resolved before the stamp");
        if outcome.is_stored() {
            for start_ns in &group.starts_ns {
                self.histogram
                    .saturating_record(resolved_ns.saturating_sub(*start_ns));
            }
        } else {
            self.lost.get_or_insert(FirstLost {
                what: "record",
                number: group.number + 1,
                outcome,
            });
        }
        group.starts_ns.clear();
        self.spare.push(group.starts_ns);
    }
}

impl Group {
    fn begin(mut first: Receipt, number: u64, clock: Instant, starts_ns: Vec<u64>) -> Self {
        let stamp = Arc::new(Stamp {
            clock,
            resolved_ns: AtomicU64::new(0),
        });
        let waker = Waker::from(Arc::clone(&stamp));
        let asked = Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
        if asked.is_ready() {
            stamp.take();
        }
        Group {
            first,
            number,
            stamp,
            starts_ns,
        }
    }
}
