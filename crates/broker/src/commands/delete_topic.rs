//! DeleteTopic: operation 134 (code 303), metadata plane.
//!
//! ```text
//! stream identifier | topic identifier
//! reply: result
//! ```
//!
//! A missing stream is 1009 and a missing topic 2010, in the result.
//!
//! Simplified: none.

use ringmain_wire::payload::topic::DeleteTopic;

use super::common::decode_write;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<DeleteTopic<'_>>(state, call, body) else {
        return;
    };
    state.metadata(call, |state| {
        let freed = state
            .catalog
            .delete_topic(&request.stream_id, &request.topic_id)?;
        state.give_back(freed);
        Ok(Vec::new())
    });
}
