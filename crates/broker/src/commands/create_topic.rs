//! CreateTopic: operation 132 (code 302), metadata plane; answered as operation 64.
//!
//! ```text
//! stream identifier | partitions u32 | name | options
//! reply: result | topic with partitions
//! ```
//!
//! Before the log: more than 1000 partitions get status 2015, an unknown option 4041, a wrong value
//! 4042, a size below a segment 1019. In the result: a missing stream is 1009, a taken name 2013, a
//! full catalog 2021 or 3013.
//!
//! Simplified: of the options only `max_topic_size` has an effect, see `state::topic_options`.

use ringmain_wire::codec::Encode;
use ringmain_wire::payload::topic::{CreateTopic, PARTITIONS_PER_REQUEST_MAX};

use super::common::{TOO_MANY_PARTITIONS, code, decode_write};
use crate::state::{Call, Refused, State, TopicOptions};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Some(request) = decode_write::<CreateTopic<'_>>(state, call, body) else {
        return;
    };
    if request.partitions_count > PARTITIONS_PER_REQUEST_MAX {
        state.deny(call, TOO_MANY_PARTITIONS);
        return;
    }
    let profile = state.config.profile;
    let options =
        TopicOptions::parse(&request.options).and_then(|options| options.complete(profile));
    let options = match options {
        Ok(options) => options,
        Err(Refused(refused)) => {
            state.deny(call, code(refused));
            return;
        }
    };
    state.metadata(call, |state| {
        let topic = state.catalog.create_topic(
            &request.stream_id,
            request.name.as_str(),
            request.partitions_count,
            options,
            call.now.wall_us,
        )?;
        // The real server answers before it has opened the first segment.
        Ok(topic.details(0).to_vec())
    });
}
