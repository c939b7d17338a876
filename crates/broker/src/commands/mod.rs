//! One command, one file. This one picks the file.
//!
//! A request without a login gets status 40 when it is a read, and an eviction when it is replicated. What the
//! protocol knows and this broker does not do is answered with status 5, and a code that the protocol does not
//! know with status 3: nothing is met with silence that the real server would answer.

mod create_stream;
mod create_topic;
mod get_stream;
mod get_topic;
mod get_topics;
mod logout;
mod ping;
mod poll_messages;
mod register;
mod send_messages;

use ringmain_wire::code::ErrorCode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::operation::{CommandCode, Operation, Plane};

use crate::net::Frame;
use crate::state::{Call, State};

/// Status of what the broker does not do.
const FEATURE_UNAVAILABLE: ErrorCode = known(5);
/// Status of a body whose stamp in the header is wrong.
const INVALID_FORMAT: ErrorCode = known(4);

const fn known(code: u32) -> ErrorCode {
    match ErrorCode::new(code) {
        Some(code) => code,
        None => panic!("no code is 0"),
    }
}

/// Handles one request whose header keeps the rules.
pub(crate) fn dispatch(state: &mut State, call: &Call, frame: Frame<'_>) {
    if call.header.check_stamp(frame.body()).is_err() {
        state.stats.requests_invalid += 1;
        state.deny(call, INVALID_FORMAT);
        return;
    }
    let bound = state.session(call.connection).is_some();
    match call.operation {
        Operation::Register => register::handle(state, call, frame.body()),
        Operation::Logout => logout::handle(state, call),
        Operation::NonReplicated => read(state, call, frame.body(), bound),
        _ if !bound => {
            let client = call.connection.transport_id();
            state.evict(call.connection, client, EvictionReason::NoSession);
        }
        Operation::SendMessages => send_messages::handle(state, call, frame),
        Operation::CreateStream => create_stream::handle(state, call, frame.body()),
        Operation::CreateTopic => create_topic::handle(state, call, frame.body()),
        operation => {
            assert!(
                operation.plane() != Plane::NonReplicated,
                "reads are handled above"
            );
            state.deny(call, FEATURE_UNAVAILABLE);
        }
    }
}

fn read(state: &mut State, call: &Call, body: &[u8], bound: bool) {
    match call.header.code() {
        CommandCode::PING => ping::handle(state, call),
        // Logins of old, told apart from a login that is merely missing.
        CommandCode::LOGIN_USER | CommandCode::LOGIN_WITH_PERSONAL_ACCESS_TOKEN => {
            state.evict(
                call.connection,
                call.header.client(),
                EvictionReason::MalformedLogin,
            );
        }
        _ if !bound => state.deny_unbound(call),
        CommandCode::POLL_MESSAGES => poll_messages::handle(state, call, body),
        CommandCode::GET_STREAM => get_stream::handle(state, call, body),
        CommandCode::GET_TOPIC => get_topic::handle(state, call, body),
        CommandCode::GET_TOPICS => get_topics::handle(state, call, body),
        code if code.name().is_some() => state.deny_read(call, FEATURE_UNAVAILABLE),
        _ => {
            state.stats.requests_invalid += 1;
            state.deny_read(call, ErrorCode::INVALID_COMMAND);
        }
    }
}
