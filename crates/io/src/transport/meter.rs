//! What the calibration of `WritePath::Auto` is told: processor time of this thread in the ring,
//! time by the clock, and the bytes that left in it.
//!
//! It runs only while writes whose path is being measured are out. Only rounds in which one kind of
//! traffic on one path went out are told: what several share cannot be split.

use std::time::Instant;

use super::trial::{Spent, Trial};
use crate::driver::{CarriedBy, TRAFFIC_KINDS, Traffic, WRITE_PATHS};

/// Measures one round of the driver's loop.
#[derive(Debug)]
pub(super) struct Meter {
    /// Writes out whose path is being measured.
    measured_writes: u32,
    cpu_ns: u64,
    /// Since when what is told next has taken its time; time in which no measured write was out is
    /// left out.
    started: Instant,
    /// Since when none is out.
    idle_since: Option<Instant>,
    bytes: [[u64; WRITE_PATHS]; TRAFFIC_KINDS],
}

impl Default for Meter {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            measured_writes: 0,
            cpu_ns: 0,
            started: now,
            idle_since: Some(now),
            bytes: [[0; WRITE_PATHS]; TRAFFIC_KINDS],
        }
    }
}

impl Meter {
    /// A write whose path is being measured goes out.
    pub(super) fn begin(&mut self) {
        if let Some(idle_since) = self.idle_since.take() {
            self.started += idle_since.elapsed();
        }
        self.measured_writes += 1;
    }

    /// So many of them are over.
    pub(super) fn end(&mut self, writes: u32) {
        assert!(
            writes <= self.measured_writes,
            "each measured write ends once"
        );
        self.measured_writes -= writes;
        if writes > 0 && self.measured_writes == 0 {
            self.idle_since = Some(Instant::now());
        }
    }

    /// True while the clock has to be read.
    pub(super) fn is_running(&self) -> bool {
        self.measured_writes > 0
    }

    /// Bytes went out on a path.
    pub(super) fn carried(&mut self, traffic: Traffic, path: CarriedBy, bytes: u64) {
        self.bytes[traffic as usize][path as usize] += bytes;
    }

    /// This thread spent so much in the ring.
    pub(super) fn spent(&mut self, cpu_ns: u64) {
        self.cpu_ns += cpu_ns;
    }

    /// Ends the round and tells the trial it concerns, if it concerns one.
    pub(super) fn settle(&mut self, trials: &mut [Trial; TRAFFIC_KINDS]) {
        let mut carried = Traffic::ALL
            .into_iter()
            .flat_map(|traffic| CarriedBy::ALL.map(|path| (traffic, path)))
            .map(|(traffic, path)| (traffic, path, self.bytes[traffic as usize][path as usize]))
            .filter(|(_, _, bytes)| *bytes > 0);
        match (carried.next(), carried.next()) {
            // Nothing left: what was spent belongs to the writes it will lead to.
            (None, _) => return,
            (Some((traffic, path, bytes)), None) => {
                let until = self.idle_since.unwrap_or_else(Instant::now);
                let elapsed = until.duration_since(self.started).as_nanos();
                let spent = Spent {
                    cpu_ns: self.cpu_ns,
                    elapsed_ns: u64::try_from(elapsed).unwrap_or(u64::MAX),
                };
                trials[traffic as usize].record(path, bytes, spent);
            }
            (Some(_), Some(_)) => {}
        }
        (self.cpu_ns, self.bytes) = (0, [[0; WRITE_PATHS]; TRAFFIC_KINDS]);
        self.started = Instant::now();
        if let Some(idle_since) = &mut self.idle_since {
            *idle_since = self.started;
        }
    }
}

/// Processor time of this thread, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_with_one_path_is_told_and_a_mixed_one_is_not() {
        let mut trials = [Trial::new([true; WRITE_PATHS]); TRAFFIC_KINDS];
        let mut meter = Meter::default();
        for _ in 0..1_000 {
            meter.carried(Traffic::LargeRegistered, CarriedBy::WritevFixed, 1 << 20);
            meter.carried(Traffic::LargeRegistered, CarriedBy::SendMsg, 1 << 20);
            meter.spent(1_000);
            meter.settle(&mut trials);
        }
        assert_eq!(
            trials[Traffic::LargeRegistered as usize].path(),
            CarriedBy::WritevFixed,
            "no turn ended"
        );
        for _ in 0..1_000 {
            let path = trials[Traffic::LargeRegistered as usize].path();
            meter.spent(1_000);
            meter.settle(&mut trials);
            meter.carried(Traffic::LargeRegistered, path, 1 << 20);
            meter.spent(1_000);
            meter.settle(&mut trials);
        }
        let trial = &trials[Traffic::LargeRegistered as usize];
        assert!(trial.decided().is_some());
        assert_eq!(
            trial.cost(CarriedBy::SendMsg),
            Some(2_000.0),
            "idle rounds count for the write they lead to"
        );
        assert_eq!(trials[Traffic::LargeForeign as usize].decided(), None);
    }

    #[test]
    fn the_clock_of_the_thread_moves_with_work_only_forwards() {
        let before = thread_cpu_ns();
        let sum: u64 = (0..200_000u64).map(std::hint::black_box).sum();
        assert!(sum > 0 && thread_cpu_ns() > before);
    }
}
