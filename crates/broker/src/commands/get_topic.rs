//! GetTopic: operation 2, code 300.
//!
//! ```text
//! stream identifier | topic identifier
//! reply: topic | its partitions; empty when there is no such stream or topic
//! ```
//!
//! Simplified: every partition reports one segment.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::topic::GetTopic;

use super::common::decode_read;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_read::<GetTopic<'_>>(state, call, body) else {
        return;
    };
    let topic = state.catalog.topic(&request.stream_id, &request.topic_id);
    let reply = topic.map_or_else(Vec::new, |topic| topic.details(1).to_vec());
    state.reply_read(call, &reply);
}
