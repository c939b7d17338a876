//! The three hashes of the protocol, and the only place that names a hash crate.
//!
//! | use | hash |
//! |---|---|
//! | message and batch checksums | XxHash3-64, seed 0 |
//! | `request_checksum` stamps | XxHash3-64, seed 0, widened to `u128` |
//! | messages key to partition | XxHash32, seed 0 |
//!
//! None of them is a defence against an adversary: they catch broken memory, broken software and
//! reused numbers.
//!
//! # Which crate hashes what
//!
//! `xxhash-rust` picks its vector instructions when it is compiled. A portable x86-64 binary may
//! assume only SSE2 and loses up to half the throughput on long inputs. So on x86-64 some inputs go
//! to `twox-hash`, which asks the CPU at run time:
//!
//! | input | portable x86-64 | `-C target-cpu=x86-64-v3` | other architectures |
//! |---|---|---|---|
//! | whole, to 128 bytes | xxhash-rust | xxhash-rust | xxhash-rust |
//! | whole, to 240 bytes | twox-hash | twox-hash | xxhash-rust |
//! | whole, longer | twox-hash | xxhash-rust | xxhash-rust |
//! | in pieces | twox-hash | xxhash-rust | xxhash-rust |
//!
//! Up to 240 bytes XxHash3 uses no vector instructions; there the choice is just for the faster
//! code. The numbers are in `benches/micro/README.md`.

use xxhash_rust::{xxh3, xxh32};

/// Vector instructions are chosen at run time.
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod long {
    use core::hash::Hasher;
    use twox_hash::XxHash3_64;
    use twox_hash::xxhash3_64::{DEFAULT_SECRET_LENGTH, RawHasher, SecretBuffer};

    #[inline]
    pub(super) fn checksum(bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot(bytes)
    }

    /// `XxHash3_64` itself keeps its secret on the heap; this one allocates nothing.
    #[derive(Clone)]
    pub(super) struct State(RawHasher<&'static [u8; DEFAULT_SECRET_LENGTH]>);

    impl Default for State {
        fn default() -> Self {
            Self(RawHasher::new(SecretBuffer::default()))
        }
    }

    impl State {
        pub(super) fn update(&mut self, bytes: &[u8]) {
            self.0.write(bytes);
        }

        pub(super) fn digest(&self) -> u64 {
            self.0.finish()
        }
    }
}

/// Vector instructions are known when this is compiled.
#[cfg(not(all(target_arch = "x86_64", not(target_feature = "avx2"))))]
mod long {
    use xxhash_rust::xxh3;

    #[inline]
    pub(super) fn checksum(bytes: &[u8]) -> u64 {
        xxh3::xxh3_64(bytes)
    }

    #[derive(Clone, Default)]
    pub(super) struct State(xxh3::Xxh3);

    impl State {
        pub(super) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(super) fn digest(&self) -> u64 {
            self.0.digest()
        }
    }
}

#[cfg(target_arch = "x86_64")]
use twox_hash::XxHash3_64 as Middle;

#[cfg(not(target_arch = "x86_64"))]
struct Middle;

#[cfg(not(target_arch = "x86_64"))]
impl Middle {
    fn oneshot(bytes: &[u8]) -> u64 {
        xxh3::xxh3_64(bytes)
    }
}

/// The longest input of the first row above.
const SHORT_BYTES_MAX: usize = 128;

/// The longest input of the second row above.
const MIDDLE_BYTES_MAX: usize = 240;

/// XxHash3-64 over `bytes` with seed 0: the checksum of messages and batches.
#[must_use]
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    if bytes.len() <= SHORT_BYTES_MAX {
        xxh3::xxh3_64(bytes)
    } else if bytes.len() <= MIDDLE_BYTES_MAX {
        Middle::oneshot(bytes)
    } else {
        long::checksum(bytes)
    }
}

/// The `request_checksum` stamp of a request body: [`checksum`] widened to 128 bits.
///
/// Metadata and session operations and `DeleteSegments` carry it; partition and non-replicated
/// operations carry 0.
#[must_use]
pub fn stamp(body: &[u8]) -> u128 {
    u128::from(checksum(body))
}

/// XxHash32 over a messages key with seed 0. Modulo the partition count it is the partition every
/// SDK picks.
#[must_use]
pub fn key_hash(key: &[u8]) -> u32 {
    xxh32::xxh32(key, 0)
}

/// [`checksum`] over bytes that arrive in pieces: however the input is cut, the result is that of
/// the whole.
#[derive(Clone, Default)]
pub struct Checksum {
    state: long::State,
}

impl Checksum {
    /// Nothing hashed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.state.digest()
    }
}

impl core::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Checksum")
            .field("digest", &format_args!("{:#018x}", self.digest()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published by the xxHash project for empty input and seed 0.
    #[test]
    fn known_answers() {
        assert_eq!(checksum(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(key_hash(b""), 0x02CC_5D05);
        assert_eq!(stamp(b""), 0x2D06_8005_38D3_94C2);
    }

    /// The crates must agree at every length, above all where one takes over from the other.
    #[test]
    fn every_length_hashes_as_by_one_crate() {
        let bytes: Vec<u8> = (0..2500u32).map(|i| (i * 31 % 251) as u8).collect();
        for length in 0..=bytes.len() {
            let bytes = &bytes[bytes.len() - length..];
            assert_eq!(checksum(bytes), xxh3::xxh3_64(bytes), "{length} bytes");
        }
    }

    #[test]
    fn pieces_hash_as_the_whole() {
        let bytes: Vec<u8> = (0..3000u32).map(|i| (i * 7 % 251) as u8).collect();
        for cut in [0, 1, 8, 63, 64, 240, 241, 256, 1024, 2999, 3000] {
            let mut pieces = Checksum::new();
            pieces.update(&bytes[..cut]);
            pieces.update(&bytes[cut..]);
            assert_eq!(pieces.digest(), checksum(&bytes), "cut at {cut}");
        }
    }
}
