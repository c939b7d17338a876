//! Every request that has a type.

use crate::check::{CASES, agree, damage};
use crate::strategies::*;
use iggy_binary_protocol::requests::{
    consumer_offsets, messages, partitions, personal_access_tokens, segments, streams, system,
    topics, users,
};
use iggy_binary_protocol::{ClientVersionInfo, WireIdentifier, WireName, WirePartitioning};
use proptest::collection::vec;
use proptest::prelude::*;
use ringmain_wire::payload::cluster::{GetClusterMetadata, Ping};
use ringmain_wire::payload::consumer::{
    DeleteConsumerOffset, GetConsumerOffset, StoreConsumerOffset,
};
use ringmain_wire::payload::login::{ClientVersion, LoginRegister, LoginRegisterWithPat, Logout};
use ringmain_wire::payload::poll::PollMessages;
use ringmain_wire::payload::stream::{
    CreateStream, DeleteStream, GetStream, GetStreams, PurgeStream, UpdateStream,
};
use ringmain_wire::payload::system::{DescribeOptions, GetMe, GetStats, OptionsScope};
use ringmain_wire::payload::token::{
    CreatePersonalAccessToken, DeletePersonalAccessToken, GetPersonalAccessTokens,
};
use ringmain_wire::payload::topic::{
    CreatePartitions, CreateTopic, DeletePartitions, DeleteSegments, DeleteTopic, GetTopic,
    GetTopics, PurgeTopic, UpdateTopic,
};
use ringmain_wire::{
    Command, CommandCode, Identifier, Name, Partitioning, ProtocolVersion, Secret,
};

/// The client's software, for both codecs.
type Software = (u32, String, String);

fn software() -> impl Strategy<Value = Software> {
    (0..1u32 << 30, name(), name())
}

fn our_software((version, name, build): &Software) -> ClientVersion<'_> {
    ClientVersion {
        protocol_version: ProtocolVersion::from_packed("version", 0, *version).expect("30 bits"),
        sdk_name: our_name(name),
        sdk_version: our_name(build),
    }
}

fn their_software((version, name, build): &Software) -> ClientVersionInfo {
    ClientVersionInfo {
        protocol_version: *version,
        sdk_name: their_name(name),
        sdk_version: their_name(build),
    }
}

fn their_context(context: &str) -> Option<String> {
    (!context.is_empty()).then(|| context.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn names(name in name(), damage in damage()) {
        agree!(our_name(&name) => Name<'_>, their_name(&name) => WireName, damage);
    }

    #[test]
    fn identifiers(id in id(), damage in damage()) {
        agree!(id.ours() => Identifier<'_>, id.theirs() => WireIdentifier, damage);
    }

    #[test]
    fn partitioning_by_key(key in vec(any::<u8>(), 1..=255), damage in damage()) {
        agree!(
            Partitioning::messages_key(&key).unwrap() => Partitioning<'_>,
            WirePartitioning::messages_key(key.clone()).unwrap() => WirePartitioning,
            damage
        );
    }

    #[test]
    fn partitioning_without_key(partition in any::<Option<u32>>(), damage in damage()) {
        agree!(
            partition.map_or(Partitioning::Balanced, Partitioning::PartitionId) => Partitioning<'_>,
            partition.map_or(WirePartitioning::Balanced, WirePartitioning::PartitionId) => WirePartitioning,
            damage
        );
    }

    #[test]
    fn client_versions(software in software(), damage in damage()) {
        agree!(
            our_software(&software) => ClientVersion<'_>,
            their_software(&software) => ClientVersionInfo,
            damage
        );
    }

    #[test]
    fn login_register(
        software in software(), username in name(), password in secret(), context in text(), damage in damage(),
    ) {
        let ours = LoginRegister {
            client_version: our_software(&software),
            username: our_name(&username),
            password: Secret::new(&password).unwrap(),
            context: our_text(&context),
        };
        let theirs = users::LoginRegisterRequest {
            version_info: their_software(&software),
            username: their_name(&username),
            password: password.clone().into(),
            client_context: their_context(&context),
        };
        agree!(ours => LoginRegister<'_>, theirs => users::LoginRegisterRequest, damage);
    }

    #[test]
    fn login_register_with_pat(
        software in software(), token in secret(), context in text(), damage in damage(),
    ) {
        let ours = LoginRegisterWithPat {
            client_version: our_software(&software),
            token: Secret::new(&token).unwrap(),
            context: our_text(&context),
        };
        let theirs = users::LoginRegisterWithPatRequest {
            version_info: their_software(&software),
            token: token.clone().into(),
            client_context: their_context(&context),
        };
        agree!(ours => LoginRegisterWithPat<'_>, theirs => users::LoginRegisterWithPatRequest, damage);
    }

    #[test]
    fn create_stream(name in name(), options in options(), damage in damage()) {
        let ours = CreateStream { name: our_name(&name), options: options.ours() };
        let theirs = streams::CreateStreamRequest { name: their_name(&name), options: options.theirs() };
        agree!(ours => CreateStream<'_>, theirs => streams::CreateStreamRequest, damage);
    }

    #[test]
    fn update_stream(stream in id(), name in name(), options in options(), damage in damage()) {
        let ours = UpdateStream { stream_id: stream.ours(), name: our_name(&name), options: options.ours() };
        let theirs = streams::UpdateStreamRequest {
            stream_id: stream.theirs(),
            name: their_name(&name),
            options: options.theirs(),
        };
        agree!(ours => UpdateStream<'_>, theirs => streams::UpdateStreamRequest, damage);
    }

    #[test]
    fn requests_about_one_stream(stream in id(), damage in damage()) {
        let (ours, theirs) = (stream.ours(), || stream.theirs());
        agree!(
            GetStream { stream_id: ours } => GetStream<'_>,
            streams::GetStreamRequest { stream_id: theirs() } => streams::GetStreamRequest,
            damage
        );
        agree!(
            DeleteStream { stream_id: ours } => DeleteStream<'_>,
            streams::DeleteStreamRequest { stream_id: theirs() } => streams::DeleteStreamRequest,
            damage
        );
        agree!(
            PurgeStream { stream_id: ours } => PurgeStream<'_>,
            streams::PurgeStreamRequest { stream_id: theirs() } => streams::PurgeStreamRequest,
            damage
        );
        agree!(
            GetTopics { stream_id: ours } => GetTopics<'_>,
            topics::GetTopicsRequest { stream_id: theirs() } => topics::GetTopicsRequest,
            damage
        );
    }

    #[test]
    fn create_topic(
        stream in id(), partitions_count in any::<u32>(), name in name(), options in options(), damage in damage(),
    ) {
        let ours = CreateTopic {
            stream_id: stream.ours(),
            partitions_count,
            name: our_name(&name),
            options: options.ours(),
        };
        let theirs = topics::CreateTopicRequest {
            stream_id: stream.theirs(),
            partitions_count,
            name: their_name(&name),
            options: options.theirs(),
        };
        agree!(ours => CreateTopic<'_>, theirs => topics::CreateTopicRequest, damage);
    }

    #[test]
    fn update_topic(
        stream in id(), topic in id(), name in name(), options in options(), damage in damage(),
    ) {
        let ours = UpdateTopic {
            stream_id: stream.ours(),
            topic_id: topic.ours(),
            name: our_name(&name),
            options: options.ours(),
        };
        let theirs = topics::UpdateTopicRequest {
            stream_id: stream.theirs(),
            topic_id: topic.theirs(),
            name: their_name(&name),
            options: options.theirs(),
        };
        agree!(ours => UpdateTopic<'_>, theirs => topics::UpdateTopicRequest, damage);
    }

    #[test]
    fn requests_about_one_topic(stream in id(), topic in id(), damage in damage()) {
        let (stream_id, topic_id) = (stream.ours(), topic.ours());
        agree!(
            GetTopic { stream_id, topic_id } => GetTopic<'_>,
            topics::GetTopicRequest { stream_id: stream.theirs(), topic_id: topic.theirs() } => topics::GetTopicRequest,
            damage
        );
        agree!(
            DeleteTopic { stream_id, topic_id } => DeleteTopic<'_>,
            topics::DeleteTopicRequest { stream_id: stream.theirs(), topic_id: topic.theirs() }
                => topics::DeleteTopicRequest,
            damage
        );
        agree!(
            PurgeTopic { stream_id, topic_id } => PurgeTopic<'_>,
            topics::PurgeTopicRequest { stream_id: stream.theirs(), topic_id: topic.theirs() }
                => topics::PurgeTopicRequest,
            damage
        );
    }

    #[test]
    fn partitions_and_segments(
        stream in id(), topic in id(), partition_id in any::<u32>(), count in any::<u32>(), damage in damage(),
    ) {
        let (stream_id, topic_id) = (stream.ours(), topic.ours());
        agree!(
            CreatePartitions { stream_id, topic_id, partitions_count: count } => CreatePartitions<'_>,
            partitions::CreatePartitionsRequest {
                stream_id: stream.theirs(),
                topic_id: topic.theirs(),
                partitions_count: count,
            } => partitions::CreatePartitionsRequest,
            damage
        );
        agree!(
            DeletePartitions { stream_id, topic_id, partitions_count: count } => DeletePartitions<'_>,
            partitions::DeletePartitionsRequest {
                stream_id: stream.theirs(),
                topic_id: topic.theirs(),
                partitions_count: count,
            } => partitions::DeletePartitionsRequest,
            damage
        );
        agree!(
            DeleteSegments { stream_id, topic_id, partition_id, segments_count: count } => DeleteSegments<'_>,
            segments::DeleteSegmentsRequest {
                stream_id: stream.theirs(),
                topic_id: topic.theirs(),
                partition_id,
                segments_count: count,
            } => segments::DeleteSegmentsRequest,
            damage
        );
    }

    #[test]
    fn poll_messages(
        who in who(), stream in id(), topic in id(), partition in any::<Option<u32>>(), strategy in strategy(),
        count in any::<u32>(), auto_commit in any::<bool>(), damage in damage(),
    ) {
        let ours = PollMessages {
            consumer: our_consumer(&who),
            stream_id: stream.ours(),
            topic_id: topic.ours(),
            partition: our_partition(partition),
            strategy,
            count,
            auto_commit,
        };
        let theirs = messages::PollMessagesRequest {
            consumer: their_consumer(&who),
            stream_id: stream.theirs(),
            topic_id: topic.theirs(),
            partition_id: partition,
            strategy: their_strategy(strategy),
            count,
            auto_commit,
        };
        agree!(ours => PollMessages<'_>, theirs => messages::PollMessagesRequest, damage);
    }

    #[test]
    fn consumer_offsets(
        who in who(), stream in id(), topic in id(), partition in any::<Option<u32>>(), offset in any::<u64>(),
        quorum in any::<bool>(), damage in damage(),
    ) {
        let (consumer, stream_id, topic_id) = (our_consumer(&who), stream.ours(), topic.ours());
        let (place, ack) = (our_partition(partition), our_ack(quorum));
        agree!(
            GetConsumerOffset { consumer, stream_id, topic_id, partition: place } => GetConsumerOffset<'_>,
            consumer_offsets::GetConsumerOffsetRequest {
                consumer: their_consumer(&who),
                stream_id: stream.theirs(),
                topic_id: topic.theirs(),
                partition_id: partition,
            } => consumer_offsets::GetConsumerOffsetRequest,
            damage
        );
        agree!(
            StoreConsumerOffset { consumer, stream_id, topic_id, partition: place, offset, ack }
                => StoreConsumerOffset<'_>,
            consumer_offsets::StoreConsumerOffsetRequest {
                consumer: their_consumer(&who),
                stream_id: stream.theirs(),
                topic_id: topic.theirs(),
                partition_id: partition,
                offset,
                ack: their_ack(quorum),
            } => consumer_offsets::StoreConsumerOffsetRequest,
            damage
        );
        agree!(
            DeleteConsumerOffset { consumer, stream_id, topic_id, partition: place, ack }
                => DeleteConsumerOffset<'_>,
            consumer_offsets::DeleteConsumerOffsetRequest {
                consumer: their_consumer(&who),
                stream_id: stream.theirs(),
                topic_id: topic.theirs(),
                partition_id: partition,
                ack: their_ack(quorum),
            } => consumer_offsets::DeleteConsumerOffsetRequest,
            damage
        );
    }

    #[test]
    fn personal_access_tokens(name in name(), expiry in any::<u64>(), damage in damage()) {
        agree!(
            CreatePersonalAccessToken { name: our_name(&name), expiry } => CreatePersonalAccessToken<'_>,
            personal_access_tokens::CreatePersonalAccessTokenRequest { name: their_name(&name), expiry }
                => personal_access_tokens::CreatePersonalAccessTokenRequest,
            damage
        );
        agree!(
            DeletePersonalAccessToken { name: our_name(&name) } => DeletePersonalAccessToken<'_>,
            personal_access_tokens::DeletePersonalAccessTokenRequest { name: their_name(&name) }
                => personal_access_tokens::DeletePersonalAccessTokenRequest,
            damage
        );
    }

    #[test]
    fn describe_options(scope in 0..3usize, damage in damage()) {
        let ours = [OptionsScope::Topic, OptionsScope::Stream, OptionsScope::User][scope];
        agree!(
            DescribeOptions { scope: ours } => DescribeOptions,
            system::DescribeOptionsRequest { scope: scope as u8 + 1 } => system::DescribeOptionsRequest,
            damage
        );
    }

    #[test]
    fn requests_without_a_body(damage in damage()) {
        agree!(Ping => Ping, system::PingRequest => system::PingRequest, damage);
        agree!(Logout => Logout, users::LogoutUserRequest => users::LogoutUserRequest, damage);
        agree!(GetMe => GetMe, system::GetMeRequest => system::GetMeRequest, damage);
        agree!(GetStats => GetStats, system::GetStatsRequest => system::GetStatsRequest, damage);
        agree!(GetStreams => GetStreams, streams::GetStreamsRequest => streams::GetStreamsRequest, damage);
        agree!(
            GetClusterMetadata => GetClusterMetadata,
            system::GetClusterMetadataRequest => system::GetClusterMetadataRequest,
            damage
        );
        agree!(
            GetPersonalAccessTokens => GetPersonalAccessTokens,
            personal_access_tokens::GetPersonalAccessTokensRequest
                => personal_access_tokens::GetPersonalAccessTokensRequest,
            damage
        );
    }
}

/// The code of a request's type.
fn code<C: Command>(_: C) -> CommandCode {
    C::CODE
}

#[test]
fn command_codes_are_those_of_the_reference() {
    use iggy_binary_protocol::codes;
    let stream_id = Identifier::Numeric(1);
    for (ours, theirs) in [
        (code(Ping), codes::PING_CODE),
        (code(GetMe), codes::GET_ME_CODE),
        (code(GetStats), codes::GET_STATS_CODE),
        (code(GetClusterMetadata), codes::GET_CLUSTER_METADATA_CODE),
        (code(Logout), codes::LOGOUT_USER_CODE),
        (code(GetStreams), codes::GET_STREAMS_CODE),
        (code(GetStream { stream_id }), codes::GET_STREAM_CODE),
        (code(DeleteStream { stream_id }), codes::DELETE_STREAM_CODE),
        (code(PurgeStream { stream_id }), codes::PURGE_STREAM_CODE),
        (code(GetTopics { stream_id }), codes::GET_TOPICS_CODE),
        (
            code(GetPersonalAccessTokens),
            codes::GET_PERSONAL_ACCESS_TOKENS_CODE,
        ),
    ] {
        assert_eq!(ours.0, theirs);
    }
    for (ours, theirs) in [
        (CreateStream::CODE, codes::CREATE_STREAM_CODE),
        (UpdateStream::CODE, codes::UPDATE_STREAM_CODE),
        (CreateTopic::CODE, codes::CREATE_TOPIC_CODE),
        (UpdateTopic::CODE, codes::UPDATE_TOPIC_CODE),
        (DeleteTopic::CODE, codes::DELETE_TOPIC_CODE),
        (PurgeTopic::CODE, codes::PURGE_TOPIC_CODE),
        (GetTopic::CODE, codes::GET_TOPIC_CODE),
        (CreatePartitions::CODE, codes::CREATE_PARTITIONS_CODE),
        (DeletePartitions::CODE, codes::DELETE_PARTITIONS_CODE),
        (DeleteSegments::CODE, codes::DELETE_SEGMENTS_CODE),
        (PollMessages::CODE, codes::POLL_MESSAGES_CODE),
        (GetConsumerOffset::CODE, codes::GET_CONSUMER_OFFSET_CODE),
        (StoreConsumerOffset::CODE, codes::STORE_CONSUMER_OFFSET_CODE),
        (
            DeleteConsumerOffset::CODE,
            codes::DELETE_CONSUMER_OFFSET_CODE,
        ),
        (
            CreatePersonalAccessToken::CODE,
            codes::CREATE_PERSONAL_ACCESS_TOKEN_CODE,
        ),
        (
            DeletePersonalAccessToken::CODE,
            codes::DELETE_PERSONAL_ACCESS_TOKEN_CODE,
        ),
        (DescribeOptions::CODE, codes::DESCRIBE_OPTIONS_CODE),
        (LoginRegister::CODE, codes::LOGIN_REGISTER_CODE),
        (
            LoginRegisterWithPat::CODE,
            codes::LOGIN_REGISTER_WITH_PAT_CODE,
        ),
    ] {
        assert_eq!(ours.0, theirs);
    }
}
