//! Payloads of recorded successes: what they decode to is what was asked for, and encodes to the
//! same bytes.

use crate::replies::Open;
use ringmain_wire::batch::{Integrity, SendMessagesRef};
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::cluster::{ClusterMetadata, ROLE_LEADER, STATUS_HEALTHY};
use ringmain_wire::payload::login::LoginReply;
use ringmain_wire::payload::poll::PollReply;
use ringmain_wire::payload::send::SendMessagesReply;
use ringmain_wire::payload::stream::{CreateStream, StreamDetails, StreamInfo, TopicInfo};
use ringmain_wire::payload::system::{ClientDetails, OptionDescriptor};
use ringmain_wire::payload::topic::{CreateTopic, TopicDetails};
use ringmain_wire::payload::{Counted, Empty, ToEnd};
use ringmain_wire::{
    CommandCode, HeaderValue, Identifier, Operation, Partitioning, ProtocolVersion,
};
use std::collections::HashMap;

/// A message as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    id: u128,
    payload: Vec<u8>,
    user_headers: Vec<u8>,
    timestamp_us: u64,
}

/// What a scenario has brought about so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    session: u64,
    /// The streams it created: number by name.
    streams: HashMap<String, u32>,
    /// The name of the first of them.
    first_stream: Option<String>,
    /// The messages of each partition of its topic, in the order of their offsets.
    stored: HashMap<u32, Vec<Stored>>,
}

/// Decodes, and checks that it encodes to the same bytes.
fn exact<'a, T: Decode<'a>>(payload: &'a [u8], note: &str) -> T {
    let value = T::decode(payload).unwrap_or_else(|error| panic!("{note}: {error}"));
    assert_eq!(value.to_vec(), payload, "{note}");
    value
}

/// Holds the payload of a success against its request and what was seen before.
pub(crate) fn check_payload(open: &Open, payload: &[u8], seen: &mut Seen) {
    let note = open.note.as_str();
    match (open.operation, open.header.code()) {
        (Operation::Register, _) => check_login(&exact(payload, note), seen),
        (Operation::CreateStream, _) => check_create_stream(open, &exact(payload, note), seen),
        (Operation::CreateTopic, _) => check_create_topic(open, &exact(payload, note)),
        (Operation::SendMessages, _) => check_send(open, &exact(payload, note), seen),
        (Operation::NonReplicated, CommandCode::POLL_MESSAGES) => {
            check_poll(&exact(payload, note), seen);
        }
        (Operation::NonReplicated, CommandCode::GET_CLUSTER_METADATA) => {
            check_cluster(&exact(payload, note));
        }
        (Operation::NonReplicated, CommandCode::GET_ME) => check_me(&exact(payload, note)),
        (Operation::NonReplicated, CommandCode::DESCRIBE_OPTIONS) => {
            check_options(&exact(payload, note));
        }
        (Operation::NonReplicated, CommandCode::GET_STREAMS) => {
            let streams: ToEnd<StreamInfo<'_>> = exact(payload, note);
            assert!(
                streams
                    .0
                    .iter()
                    .any(|stream| stream.name.as_str().ends_with("resume-same-client"))
            );
        }
        (Operation::NonReplicated, CommandCode::GET_STREAM) => {
            let details: Option<StreamDetails<'_>> = exact(payload, note);
            let details = details.expect("the stream exists");
            assert_eq!(
                seen.streams.get(details.stream.name.as_str()),
                Some(&details.stream.id)
            );
            assert_eq!(details.topics.len(), 1);
        }
        (Operation::NonReplicated, CommandCode::GET_TOPIC) => {
            let details: Option<TopicDetails<'_>> = exact(payload, note);
            assert_eq!(details.is_none(), note == "get missing topic");
            assert!(details.is_none_or(|details| details.partitions.len() == 2));
        }
        (Operation::NonReplicated, CommandCode::GET_TOPICS) => {
            let topics: Option<Counted<TopicInfo<'_>>> = exact(payload, note);
            let topics = topics.expect("the stream exists").0;
            assert_eq!(topics.len(), 1);
            assert_eq!(topics[0].name.as_str(), "topic");
        }
        // Pings, logout, and changes that are answered with the result section alone.
        _ => assert_eq!(exact::<Empty>(payload, note), Empty),
    }
}

fn check_login(reply: &LoginReply<'_>, seen: &mut Seen) {
    assert_eq!(reply.user_id, 0, "the root user");
    assert!(reply.session.get() >= seen.session, "epochs do not fall");
    seen.session = reply.session.get();
    assert_eq!(reply.server_protocol_version, ProtocolVersion::CURRENT);
    assert_eq!(reply.server_version.as_str(), "0.9.0-edge.5");
}

fn check_create_stream(open: &Open, stream: &StreamInfo<'_>, seen: &mut Seen) {
    let request = CreateStream::decode(&open.body).expect("recorded requests decode");
    if open.note.starts_with("same request id") {
        // The first reply is replayed, whatever the arguments.
        assert_eq!(Some(stream.name.as_str()), seen.first_stream.as_deref());
        return;
    }
    assert_eq!(stream.name, request.name);
    assert_eq!(
        (
            stream.topics_count,
            stream.size_bytes,
            stream.messages_count
        ),
        (0, 0, 0)
    );
    assert!(stream.options.0.is_empty());
    let name = stream.name.to_string();
    seen.first_stream.get_or_insert_with(|| name.clone());
    let twice = seen.streams.insert(name, stream.id);
    assert_eq!(twice, None);
}

fn check_create_topic(open: &Open, details: &TopicDetails<'_>) {
    let request = CreateTopic::decode(&open.body).expect("recorded requests decode");
    let topic = &details.topic;
    assert_eq!(topic.name, request.name);
    assert_eq!(topic.partitions_count, request.partitions_count);
    assert_eq!(
        (topic.message_expiry, topic.max_topic_size),
        (u64::MAX, u64::MAX),
        "kept for ever"
    );
    assert_eq!(topic.options.0, request.options);
    let compression = topic.derived_options.0.get("compression_algorithm");
    assert_eq!(compression, Some(HeaderValue::String("none")));
    for (id, partition) in (0..).zip(&details.partitions) {
        assert_eq!((partition.id, partition.messages_count), (id, 0));
    }
}

fn check_send(open: &Open, reply: &SendMessagesReply<'_>, seen: &mut Seen) {
    let send = SendMessagesRef::decode(&open.body).expect("recorded requests decode");
    let batch = send
        .batch(Integrity::Verify)
        .expect("what was stored was whole");
    let [confirmation] = reply.confirmations() else {
        panic!("{}: one confirmation", open.note);
    };
    assert_eq!(confirmation.topic_id(), 0);
    if let Partitioning::PartitionId(partition) = send.target().partitioning {
        assert_eq!(confirmation.partition_id(), partition);
    }
    match send.target().stream {
        Identifier::Numeric(stream) => {
            // Another scenario's stream.
            assert_eq!(confirmation.stream_id(), stream);
            return;
        }
        Identifier::String(name) => assert_eq!(
            Some(&confirmation.stream_id()),
            seen.streams.get(name.as_str())
        ),
    }
    let stored = seen.stored.entry(confirmation.partition_id()).or_default();
    assert_eq!(
        confirmation.base_offset(),
        stored.len() as u64,
        "offsets have no gap: {}",
        open.note
    );
    stored.extend(batch.messages().map(|message| Stored {
        id: message.id(),
        payload: message.payload().to_vec(),
        user_headers: message.user_headers_bytes().to_vec(),
        timestamp_us: message.timestamp_us(),
    }));
}

fn check_poll(reply: &PollReply<'_>, seen: &Seen) {
    let stored = &seen.stored[&reply.partition_id];
    let mut polled = 0;
    for batch in reply.stored_batches(Integrity::Verify) {
        for message in batch.expect("served as stored").messages() {
            assert_eq!(message.offset(), polled);
            let found = Stored {
                id: message.id(),
                payload: message.payload().to_vec(),
                user_headers: message.user_headers_bytes().to_vec(),
                timestamp_us: message.timestamp_us(),
            };
            assert_eq!(found, stored[polled as usize]);
            polled += 1;
        }
    }
    assert_eq!(polled, u64::from(reply.messages_count));
    assert_eq!(
        polled,
        stored.len() as u64,
        "all that was confirmed is there"
    );
    assert_eq!(polled, reply.current_offset + 1);
}

fn check_cluster(metadata: &ClusterMetadata<'_>) {
    assert_eq!(metadata.name.as_str(), "single-node");
    let [node] = &metadata.nodes.0[..] else {
        panic!("one node");
    };
    assert_eq!(
        (node.name.as_str(), node.ip.as_str()),
        ("iggy-node", "127.0.0.1")
    );
    let ports = (
        node.tcp_port,
        node.quic_port,
        node.http_port,
        node.websocket_port,
    );
    assert_eq!(ports, (8090, 8080, 3000, 8092));
    assert_eq!((node.role, node.status), (ROLE_LEADER, STATUS_HEALTHY));
}

fn check_me(details: &ClientDetails<'_>) {
    let client = &details.client;
    assert_eq!(
        (client.user_id, client.transport),
        (0, 1),
        "the root user over TCP"
    );
    assert!(client.address.as_str().starts_with("127.0.0.1:"));
    assert!(details.consumer_groups.is_empty());
}

fn check_options(options: &Counted<OptionDescriptor<'_>>) {
    assert_eq!(options.0.len(), 8);
    let first = &options.0[0];
    assert_eq!(
        (first.key.as_str(), first.kind),
        ("compression_algorithm", 2)
    );
    assert_eq!(first.default_value.0.0, b"none");
    assert!(
        options
            .0
            .iter()
            .all(|option| !option.description.as_str().is_empty())
    );
}
