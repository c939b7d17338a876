//! CreateStream: operation 128 (code 202), metadata plane.
//!
//! ```text
//! name u8 + text | options, pairs to the end
//! reply: result | stream details without topics
//! ```
//!
//! A name that is taken is refused with 1012 in the result. A stream has no options: any key is refused with
//! status 4041.
//!
//! Simplified: none.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::codec::{Decode, Reader};
use ringmain_wire::name::Name;
use ringmain_wire::user_headers::UserHeaders;

use super::known;
use crate::layout;
use crate::state::{Call, State};

pub(super) fn handle(state: &mut State, call: &Call, body: &[u8]) {
    let mut reader = Reader::new(body);
    let name = Name::read(&mut reader);
    let options = UserHeaders::decode(reader.rest());
    let (Ok(name), Ok(options)) = (name, options) else {
        state.stats.requests_invalid += 1;
        state.deny(call, ErrorCode::INVALID_COMMAND);
        return;
    };
    if !options.is_empty() {
        state.deny(call, known(4041));
        return;
    }
    state.metadata(call, |state| {
        let stream = state
            .catalog
            .create_stream(name.as_str(), call.now.wall_us)?;
        let mut body = Vec::new();
        layout::stream(&mut body, stream);
        Ok(body)
    });
}
