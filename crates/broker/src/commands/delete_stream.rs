//! DeleteStream: operation 130 (code 203), metadata plane.
//!
//! ```text
//! stream identifier
//! reply: result
//! ```
//!
//! A missing stream is 1009 in the result. Sends that wait to be committed in it are lost without a
//! reply.
//!
//! Simplified: none.

use ringmain_wire::payload::stream::DeleteStream;

use super::common::decode_write;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<DeleteStream<'_>>(state, call, body) else {
        return;
    };
    state.metadata(call, |state| {
        let freed = state.catalog.delete_stream(&request.stream_id)?;
        state.give_back(freed);
        Ok(Vec::new())
    });
}
