//! StoreConsumerOffset: operation 161 (code 121), partition plane.
//!
//! ```text
//! consumer | stream identifier | topic identifier | partition | offset u64 | ack u8
//! reply: result
//! ```
//!
//! A body or an address that makes no sense gets status 20, an offset above the newest record or
//! into an empty partition 4100, one consumer too many 3024. With ack 1 a retry is recognized by
//! the partition's window; with ack 0 it is not, because a single replica stores it without its
//! log.
//!
//! Simplified: consumer groups are answered with status 5.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::consumer::{AckLevel, StoreConsumerOffset};

use super::common::{
    FEATURE_UNAVAILABLE, TOO_MANY_CONSUMER_OFFSETS, code, consumer_key, partition_id,
};
use crate::state::{Call, Place, State};

/// The offset is not one of a record.
const INVALID_OFFSET: ErrorCode = code(4100);

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let request = StoreConsumerOffset::decode(body).ok();
    let ids = request.and_then(|request| {
        let ids = state
            .catalog
            .topic_ids(&request.stream_id, &request.topic_id)
            .ok()?;
        Some((request, ids))
    });
    let Some((request, (stream, topic))) = ids else {
        state.deny(call, ErrorCode::RESOURCE_NOT_FOUND);
        return;
    };
    let Some(key) = consumer_key(&request.consumer) else {
        state.deny(call, FEATURE_UNAVAILABLE);
        return;
    };
    let place = Place {
        stream,
        topic,
        partition: partition_id(request.partition),
    };
    let Some(partition) = state.partition(place) else {
        state.deny(call, ErrorCode::RESOURCE_NOT_FOUND);
        return;
    };
    let (unwritten, current) = (partition.log.is_unwritten(), partition.log.current_offset());
    let room = partition.offsets.contains_key(&key) || state.has_offset_room(partition);
    if unwritten || request.offset > current {
        state.deny(call, INVALID_OFFSET);
    } else if !room {
        state.deny(call, TOO_MANY_CONSUMER_OFFSETS);
    } else {
        let logged = request.ack == AckLevel::Quorum;
        state.write_offset(call, place, logged, |offsets| {
            offsets.insert(key, request.offset);
        });
    }
}
