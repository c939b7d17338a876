//! What a transport can be told: limits, write path, features.
//!
//! Every kernel feature names the release that brought it and can be switched off, so that each
//! fallback is tested on one kernel.

use crate::driver::{Features, WritePath};

pub use crate::socket::{CONNECTIONS_MAX, WRITE_PIECES_MAX};

/// Most writes of one connection that may be out at a time. With writes of 256 KiB, eight cover 10
/// Gbit/s over a round trip of 1.6 ms.
pub const WRITES_MAX: u8 = 8;

/// Limits and choices of one transport. Everything is allocated by these when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportConfig {
    /// Connections that can exist at a time, 1 to [`CONNECTIONS_MAX`]. Default 64.
    pub connections_max: u16,
    /// Pieces that one write may gather, 2 to [`WRITE_PIECES_MAX`]. Default 1024. More than the
    /// kernel takes at once (1024) are sent in several operations.
    pub write_pieces_max: u32,
    /// How frames reach the socket. Default [`WritePath::Auto`].
    pub write_path: WritePath,
    /// Writes of [`WritePath::Auto`] below this many bytes are never tried with zero copy, whose
    /// fixed cost they cannot earn back. Default 32 KiB.
    pub zero_copy_bytes_min: u32,
    /// Writes of one connection that may be out at a time, 1 to [`WRITES_MAX`]. A zero-copy write
    /// is done only when the peer has acknowledged it, so with one, the default, such a connection
    /// carries one write in each round trip; writes on other paths are done at once and never
    /// overlap. Each more costs a table of pieces.
    pub writes_max: u8,
    /// Kernel features that may be used.
    pub features: Features,
    /// Entries of the submission queue, 1 to 4096, rounded up to a power of two by the kernel. When
    /// it is full it is flushed early, which is counted. Default 256.
    pub submission_entries: u32,
    /// How long [`wait`](crate::driver::Driver::wait) spins on the completion queue before it
    /// sleeps. Default 0: sleep at once. For hosts where latency is worth a core.
    pub busy_poll_us: u32,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            connections_max: 64,
            write_pieces_max: 1024,
            write_path: WritePath::Auto,
            zero_copy_bytes_min: 32 * 1024,
            writes_max: 1,
            features: Features::default(),
            submission_entries: 256,
            busy_poll_us: 0,
        }
    }
}
