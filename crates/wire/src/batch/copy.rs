//! Copies payloads, and never in one call of more than 2 KiB.
//!
//! Past that the C library copies with `rep movsb`, and on AMD Zen 3 and later that instruction runs 20 to 30 times slower when
//! the destination lies 1 to 63 bytes behind the source modulo 4096. Records land at every alignment, so one in 65
//! would hit it: measured 4.7 us instead of 0.15 us for 10,000 bytes. Blocks cost nothing where the fault is absent
//! (`benches/micro/README.md`).

/// Largest copy in one call: below the C library's threshold for `rep movsb`.
const BLOCK_BYTES: usize = 2048;

/// Copies `from` to `to`, which is as long.
#[inline]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(BLOCK_BYTES).zip(from.chunks(BLOCK_BYTES)) {
        to.copy_from_slice(from);
    }
}
