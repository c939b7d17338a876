//! What several commands share: codes, bodies, and how a request names a consumer or a partition.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::Decode;
use ringmain_wire::hash::key_hash;
use ringmain_wire::identifier::Identifier;
use ringmain_wire::payload::consumer::{Consumer, PartitionChoice};

use crate::state::{Call, ConsumerKey, State};

/// Status of a body whose stamp in the header is wrong.
pub(super) const INVALID_FORMAT: ErrorCode = code(4);
/// Status of what the broker does not do.
pub(super) const FEATURE_UNAVAILABLE: ErrorCode = code(5);
/// Status of a request for no partitions, or for more than 1000.
pub(super) const TOO_MANY_PARTITIONS: ErrorCode = code(2015);
/// Status of an offset of one consumer too many for the partition.
pub(super) const TOO_MANY_CONSUMER_OFFSETS: ErrorCode = code(3024);
/// Status of an option that the command does not have.
pub(super) const UNSUPPORTED_OPTION_KEY: ErrorCode = code(4041);

/// A code that the broker itself chose, so it is never 0.
pub(super) const fn code(code: u32) -> ErrorCode {
    match ErrorCode::new(code) {
        Some(code) => code,
        None => panic!("no code is 0"),
    }
}

/// Decodes the body of a read, or refuses it with status 3.
pub(super) fn decode_read<'a, T: Decode<'a>>(
    state: &mut State,
    call: &Call,
    body: &'a [u8],
) -> Option<T> {
    let request = T::decode(body);
    if request.is_err() {
        state.stats.requests_invalid += 1;
        state.deny_read(call, ErrorCode::INVALID_COMMAND);
    }
    request.ok()
}

/// Decodes the body of a metadata request, or refuses it with status 3 before it reaches the log.
pub(super) fn decode_write<'a, T: Decode<'a>>(
    state: &mut State,
    call: &Call,
    body: &'a [u8],
) -> Option<T> {
    let request = T::decode(body);
    if request.is_err() {
        state.stats.requests_invalid += 1;
        state.deny(call, ErrorCode::INVALID_COMMAND);
    }
    request.ok()
}

/// Where a consumer's offset is kept: names are hashed to a number, as in the real server. `None`
/// for a group.
pub(super) fn consumer_key(consumer: &Consumer<'_>) -> Option<ConsumerKey> {
    match consumer {
        Consumer::Consumer(Identifier::Numeric(number)) => Some(*number),
        Consumer::Consumer(Identifier::String(name)) => Some(key_hash(name.as_str().as_bytes())),
        Consumer::ConsumerGroup(_) => None,
    }
}

/// The partition that a client named, or the first.
pub(super) fn partition_id(choice: PartitionChoice) -> u32 {
    match choice {
        PartitionChoice::ByServer => 0,
        PartitionChoice::PartitionId(partition) => partition,
    }
}
