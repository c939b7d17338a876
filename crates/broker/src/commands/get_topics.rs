//! GetTopics: operation 2, code 301.
//!
//! ```text
//! stream identifier
//! reply: count u32 | topics without partitions; none when there is no such stream
//! ```
//!
//! Simplified: none.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::Counted;
use ringmain_wire::payload::topic::GetTopics;

use super::common::decode_read;
use crate::state::{Call, State, Topic};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_read::<GetTopics<'_>>(state, call, body) else {
        return;
    };
    let stream = state.catalog.stream(&request.stream_id);
    let topics = stream.map_or_else(Vec::new, |stream| {
        stream.topics.values().map(Topic::info).collect()
    });
    let reply = Counted(topics).to_vec();
    state.reply_read(call, &reply);
}
