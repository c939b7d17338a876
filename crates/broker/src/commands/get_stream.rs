//! GetStream: operation 2, code 200.
//!
//! ```text
//! stream identifier
//! reply: stream | its topics without partitions; empty when there is no such stream
//! ```
//!
//! Simplified: none.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::stream::GetStream;

use super::common::decode_read;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_read::<GetStream<'_>>(state, call, body) else {
        return;
    };
    let stream = state.catalog.stream(&request.stream_id);
    let reply = stream.map_or_else(Vec::new, |stream| stream.details().to_vec());
    state.reply_read(call, &reply);
}
