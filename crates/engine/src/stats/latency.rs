//! Where the time of a batch goes: four parts and their sum, as histograms.
//!
//! ```text
//!   first record accepted -> sealed -> handed to the ring -> taken by the kernel -> answer
//!                   queue        window              wire                    server
//! ```
//!
//! The shard notes five numbers a batch in a fixed list; they reach the histograms when the list is
//! handed over. A list that is full before that goes into histograms of the shard's own, so that no
//! batch is missing.

use hdrhistogram::Histogram;
use ringmain_proto::Micros;

/// Batches noted between two hand-overs: with 10 ms between them, those of 200,000 requests a
/// second.
const SAMPLES_MAX: usize = 2048;

/// Significant digits of every histogram: a value is off by 1 percent at most.
const DIGITS: u8 = 2;

/// The longest time a histogram tells apart: an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// One part of the latency, in microseconds, one value a batch.
#[derive(Debug, Clone)]
pub struct Latency(Histogram<u64>);

impl Latency {
    fn new() -> Self {
        Self(
            Histogram::new_with_bounds(1, LATENCY_US_MAX, DIGITS)
                .expect("fixed bounds that are in range"),
        )
    }

    fn record(&mut self, us: u32) {
        self.0.saturating_record(u64::from(us));
    }

    /// Batches counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value below which `percent` (0 to 100) of the batches are, in microseconds; 0 when there
    /// are none.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The largest value, in microseconds.
    #[must_use]
    pub fn max_us(&self) -> u64 {
        self.0.max()
    }

    /// The mean, in microseconds.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        self.0.mean()
    }

    /// The histogram itself.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    /// Adds what another engine or an earlier snapshot counted.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("all histograms have the same bounds");
    }
}

/// All parts of the latency of batches that were written and answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Latencies {
    /// From the acceptance of the first record until the batch was sealed.
    pub queue: Latency,
    /// From there until it was first handed to the ring: the wait for a place in the window and for
    /// the socket.
    pub window: Latency,
    /// From there until the kernel had taken all of it.
    pub wire: Latency,
    /// From there until its answer, retries included.
    pub server: Latency,
    /// From the acceptance of the first record until its answer.
    pub total: Latency,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self {
            queue: Latency::new(),
            window: Latency::new(),
            wire: Latency::new(),
            server: Latency::new(),
            total: Latency::new(),
        }
    }

    /// Every part with its name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, &Latency); 5] {
        let Self {
            queue,
            window,
            wire,
            server,
            total,
        } = self;
        [
            ("queue", queue),
            ("window", window),
            ("wire", wire),
            ("server", server),
            ("total", total),
        ]
    }

    /// In the order of [`Latencies::parts`].
    fn parts_mut(&mut self) -> [&mut Latency; 5] {
        let Self {
            queue,
            window,
            wire,
            server,
            total,
        } = self;
        [queue, window, wire, server, total]
    }

    /// Adds what another engine or an earlier snapshot counted.
    pub fn merge(&mut self, other: &Self) {
        for (part, (_, other)) in self.parts_mut().into_iter().zip(other.parts()) {
            part.merge(other);
        }
    }

    fn record(&mut self, sample: &Sample) {
        for (part, us) in self.parts_mut().into_iter().zip(sample.0) {
            part.record(us);
        }
    }

    fn clear(&mut self) {
        for part in self.parts_mut() {
            part.0.reset();
        }
    }
}

/// The moments of one batch.
pub(crate) struct BatchTimes {
    pub(crate) opened_at: Micros,
    pub(crate) sealed_at: Micros,
    pub(crate) transmitted_at: Micros,
    pub(crate) written_at: Micros,
    pub(crate) resolved_at: Micros,
}

/// The five parts in microseconds; an hour fits.
struct Sample([u32; 5]);

/// Samples that were not handed over yet. Never grows, and loses none.
pub(crate) struct LatencySamples {
    samples: Vec<Sample>,
    /// What found no place in the list.
    overflow: Latencies,
}

impl LatencySamples {
    pub(crate) fn new() -> Self {
        Self {
            samples: Vec::with_capacity(SAMPLES_MAX),
            overflow: Latencies::new(),
        }
    }

    pub(crate) fn push(&mut self, times: &BatchTimes) {
        if self.samples.len() == SAMPLES_MAX {
            for sample in self.samples.drain(..) {
                self.overflow.record(&sample);
            }
        }
        let part = |later: Micros, earlier: Micros| {
            u32::try_from(later.since(earlier)).unwrap_or(u32::MAX)
        };
        self.samples.push(Sample([
            part(times.sealed_at, times.opened_at),
            part(times.transmitted_at, times.sealed_at),
            part(times.written_at, times.transmitted_at),
            part(times.resolved_at, times.written_at),
            part(times.resolved_at, times.opened_at),
        ]));
    }

    /// Moves everything into the histograms.
    pub(super) fn drain_into(&mut self, latencies: &mut Latencies) {
        for sample in self.samples.drain(..) {
            latencies.record(&sample);
        }
        if self.overflow.total.count() > 0 {
            latencies.merge(&self.overflow);
            self.overflow.clear();
        }
    }
}
