//! PurgeTopic: operation 135 (code 305), metadata plane.
//!
//! ```text
//! stream identifier | topic identifier
//! reply: result
//! ```
//!
//! Forgets all records and consumer offsets; offsets start at 0 again. A missing stream is 1009 and
//! a missing topic 2010, in the result.
//!
//! Simplified: none.

use ringmain_wire::payload::topic::PurgeTopic;

use super::common::decode_write;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<PurgeTopic<'_>>(state, call, body) else {
        return;
    };
    state.metadata(call, |state| {
        let freed = state
            .catalog
            .purge_topic(&request.stream_id, &request.topic_id)?;
        state.give_back(freed);
        Ok(Vec::new())
    });
}
