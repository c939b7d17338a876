//! One command, one file. This one picks the file.
//!
//! A request without a login gets status 40 when it is a read, and an eviction when it is replicated. What the
//! protocol knows and this broker does not do is answered with status 5, and a code that the protocol does not
//! know with status 3: nothing is met with silence that the real server would answer.
//!
//! While replies for slow readers take as much memory as they may, nothing but logins, pings and
//! sends is admitted (status 58).

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
use ringmain_wire::codec::Decode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::hash::key_hash;
use ringmain_wire::identifier::Identifier;
use ringmain_wire::operation::{CommandCode, Operation, Plane};
use ringmain_wire::payload::consumer::{Consumer, PartitionChoice};

use crate::net::Frame;
use crate::state::{Call, ConsumerKey, State};

/// Status of a body whose stamp in the header is wrong.
const INVALID_FORMAT: ErrorCode = code(4);
/// Status of what the broker does not do.
const FEATURE_UNAVAILABLE: ErrorCode = code(5);
/// Status of a request for no partitions, or for more than 1000.
const TOO_MANY_PARTITIONS: ErrorCode = code(2015);
/// Status of an offset of one consumer too many for the partition.
const TOO_MANY_CONSUMER_OFFSETS: ErrorCode = code(3024);
/// Status of an option that the command does not have.
const UNSUPPORTED_OPTION_KEY: ErrorCode = code(4041);

/// A code that the broker itself chose, so it is never 0.
const fn code(code: u32) -> ErrorCode {
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

/// Decodes the body of a read, or refuses it with status 3.
fn decode_read<'a, T: Decode<'a>>(state: &mut State, call: &Call, body: &'a [u8]) -> Option<T> {
    let request = T::decode(body);
    if request.is_err() {
        state.stats.requests_invalid += 1;
        state.deny_read(call, ErrorCode::INVALID_COMMAND);
    }
    request.ok()
}

/// Decodes the body of a metadata request, or refuses it with status 3 before it reaches the log.
fn decode_write<'a, T: Decode<'a>>(state: &mut State, call: &Call, body: &'a [u8]) -> Option<T> {
    let request = T::decode(body);
    if request.is_err() {
        state.stats.requests_invalid += 1;
        state.deny(call, ErrorCode::INVALID_COMMAND);
    }
    request.ok()
}

/// Where a consumer's offset is kept: names are hashed to a number, as in the real server. `None` for a group.
fn consumer_key(consumer: &Consumer<'_>) -> Option<ConsumerKey> {
    match consumer {
        Consumer::Consumer(Identifier::Numeric(number)) => Some(*number),
        Consumer::Consumer(Identifier::String(name)) => Some(key_hash(name.as_str().as_bytes())),
        Consumer::ConsumerGroup(_) => None,
    }
}

/// The partition that a client named, or the first.
fn partition_id(choice: PartitionChoice) -> u32 {
    match choice {
        PartitionChoice::ByServer => 0,
        PartitionChoice::PartitionId(partition) => partition,
    }
}
