//! UpdateStream: operation 129 (code 204), metadata plane.
//!
//! ```text
//! stream identifier | name | options
//! reply: result
//! ```
//!
//! Any option is refused with status 4041 before the log. A missing stream is 1009 and a taken name
//! 1012, in the result.
//!
//! Simplified: none.

use ringmain_wire::payload::stream::UpdateStream;

use super::common::{UNSUPPORTED_OPTION_KEY, decode_write};
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<UpdateStream<'_>>(state, call, body) else {
        return;
    };
    if !request.options.is_empty() {
        state.deny(call, UNSUPPORTED_OPTION_KEY);
        return;
    }
    state.metadata(call, |state| {
        state
            .catalog
            .rename_stream(&request.stream_id, request.name.as_str())?;
        Ok(Vec::new())
    });
}
