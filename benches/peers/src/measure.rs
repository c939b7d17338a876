//! One measured stretch of a client: its clock, its processor time, and what it adds up to.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::machine;
use crate::spec::Report;

/// Records between two looks at the clock: a look costs as much as a tenth of a small record.
const RECORDS_PER_LOOK: u32 = 64;
/// Longest round trip told apart.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// How long to go on.
pub(crate) struct Deadline {
    at: Instant,
    unlooked: u32,
}

impl Deadline {
    pub(crate) fn within(seconds: f64) -> Self {
        Self {
            at: Instant::now() + Duration::from_secs_f64(seconds),
            unlooked: 0,
        }
    }

    /// Whether the time is over, after so many more records.
    pub(crate) fn is_over_after(&mut self, records: u32) -> bool {
        self.unlooked += records;
        if self.unlooked < RECORDS_PER_LOOK {
            return false;
        }
        self.unlooked = 0;
        self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }
}

/// The measured stretch.
pub(crate) struct Stretch {
    started: Instant,
    cpu_s: f64,
    rss_idle_bytes: u64,
    round_trips: Histogram<u64>,
}

impl Stretch {
    /// Begins now.
    pub(crate) fn begin(rss_idle_bytes: u64) -> Self {
        Self {
            round_trips: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
                .expect("bounds in the order that is wanted"),
            rss_idle_bytes,
            cpu_s: machine::cpu_seconds(),
            started: Instant::now(),
        }
    }

    /// Notes one round trip.
    pub(crate) fn round_trip(&mut self, took: Duration) {
        self.round_trips
            .saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes the round trips of another task over.
    pub(crate) fn add_round_trips(&mut self, other: &Histogram<u64>) {
        self.round_trips
            .add(other)
            .expect("histograms of the same bounds");
    }

    /// Ends now: everything handed over is answered.
    pub(crate) fn end(self, records: u64, warm_records: u64, payload_bytes: u64) -> Report {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let cpu_s = machine::cpu_seconds() - self.cpu_s;
        let quantile =
            |q| (!self.round_trips.is_empty()).then(|| self.round_trips.value_at_quantile(q));
        Report {
            records,
            records_total: records + warm_records,
            payload_bytes,
            elapsed_s,
            cpu_s,
            cpu_total_s: machine::cpu_seconds(),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            rss_peak_bytes: machine::rss_peak_bytes(),
            rss_idle_bytes: self.rss_idle_bytes,
            note: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_looks_at_the_clock_only_now_and_then() {
        let mut deadline = Deadline::within(0.0);
        assert!(!deadline.is_over_after(RECORDS_PER_LOOK - 1));
        assert!(deadline.is_over_after(1));
        assert!(!deadline.is_over_after(1));
        assert!(deadline.is_over());
    }

    #[test]
    fn a_stretch_without_round_trips_has_no_quantiles() {
        let report = Stretch::begin(1).end(10, 5, 1000);
        assert_eq!((report.records, report.records_total), (10, 15));
        assert_eq!(report.p50_ns, None);
        let mut stretch = Stretch::begin(1);
        for micros in 1..=100 {
            stretch.round_trip(Duration::from_micros(micros));
        }
        let report = stretch.end(100, 0, 0);
        let p50 = report.p50_ns.expect("round trips");
        assert!((49_900..=50_100).contains(&p50), "{p50}");
    }
}
