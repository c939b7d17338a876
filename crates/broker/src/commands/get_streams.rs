//! GetStreams: operation 2, code 201, empty body.
//!
//! ```text
//! reply: streams without topics, to the end
//! ```
//!
//! Simplified: a body is not looked at.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::ToEnd;

use crate::state::{Call, State, Stream};

pub(super) fn handle(state: &mut State, call: &Call) {
    let reply = ToEnd(state.catalog.streams.values().map(Stream::info).collect()).to_vec();
    state.reply_read(call, &reply);
}
