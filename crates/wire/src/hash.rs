//! The three hashes of the protocol, and the only place that names a hash crate.
//!
//! | use | hash |
//! |---|---|
//! | message and batch checksums | XxHash3-64, seed 0 |
//! | `request_checksum` stamps | XxHash3-64, seed 0, widened to `u128` |
//! | messages key to partition | XxHash32, seed 0 |
//!
//! None of them is a defence against an adversary: they catch broken memory, broken software and reused numbers.
//!
//! # Which crate hashes what
//!
//! `xxhash-rust` picks its vector instructions when it is compiled. A portable x86-64 binary may assume only SSE2, and
//! loses up to half the throughput on long inputs. So in such a build inputs over [`SHORT_BYTES_MAX`] bytes go to
//! `twox-hash`, which asks the CPU at run time; short inputs use no vector instructions and stay with `xxhash-rust`.
//! Built with `-C target-cpu=x86-64-v3`, or for another architecture, everything is `xxhash-rust`. The numbers are in
//! `benches/micro/README.md`.

use xxhash_rust::{xxh3, xxh32};

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod long {
    //! Long inputs in a portable x86-64 build: vector instructions chosen at run time.
    use core::hash::Hasher;
    use twox_hash::XxHash3_64;
    use twox_hash::xxhash3_64::{DEFAULT_SECRET_LENGTH, RawHasher, SecretBuffer};

    pub(super) fn checksum(bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot(bytes)
    }

    /// `XxHash3_64` itself keeps its buffer on the heap; this one allocates nothing.
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

#[cfg(not(all(target_arch = "x86_64", not(target_feature = "avx2"))))]
mod long {
    //! Long inputs in a build whose vector instructions are known.
    use xxhash_rust::xxh3;

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

/// Inputs up to this length are hashed by `xxhash-rust` in every build: XxHash3 treats them without vector
/// instructions, and from 129 bytes on `twox-hash` is faster even before it uses any.
pub const SHORT_BYTES_MAX: usize = 128;

/// XxHash3-64 over `bytes` with seed 0: the checksum of messages and batches.
#[must_use]
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    if bytes.len() <= SHORT_BYTES_MAX {
        xxh3::xxh3_64(bytes)
    } else {
        long::checksum(bytes)
    }
}

/// The `request_checksum` stamp of a request body: [`checksum`] widened to 128 bits.
///
/// Metadata and session operations and `DeleteSegments` carry it; partition and non-replicated operations carry 0.
#[must_use]
pub fn stamp(body: &[u8]) -> u128 {
    u128::from(checksum(body))
}

/// XxHash32 over a messages key with seed 0. Modulo the partition count it is the partition every SDK picks.
#[must_use]
pub fn key_hash(key: &[u8]) -> u32 {
    xxh32::xxh32(key, 0)
}

/// [`checksum`] over bytes that arrive in pieces: however the input is cut, the result is that of the whole.
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
