//! UpdateTopic: operation 133 (code 304), metadata plane.
//!
//! ```text
//! stream identifier | topic identifier | name | options
//! reply: result
//! ```
//!
//! Before the log: an option that cannot be changed is refused with status 4041, a wrong value
//! with 4042. In the result: a missing stream is 1009, a missing topic 2010, a taken name 2013.
//!
//! Simplified: a new size is not held against the topic's segment size.

use ringmain_wire::payload::topic::UpdateTopic;

use super::common::{UNSUPPORTED_OPTION_KEY, code, decode_write};
use crate::state::{Call, Refused, State, TopicOptions};

/// Options that can be changed after the topic was created.
const CHANGEABLE: [&str; 3] = ["compression_algorithm", "message_expiry", "max_topic_size"];

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<UpdateTopic<'_>>(state, call, body) else {
        return;
    };
    if request
        .options
        .iter()
        .any(|(key, _)| !CHANGEABLE.contains(&key))
    {
        state.deny(call, UNSUPPORTED_OPTION_KEY);
        return;
    }
    let options = match TopicOptions::parse(&request.options) {
        Ok(options) => options,
        Err(Refused(refused)) => {
            state.deny(call, code(refused));
            return;
        }
    };
    state.metadata(call, |state| {
        let name = request.name.as_str();
        state
            .catalog
            .update_topic(&request.stream_id, &request.topic_id, name, &options)?;
        Ok(Vec::new())
    });
}
