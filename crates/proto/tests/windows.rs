//! Laws W1, W2 and W4 at their edges: the span at exactly 127 and 128, full windows, the end of the
//! number range.

mod common;

use common::{World, config, request_of, requests_of, strict, window};
use ringmain_proto::limits::{REQUEST_LAST, REQUEST_SPAN_MAX, WINDOW_REQUESTS_MAX};
use ringmain_proto::*;
use ringmain_wire::Operation;

#[test]
fn a_request_127_above_the_oldest_goes_out() {
    let mut world = World::with_oldest_silent(config());
    world.consume_until(1 + REQUEST_SPAN_MAX);
    assert!(world.client.lane_has_room(LaneKey(0)));
    world.give(0, 2);
    assert_eq!(requests_of(&world.send_all()), [128], "127 above request 1");
    assert_eq!(world.client.stats().span_waits, 0);
}

#[test]
fn a_request_128_above_the_oldest_waits_until_the_oldest_is_answered() {
    let mut world = World::with_oldest_silent(config());
    world.consume_until(2 + REQUEST_SPAN_MAX);
    assert!(!world.client.lane_has_room(LaneKey(0)));
    world.give(0, 2);
    assert_eq!(
        world.send_all(),
        [],
        "a retry of request 1 would be swallowed"
    );
    assert_eq!(world.client.stats().span_waits, 1);
    assert_eq!(
        world.give_and_confirm(1, 1),
        129,
        "another partition is not held back"
    );
    world.confirm(1);
    assert_eq!(requests_of(&world.send_all()), [130]);
}

#[test]
fn a_span_of_127_survives_a_reconnect_with_the_oldest_first() {
    let mut world = World::with_oldest_silent(config());
    world.consume_until(128);
    world.give(0, 2);
    world.give(0, 3);
    assert_eq!(requests_of(&world.send_all()), [128]);
    assert_eq!(world.ledger.unresolved(LaneKey(0)), [1, 128]);
    world.disconnect();
    world.log_in();
    assert_eq!(
        requests_of(&world.send_all()),
        [1, 128],
        "and the third still waits"
    );
    world.confirm(1);
    assert_eq!(requests_of(&world.send_all()), [129]);
}

#[test]
fn the_newest_is_held_back_by_the_oldest_unresolved_not_by_the_newest_answered() {
    let mut world = World::with_oldest_silent(config());
    world.give(0, 2);
    world.give(0, 3);
    assert_eq!(requests_of(&world.send_all()), [2, 3]);
    world.confirm(3);
    world.confirm(2);
    world.consume_until(129);
    world.give(0, 2);
    assert_eq!(world.send_all(), []);
    assert_eq!(world.client.lane_load(LaneKey(0)), (1, 1));
}

#[test]
fn a_purged_oldest_holds_nothing_back() {
    let mut world = World::with_oldest_silent(config());
    world.consume_until(200);
    world.give(0, 2);
    assert_eq!(world.send_all(), []);
    world
        .client
        .purge_lane(world.now, LaneKey(0), NotSent::Purged, |key| {
            key == BatchKey(0)
        });
    world.drain();
    assert_eq!(
        world.receipts().last(),
        Some(&(0, Receipt::Unknown { request: 1 }))
    );
    assert_eq!(requests_of(&world.send_all()), [200]);
    assert_eq!(world.answer(1, Verdict::Success), ReplyMatch::Late);
}

#[test]
fn a_window_of_each_size_holds_exactly_that_many() {
    for size in [1, 2, 8, WINDOW_REQUESTS_MAX] {
        let mut world = World::active(config(), window(size));
        for key in 0..40 {
            world.give(0, key);
        }
        let first: Vec<u64> = (1..=u64::from(size)).collect();
        assert_eq!(requests_of(&world.send_all()), first);
        assert_eq!(world.client.stats().window_waits, 1);
        assert_eq!(
            world.client.lane_load(LaneKey(0)),
            (40 - u32::from(size), size.into())
        );
        world.confirm(1);
        assert_eq!(
            requests_of(&world.send_all()),
            [u64::from(size) + 1],
            "one answer, one place"
        );
    }
}

#[test]
fn windows_outside_the_range_are_refused() {
    let mut client = Client::new(config()).expect("valid");
    for size in [0, WINDOW_REQUESTS_MAX + 1, u8::MAX] {
        let refused = client.open_lane(LaneKey(0), window(size));
        assert!(
            matches!(
                refused,
                Err(LaneError::Config(ConfigError::OutOfRange { .. }))
            ),
            "{size}"
        );
    }
}

#[test]
fn a_strict_lane_has_one_request_in_flight_whatever_its_window_says() {
    let mut world = World::active(
        config(),
        LaneConfig {
            window_requests_max: 32,
            ..strict()
        },
    );
    for key in 0..3 {
        world.give(0, key);
    }
    for request in 1..=3 {
        assert_eq!(requests_of(&world.send_all()), [request]);
        world.confirm(request);
    }
    assert_eq!(world.client.stats().overtaken, 0);
}

#[test]
fn lanes_take_turns() {
    let mut world = World::active(config(), window(8));
    world.open(1, window(8));
    world.open(2, window(8));
    for key in 0..9 {
        world.give(key / 3, key);
    }
    let lanes: Vec<u32> = world.send_all().iter().map(lane_of).collect();
    assert_eq!(lanes, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

fn lane_of(transmit: &Transmit) -> u32 {
    match transmit {
        Transmit::Batch { lane, .. } => lane.0,
        other => panic!("{other:?} is not a batch"),
    }
}

#[test]
fn the_last_number_is_used_and_the_next_is_a_typed_end() {
    let mut world = World::active(
        Config {
            request_first: REQUEST_LAST - 1,
            ..config()
        },
        window(8),
    );
    for key in 0..4 {
        world.give(0, key);
    }
    world
        .call(0, Operation::CreateStream, world.now.after(1_000))
        .expect("accepted");
    world
        .call(1, Operation::CreateStream, world.now.after(1_000))
        .expect("accepted");
    assert_eq!(
        requests_of(&world.send_all()),
        [REQUEST_LAST - 1, REQUEST_LAST]
    );
    let not_sent = Receipt::NotSent {
        reason: NotSent::NumbersExhausted,
    };
    assert_eq!(
        world.receipts(),
        [(1, not_sent), (2, not_sent), (3, not_sent)]
    );
    assert_eq!(
        world.answers(),
        [(
            1,
            Answer::NotSent {
                reason: NotSent::NumbersExhausted
            }
        )]
    );
    let refused = world.submit(0, 9, 1, world.now.after(1));
    assert_eq!(refused, Err(SubmitError::Ended(Ended::NumbersExhausted)));
    let refused = world.call(2, Operation::NonReplicated, world.now.after(1));
    assert_eq!(refused, Err(CallError::Ended(Ended::NumbersExhausted)));
}

#[test]
fn at_the_end_of_the_range_retries_pings_and_the_logout_still_work() {
    let mut world = World::active(
        Config {
            request_first: REQUEST_LAST,
            ..config()
        },
        window(8),
    );
    world.give(0, 0);
    assert_eq!(requests_of(&world.send_all()), [REQUEST_LAST]);
    world.disconnect();
    world.log_in();
    assert_eq!(requests_of(&world.send_all()), [REQUEST_LAST]);
    world.confirm(REQUEST_LAST);
    world.advance(3_000);
    let ping = Transmit::Ping {
        request: REQUEST_LAST + 1,
        session: 2,
    };
    assert_eq!(world.send_all(), [ping]);
    world.reply(Operation::NonReplicated, REQUEST_LAST + 1, Verdict::Success);
    world.client.close(world.now, world.now.after(1_000));
    world.drain();
    assert_eq!(
        world.send_all(),
        [Transmit::Logout {
            request: REQUEST_LAST + 1,
            session: 2
        }]
    );
    assert_eq!(world.client.request_next(), u64::MAX, "and never wraps");
}

#[test]
fn at_the_end_of_the_range_a_read_is_still_asked_again_after_a_reconnect() {
    let mut world = World::active(
        Config {
            request_first: REQUEST_LAST,
            ..config()
        },
        window(8),
    );
    world
        .call(0, Operation::NonReplicated, world.now.after(1_000_000))
        .expect("accepted");
    assert_eq!(requests_of(&world.send_all()), [REQUEST_LAST]);
    world.give(0, 0);
    assert_eq!(
        requests_of(&world.send_all()),
        [REQUEST_LAST],
        "the last number"
    );
    for _ in 0..3 {
        world.disconnect();
        world.log_in();
        assert_eq!(
            requests_of(&world.send_all()),
            [REQUEST_LAST + 1, REQUEST_LAST]
        );
    }
    world.reply(Operation::NonReplicated, REQUEST_LAST + 1, Verdict::Success);
    assert_eq!(world.answers(), [(0, Answer::Answered)]);
}

#[test]
fn numbers_are_taken_when_polled_not_when_submitted() {
    let mut world = World::active(config(), window(8));
    world.open(1, window(8));
    world.give(0, 0);
    world.give(1, 1);
    assert_eq!(world.client.request_next(), 1);
    assert_eq!(world.transmit().map(|sent| request_of(&sent)), Some(1));
    world
        .call(0, Operation::CreateTopic, world.now.after(1_000))
        .expect("accepted");
    let sent = world.send_all();
    assert!(
        matches!(sent[0], Transmit::Call { request: 2, .. }),
        "calls go first: {sent:?}"
    );
    assert_eq!(request_of(&sent[1]), 3);
}

#[test]
fn settings_outside_their_range_are_named() {
    for (field, config) in [
        (
            "request_first",
            Config {
                request_first: 0,
                ..config()
            },
        ),
        (
            "request_first",
            Config {
                request_first: REQUEST_LAST + 1,
                ..config()
            },
        ),
        (
            "requests_max",
            Config {
                requests_max: 0,
                ..config()
            },
        ),
        (
            "lanes_max",
            Config {
                lanes_max: u32::MAX,
                ..config()
            },
        ),
        (
            "calls_max",
            Config {
                calls_max: 0,
                ..config()
            },
        ),
        (
            "request_timeout_us",
            Config {
                request_timeout_us: 0,
                ..config()
            },
        ),
        (
            "write_stall_us",
            Config {
                write_stall_us: u64::MAX,
                ..config()
            },
        ),
    ] {
        let refused = Client::new(config).expect_err("out of range");
        assert!(
            matches!(refused, ConfigError::OutOfRange { field: named, .. } if named == field),
            "{refused}"
        );
    }
}

#[test]
fn settings_that_contradict_each_other_are_named() {
    let inverted = Config {
        refusal_backoff_us_min: 9,
        refusal_backoff_us_max: 8,
        ..config()
    };
    let refused = Client::new(inverted).expect_err("inverted");
    assert_eq!(
        refused.to_string(),
        "refusal_backoff_us_min is 9, above refusal_backoff_us_max, which is 8"
    );
    assert_eq!(
        Client::new(Config {
            client: 0,
            ..config()
        })
        .err(),
        Some(ConfigError::ClientZero)
    );
}
