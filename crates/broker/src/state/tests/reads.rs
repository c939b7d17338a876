//! Polls and the other reads.

use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::header::RequestHeader;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::partitioning::Partitioning;
use ringmain_wire::payload::cluster::ClusterMetadata;
use ringmain_wire::payload::consumer::{Consumer, PartitionChoice};
use ringmain_wire::payload::poll::{PollMessages, PollingStrategy};
use ringmain_wire::payload::system::{ClientDetails, Stats};
use ringmain_wire::payload::topic::{
    CreatePartitions, DeletePartitions, DeleteTopic, GetTopic, TopicDetails,
};

use super::{Answer, Bench, Peer, identifier, polled, send_messages};
use crate::config::Config;

fn poll_body(strategy: PollingStrategy, count: u32, auto_commit: bool) -> Vec<u8> {
    let request = PollMessages {
        consumer: Consumer::Consumer(identifier("c")),
        stream_id: identifier("s"),
        topic_id: identifier("t"),
        partition: PartitionChoice::PartitionId(0),
        strategy,
        count,
        auto_commit,
    };
    request.to_vec()
}

fn poll(bench: &mut Bench, peer: Peer, strategy: PollingStrategy, count: u32) -> Vec<u64> {
    let answer = bench.ask(
        peer,
        CommandCode::POLL_MESSAGES,
        &poll_body(strategy, count, false),
    );
    polled(&answer)
        .into_iter()
        .map(|(offset, _)| offset)
        .collect()
}

/// Three batches of three records: offsets 0 to 8, stored one second apart.
fn bench_of_nine() -> (Bench, Peer) {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 1);
    for request in 3..6 {
        let body = send_messages(Partitioning::PartitionId(0), &[b"a", b"bb", b"ccc"]);
        bench.partition(peer, Operation::SendMessages, request, &body);
        bench.advance(1_000_000);
    }
    (bench, peer)
}

#[test]
fn five_strategies_begin_where_they_say() {
    let (mut bench, peer) = bench_of_nine();
    let second_batch_us = bench.now.wall_us - 2_000_000;
    assert_eq!(
        poll(&mut bench, peer, PollingStrategy::Offset(4), 3),
        [4, 5, 6]
    );
    assert_eq!(
        poll(&mut bench, peer, PollingStrategy::Offset(9), 3),
        [0; 0]
    );
    assert_eq!(
        poll(
            &mut bench,
            peer,
            PollingStrategy::Timestamp(second_batch_us),
            4
        ),
        [3, 4, 5, 6]
    );
    assert_eq!(
        poll(
            &mut bench,
            peer,
            PollingStrategy::Timestamp(second_batch_us + 1),
            4
        ),
        [6, 7, 8]
    );
    assert_eq!(poll(&mut bench, peer, PollingStrategy::First, 2), [0, 1]);
    assert_eq!(
        poll(&mut bench, peer, PollingStrategy::Last, 4),
        [5, 6, 7, 8]
    );
    assert_eq!(
        poll(&mut bench, peer, PollingStrategy::Last, 100),
        (0..9).collect::<Vec<_>>()
    );
    assert_eq!(poll(&mut bench, peer, PollingStrategy::Next, 2), [0, 1]);
    assert_eq!(poll(&mut bench, peer, PollingStrategy::First, 0), [0; 0]);
}

#[test]
fn auto_commit_moves_the_next_poll_forward_and_never_back() {
    let (mut bench, peer) = bench_of_nine();
    let mut next = |strategy| {
        let answer = bench.ask(
            peer,
            CommandCode::POLL_MESSAGES,
            &poll_body(strategy, 4, true),
        );
        polled(&answer)
            .iter()
            .map(|(offset, _)| *offset)
            .collect::<Vec<_>>()
    };
    assert_eq!(next(PollingStrategy::Next), [0, 1, 2, 3]);
    assert_eq!(next(PollingStrategy::Next), [4, 5, 6, 7]);
    assert_eq!(next(PollingStrategy::First), [0, 1, 2, 3]);
    assert_eq!(next(PollingStrategy::Next), [8]);
    assert_eq!(next(PollingStrategy::Next), [0; 0]);
}

#[test]
fn polls_of_what_is_missing_say_what_is_missing() {
    let (mut bench, peer) = bench_of_nine();
    let request = |stream, topic, partition| {
        let request = PollMessages {
            consumer: Consumer::Consumer(identifier("c")),
            stream_id: identifier(stream),
            topic_id: identifier(topic),
            partition: PartitionChoice::PartitionId(partition),
            strategy: PollingStrategy::First,
            count: 1,
            auto_commit: false,
        };
        request.to_vec()
    };
    let mut status = |body: &[u8]| bench.ask(peer, CommandCode::POLL_MESSAGES, body).status();
    assert_eq!(status(&request("x", "t", 0)), 1009);
    assert_eq!(status(&request("s", "x", 0)), 2010);
    assert_eq!(status(&request("s", "t", 1)), 3007);
    let answer = bench.ask(peer, CommandCode::POLL_MESSAGES, b"nonsense");
    assert_eq!(
        answer.body(),
        [0; 16],
        "a body that cannot be read is an empty poll"
    );
}

fn topic(bench: &mut Bench, peer: Peer) -> Answer {
    let body = GetTopic {
        stream_id: identifier("s"),
        topic_id: identifier("t"),
    }
    .to_vec();
    bench.ask(peer, CommandCode::GET_TOPIC, &body)
}

#[test]
fn details_follow_what_is_stored_and_what_changes() {
    let (mut bench, peer) = bench_of_nine();
    let answer = topic(&mut bench, peer);
    let details = TopicDetails::decode(answer.body()).expect("details");
    assert_eq!(
        (
            details.topic.messages_count,
            details.partitions[0].current_offset
        ),
        (9, 8)
    );
    let (stream_id, topic_id) = (identifier("s"), identifier("t"));
    let add = CreatePartitions {
        stream_id,
        topic_id,
        partitions_count: 2,
    }
    .to_vec();
    let answer = bench.metadata(peer, Operation::CreatePartitions, 6, &add);
    assert_eq!((answer.result(), answer.reply().operation_byte()), (0, 65));
    for (request, partitions_count, result) in [(7, 4, 2019), (8, 3, 0)] {
        let remove = DeletePartitions {
            stream_id,
            topic_id,
            partitions_count,
        }
        .to_vec();
        let answer = bench.metadata(peer, Operation::DeletePartitions, request, &remove);
        assert_eq!(answer.result(), result, "{partitions_count} of 3");
    }
    let answer = topic(&mut bench, peer);
    let details = TopicDetails::decode(answer.body()).expect("details");
    assert_eq!(
        (details.topic.partitions_count, details.topic.messages_count),
        (0, 0)
    );
    assert_eq!(
        (bench.state.charged_bytes, bench.state.window_clients),
        (0, 0),
        "memory is given back"
    );
    let delete = DeleteTopic {
        stream_id,
        topic_id,
    }
    .to_vec();
    assert_eq!(
        bench
            .metadata(peer, Operation::DeleteTopic, 9, &delete)
            .result(),
        0
    );
    assert_eq!(
        topic(&mut bench, peer).body(),
        b"",
        "a missing topic is an empty reply"
    );
}

#[test]
fn the_server_tells_about_itself() {
    let (mut bench, peer) = bench_of_nine();
    let answer = bench.ask(peer, CommandCode::GET_CLUSTER_METADATA, &[]);
    let cluster = ClusterMetadata::decode(answer.body()).expect("a cluster");
    assert_eq!((cluster.nodes.0.len(), cluster.nodes.0[0].tcp_port), (1, 2));
    let answer = bench.ask(peer, CommandCode::GET_ME, &[]);
    let me = ClientDetails::decode(answer.body()).expect("a client");
    assert_eq!(
        (me.client.client_id, me.client.address.as_str()),
        (1, "127.0.0.1:1")
    );
    let answer = bench.ask(peer, CommandCode::GET_STATS, &[]);
    let stats = Stats::decode(answer.body()).expect("statistics");
    assert_eq!(
        (
            stats.messages_count,
            stats.topics_count,
            stats.clients_count
        ),
        (9, 1, 1)
    );
}

#[test]
fn replies_that_wait_hold_up_polls_and_readers_but_no_connection_without_any() {
    let config = Config {
        outbound_bytes_max: 1_000,
        ..Config::default()
    };
    let (mut bench, peer) = Bench::with_topic(config, 1);
    let other = bench.login(8);
    let body = send_messages(Partitioning::PartitionId(0), &[&[7; 2_000]]);
    bench.partition(peer, Operation::SendMessages, 3, &body);
    let body = poll_body(PollingStrategy::First, 1, false);
    let code = CommandCode::POLL_MESSAGES;
    let header = RequestHeader::non_replicated(code, 7, peer.session, 1, body.len());
    bench.give(peer.connection, header.expect("a header").as_bytes(), &body);
    assert!(bench.state.is_behind(peer.connection));
    assert!(!bench.state.is_behind(other.connection));
    let refused = bench.ask(other, CommandCode::POLL_MESSAGES, &body);
    assert_eq!(refused.status(), 58);
    assert_eq!(polled(&bench.answers(peer.connection)[0]).len(), 1);
    assert!(!bench.state.is_behind(peer.connection));
    let taken = bench.ask(other, CommandCode::POLL_MESSAGES, &body);
    assert_eq!(taken.status(), 0);
}
