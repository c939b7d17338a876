//! Every reply that has a type, and the result section.

use crate::check::{CASES, agree, damage};
use crate::strategies::*;
use bytes::Bytes;
use iggy_binary_protocol::responses::{
    EmptyResponse, clients, consumer_offsets, messages, personal_access_tokens, streams, system,
    topics, users,
};
use iggy_binary_protocol::{result_code, result_section_len};
use proptest::collection::vec;
use proptest::prelude::*;
use ringmain_wire::payload::cluster::{ClusterMetadata, ClusterNode};
use ringmain_wire::payload::consumer::ConsumerOffsetInfo;
use ringmain_wire::payload::login::LoginReply;
use ringmain_wire::payload::poll::PollReply;
use ringmain_wire::payload::send::{Confirmation, SendMessagesReply};
use ringmain_wire::payload::stream::{StreamDetails, StreamInfo, TopicInfo};
use ringmain_wire::payload::system::{
    CacheMetric, ClientDetails, ClientInfo, ConsumerGroupMembership, OptionDescriptor, Stats,
};
use ringmain_wire::payload::token::{PersonalAccessTokenInfo, RawPersonalAccessToken};
use ringmain_wire::payload::topic::{PartitionInfo, TopicDetails};
use ringmain_wire::payload::{Counted, Empty, LengthPrefixed, Raw, ToEnd};
use ringmain_wire::result::ResultSection;
use ringmain_wire::{ErrorCode, ProtocolVersion, Secret};
use std::num::NonZeroU64;

/// The numbers of a server's statistics.
struct Numbers {
    large: [u64; 11],
    small: [u32; 9],
    shares: [f32; 3],
}

/// Numbers, name, options of a stream.
type Stream = ([u64; 4], u32, String, OptionBytes);

fn stream() -> impl Strategy<Value = Stream> {
    (any::<[u64; 4]>(), any::<u32>(), name(), options())
}

fn our_stream((numbers, id, name, options): &Stream, topics_count: u32) -> StreamInfo<'_> {
    StreamInfo {
        id: *id,
        created_at: numbers[0],
        topics_count,
        size_bytes: numbers[1],
        messages_count: numbers[2],
        name: our_name(name),
        options: LengthPrefixed(options.ours()),
    }
}

fn their_stream(
    (numbers, id, name, options): &Stream,
    topics_count: u32,
) -> streams::StreamResponse {
    streams::StreamResponse {
        id: *id,
        created_at: numbers[0],
        topics_count,
        size_bytes: numbers[1],
        messages_count: numbers[2],
        name: their_name(name),
        options: options.theirs(),
    }
}

/// Numbers, compression, name, both options of a topic.
type Topic = ([u64; 5], u32, u8, String, OptionBytes, OptionBytes);

fn topic() -> impl Strategy<Value = Topic> {
    (
        any::<[u64; 5]>(),
        any::<u32>(),
        any::<u8>(),
        name(),
        options(),
        options(),
    )
}

fn our_topic(
    (numbers, id, compression, name, options, derived): &Topic,
    partitions_count: u32,
) -> TopicInfo<'_> {
    TopicInfo {
        id: *id,
        created_at: numbers[0],
        partitions_count,
        message_expiry: numbers[1],
        compression_algorithm: *compression,
        max_topic_size: numbers[2],
        size_bytes: numbers[3],
        messages_count: numbers[4],
        name: our_name(name),
        options: LengthPrefixed(options.ours()),
        derived_options: LengthPrefixed(derived.ours()),
    }
}

fn their_topic(
    (numbers, id, compression, name, options, derived): &Topic,
    partitions_count: u32,
) -> streams::TopicHeader {
    streams::TopicHeader {
        id: *id,
        created_at: numbers[0],
        partitions_count,
        message_expiry: numbers[1],
        compression_algorithm: *compression,
        max_topic_size: numbers[2],
        size_bytes: numbers[3],
        messages_count: numbers[4],
        name: their_name(name),
        options: options.theirs(),
        derived_options: derived.theirs(),
    }
}

/// Names, ports, role and status of a node.
type Node = (String, String, [u16; 4], u8, u8);

fn node() -> impl Strategy<Value = Node> {
    (text(), text(), any::<[u16; 4]>(), any::<u8>(), any::<u8>())
}

fn our_node((name, ip, ports, role, status): &Node) -> ClusterNode<'_> {
    let [tcp_port, quic_port, http_port, websocket_port] = *ports;
    ClusterNode {
        name: our_text(name),
        ip: our_text(ip),
        tcp_port,
        quic_port,
        http_port,
        websocket_port,
        role: *role,
        status: *status,
    }
}

fn their_node((name, ip, ports, role, status): &Node) -> system::ClusterNodeResponse {
    let [tcp_port, quic_port, http_port, websocket_port] = *ports;
    system::ClusterNodeResponse {
        name: name.clone(),
        ip: ip.clone(),
        tcp_port,
        quic_port,
        http_port,
        websocket_port,
        role: *role,
        status: *status,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn login(
        user_id in any::<u32>(), session in 1..=u64::MAX, version in 0..1u32 << 30, build in name(), damage in damage(),
    ) {
        let ours = LoginReply {
            user_id,
            session: NonZeroU64::new(session).unwrap(),
            server_protocol_version: ProtocolVersion::from_packed("version", 0, version).unwrap(),
            server_version: our_name(&build),
        };
        let theirs = users::LoginRegisterResponse {
            user_id,
            session,
            server_protocol_version: version,
            server_version: their_name(&build),
        };
        agree!(ours => LoginReply<'_>, theirs => users::LoginRegisterResponse, damage);
    }

    #[test]
    fn cluster_metadata(name in text(), nodes in vec(node(), 0..5), damage in damage()) {
        let ours = ClusterMetadata {
            name: our_text(&name),
            nodes: Counted(nodes.iter().map(our_node).collect()),
        };
        let theirs = system::ClusterMetadataResponse {
            name: name.clone(),
            nodes: nodes.iter().map(their_node).collect(),
        };
        agree!(ours => ClusterMetadata<'_>, theirs => system::ClusterMetadataResponse, damage);
    }

    #[test]
    fn stream_details(stream in stream(), topics in vec(topic(), 0..4), damage in damage()) {
        let count = topics.len() as u32;
        let ours = StreamDetails {
            stream: our_stream(&stream, count),
            topics: topics.iter().map(|topic| our_topic(topic, topic.1)).collect(),
        };
        let theirs = streams::GetStreamResponse {
            stream: their_stream(&stream, count),
            topics: topics.iter().map(|topic| their_topic(topic, topic.1)).collect(),
        };
        agree!(ours => StreamDetails<'_>, theirs => streams::GetStreamResponse, damage);
    }

    #[test]
    fn one_stream(stream in stream(), topics_count in any::<u32>(), damage in damage()) {
        agree!(
            our_stream(&stream, topics_count) => StreamInfo<'_>,
            their_stream(&stream, topics_count) => streams::StreamResponse,
            damage
        );
    }

    #[test]
    fn replies_without_a_body(damage in damage()) {
        agree!(Empty => Empty, EmptyResponse => EmptyResponse, damage);
    }

    #[test]
    fn all_streams(all in vec(stream(), 0..4), damage in damage()) {
        let ours = ToEnd(all.iter().map(|stream| our_stream(stream, stream.1)).collect());
        let theirs = streams::GetStreamsResponse {
            streams: all.iter().map(|stream| their_stream(stream, stream.1)).collect(),
        };
        agree!(ours => ToEnd<StreamInfo<'_>>, theirs => streams::GetStreamsResponse, damage);
    }

    #[test]
    fn all_topics(all in vec(topic(), 0..4), damage in damage()) {
        let ours = Counted(all.iter().map(|topic| our_topic(topic, topic.1)).collect());
        let theirs = topics::GetTopicsResponse {
            topics: all.iter().map(|topic| their_topic(topic, topic.1)).collect(),
        };
        agree!(ours => Counted<TopicInfo<'_>>, theirs => topics::GetTopicsResponse, damage);
    }

    #[test]
    fn topic_details(
        topic in topic(), partitions in vec((any::<[u32; 2]>(), any::<[u64; 4]>()), 0..6), damage in damage(),
    ) {
        let count = partitions.len() as u32;
        let ours = TopicDetails {
            topic: our_topic(&topic, count),
            partitions: partitions.iter().map(|(small, large)| PartitionInfo {
                id: small[0],
                created_at: large[0],
                segments_count: small[1],
                current_offset: large[1],
                size_bytes: large[2],
                messages_count: large[3],
            }).collect(),
        };
        let theirs = topics::GetTopicResponse {
            topic: their_topic(&topic, count),
            partitions: partitions.iter().map(|(small, large)| topics::PartitionResponse {
                id: small[0],
                created_at: large[0],
                segments_count: small[1],
                current_offset: large[1],
                size_bytes: large[2],
                messages_count: large[3],
            }).collect(),
        };
        agree!(ours => TopicDetails<'_>, theirs => topics::GetTopicResponse, damage);
    }

    #[test]
    fn send_confirmations(all in vec((any::<[u32; 3]>(), any::<u64>()), 0..5), damage in damage()) {
        let confirmations: Vec<_> = all.iter().map(|([stream, topic, partition], offset)| {
            Confirmation::new(*stream, *topic, *partition, *offset)
        }).collect();
        let theirs = messages::SendMessagesResponse {
            confirmations: all.iter().map(|(ids, base_offset)| messages::SendMessagesConfirmationResponse {
                stream_id: ids[0],
                topic_id: ids[1],
                partition_id: ids[2],
                base_offset: *base_offset,
            }).collect(),
        };
        let mut damage = damage;
        // The empty body is a reply of its own, which the reference leaves to its caller.
        if damage.cut.index(4 + 20 * all.len()) == 0 {
            damage.cut = damage.at;
        }
        prop_assume!(damage.cut.index(4 + 20 * all.len()) != 0);
        agree!(
            SendMessagesReply::Confirmed(&confirmations) => SendMessagesReply<'_>,
            theirs => messages::SendMessagesResponse,
            damage
        );
    }

    #[test]
    fn poll_reply_prefix(
        partition_id in any::<u32>(), current_offset in any::<u64>(), damage in damage(),
    ) {
        // Batches behind it are compared where batches are.
        let ours = PollReply { partition_id, current_offset, messages_count: 0, batches: &[] };
        let theirs = messages::PollMessagesResponseHeader { partition_id, current_offset, messages_count: 0 };
        agree!(ours => PollReply<'_>, theirs => messages::PollMessagesResponseHeader, damage);
    }

    #[test]
    fn consumer_offset(
        partition_id in any::<u32>(), current_offset in any::<u64>(), stored_offset in any::<u64>(), damage in damage(),
    ) {
        agree!(
            ConsumerOffsetInfo { partition_id, current_offset, stored_offset } => ConsumerOffsetInfo,
            consumer_offsets::ConsumerOffsetResponse { partition_id, current_offset, stored_offset }
                => consumer_offsets::ConsumerOffsetResponse,
            damage
        );
    }

    #[test]
    fn client_details(
        client_id in any::<u32>(), user_id in any::<u32>(), transport in any::<u8>(), address in text(),
        groups in vec(any::<[u32; 3]>(), 0..5), damage in damage(),
    ) {
        let consumer_groups_count = groups.len() as u32;
        let ours = ClientDetails {
            client: ClientInfo { client_id, user_id, transport, address: our_text(&address), consumer_groups_count },
            consumer_groups: groups.iter().map(|[stream_id, topic_id, group_id]| ConsumerGroupMembership {
                stream_id: *stream_id,
                topic_id: *topic_id,
                group_id: *group_id,
            }).collect(),
        };
        let theirs = clients::ClientDetailsResponse {
            client: clients::ClientResponse {
                client_id,
                user_id,
                transport,
                address: address.clone(),
                consumer_groups_count,
            },
            consumer_groups: groups.iter().map(|ids| clients::ConsumerGroupInfoResponse {
                stream_id: ids[0],
                topic_id: ids[1],
                group_id: ids[2],
            }).collect(),
        };
        agree!(ours => ClientDetails<'_>, theirs => clients::ClientDetailsResponse, damage);
    }

    #[test]
    fn tokens(token in name(), all in vec((name(), any::<u64>()), 0..5), damage in damage()) {
        let ours = RawPersonalAccessToken { token: Secret::new(&token).unwrap() };
        let theirs = personal_access_tokens::RawPersonalAccessTokenResponse { token: their_name(&token) };
        let mut no_length = damage.clone();
        // A token of no bytes is a secret to us and no name to the reference.
        if no_length.byte == 0 {
            no_length.byte = 1;
        }
        agree!(
            ours => RawPersonalAccessToken<'_>,
            theirs => personal_access_tokens::RawPersonalAccessTokenResponse,
            no_length
        );
        let ours = ToEnd(all.iter().map(|(name, expiry_at)| PersonalAccessTokenInfo {
            name: our_name(name),
            expiry_at: *expiry_at,
        }).collect());
        let theirs = personal_access_tokens::GetPersonalAccessTokensResponse {
            tokens: all.iter().map(|(name, expiry_at)| personal_access_tokens::PersonalAccessTokenResponse {
                name: their_name(name),
                expiry_at: *expiry_at,
            }).collect(),
        };
        agree!(
            ours => ToEnd<PersonalAccessTokenInfo<'_>>,
            theirs => personal_access_tokens::GetPersonalAccessTokensResponse,
            damage
        );
    }

    #[test]
    fn option_descriptors(
        all in vec((name(), any::<u8>(), vec(any::<u8>(), 0..20), text()), 0..4), damage in damage(),
    ) {
        let ours = Counted(all.iter().map(|(key, kind, default_value, description)| OptionDescriptor {
            key: our_name(key),
            kind: *kind,
            default_value: LengthPrefixed(Raw(default_value)),
            description: our_text(description),
        }).collect());
        let theirs = system::DescribeOptionsResponse {
            entries: all.iter().map(|(key, kind, default_value, description)| system::OptionDescriptor {
                key: their_name(key),
                kind: *kind,
                default_value: Bytes::copy_from_slice(default_value),
                description: description.clone(),
            }).collect(),
        };
        agree!(ours => Counted<OptionDescriptor<'_>>, theirs => system::DescribeOptionsResponse, damage);
    }

    #[test]
    fn stats(
        large in any::<[u64; 11]>(), small in any::<[u32; 9]>(), shares in [number(), number(), number()],
        texts in [text(), text(), text(), text(), text()], caches in vec(any::<[u32; 5]>(), 0..4), damage in damage(),
    ) {
        let numbers = Numbers { large, small, shares };
        let ours = our_stats(&numbers, &texts, &caches);
        let theirs = their_stats(&numbers, &texts, &caches);
        agree!(ours => Stats<'_>, theirs => system::StatsResponse, damage);
    }

    #[test]
    fn result_sections(
        count in 0..3u32, index in 0..2u32, result in 0..3u32, cut in 0..16usize, payload in vec(any::<u8>(), 0..8),
    ) {
        let mut body = Vec::new();
        body.extend_from_slice(&count.to_le_bytes());
        for _ in 0..count {
            body.extend_from_slice(&index.to_le_bytes());
            body.extend_from_slice(&result.to_le_bytes());
        }
        body.extend_from_slice(&payload);
        body.truncate(cut.max(1));
        match ResultSection::decode(&body) {
            Ok(ResultSection::Success(payload)) => {
                prop_assert_eq!(result_code(&body), Some(0));
                let length = result_section_len(&body).unwrap();
                prop_assert_eq!(payload, &body[length..]);
            }
            Ok(ResultSection::Rejected(code)) => {
                prop_assert_eq!(result_code(&body).and_then(ErrorCode::new), Some(code));
                prop_assert_eq!(result_section_len(&body), Some(body.len()));
            }
            // Stricter than the reference: one entry, index 0, a code, nothing behind it.
            Err(_) => prop_assert!(
                result_section_len(&body).is_none() || count > 1 || index != 0 || result == 0 || body.len() > 12
            ),
        }
    }
}

/// Builds the statistics of either codec: the fields have the same names in both.
macro_rules! stats {
    ($($stats:ident)::+, $numbers:ident, $texts:expr, $semver:expr, $caches:expr) => {
        $($stats)::+ {
            process_id: $numbers.small[0],
            cpu_usage: $numbers.shares[0],
            total_cpu_usage: $numbers.shares[1],
            memory_usage: $numbers.large[0],
            total_memory: $numbers.large[1],
            available_memory: $numbers.large[2],
            run_time: $numbers.large[3],
            start_time: $numbers.large[4],
            read_bytes: $numbers.large[5],
            written_bytes: $numbers.large[6],
            messages_size_bytes: $numbers.large[7],
            streams_count: $numbers.small[1],
            topics_count: $numbers.small[2],
            partitions_count: $numbers.small[3],
            segments_count: $numbers.small[4],
            messages_count: $numbers.large[8],
            clients_count: $numbers.small[5],
            consumer_groups_count: $numbers.small[6],
            hostname: $texts(0),
            os_name: $texts(1),
            os_version: $texts(2),
            kernel_version: $texts(3),
            iggy_server_version: $texts(4),
            iggy_server_semver: $semver,
            cache_metrics: $caches,
            threads_count: $numbers.small[8],
            free_disk_space: $numbers.large[9],
            total_disk_space: $numbers.large[10],
        }
    };
}

/// Builds the metric of one cache of either codec.
macro_rules! cache_metric {
    ($($metric:ident)::+, $numbers:expr, $share:expr) => {
        $($metric)::+ {
            stream_id: $numbers[0],
            topic_id: $numbers[1],
            partition_id: $numbers[2],
            hits: u64::from($numbers[3]),
            misses: u64::from($numbers[4]),
            hit_ratio: $share,
        }
    };
}

fn our_stats<'a>(numbers: &Numbers, texts: &'a [String; 5], caches: &[[u32; 5]]) -> Stats<'a> {
    let share = numbers.shares[2];
    let metrics = caches
        .iter()
        .map(|cache| cache_metric!(CacheMetric, cache, share));
    let text = |index: usize| our_text(&texts[index]);
    stats!(
        Stats,
        numbers,
        text,
        numbers.small[7],
        Counted(metrics.collect())
    )
}

fn their_stats(
    numbers: &Numbers,
    texts: &[String; 5],
    caches: &[[u32; 5]],
) -> system::StatsResponse {
    use system::get_stats::CacheMetricEntry;
    let share = numbers.shares[2];
    let metrics = caches
        .iter()
        .map(|cache| cache_metric!(CacheMetricEntry, cache, share));
    let text = |index: usize| texts[index].clone();
    stats!(
        system::StatsResponse,
        numbers,
        text,
        Some(numbers.small[7]),
        metrics.collect()
    )
}
