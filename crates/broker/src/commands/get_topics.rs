//! GetTopics: operation 2, code 301.
//!
//! ```text
//! stream identifier
//! reply: topic details without partitions, one after the other
//! ```
//!
//! Simplified: none.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::Decode;
use ringmain_wire::identifier::Identifier;

use super::known;
use crate::layout;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Ok(identifier) = Identifier::decode(body) else {
        state.stats.requests_invalid += 1;
        state.deny_read(call, ErrorCode::INVALID_COMMAND);
        return;
    };
    let Some(stream) = state.catalog.stream(&identifier) else {
        state.deny_read(call, known(1009));
        return;
    };
    let mut reply = Vec::new();
    for topic in stream.topics.values() {
        layout::topic(&mut reply, topic);
    }
    state.reply_read(call, &reply);
}
