//! What is kept and what goes: the bounds of records, and of replies that nobody reads.

use ringmain_wire::codec::Encode;
use ringmain_wire::header::RequestHeader;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::partitioning::Partitioning;
use ringmain_wire::payload::consumer::{Consumer, PartitionChoice};
use ringmain_wire::payload::poll::{PollMessages, PollingStrategy};

use super::{
    Answer, Bench, Outgoing, Peer, create_topic, identifier, send_messages, send_messages_to,
};
use crate::commands;
use crate::config::Config;
use crate::frame::Frame;
use crate::limits::{OUTBOX_BYTES_MAX, TOPICS_MAX, TOPICS_PER_STREAM_MAX};

fn records(bench: &Bench, partition: usize) -> u64 {
    bench.state.catalog.streams[&0].topics[&0].partitions[partition]
        .log
        .records()
}

#[test]
fn retention_evicts_the_oldest_batch_of_the_topic_and_counts_it() {
    let config = Config {
        topic_bytes_max: 4096,
        ..Config::default()
    };
    let (mut bench, peer) = Bench::with_topic(config, 2);
    for request in 3..13 {
        bench.send(peer, request, request as u32 % 2, &[0; 700]);
    }
    let kept = records(&bench, 0) + records(&bench, 1);
    assert_eq!(bench.state.stats.records_evicted + kept, 10);
    assert!(
        (2..=4).contains(&kept),
        "{kept} batches of about 1.1 kB fit 4 kB"
    );
    assert!(
        records(&bench, 0).abs_diff(records(&bench, 1)) <= 1,
        "the oldest went, whatever its partition"
    );
    assert!(bench.state.charged_bytes <= 4096);
    let answer = bench.send(peer, 13, 0, b"a");
    assert_eq!(answer.base_offset(), Some(5), "offsets go on");
}

/// Records kept of the topic with this number.
fn records_of(bench: &Bench, topic: u32) -> u64 {
    bench.state.catalog.streams[&0].topics[&topic].records()
}

/// A send of one record to partition 0 of a topic.
fn send_to(bench: &mut Bench, peer: Peer, request: u64, topic: &str, bytes: usize) -> Answer {
    let body = send_messages_to(topic, Partitioning::PartitionId(0), &[&vec![7; bytes]]);
    bench.partition(peer, Operation::SendMessages, request, &body)
}

/// Topics 0 and 1, `t` and `u`, under one bound.
fn two_topics(memory_bytes_max: u64) -> (Bench, Peer) {
    let config = Config {
        memory_bytes_max,
        ..Config::default()
    };
    let (mut bench, peer) = Bench::with_topic(config, 2);
    let answer = bench.metadata(peer, Operation::CreateTopic, 3, &create_topic("s", "u", 1));
    assert_eq!(answer.result(), 0);
    (bench, peer)
}

#[test]
fn past_the_memory_of_all_topics_the_oldest_batch_goes_whatever_its_topic() {
    let (mut bench, peer) = two_topics(18 << 10);
    // Small and old in one topic, large and young in the other.
    for request in 4..8 {
        send_to(&mut bench, peer, request, "t", 100);
    }
    for request in 8..11 {
        send_to(&mut bench, peer, request, "u", 4000);
    }
    assert_eq!((records_of(&bench, 0), records_of(&bench, 1)), (4, 3));
    send_to(&mut bench, peer, 11, "u", 4000);
    assert_eq!(
        (records_of(&bench, 0), records_of(&bench, 1)),
        (1, 4),
        "the small ones were the oldest"
    );
    send_to(&mut bench, peer, 12, "t", 4000);
    assert_eq!((records_of(&bench, 0), records_of(&bench, 1)), (1, 3));
    assert!(bench.state.charged_bytes <= 18 << 10);
    assert_eq!(bench.state.stats.records_evicted, 5);
}

#[test]
fn what_a_topic_loses_otherwise_is_not_looked_for_when_the_oldest_is_evicted() {
    for loss in [
        Operation::PurgeTopic,
        Operation::DeleteTopic,
        Operation::DeletePartitions,
        Operation::PurgeStream,
        Operation::DeleteStream,
    ] {
        let (mut bench, peer) = two_topics(8 << 10);
        for request in 4..7 {
            send_to(&mut bench, peer, request, "t", 100);
        }
        let (stream, topic) = (identifier("s").to_vec(), identifier("t").to_vec());
        let body = match loss {
            Operation::PurgeStream | Operation::DeleteStream => stream,
            Operation::DeletePartitions => [&stream[..], &topic, &2_u32.to_le_bytes()].concat(),
            _ => [stream, topic].concat(),
        };
        assert_eq!(bench.metadata(peer, loss, 7, &body).result(), 0, "{loss:?}");
        assert_eq!(bench.state.charged_bytes, 0, "{loss:?}");
        for request in 8..30 {
            bench.give_partition(
                peer,
                Operation::SendMessages,
                request,
                &send_messages_to("u", Partitioning::PartitionId(0), &[&[7; 1000]]),
            );
        }
        assert!(bench.state.charged_bytes <= 8 << 10, "{loss:?}");
    }
}

#[test]
fn a_batch_that_could_not_be_kept_is_refused_and_takes_nothing_with_it() {
    for (config, bytes_max) in [
        (
            Config {
                memory_bytes_max: 8192,
                ..Config::default()
            },
            8192,
        ),
        (
            Config {
                topic_bytes_max: 8192,
                ..Config::default()
            },
            8192,
        ),
    ] {
        let (mut bench, peer) = Bench::with_topic(config, 1);
        assert_eq!(bench.send(peer, 3, 0, b"first").base_offset(), Some(0));
        assert_eq!(bench.send(peer, 4, 0, &vec![7; bytes_max]).status(), 4022);
        let many = send_messages(
            Partitioning::PartitionId(0),
            &[&vec![7; bytes_max / 2][..], &vec![7; bytes_max / 2]],
        );
        let answer = bench.partition(peer, Operation::SendMessages, 5, &many);
        assert_eq!(answer.status(), 4023);
        assert_eq!((records(&bench, 0), bench.state.stats.records), (1, 1));
        let answer = bench.send(peer, 6, 0, &vec![7; bytes_max / 2]);
        assert_eq!(answer.base_offset(), Some(1), "half of it can be kept");
    }
}

#[test]
fn a_frame_larger_than_the_record_in_it_is_charged_as_the_record() {
    let config = Config {
        topic_bytes_max: 8192,
        ..Config::default()
    };
    let (mut bench, peer) = Bench::with_topic(config, 1);
    let body = send_messages(Partitioning::PartitionId(0), &[&[7; 4000]]);
    let header = RequestHeader::partition(
        Operation::SendMessages,
        peer.client,
        peer.session,
        3,
        body.len(),
    );
    let mut frame = Vec::with_capacity(1 << 20);
    frame.extend_from_slice(header.expect("a header").as_bytes());
    frame.extend_from_slice(&body);
    let now = bench.now;
    commands::receive(&mut bench.state, peer.connection, Frame::Owned(frame), now);
    assert_eq!(bench.answers(peer.connection)[0].base_offset(), Some(0));
    assert_eq!(records(&bench, 0), 1);
}

/// Everything of partition 0 of `s`/`t`.
fn poll_all() -> Vec<u8> {
    PollMessages {
        consumer: Consumer::Consumer(identifier("c")),
        stream_id: identifier("s"),
        topic_id: identifier("t"),
        partition: PartitionChoice::PartitionId(0),
        strategy: PollingStrategy::First,
        count: u32::MAX,
        auto_commit: false,
    }
    .to_vec()
}

/// Gives a read without taking what is answered.
fn give_read(bench: &mut Bench, peer: Peer, code: CommandCode, body: &[u8]) {
    let header = RequestHeader::non_replicated(code, peer.client, peer.session, 1, body.len());
    bench.give(peer.connection, header.expect("a header").as_bytes(), body);
}

#[test]
fn a_reply_counts_until_it_is_written_and_past_the_bound_reads_and_changes_are_refused() {
    let config = Config {
        outbound_bytes_max: 1 << 20,
        ..Config::default()
    };
    let (mut bench, slow) = Bench::with_topic(config, 1);
    bench.send(slow, 3, 0, &vec![7; 2 << 20]);
    let other = bench.login(8);
    give_read(&mut bench, slow, CommandCode::POLL_MESSAGES, &poll_all());
    let Some(Outgoing::Bytes(reply)) = bench.state.next_outgoing(slow.connection) else {
        panic!("the poll is answered");
    };
    assert_eq!(bench.state.outgoing_bytes(slow.connection), reply.len());
    assert!(reply.len() > OUTBOX_BYTES_MAX);
    assert!(
        bench.state.is_behind(slow.connection),
        "nothing more is read of it"
    );
    assert!(!bench.state.is_behind(other.connection));
    for (code, status) in [
        (CommandCode::POLL_MESSAGES, 58),
        (CommandCode::GET_STREAMS, 58),
        (CommandCode::PING, 0),
    ] {
        assert_eq!(bench.ask(other, code, &poll_all()).status(), status);
    }
    let change = create_topic("s", "u", 1);
    assert_eq!(
        bench
            .metadata(other, Operation::CreateTopic, 1, &change)
            .status(),
        58
    );
    assert!(
        bench
            .send(other, 2, 0, b"sends go on")
            .base_offset()
            .is_some()
    );
    // The peer of the slow connection sends no more: its reply is still being written.
    bench.state.hang_up(slow.connection);
    assert!(bench.state.is_outbound_full());
    bench.state.disconnect(slow.connection);
    assert_eq!(
        bench
            .metadata(other, Operation::CreateTopic, 1, &change)
            .result(),
        0
    );
    assert_eq!(bench.state.outgoing_total, 0);
}

#[test]
fn replies_never_take_more_than_records_may_but_room_for_one_connection() {
    for (outbound, memory, expected) in [
        (256 << 20, 1 << 30, 256 << 20),
        (256 << 20, 16 << 20, 16 << 20),
        (256 << 20, 8192, 1 << 20),
        (4096, 1 << 30, 4096),
    ] {
        let config = Config {
            outbound_bytes_max: outbound,
            memory_bytes_max: memory,
            ..Config::default()
        };
        assert_eq!(config.outbound_bytes_max(), expected);
    }
}

#[test]
fn what_waits_to_be_committed_is_charged_with_its_bookkeeping_and_bounded_by_the_memory() {
    let config = Config {
        memory_bytes_max: 8192,
        commit_delay_us: 1000,
        ..Config::default()
    };
    let (mut bench, peer) = Bench::with_topic(config, 1);
    for request in 3..80 {
        let body = send_messages(Partitioning::PartitionId(0), &[b"small"]);
        bench.give_partition(peer, Operation::SendMessages, request, &body);
    }
    assert!(bench.state.uncommitted_bytes <= 8192);
    assert!(
        bench.state.stats.sends_dropped > 60,
        "{}",
        bench.state.stats.sends_dropped
    );
    bench.advance(1000);
    assert_eq!(bench.state.uncommitted_bytes, 0);
    assert_eq!(
        bench.state.stats.records + bench.state.stats.sends_dropped,
        77
    );
}

#[test]
fn topics_without_partitions_are_bounded_too() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 0);
    let catalog = &mut bench.state.catalog;
    let options = catalog.streams[&0].topics[&0].options.clone();
    for stream in ["a", "b", "c", "d", "e"] {
        catalog.create_stream(stream, 0).expect("a stream");
        let stream = identifier(stream);
        for topic in 0..TOPICS_PER_STREAM_MAX {
            let made = catalog.create_topic(&stream, &topic.to_string(), 0, options.clone(), 0);
            if made.is_err() {
                break;
            }
        }
    }
    assert_eq!(catalog.topics().count(), TOPICS_MAX);
    let create = create_topic("s", "u", 0);
    let refused = bench.metadata(peer, Operation::CreateTopic, 3, &create);
    assert_eq!(refused.result(), 2021);
    let delete = [identifier("s").to_vec(), identifier("t").to_vec()].concat();
    bench.metadata(peer, Operation::DeleteTopic, 4, &delete);
    let made = bench.metadata(peer, Operation::CreateTopic, 5, &create);
    assert_eq!(made.result(), 0);
}
