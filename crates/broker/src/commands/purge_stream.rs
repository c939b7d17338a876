//! PurgeStream: operation 131 (code 205), metadata plane.
//!
//! ```text
//! stream identifier
//! reply: result
//! ```
//!
//! Forgets all records and consumer offsets of all its topics; offsets start at 0 again. A missing
//! stream is 1009 in the result.
//!
//! Simplified: none.

use ringmain_wire::payload::stream::PurgeStream;

use super::common::decode_write;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<PurgeStream<'_>>(state, call, body) else {
        return;
    };
    state.metadata(call, |state| {
        let freed = state.catalog.purge_stream(&request.stream_id)?;
        state.give_back(freed);
        Ok(Vec::new())
    });
}
