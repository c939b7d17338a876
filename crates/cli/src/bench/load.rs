//! What is sent and when: payloads of one size, and the schedule.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain::{Producer, Receipt, Record, SendError, limits};

/// Distinct payloads: each begins a cache line further on in one block of noise.
const PAYLOADS: usize = 64;
/// Distance between them.
const STRIDE_BYTES: usize = 64;

/// Payloads of one size. Noise rather than zeroes, so that nothing on the way gets them for less; the same noise in
/// every run.
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
}

/// Sleeping is cut short by this much and the rest is spent asking for the time: the kernel's timers are late by up to 50 us and
/// a wake-up takes a few more.
const SPIN: Duration = Duration::from_micros(150);

impl Pace {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Pace { rate }
    }

    /// Waits until record `number` (from 0) is due. Returns when it was due and what time it is, both in nanoseconds
    /// since `clock`.
    pub(super) fn start_ns(&self, number: u64, clock: Instant) -> (u64, u64) {
        let now_ns = || clock.elapsed().as_nanos() as u64;
        let Some(rate) = self.rate else {
            let now = now_ns();
            return (now, now);
        };
        let due = due_ns(number, rate);
        loop {
            let now = now_ns();
            if now >= due {
                return (due, now);
            }
            let left = Duration::from_nanos(due - now);
            if left > SPIN {
                std::thread::sleep(left - SPIN);
            } else {
                // Gives way to the shard and the broker where cores are few.
                std::thread::yield_now();
            }
        }
    }
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
    fn a_late_record_keeps_the_time_it_was_due() {
        let clock = Instant::now() - Duration::from_secs(10);
        let (due, now) = Pace::new(Some(1)).start_ns(3, clock);
        assert_eq!(due, 3_000_000_000);
        assert!(now >= 10_000_000_000);
        let (due, now) = Pace::new(None).start_ns(3, clock);
        assert_eq!(due, now);
    }

    #[test]
    fn payloads_have_their_size_and_differ() {
        let payloads = Payloads::new(1_000);
        assert_eq!(payloads.noise.len(), 1_000 + PAYLOADS * STRIDE_BYTES);
        assert_ne!(payloads.noise[..64], payloads.noise[64..128]);
    }
}
