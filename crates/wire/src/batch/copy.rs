//! Copies payloads into a batch, in a way that suits the hash that follows and the CPU.
//!
//! **Short payloads** are copied in pieces of 16 bytes. The checksum reads what was just written,
//! in words of 8 bytes from the start of the frame. A load is served from the store before it when
//! one store covers it; the C library's copy of, say, 100 bytes makes stores that overlap at odd
//! places, and each load across two of them waits until both have reached the cache: a quarter of
//! the time of an append.
//!
//! **Long payloads** are never copied in one call of more than 2 KiB. Past that the C library uses
//! `rep movsb`, and on AMD Zen 3 and later that runs 20 to 30 times slower when the destination
//! lies 1 to 63 bytes behind the source modulo 4096. Records land at every alignment, so one in 65
//! would meet it.
//!
//! Both are measured in `benches/micro/README.md`.

/// Longest payload copied in pieces: with the 40 header bytes hashed before it, the longest input
/// that XxHash3 reads in words of 8 bytes.
const SHORT_BYTES_MAX: usize = 200;

/// Largest copy in one call: below the C library's threshold for `rep movsb`.
const BLOCK_BYTES: usize = 2048;

/// Copies `from` to `to`, which is as long.
#[inline]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    if from.len() <= SHORT_BYTES_MAX {
        copy_pieces(to, from);
    } else if from.len() <= BLOCK_BYTES {
        to.copy_from_slice(from);
    } else {
        copy_blocks(to, from);
    }
}

#[inline]
fn copy_pieces(to: &mut [u8], from: &[u8]) {
    let (to_pieces, to_rest) = to.as_chunks_mut::<16>();
    let (from_pieces, from_rest) = from.as_chunks::<16>();
    for (to, from) in to_pieces.iter_mut().zip(from_pieces) {
        *to = *from;
    }
    for (to, from) in to_rest.iter_mut().zip(from_rest) {
        *to = *from;
    }
}

fn copy_blocks(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(BLOCK_BYTES).zip(from.chunks(BLOCK_BYTES)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole() {
        let from: Vec<u8> = (0..3 * BLOCK_BYTES).map(|i| (i * 7 % 251) as u8).collect();
        let around = [
            BLOCK_BYTES - 1,
            BLOCK_BYTES,
            BLOCK_BYTES + 1,
            2 * BLOCK_BYTES,
            from.len(),
        ];
        for length in (0..=2 * SHORT_BYTES_MAX).chain(around) {
            let mut to = vec![0; length];
            copy(&mut to, &from[..length]);
            assert!(to == from[..length], "{length} bytes");
        }
    }
}
