//! CreatePartitions: operation 136 (code 402), metadata plane; answered as operation 65.
//!
//! ```text
//! stream identifier | topic identifier | count u32
//! reply: result
//! ```
//!
//! A count of 0 or above 1000 gets status 2015 before the log. In the result: a missing stream is
//! 1009, a missing topic 2010, a full catalog 3013.
//!
//! Simplified: none.

use ringmain_wire::payload::topic::{CreatePartitions, PARTITIONS_PER_REQUEST_MAX};

use super::common::{TOO_MANY_PARTITIONS, decode_write};
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<CreatePartitions<'_>>(state, call, body) else {
        return;
    };
    let count = request.partitions_count;
    if !(1..=PARTITIONS_PER_REQUEST_MAX).contains(&count) {
        state.deny(call, TOO_MANY_PARTITIONS);
        return;
    }
    state.metadata(call, |state| {
        let now_us = call.now.wall_us;
        state
            .catalog
            .create_partitions(&request.stream_id, &request.topic_id, count, now_us)?;
        Ok(Vec::new())
    });
}
