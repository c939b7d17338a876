//! GetStream: operation 2, code 200.
//!
//! ```text
//! stream identifier
//! reply: stream details | topic details without partitions, one after the other; empty when there is no stream
//! ```
//!
//! Simplified: none.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::Decode;
use ringmain_wire::identifier::Identifier;

use crate::layout;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Ok(identifier) = Identifier::decode(body) else {
        state.stats.requests_invalid += 1;
        state.deny_read(call, ErrorCode::INVALID_COMMAND);
        return;
    };
    let mut reply = Vec::new();
    if let Some(stream) = state.catalog.stream(&identifier) {
        layout::stream(&mut reply, stream);
        for topic in stream.topics.values() {
            layout::topic(&mut reply, topic);
        }
    }
    state.reply_read(call, &reply);
}
