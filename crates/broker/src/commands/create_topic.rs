//! CreateTopic: operation 132 (code 302), metadata plane; answered as operation 64.
//!
//! ```text
//! stream identifier | partitions u32 | name u8 + text | options, pairs to the end
//! reply: result | topic details with partitions
//! ```
//!
//! More than 1000 partitions get status 2015, an unknown option 4041, a wrong value 4042, a size below a segment
//! 1019: before the log. A missing stream is 1009 and a taken name 2013, in the result.
//!
//! Simplified: of the options only `max_topic_size` has an effect, see `state::topic_options`.

use ringmain_wire::WireError;
use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::{Decode, Reader};
use ringmain_wire::identifier::Identifier;
use ringmain_wire::name::Name;
use ringmain_wire::user_headers::UserHeaders;

use super::known;
use crate::layout;
use crate::limits::PARTITIONS_PER_REQUEST_MAX;
use crate::state::{Call, Refused, State, TopicOptions};

struct Request<'a> {
    stream: Identifier<'a>,
    partitions: u32,
    name: Name<'a>,
    options: UserHeaders<'a>,
}

fn decode(body: &[u8]) -> Result<Request<'_>, WireError> {
    let mut reader = Reader::new(body);
    Ok(Request {
        stream: Identifier::read(&mut reader)?,
        partitions: reader.u32("partitions_count")?,
        name: Name::read(&mut reader)?,
        options: UserHeaders::decode(reader.rest())?,
    })
}

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let Ok(request) = decode(body) else {
        state.stats.requests_invalid += 1;
        state.deny(call, ErrorCode::INVALID_COMMAND);
        return;
    };
    let options = TopicOptions::parse(request.options.iter())
        .and_then(|options| options.complete(state.config.profile))
        .and_then(|options| {
            if request.partitions > PARTITIONS_PER_REQUEST_MAX {
                Err(Refused(2015))
            } else {
                Ok(options)
            }
        });
    let options = match options {
        Ok(options) => options,
        Err(Refused(code)) => {
            state.deny(call, known(code));
            return;
        }
    };
    let name = request.name.as_str();
    state.metadata(call, |state| {
        let now_us = call.now.wall_us;
        let topic = state.catalog.create_topic(
            &request.stream,
            name,
            request.partitions,
            options,
            now_us,
        )?;
        let mut body = Vec::new();
        layout::topic(&mut body, topic);
        for partition in &topic.partitions {
            // The real server answers before it has opened the first segment.
            layout::partition(&mut body, partition, 0);
        }
        Ok(body)
    });
}
