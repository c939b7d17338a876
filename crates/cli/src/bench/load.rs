//! What is sent and when: payloads of one size, and the schedule.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain::{Producer, Receipt, Record, SendError, limits};

use crate::interrupt::Interrupt;

/// Distinct payloads: each begins a cache line further on in one block of noise.
const PAYLOADS: usize = 64;
/// Distance between them.
const STRIDE_BYTES: usize = 64;

/// Payloads of one size. Noise rather than zeroes, so that nothing on the way gets them for less;
/// the same noise in every run.
pub(super) struct Payloads {
    noise: Bytes,
    record_bytes: usize,
    /// Whether the engine copies payloads of this size. Larger ones travel by reference.
    lent: bool,
}

impl Payloads {
    /// Payloads of `record_bytes` each.
    pub(super) fn new(record_bytes: u32) -> Self {
        let lent = record_bytes <= limits::COPY_BYTES_DEFAULT;
        let record_bytes = record_bytes as usize;
        let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
        let noise = (0..record_bytes + PAYLOADS * STRIDE_BYTES).map(|_| {
            // xorshift64: quick, and good enough to be incompressible.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 56) as u8
        });
        Payloads {
            noise: noise.collect(),
            record_bytes,
            lent,
        }
    }

    /// Sends payload `number`, waiting for memory as long as it takes.
    pub(super) fn send(&self, producer: &Producer, number: u64) -> Result<Receipt, SendError> {
        let start = (number % PAYLOADS as u64) as usize * STRIDE_BYTES;
        let range = start..start + self.record_bytes;
        if self.lent {
            producer.send_slice(&self.noise[range], None)
        } else {
            producer.send(Record::new(self.noise.slice(range)))
        }
    }
}

/// When record after record is due.
pub(super) struct Pace {
    /// Records a second; `None` when each is due as soon as the one before it was accepted.
    rate: Option<u64>,
    /// What times count from.
    clock: Instant,
    /// When no record is due any more.
    end: Instant,
}

/// How long after the end records that were due before it may still be sent: a thread that woke
/// late catches up.
pub(super) const CATCH_UP: Duration = Duration::from_millis(100);

/// Sleeping is cut short by this much and the rest is spent asking for the time: the kernel's
/// timers are late by up to 50 us and a wake-up takes a few more.
const SPIN: Duration = Duration::from_micros(150);

impl Pace {
    pub(super) fn new(rate: Option<u64>, clock: Instant, end: Instant) -> Self {
        Pace { rate, clock, end }
    }

    /// Waits until record `number` (from 0) is due. Returns when it was due and what time it is,
    /// both in nanoseconds since the clock's start; `None` when the time is over or a signal has
    /// come.
    pub(super) fn start_ns(&self, number: u64, interrupt: &Interrupt) -> Option<(u64, u64)> {
        let end_ns = (self.end - self.clock).as_nanos() as u64;
        let due = self.rate.map(|rate| due_ns(number, rate));
        let is_in_time = due.is_some_and(|due| due < end_ns);
        let last_ns = end_ns + u64::from(is_in_time) * CATCH_UP.as_nanos() as u64;
        loop {
            let now = self.clock.elapsed().as_nanos() as u64;
            if now >= last_ns || interrupt.raised() {
                return None;
            }
            let due = due.unwrap_or(now);
            if now >= due {
                return Some((due, now));
            }
            let left = Duration::from_nanos(due.min(end_ns) - now);
            if left > SPIN {
                interrupt.wait_until(Some(Instant::now() + (left - SPIN)));
            } else {
                // Gives way to the shard and the broker where cores are few.
                std::thread::yield_now();
            }
        }
    }
}

/// How many records of `rate` a second are due before `time`.
pub(super) fn due_count(rate: u64, time: Duration) -> u64 {
    let due = (u128::from(rate) * time.as_nanos()).div_ceil(1_000_000_000);
    u64::try_from(due).unwrap_or(u64::MAX)
}

/// When record `number` (from 0) of `rate` a second is due, in nanoseconds.
fn due_ns(number: u64, rate: u64) -> u64 {
    let due = u128::from(number) * 1_000_000_000 / u128::from(rate);
    u64::try_from(due).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_at_equal_distances_without_drift() {
        assert_eq!(due_ns(0, 3), 0);
        assert_eq!(due_ns(1, 3), 333_333_333);
        assert_eq!(due_ns(3, 3), 1_000_000_000);
        assert_eq!(due_ns(3_000_000_001, 3), 1_000_000_000_333_333_333);
        assert_eq!(due_ns(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn the_records_due_before_a_time_are_those_with_an_earlier_moment() {
        for (rate, ms) in [
            (1, 0),
            (1, 1),
            (1, 1_000),
            (3, 1_000),
            (7, 2_500),
            (1_000, 999),
        ] {
            let time = Duration::from_millis(ms);
            let counted =
                (0..).take_while(|number| u128::from(due_ns(*number, rate)) < time.as_nanos());
            assert_eq!(
                due_count(rate, time),
                counted.count() as u64,
                "{rate} a second, {ms} ms"
            );
        }
    }

    #[test]
    fn a_late_record_keeps_the_time_it_was_due_and_the_end_is_the_end() {
        let interrupt = Interrupt::install().expect("signals");
        let begun = |ago: u64, rate| {
            let clock = Instant::now() - Duration::from_secs(ago);
            Pace::new(rate, clock, clock + Duration::from_secs(100))
        };
        let (due, now) = begun(10, Some(1)).start_ns(3, &interrupt).expect("in time");
        assert_eq!(due, 3_000_000_000);
        assert!(now >= 10_000_000_000);
        let (due, now) = begun(10, None).start_ns(3, &interrupt).expect("in time");
        assert_eq!(due, now);
        for (rate, number) in [(None, 3), (Some(1), 100)] {
            assert_eq!(begun(100, rate).start_ns(number, &interrupt), None);
        }
        assert_eq!(
            begun(101, Some(1)).start_ns(99, &interrupt),
            None,
            "too late"
        );
    }

    #[test]
    fn payloads_have_their_size_and_differ() {
        let payloads = Payloads::new(1_000);
        assert_eq!(payloads.noise.len(), 1_000 + PAYLOADS * STRIDE_BYTES);
        assert_ne!(payloads.noise[..64], payloads.noise[64..128]);
    }
}
