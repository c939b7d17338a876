//! CreateStream: operation 128 (code 202), metadata plane.
//!
//! ```text
//! name | options
//! reply: result | stream without topics
//! ```
//!
//! A stream has no options: any key is refused with status 4041 before the log. A name that is
//! taken is 1012 in the result, and a full catalog 1020.
//!
//! Simplified: none.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::stream::CreateStream;

use super::common::{UNSUPPORTED_OPTION_KEY, decode_write};
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<CreateStream<'_>>(state, call, body) else {
        return;
    };
    if !request.options.is_empty() {
        state.deny(call, UNSUPPORTED_OPTION_KEY);
        return;
    }
    state.metadata(call, |state| {
        let stream = state
            .catalog
            .create_stream(request.name.as_str(), call.now.wall_us)?;
        Ok(stream.info().to_vec())
    });
}
