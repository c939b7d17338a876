//! DeletePartitions: operation 137 (code 403), metadata plane.
//!
//! ```text
//! stream identifier | topic identifier | count u32
//! reply: result
//! ```
//!
//! Removes the last partitions with their records. A count of 0 or above 1000 gets status 2015
//! before the log. In the result: a missing stream is 1009, a missing topic 2010, more than there
//! are 2019.
//!
//! Simplified: none.

use ringmain_wire::payload::topic::{DeletePartitions, PARTITIONS_PER_REQUEST_MAX};

use super::common::{TOO_MANY_PARTITIONS, decode_write};
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<DeletePartitions<'_>>(state, call, body) else {
        return;
    };
    let count = request.partitions_count;
    if !(1..=PARTITIONS_PER_REQUEST_MAX).contains(&count) {
        state.deny(call, TOO_MANY_PARTITIONS);
        return;
    }
    state.metadata(call, |state| {
        let freed =
            state
                .catalog
                .delete_partitions(&request.stream_id, &request.topic_id, count)?;
        state.give_back(freed);
        Ok(Vec::new())
    });
}
