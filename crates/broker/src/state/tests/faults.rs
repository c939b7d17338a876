//! Scripted faults, each from the trigger to what the client sees.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::partitioning::Partitioning;

use super::{Answer, Bench, Peer, create_stream, send_messages};
use crate::config::Config;
use crate::script::{Act, Action, Fault, RestartState};

const SEND: Operation = Operation::SendMessages;

fn bench() -> (Bench, Peer) {
    Bench::with_topic(Config::default(), 1)
}

/// Sends requests `3..3 + count` and returns the answers in the order they came.
fn send_many(bench: &mut Bench, peer: Peer, count: u64) -> Vec<Answer> {
    let body = send_messages(Partitioning::PartitionId(0), &[b"a"]);
    for request in 3..3 + count {
        bench.give_partition(peer, SEND, request, &body);
    }
    bench.answers(peer.connection)
}

fn requests(answers: &[Answer]) -> Vec<u64> {
    answers
        .iter()
        .map(|answer| answer.reply().request())
        .collect()
}

#[test]
fn the_kth_send_is_refused_and_its_retry_is_stored() {
    let (mut bench, peer) = bench();
    bench.state.inject(
        Fault::on(SEND)
            .at(2)
            .action(Action::Refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED)),
    );
    bench.state.inject(
        Fault::on(SEND)
            .at(3)
            .action(Action::Refuse(ErrorCode::TRANSIENT_NOT_COMMITTED)),
    );
    let answers = send_many(&mut bench, peer, 4);
    let statuses: Vec<_> = answers.iter().map(Answer::status).collect();
    assert_eq!(statuses, [0, 58, 57, 0]);
    assert_eq!(
        bench.send(peer, 4, 0, b"a").base_offset(),
        Some(2),
        "the refused request is new"
    );
    assert_eq!(bench.state.stats.faults, 2);
}

#[test]
fn a_metadata_operation_is_rejected_in_its_result_section() {
    let (mut bench, peer) = bench();
    let reject = Action::Reject(ErrorCode::TRANSIENT_NOT_COMMITTED);
    bench
        .state
        .inject(Fault::on(Operation::CreateStream).action(reject));
    assert_eq!(
        bench
            .metadata(peer, Operation::CreateStream, 3, &create_stream("x"))
            .result(),
        57
    );
    assert_eq!(
        bench
            .metadata(peer, Operation::CreateStream, 3, &create_stream("x"))
            .result(),
        0
    );
}

#[test]
fn a_dropped_send_is_not_stored_and_not_answered() {
    let (mut bench, peer) = bench();
    bench.state.inject(Fault::on(SEND).at(2));
    assert_eq!(requests(&send_many(&mut bench, peer, 3)), [3, 5]);
    assert_eq!(bench.state.stats.records, 2);
}

#[test]
fn a_cut_stores_the_send_loses_its_reply_and_closes() {
    let (mut bench, peer) = bench();
    bench
        .state
        .inject(Fault::on(SEND).at(2).action(Action::CommitAndCut));
    assert_eq!(
        requests(&send_many(&mut bench, peer, 3)),
        [3],
        "what went before is answered"
    );
    assert!(bench.state.is_closing(peer.connection));
    assert_eq!(bench.state.stats.records, 2, "what came after is not read");
    bench.state.disconnect(peer.connection);
    let peer = bench.login(7);
    assert_eq!(
        bench.send(peer, 4, 0, b"a").base_offset(),
        None,
        "the retry is a duplicate"
    );
}

#[test]
fn a_cut_closes_even_where_no_reply_was_due() {
    let (mut bench, peer) = bench();
    bench
        .state
        .inject(Fault::on(SEND).action(Action::CommitAndCut));
    let mut bad = send_messages(Partitioning::PartitionId(0), &[b"a"]);
    bad.push(0);
    bench.give_partition(peer, SEND, 3, &bad);
    assert!(bench.state.is_closing(peer.connection));
}

#[test]
fn replies_are_reordered_and_delayed() {
    let (mut bench, peer) = bench();
    bench
        .state
        .inject(Fault::on(SEND).at(1).action(Action::Reorder { replies: 2 }));
    bench
        .state
        .inject(Fault::on(SEND).at(4).action(Action::Delay { us: 500 }));
    assert_eq!(requests(&send_many(&mut bench, peer, 5)), [4, 5, 3, 7]);
    assert_eq!(
        bench.state.next_due_us(),
        Some(bench.now.monotonic_us + 500)
    );
    bench.advance(499);
    assert!(bench.answers(peer.connection).is_empty());
    bench.advance(1);
    assert_eq!(requests(&bench.answers(peer.connection)), [6]);
}

#[test]
fn an_eviction_ends_the_session_with_any_reason() {
    for reason in [
        EvictionReason::StaleClient,
        EvictionReason::SessionError,
        EvictionReason::NoSession,
    ] {
        let (mut bench, peer) = bench();
        bench
            .state
            .inject(Fault::on(SEND).action(Action::Evict(reason)));
        let answers = send_many(&mut bench, peer, 2);
        assert_eq!(answers[0].eviction(), reason.as_u8());
        assert_eq!(answers[1].eviction(), 1, "after it there is no session");
        assert_eq!(bench.state.stats.records, 0);
    }
}

#[test]
fn a_stalled_connection_is_not_read_until_time_is_up() {
    let (mut bench, peer) = bench();
    bench
        .state
        .inject(Fault::on(SEND).action(Action::StallReading { us: 700 }));
    assert_eq!(requests(&send_many(&mut bench, peer, 1)), [3]);
    assert!(bench.state.is_stalled(peer.connection, bench.now));
    bench.advance(700);
    assert!(!bench.state.is_stalled(peer.connection, bench.now));
    let mut touched = Vec::new();
    bench.state.take_touched(&mut touched);
    assert!(touched.contains(&peer.connection), "the reader is woken");
}

#[test]
fn a_restart_that_keeps_its_state_knows_its_clients_and_loses_what_was_not_committed() {
    let (mut bench, peer) = bench();
    bench.send(peer, 3, 0, b"a");
    bench.state.act(Act::HoldCommits, bench.now);
    bench.give_partition(
        peer,
        SEND,
        4,
        &send_messages(Partitioning::PartitionId(0), &[b"b"]),
    );
    bench.state.act(
        Act::Restart {
            state: RestartState::Kept,
            down_us: 0,
        },
        bench.now,
    );
    assert!(bench.state.is_closing(peer.connection));
    bench.state.act(Act::ReleaseCommits, bench.now);
    let again = bench.login(7);
    assert!(again.session > peer.session);
    assert_eq!(
        bench.send(again, 3, 0, b"a").base_offset(),
        None,
        "committed before"
    );
    assert_eq!(
        bench.send(again, 4, 0, b"b").base_offset(),
        Some(1),
        "never committed"
    );
}

#[test]
fn a_restart_that_loses_its_state_starts_over() {
    let (mut bench, peer) = bench();
    let other = bench.login(8);
    bench.send(peer, 3, 0, b"a");
    bench.state.act(
        Act::Restart {
            state: RestartState::Lost,
            down_us: 0,
        },
        bench.now,
    );
    let again = bench.login(8);
    assert!(again.session <= other.session, "epochs start again");
    assert_eq!(
        bench.send(again, 3, 0, b"a").status(),
        20,
        "streams are gone"
    );
    assert_eq!(
        (bench.state.charged_bytes, bench.state.uncommitted_bytes),
        (0, 0)
    );
}

#[test]
fn a_broker_that_is_down_takes_no_connection() {
    let (mut bench, _) = bench();
    bench.state.act(
        Act::Restart {
            state: RestartState::Kept,
            down_us: 1_000,
        },
        bench.now,
    );
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    assert!(bench.state.connect(address, address, bench.now).is_none());
    bench.advance(1_000);
    assert!(bench.state.connect(address, address, bench.now).is_some());
}

#[test]
fn what_is_lost_is_forgotten() {
    let (mut bench, peer) = bench();
    bench.send(peer, 3, 0, b"a");
    bench.state.act(Act::LoseWindows, bench.now);
    assert_eq!(
        bench.send(peer, 3, 0, b"a").base_offset(),
        Some(1),
        "stored again"
    );
    bench.state.act(Act::LoseClientTable, bench.now);
    assert_eq!(
        bench
            .metadata(peer, Operation::CreateStream, 4, &create_stream("x"))
            .eviction(),
        1
    );
    assert_eq!(
        bench.ask(peer, CommandCode::GET_STREAMS, &[]).status(),
        0,
        "reads need no table"
    );
    bench.state.act(Act::JumpEpochBack { by: 100 }, bench.now);
    assert!(bench.login(9).session < peer.session);
}

#[test]
fn held_commits_fill_the_partition_and_come_out_in_order() {
    let (mut bench, peer) = bench();
    bench.state.inject(
        Fault::on(SEND)
            .at(2)
            .action(Action::Broker(Act::HoldCommits)),
    );
    assert_eq!(requests(&send_many(&mut bench, peer, 100)), [3]);
    assert_eq!(bench.state.stats.sends_dropped, 3);
    bench.advance(1_000_000);
    assert!(
        bench.answers(peer.connection).is_empty(),
        "time does not release them"
    );
    bench.state.act(Act::ReleaseCommits, bench.now);
    assert_eq!(
        requests(&bench.answers(peer.connection)),
        (4..100).collect::<Vec<_>>()
    );
}

#[test]
fn the_same_script_and_the_same_bytes_give_the_same_answers() {
    let run = || {
        let (mut bench, peer) = bench();
        bench.state.inject(
            Fault::on(SEND)
                .at(2)
                .every(3)
                .times(0)
                .action(Action::Reorder { replies: 1 }),
        );
        bench.state.inject(Fault::on(SEND).at(5).every(4).times(2));
        send_many(&mut bench, peer, 40)
    };
    assert_eq!(run(), run());
}
