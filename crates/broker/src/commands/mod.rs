//! One command, one file. This one picks the file.
//!
//! A request without a login gets status 40 when it is a read, and an eviction when it is
//! replicated. What the protocol knows and this broker does not do is answered with status 5, and a
//! code that the protocol does not know with status 3: nothing is met with silence that the real
//! server would answer.
//!
//! While replies for slow readers take as much memory as they may, nothing but logins, pings and
//! sends is admitted (status 58).

mod common;
mod create_partitions;
mod create_stream;
mod create_topic;
mod delete_consumer_offset;
mod delete_partitions;
mod delete_stream;
mod delete_topic;
mod get_cluster_metadata;
mod get_consumer_offset;
mod get_me;
mod get_stats;
mod get_stream;
mod get_streams;
mod get_topic;
mod get_topics;
mod logout;
mod ping;
mod poll_messages;
mod purge_stream;
mod purge_topic;
mod register;
mod send_messages;
mod store_consumer_offset;
mod update_stream;
mod update_topic;

use ringmain_wire::code::ErrorCode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::operation::{CommandCode, Operation, Plane};

use self::common::{FEATURE_UNAVAILABLE, INVALID_FORMAT};
use crate::config::Now;
use crate::frame::Frame;
use crate::state::{Call, ConnectionKey, State};

/// Handles one frame of a connection.
pub(crate) fn receive(state: &mut State, key: ConnectionKey, frame: Frame<'_>, now: Now) {
    if let Some(call) = state.admit(key, &frame, now) {
        dispatch(state, &call, frame);
        state.handled(&call);
    }
}

/// Handles one request whose header keeps the rules.
fn dispatch(state: &mut State, call: &Call, frame: Frame<'_>) {
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
        _ if call.operation != Operation::SendMessages && state.is_outbound_full() => {
            state.deny(call, ErrorCode::TRANSIENT_NOT_ACCEPTED);
        }
        Operation::SendMessages => send_messages::handle(state, call, frame),
        _ => write(state, call, frame.body()),
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
        _ if state.is_outbound_full() => {
            state.deny_read(call, ErrorCode::TRANSIENT_NOT_ACCEPTED);
        }
        CommandCode::POLL_MESSAGES => poll_messages::handle(state, call, body),
        CommandCode::GET_CONSUMER_OFFSET => get_consumer_offset::handle(state, call, body),
        CommandCode::GET_STREAM => get_stream::handle(state, call, body),
        CommandCode::GET_STREAMS => get_streams::handle(state, call),
        CommandCode::GET_TOPIC => get_topic::handle(state, call, body),
        CommandCode::GET_TOPICS => get_topics::handle(state, call, body),
        CommandCode::GET_CLUSTER_METADATA => get_cluster_metadata::handle(state, call),
        CommandCode::GET_ME => get_me::handle(state, call),
        CommandCode::GET_STATS => get_stats::handle(state, call),
        code if code.name().is_some() => state.deny_read(call, FEATURE_UNAVAILABLE),
        _ => {
            state.stats.requests_invalid += 1;
            state.deny_read(call, ErrorCode::INVALID_COMMAND);
        }
    }
}

fn write(state: &mut State, call: &Call, body: &[u8]) {
    match call.operation {
        Operation::CreateStream => create_stream::handle(state, call, body),
        Operation::UpdateStream => update_stream::handle(state, call, body),
        Operation::DeleteStream => delete_stream::handle(state, call, body),
        Operation::PurgeStream => purge_stream::handle(state, call, body),
        Operation::CreateTopic => create_topic::handle(state, call, body),
        Operation::UpdateTopic => update_topic::handle(state, call, body),
        Operation::DeleteTopic => delete_topic::handle(state, call, body),
        Operation::PurgeTopic => purge_topic::handle(state, call, body),
        Operation::CreatePartitions => create_partitions::handle(state, call, body),
        Operation::DeletePartitions => delete_partitions::handle(state, call, body),
        Operation::StoreConsumerOffset => store_consumer_offset::handle(state, call, body),
        Operation::DeleteConsumerOffset => delete_consumer_offset::handle(state, call, body),
        operation => {
            assert!(
                operation.plane() != Plane::NonReplicated,
                "reads are handled elsewhere"
            );
            state.deny(call, FEATURE_UNAVAILABLE);
        }
    }
}
