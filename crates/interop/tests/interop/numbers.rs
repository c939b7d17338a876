//! Numbers that every party must read alike, held against those of the official SDK: error codes
//! and the way from a messages key to its partition.

use std::num::NonZeroU32;

use iggy_common::{IggyError, calculate_32};
use ringmain_wire::{ErrorCode, MessagesKey};

/// Numbers to look at: all that are known are far below.
const NUMBERS_MAX: u32 = 100_000;

#[test]
fn error_codes_have_the_number_and_the_name_of_the_sdk() {
    assert!(ErrorCode::KNOWN.iter().all(|code| code.get() < NUMBERS_MAX));
    let mut known = 0;
    for number in 0..=NUMBERS_MAX {
        let theirs = match IggyError::from_code_as_string(number) {
            "unknown error code" => None,
            // In snake case there, in camel case here.
            name => Some(name.replace('_', "")),
        };
        let ours = ErrorCode::new(number)
            .and_then(ErrorCode::name)
            .map(str::to_lowercase);
        assert_eq!(ours, theirs, "code {number}");
        known += usize::from(ours.is_some());
    }
    assert_eq!(known, ErrorCode::KNOWN.len());
}

#[test]
fn keys_go_to_the_partition_that_the_sdk_picks() {
    for length in 1..=255_u8 {
        let key: Vec<u8> = (0..length)
            .map(|at| at.wrapping_mul(31).wrapping_add(length))
            .collect();
        let ours = MessagesKey::new(&key).expect("1 to 255 bytes");
        for count in [1, 2, 3, 7, 64, 1000, u32::MAX] {
            let partition = ours.partition(NonZeroU32::new(count).expect("not zero"));
            assert_eq!(
                partition,
                calculate_32(&key) % count,
                "{length} bytes, {count} partitions"
            );
        }
    }
}
