//! The payloads: noise, the same for every peer and in every run.

use bytes::Bytes;

/// Distinct payloads.
const PAYLOADS: usize = 64;
/// Small payloads are windows of one block of noise, so far apart.
const STRIDE_BYTES: usize = 64;
/// Larger ones have memory of their own: together they must not fit a second-level cache, as those
/// of no application would.
const WINDOW_BYTES_MAX: usize = 32 * 1024;

/// Payloads of one size, in turn.
pub(crate) struct Payloads {
    payloads: Vec<Bytes>,
    next: usize,
}

impl Payloads {
    pub(crate) fn new(record_bytes: usize) -> Self {
        let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut noise = |bytes: usize| -> Bytes {
            // xorshift64: quick, and good enough to be incompressible.
            std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 56) as u8
            })
            .take(bytes)
            .collect()
        };
        let payloads = if record_bytes <= WINDOW_BYTES_MAX {
            let block = noise(record_bytes + PAYLOADS * STRIDE_BYTES);
            let window =
                |index| block.slice(index * STRIDE_BYTES..index * STRIDE_BYTES + record_bytes);
            (0..PAYLOADS).map(window).collect()
        } else {
            (0..PAYLOADS).map(|_| noise(record_bytes)).collect()
        };
        Self { payloads, next: 0 }
    }

    /// The next payload.
    pub(crate) fn take(&mut self) -> Bytes {
        self.next = (self.next + 1) % PAYLOADS;
        self.payloads[self.next].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_their_size_and_neighbours_differ() {
        for bytes in [100, 1000, 65_536] {
            let mut payloads = Payloads::new(bytes);
            let (first, second) = (payloads.take(), payloads.take());
            assert_eq!((first.len(), second.len()), (bytes, bytes));
            assert_ne!(first, second);
        }
    }
}
