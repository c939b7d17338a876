//! Every limit of the crate, the arithmetic behind it, and proofs of how they relate.
//!
//! A partition of the server remembers, for each client, its highest request number (the watermark)
//! and which of the 128 numbers at and below it were committed:
//!
//! ```text
//!            watermark - 127                                   watermark
//!  ... ------------|-----------------------------------------------|
//!   swallowed      |  remembered one by one: 128 numbers           |   new
//! ```
//!
//! A number 128 or more below the watermark is taken for a duplicate: the server answers success
//! and stores nothing. So the oldest number that may still be sent again and the newest number in
//! use must never be 128 apart. This module says it once, as [`REQUEST_SPAN_MAX`].

/// Numbers a partition remembers for one client, watermark included. The server's constant.
pub const DUPLICATE_WINDOW_REQUESTS: u64 = 128;

/// Law W1: a new request of a lane may take number `n` only while `n - oldest unresolved <= 127`.
///
/// With the newest number at the watermark `w`, the oldest is at `w - 127` at the lowest, the last
/// one that the server still tells apart. One more and a retry of the oldest is swallowed.
pub const REQUEST_SPAN_MAX: u64 = DUPLICATE_WINDOW_REQUESTS - 1;

/// Requests that a partition takes uncommitted, from all producers together. The server's constant.
pub const SERVER_UNCOMMITTED_REQUESTS: u8 = 32;

/// Ceiling of a lane's window. A single producer that stays within what the partition takes
/// uncommitted is never dropped in silence because of itself. It also bounds a lane's memory: 32
/// keys of 4 bytes.
pub const WINDOW_REQUESTS_MAX: u8 = SERVER_UNCOMMITTED_REQUESTS;

/// Default window of a lane: at 1 ms from request to reply it carries 8000 requests a second, and
/// four producers with the default share a partition before the server's 32 are full.
pub const WINDOW_REQUESTS_DEFAULT: u8 = 8;

/// First request number of a client. Register is the one request with number 0.
pub const REQUEST_FIRST: u64 = 1;

/// Last number of the shared counter. It is never handed out: a read or a ping repeats the
/// counter's value, so the counter itself must stay a valid number.
pub const REQUEST_END: u64 = u64::MAX;

/// Last number a send or a metadata call may take; the one after it is kept for the logout. At
/// 1,000,000 requests a second the range lasts 584,000 years; the end is handled because a counter
/// may start anywhere.
pub const REQUEST_LAST: u64 = REQUEST_END - 2;

/// Ceiling of [`crate::Config::requests_max`]. A key costs 208 to 240 bytes: the batch, its place
/// in the table of numbers (which has a power of two of them), its timer and its outcome. So the
/// ceiling costs 208 MiB.
pub const REQUESTS_MAX_CEILING: u32 = 1 << 20;

/// Ceiling of [`crate::Config::lanes_max`]. A lane costs 245 bytes: itself, its turn and its timer.
/// So the ceiling costs 16 MiB.
pub const LANES_MAX_CEILING: u32 = 1 << 16;

/// Ceiling of [`crate::Config::calls_max`]. Control calls go one at a time; more than this waiting
/// is a mistake.
pub const CALLS_MAX_CEILING: u32 = 1 << 10;

/// Longest duration a setting may have: 30 days. Past it a value is a mix-up of units.
pub const DURATION_US_MAX: u64 = 30 * 24 * 3600 * 1_000_000;

const _: () = {
    assert!(
        REQUEST_SPAN_MAX < DUPLICATE_WINDOW_REQUESTS,
        "a retry at the far end must still be remembered"
    );
    assert!(REQUEST_SPAN_MAX == 127, "W1 of the design names the number");
    assert!(
        WINDOW_REQUESTS_MAX <= SERVER_UNCOMMITTED_REQUESTS,
        "a full window must fit the partition's pipeline"
    );
    assert!(
        WINDOW_REQUESTS_MAX as u64 <= REQUEST_SPAN_MAX,
        "a full window must fit the span"
    );
    assert!(WINDOW_REQUESTS_DEFAULT >= 1 && WINDOW_REQUESTS_DEFAULT <= WINDOW_REQUESTS_MAX);
    assert!(
        REQUEST_LAST + 1 < REQUEST_END,
        "the logout's number exists and the counter stays in range after it"
    );
    assert!(
        REQUESTS_MAX_CEILING as u64 + LANES_MAX_CEILING as u64 + CALLS_MAX_CEILING as u64 + 64
            < u32::MAX as u64,
        "keys of all tables together index one timer heap of u32"
    );
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Config};

    /// Bytes of one more key of each kind, as the documentation of the ceilings says.
    #[test]
    fn keys_cost_what_the_ceilings_say() {
        let bytes = |requests_max, lanes_max| {
            let config = Config {
                requests_max,
                lanes_max,
                ..Config::new(1, 1)
            };
            Client::memory_bytes(&config)
        };
        let (few, many) = (1 << 10, 1 << 16);
        let more = (many - few) as usize;
        assert_eq!(
            (bytes(many, 1) - bytes(few, 1)) / more,
            208,
            "a power of two of batches"
        );
        assert_eq!((bytes(1, many) - bytes(1, few)) / more, 245, "lanes");
        assert!(
            (bytes(few + 1, 1) - bytes(1, 1)) / few as usize <= 240,
            "just above a power of two"
        );
        assert_eq!(bytes(REQUESTS_MAX_CEILING, 1) >> 20, 208);
        assert_eq!(bytes(1, LANES_MAX_CEILING).div_ceil(1 << 20), 16);
    }
}
