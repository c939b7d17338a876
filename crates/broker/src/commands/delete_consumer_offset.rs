//! DeleteConsumerOffset: operation 162 (code 122), partition plane.
//!
//! ```text
//! consumer | stream identifier | topic identifier | partition | ack u8
//! reply: result
//! ```
//!
//! A body or an address that makes no sense gets status 20, an offset that is not stored 3021.
//! Retries as with `StoreConsumerOffset`.
//!
//! Simplified: consumer groups are answered with status 5.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::consumer::{AckLevel, DeleteConsumerOffset};

use super::common::{FEATURE_UNAVAILABLE, code, consumer_key, partition_id};
use crate::state::{Call, Place, State};

/// The consumer has no offset in this partition.
const CONSUMER_OFFSET_NOT_FOUND: ErrorCode = code(3021);

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let request = DeleteConsumerOffset::decode(body).ok();
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
    let stored = state
        .partition(place)
        .map(|partition| partition.offsets.contains_key(&key));
    let logged = request.ack == AckLevel::Quorum;
    match stored {
        None => state.deny(call, ErrorCode::RESOURCE_NOT_FOUND),
        // A retry of a delete that was committed finds nothing either, and is still a success.
        Some(false) if logged && state.answer_known(call, place) => {}
        Some(false) => state.deny(call, CONSUMER_OFFSET_NOT_FOUND),
        Some(true) => state.write_offset(call, place, logged, |offsets| {
            offsets.remove(&key);
        }),
    }
}
