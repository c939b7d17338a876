//! Sends and consumer offsets: the duplicate window, the queue, retention, and what bad bytes do.

use ringmain_wire::batch::BATCH_HEADER_BYTES;
use ringmain_wire::codec::Encode;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::partitioning::Partitioning;
use ringmain_wire::payload::consumer::{
    AckLevel, Consumer, DeleteConsumerOffset, GetConsumerOffset, PartitionChoice,
    StoreConsumerOffset,
};
use ringmain_wire::payload::stream::PurgeStream;

use super::{Bench, Peer, identifier, send_messages};
use crate::config::Config;
use crate::limits::{PARTITION_QUEUED_MAX, PARTITION_UNCOMMITTED_MAX};
use crate::profile::Profile;

fn records(bench: &Bench, partition: usize) -> u64 {
    let topic = bench
        .state
        .catalog
        .topic(&identifier("s"), &identifier("t"))
        .expect("the topic");
    topic.partitions[partition].log.records()
}

#[test]
fn a_retry_is_an_empty_success_and_is_stored_once() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 2);
    assert_eq!(bench.send(peer, 3, 0, b"a").base_offset(), Some(0));
    assert_eq!(bench.send(peer, 3, 0, b"a").base_offset(), None);
    assert_eq!(
        bench.send(peer, 3, 1, b"a").base_offset(),
        Some(0),
        "another partition has its own window"
    );
    assert_eq!((records(&bench, 0), bench.state.stats.duplicates), (1, 1));
}

#[test]
fn the_captured_server_appends_a_retry() {
    let (mut bench, peer) = Bench::with_topic(
        Config {
            profile: Profile::Edge5,
            ..Config::default()
        },
        1,
    );
    assert_eq!(bench.send(peer, 3, 0, b"a").base_offset(), Some(0));
    assert_eq!(bench.send(peer, 3, 0, b"a").base_offset(), Some(1));
}

#[test]
fn an_unseen_request_128_below_the_watermark_is_swallowed() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 1);
    bench.send(peer, 200, 0, b"a");
    assert_eq!(
        bench.send(peer, 73, 0, b"b").base_offset(),
        Some(1),
        "127 below is new"
    );
    assert_eq!(
        bench.send(peer, 72, 0, b"c").base_offset(),
        None,
        "128 below is taken as committed"
    );
    assert_eq!((records(&bench, 0), bench.state.stats.swallowed), (2, 1));
}

#[test]
fn the_window_knows_the_client_on_its_next_connection() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 1);
    bench.send(peer, 3, 0, b"a");
    bench.state.disconnect(peer.connection);
    let peer = bench.login(7);
    assert_eq!(bench.send(peer, 3, 0, b"a").base_offset(), None);
    let stranger = bench.login(8);
    assert_eq!(bench.send(stranger, 3, 0, b"a").base_offset(), Some(1));
}

#[test]
fn a_full_partition_drops_without_a_reply_and_loses_nothing_it_took() {
    let (mut bench, peer) = Bench::with_topic(
        Config {
            commit_delay_us: 1_000,
            ..Config::default()
        },
        2,
    );
    let taken = (PARTITION_UNCOMMITTED_MAX + PARTITION_QUEUED_MAX) as u64;
    let body = send_messages(Partitioning::PartitionId(0), &[b"a"]);
    for request in 3..3 + taken + 5 {
        bench.give_partition(peer, Operation::SendMessages, request, &body);
    }
    assert!(
        bench.answers(peer.connection).is_empty(),
        "nothing is committed yet"
    );
    assert_eq!(bench.state.stats.sends_dropped, 5);
    let other = send_messages(Partitioning::PartitionId(1), &[b"a"]);
    bench.give_partition(peer, Operation::SendMessages, 1000, &other);
    assert_eq!(
        bench.state.stats.sends_dropped, 5,
        "the other partition has its own queue"
    );
    bench.give_partition(peer, Operation::SendMessages, 3, &body);
    assert_eq!(
        bench.state.stats.sends_absorbed, 1,
        "a retry of what waits is absorbed"
    );
    assert_eq!(
        bench.state.next_due_us(),
        Some(bench.now.monotonic_us + 1_000)
    );
    bench.advance(1_000);
    let answers = bench.answers(peer.connection);
    assert_eq!(answers.len() as u64, taken + 1);
    let requests: Vec<_> = answers
        .iter()
        .map(|answer| answer.reply().request())
        .collect();
    assert_eq!(
        requests[..taken as usize],
        (3..3 + taken).collect::<Vec<_>>(),
        "replies keep the order"
    );
    assert_eq!((records(&bench, 0), records(&bench, 1)), (taken, 1));
    assert_eq!(bench.state.uncommitted_bytes, 0);
}

#[test]
fn a_late_commit_may_fall_behind_the_window_of_its_client() {
    let (mut bench, peer) = Bench::with_topic(
        Config {
            commit_delay_us: 1_000,
            ..Config::default()
        },
        1,
    );
    bench.send_and_wait(peer, 3);
    let body = send_messages(Partitioning::PartitionId(0), &[b"a"]);
    bench.give_partition(peer, Operation::SendMessages, 4, &body);
    let offset = store_offset(PartitionChoice::PartitionId(0), 0, AckLevel::Quorum);
    assert_eq!(
        bench
            .partition(peer, Operation::StoreConsumerOffset, 500, &offset)
            .result(),
        0
    );
    bench.advance(1_000);
    assert_eq!(bench.answers(peer.connection)[0].base_offset(), Some(1));
}

impl Bench {
    fn send_and_wait(&mut self, peer: Peer, request: u64) {
        let body = send_messages(Partitioning::PartitionId(0), &[b"a"]);
        self.give_partition(peer, Operation::SendMessages, request, &body);
        self.advance(1_000);
        assert_eq!(self.answers(peer.connection).len(), 1);
    }
}

#[test]
fn a_malformed_batch_is_dropped_without_a_reply_and_counted() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 1);
    let good = send_messages(Partitioning::PartitionId(0), &[b"payload"]);
    let batch_at = good.len() - BATCH_HEADER_BYTES - 48 - 7;
    let mut request = 3;
    let mut give = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bad = good.clone();
        change(&mut bad);
        bench.give_partition(peer, Operation::SendMessages, request, &bad);
        request += 1;
        assert!(bench.answers(peer.connection).is_empty());
        (
            bench.state.stats.sends_malformed,
            bench.state.stats.checksum_failures,
        )
    };
    assert_eq!(
        give(&|bad| *bad.last_mut().expect("a byte") ^= 1),
        (1, 1),
        "a payload byte"
    );
    assert_eq!(
        give(&|bad| bad[batch_at + 40] ^= 1),
        (2, 2),
        "the batch checksum"
    );
    assert_eq!(
        give(&|bad| bad[batch_at + 100] = 1),
        (3, 2),
        "a reserved byte"
    );
    assert_eq!(give(&|bad| bad.push(0)), (4, 2), "a byte behind the batch");
    assert_eq!(
        give(&|bad| bad[batch_at - 4] = 9),
        (5, 2),
        "another count in the metadata"
    );
    assert_eq!(
        give(&|bad| bad.truncate(batch_at + 100)),
        (6, 2),
        "a cut batch"
    );
    assert_eq!(records(&bench, 0), 0);
    assert_eq!(
        bench.send(peer, 3, 0, b"a").base_offset(),
        Some(0),
        "the request numbers stay new"
    );
}

#[test]
fn addresses_that_do_not_resolve_get_status_20() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 1);
    let body = send_messages(Partitioning::PartitionId(1), &[b"a"]);
    assert_eq!(
        bench
            .partition(peer, Operation::SendMessages, 3, &body)
            .status(),
        20
    );
    assert_eq!(
        bench
            .partition(peer, Operation::SendMessages, 3, &body[..3])
            .status(),
        20
    );
    assert_eq!(
        bench
            .partition(peer, Operation::SendMessages, 3, &[])
            .status(),
        20
    );
}

#[test]
fn balanced_sends_take_turns_and_keys_stay() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 3);
    for request in 3..9 {
        let body = send_messages(Partitioning::Balanced, &[b"a"]);
        bench.partition(peer, Operation::SendMessages, request, &body);
    }
    assert_eq!(
        [0, 1, 2].map(|partition| records(&bench, partition)),
        [2, 2, 2]
    );
    let key = Partitioning::messages_key(b"key-1").expect("a key");
    for request in 9..12 {
        bench.partition(
            peer,
            Operation::SendMessages,
            request,
            &send_messages(key, &[b"a"]),
        );
    }
    let mut counts = [0, 1, 2].map(|partition| records(&bench, partition));
    counts.sort_unstable();
    assert_eq!(counts, [2, 2, 5], "one key, one partition");
}

fn store_offset(partition: PartitionChoice, offset: u64, ack: AckLevel) -> Vec<u8> {
    let consumer = Consumer::Consumer(identifier("c"));
    let (stream_id, topic_id) = (identifier("s"), identifier("t"));
    StoreConsumerOffset {
        consumer,
        stream_id,
        topic_id,
        partition,
        offset,
        ack,
    }
    .to_vec()
}

fn get_offset() -> Vec<u8> {
    let consumer = Consumer::Consumer(identifier("c"));
    let (stream_id, topic_id) = (identifier("s"), identifier("t"));
    GetConsumerOffset {
        consumer,
        stream_id,
        topic_id,
        partition: PartitionChoice::ByServer,
    }
    .to_vec()
}

fn delete_offset() -> Vec<u8> {
    let consumer = Consumer::Consumer(identifier("c"));
    let (stream_id, topic_id) = (identifier("s"), identifier("t"));
    let (partition, ack) = (PartitionChoice::ByServer, AckLevel::Quorum);
    DeleteConsumerOffset {
        consumer,
        stream_id,
        topic_id,
        partition,
        ack,
    }
    .to_vec()
}

#[test]
fn consumer_offsets_are_stored_read_and_deleted() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 1);
    let store = |offset| store_offset(PartitionChoice::ByServer, offset, AckLevel::Quorum);
    let first = bench.partition(peer, Operation::StoreConsumerOffset, 3, &store(0));
    assert_eq!(
        first.status(),
        4100,
        "an empty partition has no offset to store"
    );
    bench.send(peer, 4, 0, b"a");
    bench.send(peer, 5, 0, b"b");
    assert_eq!(
        bench
            .ask(peer, CommandCode::GET_CONSUMER_OFFSET, &get_offset())
            .body(),
        b""
    );
    assert_eq!(
        bench
            .partition(peer, Operation::StoreConsumerOffset, 6, &store(2))
            .status(),
        4100
    );
    assert_eq!(
        bench
            .partition(peer, Operation::StoreConsumerOffset, 7, &store(1))
            .result(),
        0
    );
    let expected = [
        &0_u32.to_le_bytes()[..],
        &1_u64.to_le_bytes(),
        &1_u64.to_le_bytes(),
    ]
    .concat();
    assert_eq!(
        bench
            .ask(peer, CommandCode::GET_CONSUMER_OFFSET, &get_offset())
            .body(),
        expected
    );
    assert_eq!(
        bench
            .partition(peer, Operation::DeleteConsumerOffset, 8, &delete_offset())
            .result(),
        0
    );
    let retry = bench.partition(peer, Operation::DeleteConsumerOffset, 8, &delete_offset());
    assert_eq!(retry.result(), 0, "a retry of a delete is a success");
    assert_eq!(
        bench
            .partition(peer, Operation::DeleteConsumerOffset, 9, &delete_offset())
            .status(),
        3021
    );
}

#[test]
fn a_purge_restarts_offsets_and_keeps_the_window() {
    let (mut bench, peer) = Bench::with_topic(Config::default(), 1);
    bench.send(peer, 3, 0, b"a");
    let body = PurgeStream {
        stream_id: identifier("s"),
    }
    .to_vec();
    assert_eq!(
        bench
            .metadata(peer, Operation::PurgeStream, 4, &body)
            .result(),
        0
    );
    assert_eq!((records(&bench, 0), bench.state.charged_bytes), (0, 0));
    assert_eq!(
        bench.send(peer, 3, 0, b"a").base_offset(),
        None,
        "a retry is still known"
    );
    assert_eq!(bench.send(peer, 5, 0, b"a").base_offset(), Some(0));
}
