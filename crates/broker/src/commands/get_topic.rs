//! GetTopic: operation 2, code 300.
//!
//! ```text
//! stream identifier | topic identifier
//! reply: topic details | partitions; empty when there is no such stream or topic
//! ```
//!
//! Simplified: every partition reports one segment.

use ringmain_wire::WireError;
use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::{Decode, Reader};
use ringmain_wire::identifier::Identifier;

use crate::layout;
use crate::state::{Call, State};

/// The stream and topic that make up a whole body.
pub(super) fn decode(body: &[u8]) -> Result<(Identifier<'_>, Identifier<'_>), WireError> {
    let mut reader = Reader::new(body);
    let stream = Identifier::read(&mut reader)?;
    let topic = Identifier::read(&mut reader)?;
    reader.finish("topic identifiers")?;
    Ok((stream, topic))
}

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Ok((stream, topic)) = decode(body) else {
        state.stats.requests_invalid += 1;
        state.deny_read(call, ErrorCode::INVALID_COMMAND);
        return;
    };
    let mut reply = Vec::new();
    if let Some(topic) = state.catalog.topic(&stream, &topic) {
        layout::topic(&mut reply, topic);
        for partition in &topic.partitions {
            layout::partition(&mut reply, partition, 1);
        }
    }
    state.reply_read(call, &reply);
}
