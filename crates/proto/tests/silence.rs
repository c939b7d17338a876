//! Silence, late and duplicate replies, deadlines, and memory that must not be freed early.

mod common;

use common::{FAR_US, World, config, refused, request_of, requests_of, window};
use ringmain_proto::*;
use ringmain_wire::Operation;

/// Request timeout of these tests, microseconds.
const PATIENCE_US: u64 = 1_000;

fn world() -> World {
    let calm = Config {
        heartbeat_interval_us: FAR_US,
        write_stall_us: FAR_US,
        ..config()
    };
    assert_eq!(calm.request_timeout_us, PATIENCE_US);
    World::active(calm, window(8))
}

#[test]
fn silence_sends_again_under_the_same_number_after_a_pause_that_doubles() {
    let mut world = world();
    world.give(0, 0);
    for attempt in 1..5 {
        let expected = Transmit::Batch {
            key: BatchKey(0),
            lane: LaneKey(0),
            request: 1,
            session: 1,
            attempt,
        };
        assert_eq!(world.send_all(), [expected]);
        world.advance((PATIENCE_US << (attempt - 1)) - 1);
        assert_eq!(world.send_all(), [], "not before the timeout");
        world.advance(1);
    }
    let stats = world.client.stats();
    // The fourth silence has led to no transmission yet.
    assert_eq!((stats.silences, stats.batches_resent), (4, 3));
    assert_eq!(stats.batches_resent_after_silence, 3);
    world.confirm(1);
    assert_eq!(world.client.account().stored, 1);
}

#[test]
fn patience_starts_when_the_frame_is_written() {
    let mut world = world();
    world.give(0, 0);
    assert!(world.transmit().is_some());
    world.advance(5 * PATIENCE_US);
    assert_eq!(
        world.transmit(),
        None,
        "a slow write is not a silent server"
    );
    world.write_all();
    world.advance(PATIENCE_US);
    assert_eq!(requests_of(&world.send_all()), [1]);
}

#[test]
fn silence_until_the_deadline_is_unknown_and_the_late_reply_matches_nothing() {
    let mut world = world();
    world
        .submit(0, 0, 5, world.now.after(4_500))
        .expect("accepted");
    for attempt in 0..3 {
        world.send_all();
        world.advance(PATIENCE_US << attempt);
    }
    assert_eq!(world.receipts(), [(0, Receipt::Unknown { request: 1 })]);
    assert_eq!(world.client.stats().batches_resent, 2);
    world.give(0, 0);
    assert_eq!(
        requests_of(&world.send_all()),
        [2],
        "the key is used again, the number is not"
    );
    assert_eq!(world.confirm(1), ReplyMatch::Late);
    assert_eq!(
        world.receipts().len(),
        1,
        "the second batch is not answered by the first one's reply"
    );
    assert_eq!(world.confirm(2), ReplyMatch::Batch(BatchKey(0)));
}

#[test]
fn a_request_parked_by_the_server_that_commits_after_its_resend_is_stored_once() {
    let mut world = world();
    world.give(0, 0);
    world.send_all();
    world.advance(PATIENCE_US);
    world.send_all();
    assert_eq!(
        world.confirm(1),
        ReplyMatch::Batch(BatchKey(0)),
        "the first transmission's answer"
    );
    assert_eq!(
        world.answer(1, Verdict::Success),
        ReplyMatch::Late,
        "the second one's"
    );
    assert_eq!(world.receipts().len(), 1);
    assert_eq!(world.client.account().stored, 1);
}

#[test]
fn a_batch_that_never_left_is_not_sent_at_its_deadline() {
    let mut world = World::active(config(), window(1));
    world.give(0, 0);
    world.send_all();
    world
        .submit(0, 1, 2, world.now.after(500))
        .expect("accepted");
    world
        .submit(0, 2, 2, world.now.after(700))
        .expect("accepted");
    world.advance(500);
    let not_sent = Receipt::NotSent {
        reason: NotSent::Deadline,
    };
    assert_eq!(
        world.receipts(),
        [(1, not_sent)],
        "from the head of the queue"
    );
    world.give(0, 1);
    world.advance(200);
    assert_eq!(
        world.receipts().last(),
        Some(&(2, not_sent)),
        "and from its middle"
    );
    world.confirm(1);
    assert_eq!(requests_of(&world.send_all()), [2]);
}

#[test]
fn deadlines_are_kept_while_the_connection_is_down() {
    let mut world = world();
    world
        .submit(0, 0, 1, world.now.after(50_000))
        .expect("accepted");
    world.send_all();
    world.disconnect();
    world
        .submit(0, 1, 1, world.now.after(40_000))
        .expect("accepted");
    while world
        .client
        .poll_deadline()
        .is_some_and(|at| at <= Micros(1_060_000))
    {
        world.advance_to_deadline();
        if world.connecting {
            world.disconnect();
        }
    }
    let receipts = [
        (
            1,
            Receipt::NotSent {
                reason: NotSent::Deadline,
            },
        ),
        (0, Receipt::Unknown { request: 1 }),
    ];
    assert_eq!(world.receipts(), receipts);
    assert!(
        world.client.stats().disconnects > 2,
        "it tried to connect all the while"
    );
}

#[test]
fn nothing_goes_out_past_its_deadline_even_if_time_was_not_told() {
    let mut world = world();
    world
        .submit(0, 0, 1, world.now.after(10))
        .expect("accepted");
    world.now = world.now.after(10);
    assert_eq!(world.transmit(), None);
    assert_eq!(
        world.receipts(),
        [(
            0,
            Receipt::NotSent {
                reason: NotSent::Deadline
            }
        )]
    );
}

#[test]
fn the_outcome_waits_for_the_write_of_a_retry() {
    let mut world = world();
    world.give(0, 0);
    world.send_all();
    world.advance(PATIENCE_US);
    assert!(world.transmit().is_some(), "the retry is with the driver");
    world.confirm(1);
    assert_eq!(world.receipts(), [], "its memory is being read");
    assert_eq!(world.client.unresolved(), 1);
    world.write_all();
    assert!(matches!(
        world.receipts()[..],
        [(0, Receipt::Stored { .. })]
    ));
}

#[test]
fn the_outcome_of_a_retry_in_flight_comes_with_the_disconnect() {
    let mut world = world();
    world.give(0, 0);
    world.send_all();
    world.advance(PATIENCE_US);
    assert!(world.transmit().is_some());
    world.confirm(1);
    world.disconnect();
    assert!(matches!(
        world.receipts()[..],
        [(0, Receipt::Stored { .. })]
    ));
}

#[test]
fn a_deadline_during_a_write_is_told_after_it_and_improved_by_an_answer() {
    for (answer, receipt) in [
        (None, Receipt::Unknown { request: 1 }),
        (Some(Verdict::Success), Receipt::StoredOffsetUnknown),
        (
            Some(refused(58)),
            Receipt::NotSent {
                reason: NotSent::Refused,
            },
        ),
        (Some(refused(57)), Receipt::Unknown { request: 1 }),
        (
            Some(refused(20)),
            Receipt::Rejected {
                code: common::code(20),
            },
        ),
    ] {
        let mut world = world();
        world
            .submit(0, 0, 1, world.now.after(10))
            .expect("accepted");
        assert!(world.transmit().is_some());
        world.advance(10);
        assert_eq!(world.receipts(), []);
        if let Some(verdict) = answer {
            world.answer(1, verdict);
        }
        world.write_all();
        assert_eq!(world.receipts(), [(0, receipt)]);
    }
}

#[test]
fn a_write_without_progress_costs_the_connection() {
    let mut world = World::active(
        Config {
            write_stall_us: 4_000,
            ..config()
        },
        window(8),
    );
    world.give(0, 0);
    assert!(world.transmit().is_some());
    world.advance(3_999);
    world.client.handle_write_progress(world.now);
    world.advance(3_999);
    assert_eq!(
        world.client.state(),
        SessionState::Active,
        "slow is not stalled"
    );
    world.advance(1);
    assert_eq!(world.client.state(), SessionState::Recycling);
    assert_eq!(world.client.stats().write_stalls, 1);
    world.disconnect();
    world.log_in();
    assert_eq!(requests_of(&world.send_all()), [1]);
}

#[test]
fn reports_of_writes_that_are_not_in_flight_are_refused() {
    let mut world = world();
    for frame in [
        Frame::Login,
        Frame::Ping,
        Frame::Logout,
        Frame::Batch(BatchKey(0)),
        Frame::Call(CallKey(0)),
    ] {
        assert_eq!(
            world.client.handle_written(world.now, frame),
            Err(DriverError::NotWriting(frame))
        );
    }
    let out_of_range = Frame::Batch(BatchKey(u32::MAX));
    let error = world
        .client
        .handle_written(world.now, out_of_range)
        .expect_err("no such batch");
    assert_eq!(
        error.to_string(),
        "no write of Batch(BatchKey(4294967295)) is in flight"
    );
    world.client.check_invariants();
}

#[test]
fn replies_that_match_nothing_are_counted_and_change_nothing() {
    let mut world = world();
    world.give(0, 0);
    world.send_all();
    for (operation, request, expected) in [
        (Operation::SendMessages, 2, ReplyMatch::Foreign),
        (Operation::SendMessages, u64::MAX, ReplyMatch::Foreign),
        (Operation::SendMessages, 0, ReplyMatch::Late),
        (Operation::CreateTopic, 1, ReplyMatch::Late),
        (Operation::NonReplicated, 1, ReplyMatch::Late),
        (Operation::StoreConsumerOffset, 1, ReplyMatch::Foreign),
        (Operation::Register, 0, ReplyMatch::Late),
        (Operation::Register, 1, ReplyMatch::Foreign),
        (Operation::Logout, 9, ReplyMatch::Foreign),
    ] {
        let verdict = Verdict::LoggedIn { session: 99 };
        let reply = Reply {
            operation,
            request,
            echo: Echo::Absent,
            verdict,
        };
        assert_eq!(
            world.client.handle_reply(world.now, &reply),
            expected,
            "{operation} {request}"
        );
        world.client.check_invariants();
    }
    assert_eq!(world.receipts(), []);
    assert_eq!(
        (
            world.client.stats().replies_late,
            world.client.stats().replies_foreign
        ),
        (4, 5)
    );
    assert_eq!(world.client.session(), Some(1));
}

#[test]
fn submissions_that_cannot_be_are_refused_and_not_accounted() {
    let mut world = world();
    world.give(0, 0);
    let at = world.now.after(1);
    assert_eq!(
        world.submit(0, 0, 1, at),
        Err(SubmitError::KeyInUse(BatchKey(0)))
    );
    assert_eq!(
        world.submit(0, 64, 1, at),
        Err(SubmitError::KeyOutOfRange(BatchKey(64)))
    );
    assert_eq!(
        world.submit(1, 1, 1, at),
        Err(SubmitError::LaneNotOpen(LaneKey(1)))
    );
    assert_eq!(world.submit(0, 1, 0, at), Err(SubmitError::Empty));
    assert_eq!(world.client.account().accepted, 1);
    assert_eq!(
        world.client.open_lane(LaneKey(0), window(1)),
        Err(LaneError::AlreadyOpen(LaneKey(0)))
    );
    assert_eq!(
        world.client.open_lane(LaneKey(4), window(1)),
        Err(LaneError::KeyOutOfRange(LaneKey(4)))
    );
    assert_eq!(
        world.client.close_lane(LaneKey(1)),
        Err(LaneError::NotOpen(LaneKey(1)))
    );
    assert_eq!(
        world.client.close_lane(LaneKey(0)),
        Err(LaneError::Busy(LaneKey(0)))
    );
    let request = request_of(&world.send_all()[0]);
    world.confirm(request);
    assert_eq!(world.client.close_lane(LaneKey(0)), Ok(()));
    assert_eq!(world.client.open_lane(LaneKey(0), window(1)), Ok(()));
    world.give_and_confirm(0, 0);
}
