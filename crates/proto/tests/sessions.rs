//! Login, resume, fencing, evictions, lost coverage, heartbeats.

mod common;

use common::{FAR_US, World, config, refused, requests_of, window};
use ringmain_proto::*;
use ringmain_wire::{EvictionReason, Operation};

/// All 15 reasons, by rising number.
const REASONS: [EvictionReason; 15] = [
    EvictionReason::NoSession,
    EvictionReason::ClientReleaseTooLow,
    EvictionReason::ClientReleaseTooHigh,
    EvictionReason::InvalidRequestOperation,
    EvictionReason::InvalidRequestBody,
    EvictionReason::InvalidRequestBodySize,
    EvictionReason::SessionTooLow,
    EvictionReason::SessionReleaseMismatch,
    EvictionReason::InvalidCredentials,
    EvictionReason::InvalidToken,
    EvictionReason::UserInactive,
    EvictionReason::SessionError,
    EvictionReason::StaleClient,
    EvictionReason::IncompatibleProtocol {
        max: 11 << 10,
        min: 10 << 10,
    },
    EvictionReason::MalformedLogin,
];

fn logged_in(session: u64) -> Verdict {
    Verdict::LoggedIn { session }
}

/// Keys 0 and 1 were sent, the second refused; key 2 waits.
fn world_with_work(policy: OnLostCoverage) -> World {
    let calm = Config {
        heartbeat_interval_us: FAR_US,
        on_lost_coverage: policy,
        ..config()
    };
    let mut world = World::active(calm, window(2));
    for key in 0..3 {
        world.give(0, key);
    }
    assert_eq!(requests_of(&world.send_all()), [1, 2]);
    world.answer(2, refused(58));
    world
}

#[test]
fn resume_keeps_client_and_numbers_takes_the_new_epoch_and_goes_in_order() {
    let mut world = world_with_work(OnLostCoverage::Report);
    world.give(0, 3);
    world.disconnect();
    world.log_in_with(logged_in(9));
    let sent = world.send_all();
    let retry = |key, request, attempt| Transmit::Batch {
        key: BatchKey(key),
        lane: LaneKey(0),
        request,
        session: 9,
        attempt,
    };
    assert_eq!(
        sent,
        [retry(0, 1, 2), retry(1, 2, 2)],
        "the unresolved first, then nothing: the window is full"
    );
    world.confirm(1);
    world.confirm(2);
    assert_eq!(requests_of(&world.send_all()), [3, 4]);
    assert_eq!(world.client.client(), config().client);
    assert_eq!(world.client.stats().coverage_losses, 0);
}

#[test]
fn an_epoch_that_is_not_above_the_old_one_means_the_server_lost_its_log() {
    for epoch in [1, 4, 5] {
        let mut world = World::new(config());
        world.open(0, window(4));
        world.log_in_with(logged_in(5));
        for key in 0..3 {
            world.give(0, key);
        }
        world.send_all();
        world.answer(2, refused(58));
        world.disconnect();
        world.log_in_with(logged_in(epoch));
        let unknown = |request| Receipt::Unknown { request };
        assert_eq!(
            world.receipts(),
            [(0, unknown(1)), (2, unknown(3))],
            "what may be stored is reported"
        );
        assert_eq!(
            requests_of(&world.send_all()),
            [2],
            "what was refused for certain goes on"
        );
        assert_eq!(world.client.stats().coverage_losses, 1);
    }
}

#[test]
fn no_session_means_lost_coverage_and_the_policy_decides() {
    let mut world = world_with_work(OnLostCoverage::Report);
    world.evict(EvictionReason::NoSession);
    assert_eq!(world.receipts(), [], "decided with the next login");
    world.disconnect();
    world.log_in_with(logged_in(50));
    assert_eq!(world.receipts(), [(0, Receipt::Unknown { request: 1 })]);
    assert_eq!(requests_of(&world.send_all()), [2, 3]);

    let mut world = world_with_work(OnLostCoverage::Resend);
    world.evict(EvictionReason::NoSession);
    world.disconnect();
    world.log_in_with(logged_in(50));
    assert_eq!(world.receipts(), []);
    assert_eq!(
        requests_of(&world.send_all()),
        [1, 2],
        "at least once, under the old numbers"
    );
    assert_eq!(world.client.stats().coverage_losses, 1);
}

#[test]
fn coverage_is_lost_once_for_each_loss() {
    let mut world = world_with_work(OnLostCoverage::Report);
    world.evict(EvictionReason::NoSession);
    world.disconnect();
    world.log_in_with(logged_in(50));
    world.send_all();
    world.disconnect();
    world.log_in_with(logged_in(51));
    assert_eq!(
        requests_of(&world.send_all()),
        [2, 3],
        "covered again since the last login"
    );
    assert_eq!(world.client.stats().coverage_losses, 1);
}

#[test]
fn every_eviction_reason_has_its_reaction() {
    for (number, reason) in (1..).zip(REASONS) {
        assert_eq!(reason.as_u8(), number);
        let mut world = world_with_work(OnLostCoverage::Report);
        world.evict(reason);
        let resumes = [1, 7, 8, 12, 13].contains(&number);
        if resumes {
            assert_eq!(world.client.state(), SessionState::Recycling, "{reason}");
            world.disconnect();
            world.log_in_with(logged_in(60));
            assert_eq!(world.client.fatal(), None);
            let is_reported = world.receipts() == [(0, Receipt::Unknown { request: 1 })];
            assert_eq!(is_reported, reason == EvictionReason::NoSession, "{reason}");
            continue;
        }
        let fatal = FatalError::Evicted(reason);
        assert_eq!(
            (world.client.state(), world.client.fatal()),
            (SessionState::Failing, Some(fatal))
        );
        let not_sent = Receipt::NotSent {
            reason: NotSent::Failed(fatal),
        };
        let receipts = [
            (0, Receipt::Unknown { request: 1 }),
            (1, not_sent),
            (2, not_sent),
        ];
        assert_eq!(world.receipts(), receipts, "{reason}");
        assert_eq!(
            world.submit(0, 5, 1, Micros::MAX),
            Err(SubmitError::Ended(Ended::Failed(fatal)))
        );
        world.disconnect();
        assert_eq!(world.client.state(), SessionState::Failed);
        assert_eq!(world.client.poll_deadline(), None);
    }
}

#[test]
fn a_malformed_request_is_blamed_on_the_call_in_flight() {
    for reason in &REASONS[3..6] {
        let mut world = world_with_work(OnLostCoverage::Report);
        world
            .call(0, Operation::CreateUser, world.now.after(FAR_US))
            .expect("accepted");
        world.send_all();
        world.evict(*reason);
        assert_eq!(world.answers(), [(0, Answer::Evicted { reason: *reason })]);
        world.disconnect();
        world.log_in_with(logged_in(60));
        assert_eq!(requests_of(&world.send_all()), [1, 2], "the sends go on");
    }
}

#[test]
fn the_fatal_errors_say_what_is_wrong() {
    let fatal = |reason| FatalError::Evicted(reason).to_string();
    assert_eq!(
        fatal(REASONS[13]),
        "the server ended the session for good: the protocol version is outside 0.10.0 to 0.11.0"
    );
    assert_eq!(
        fatal(EvictionReason::InvalidCredentials),
        "the server ended the session for good: wrong user name or password"
    );
}

#[test]
fn a_login_can_be_postponed_refused_or_answered_with_nonsense() {
    for number in [57, 58] {
        let mut world = World::new(config());
        world.log_in_with(refused(number));
        assert_eq!(world.client.state(), SessionState::Connected);
        assert_eq!(world.send_all(), [], "a pause first");
        assert_eq!(
            world.send_next(),
            [Transmit::Login],
            "on the same connection"
        );
        world.reply(Operation::Register, 0, logged_in(1));
        assert_eq!(world.client.stats().logins_postponed, 1);
    }
    for (verdict, fatal) in [
        (refused(42), FatalError::LoginRejected(common::code(42))),
        (refused(41), FatalError::LoginRejected(common::code(41))),
        (Verdict::LoginFailed, FatalError::LoginFailed),
    ] {
        let mut world = World::new(config());
        world.log_in_with(verdict);
        assert_eq!(world.client.fatal(), Some(fatal));
    }
    for verdict in [logged_in(0), Verdict::Success, refused(30), refused(59)] {
        let mut world = World::new(config());
        world.log_in_with(verdict);
        assert_eq!(
            world.client.state(),
            SessionState::Recycling,
            "{verdict:?}: another connection, another chance"
        );
    }
}

#[test]
fn connects_and_logins_that_take_too_long_are_given_up() {
    let mut world = World::new(config());
    world.drain();
    world.advance(5_000);
    assert_eq!(world.client.state(), SessionState::Recycling, "the connect");
    world.disconnect();
    world.advance_to_deadline();
    world.connect();
    assert_eq!(world.send_all(), [Transmit::Login]);
    world.advance(5_000);
    assert_eq!(world.client.state(), SessionState::Recycling, "the login");
    assert_eq!(
        world.reply(Operation::Register, 0, logged_in(1)),
        ReplyMatch::Late,
        "too late"
    );
    assert_eq!(world.client.stats().session_timeouts, 2);
}

#[test]
fn a_connect_that_succeeds_after_it_was_given_up_is_closed_all_the_same() {
    let mut world = World::new(config());
    world.drain();
    world.advance(5_000);
    world.connect();
    assert_eq!(world.client.state(), SessionState::Recycling);
    assert_eq!(world.transmit(), None);
    world.disconnect();
    assert_eq!(world.client.state(), SessionState::Disconnected);
}

#[test]
fn pauses_between_connects_grow_until_there_is_progress() {
    let slow = Config {
        reconnect_backoff_us_min: 100,
        reconnect_backoff_us_max: 1_600,
        ..config()
    };
    let mut world = World::active(slow, window(1));
    let mut fulls = Vec::new();
    for _ in 0..7 {
        world.disconnect();
        let down_at = world.now;
        world.advance_to_deadline();
        fulls.push(world.now.since(down_at));
        world.connect();
        assert_eq!(world.send_all(), [Transmit::Login]);
        let epoch = world.epoch + 1;
        world.reply(Operation::Register, 0, logged_in(epoch));
    }
    for (us, full) in fulls.iter().zip([100, 200, 400, 800, 1_600, 1_600, 1_600]) {
        assert!(
            (full / 2..=full).contains(us),
            "a login alone is no progress: {fulls:?}"
        );
    }
    world.give_and_confirm(0, 0);
    world.disconnect();
    let down_at = world.now;
    world.advance_to_deadline();
    assert!(world.now.since(down_at) <= 100, "an answer is");
}

#[test]
fn not_logged_in_logs_in_again_once_for_a_batch() {
    let mut world = world_with_work(OnLostCoverage::Report);
    world.answer(1, refused(40));
    assert_eq!(world.client.state(), SessionState::Recycling);
    world.disconnect();
    world.log_in_with(logged_in(60));
    assert_eq!(requests_of(&world.send_all()), [1, 2]);
    world.answer(1, refused(40));
    assert_eq!(
        world.receipts(),
        [(
            0,
            Receipt::Rejected {
                code: common::code(40)
            }
        )],
        "40 answers both"
    );
    assert_eq!(world.client.state(), SessionState::Active);
    world.confirm(2);
    assert_eq!(world.client.account().stored, 1);
}

#[test]
fn a_stale_session_resumes_as_often_as_it_takes() {
    let mut world = world_with_work(OnLostCoverage::Report);
    for epoch in 60..64 {
        world.answer(1, refused(30));
        assert_eq!(world.client.state(), SessionState::Recycling);
        world.disconnect();
        world.log_in_with(logged_in(epoch));
        assert_eq!(requests_of(&world.send_all()), [1, 2]);
    }
    world.confirm(1);
    assert_eq!(world.client.account().stored, 1);
}

#[test]
fn heartbeats_go_out_only_when_idle_and_no_read_is_open() {
    let mut world = World::active(
        Config {
            request_timeout_us: 100_000,
            ..config()
        },
        window(4),
    );
    let ping = |request| Transmit::Ping {
        request,
        session: 1,
    };
    world.advance(2_999);
    assert_eq!(world.send_all(), []);
    world.give_and_confirm(0, 0);
    world.advance(1);
    assert_eq!(world.send_all(), [], "a send a moment ago is as good");
    world.advance(2_999);
    assert_eq!(world.send_all(), [ping(2)]);
    assert_eq!(
        world.reply(Operation::NonReplicated, 2, Verdict::Success),
        ReplyMatch::Ping
    );
    world
        .call(0, Operation::NonReplicated, world.now.after(FAR_US))
        .expect("accepted");
    let read = world.send_all();
    assert_eq!(
        requests_of(&read),
        [3],
        "never the number of an earlier ping"
    );
    world.advance(3_000);
    assert_eq!(world.send_all(), [], "a read is open");
    world.reply(Operation::NonReplicated, 3, Verdict::Success);
    assert_eq!(world.send_all(), [ping(3)]);
}

#[test]
fn a_heartbeat_after_which_nothing_is_heard_costs_the_connection() {
    let mut world = World::active(config(), window(4));
    world.advance(3_000);
    assert_eq!(world.send_all().len(), 1);
    world.advance(2_999);
    assert_eq!(
        world.client.state(),
        SessionState::Active,
        "silence for a request timeout is no proof"
    );
    world.advance(1);
    assert_eq!(world.client.state(), SessionState::Recycling);
    assert_eq!(world.client.stats().heartbeat_timeouts, 1);
}

#[test]
fn a_request_timeout_below_the_round_trip_does_not_cost_the_connection() {
    let slow = Config {
        request_timeout_us: 100,
        ..config()
    };
    let mut world = World::active(slow, window(4));
    for turn in 1..5 {
        world.advance(3_000);
        assert_eq!(world.send_all().len(), 1);
        world.advance(2_500);
        assert_eq!(
            world.reply(Operation::NonReplicated, 1, Verdict::Success),
            ReplyMatch::Ping
        );
        assert_eq!(world.client.stats().pings_sent, turn);
    }
    assert_eq!(world.client.stats().disconnects, 0);
}

#[test]
fn any_reply_after_a_heartbeat_shows_that_the_server_is_there() {
    let mut world = World::active(config(), window(4));
    world.advance(3_000);
    assert_eq!(
        world.send_all().len(),
        1,
        "a heartbeat whose answer is lost"
    );
    world.advance(1_000);
    world.give_and_confirm(0, 0);
    world.advance(2_000);
    assert_eq!(world.client.state(), SessionState::Active);
    world.advance(1_000);
    assert!(
        matches!(world.send_all()[..], [Transmit::Ping { .. }]),
        "asked anew, after an idle interval"
    );
    world.advance(3_000);
    assert_eq!(
        world.client.state(),
        SessionState::Recycling,
        "and this time nothing is heard"
    );
}

#[test]
fn illegal_reports_about_the_connection_are_typed_and_change_nothing() {
    let mut world = World::new(config());
    let illegal = |state, event| Err(DriverError::Session(IllegalEvent { state, event }));
    let up = world.client.handle_connected(world.now);
    assert_eq!(
        up,
        illegal(SessionState::Disconnected, SessionEvent::Connected)
    );
    let down = world.client.handle_disconnected(world.now);
    assert_eq!(
        down,
        illegal(SessionState::Disconnected, SessionEvent::Disconnected)
    );
    world.log_in();
    let up = world.client.handle_connected(world.now);
    assert_eq!(up, illegal(SessionState::Active, SessionEvent::Connected));
    assert_eq!(world.client.state(), SessionState::Active);
    world.client.check_invariants();
}
