//! GetConsumerOffset: operation 2, code 120.
//!
//! ```text
//! consumer | stream identifier | topic identifier | partition
//! reply: partition u32 | current offset u64 | stored offset u64; empty when none is stored
//! ```
//!
//! A body that cannot be read, a missing stream or a missing topic is answered like an offset that
//! is not stored; a missing partition of a topic that exists with status 3007.
//!
//! Simplified: consumer groups are answered with status 5.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::payload::consumer::{ConsumerOffsetInfo, GetConsumerOffset};

use super::common::{FEATURE_UNAVAILABLE, consumer_key, partition_id};
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Ok(request) = GetConsumerOffset::decode(body) else {
        state.stats.requests_invalid += 1;
        state.reply_read(call, &[]);
        return;
    };
    let Some(key) = consumer_key(&request.consumer) else {
        state.deny_read(call, FEATURE_UNAVAILABLE);
        return;
    };
    let Some(topic) = state.catalog.topic(&request.stream_id, &request.topic_id) else {
        state.reply_read(call, &[]);
        return;
    };
    let partition_id = partition_id(request.partition);
    let Some(partition) = topic.partitions.get(partition_id as usize) else {
        state.deny_read(call, ErrorCode::PARTITION_NOT_FOUND);
        return;
    };
    let current_offset = partition.log.current_offset();
    let reply = partition
        .offsets
        .get(&key)
        .map_or_else(Vec::new, |stored_offset| {
            ConsumerOffsetInfo {
                partition_id,
                current_offset,
                stored_offset: *stored_offset,
            }
            .to_vec()
        });
    state.reply_read(call, &reply);
}
