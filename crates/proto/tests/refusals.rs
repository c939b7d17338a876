//! Refusals: law W7 in the middle of a window, codes 57, 58 and 59, permanent codes, and what they
//! promise.

mod common;

use common::{World, code, config, refused, request_of, requests_of, strict, window};
use ringmain_proto::*;

/// A world with requests 1 to `count` in flight on lane 0, written, under keys `number - 1`.
fn world_with_in_flight(count: u64) -> World {
    let patient = Config {
        request_timeout_us: 1_000_000,
        heartbeat_interval_us: 20_000_000,
        ..config()
    };
    let mut world = World::active(patient, window(8));
    for key in 0..count {
        world.give(0, key as u32);
    }
    assert_eq!(
        requests_of(&world.send_all()),
        (1..=count).collect::<Vec<_>>()
    );
    world
}

#[test]
fn only_the_kth_of_a_window_refused_drains_then_goes_again_in_order() {
    for refused_number in 1..=5 {
        let mut world = world_with_in_flight(5);
        for request in 1..=5 {
            if request == refused_number {
                world.answer(request, refused(58));
                world.give(0, 10);
            } else {
                world.confirm(request);
            }
            assert_eq!(
                world.send_all(),
                [],
                "nothing goes out while the window drains"
            );
        }
        assert_eq!(
            requests_of(&world.send_next()),
            [refused_number, 6],
            "the refused before the new"
        );
        world.confirm(refused_number);
        world.confirm(6);
        assert_eq!(world.client.account().stored, 6);
        assert_eq!(
            world.client.stats().overtaken,
            u64::from(refused_number < 5)
        );
    }
}

#[test]
fn several_refused_go_again_in_number_order() {
    let mut world = world_with_in_flight(5);
    for request in [4, 2] {
        world.answer(request, refused(58));
    }
    for request in [5, 3, 1] {
        world.confirm(request);
    }
    assert_eq!(requests_of(&world.send_next()), [2, 4]);
}

#[test]
fn draining_waits_for_answers_but_not_beyond_the_request_timeout() {
    let mut world = world_with_in_flight(3);
    world.answer(2, refused(58));
    world.confirm(1);
    assert_eq!(world.send_all(), [], "request 3 is still out");
    world.advance(1_000_000);
    assert_eq!(world.client.stats().silences, 1);
    assert_eq!(requests_of(&world.send_next()), [2, 3]);
}

#[test]
fn pauses_grow_with_refusals_in_a_row_and_start_over_after_a_confirmation() {
    let mut world = world_with_in_flight(1);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        world.answer(1, refused(58));
        let asked_at = world.now;
        assert_eq!(requests_of(&world.send_next()), [1]);
        pauses.push(world.now.since(asked_at));
    }
    for (failures, pause_us) in pauses.iter().enumerate() {
        let full_us = 2_000 << failures;
        assert!(
            (full_us / 2..=full_us).contains(pause_us),
            "pause {failures} was {pause_us}"
        );
    }
    world.confirm(1);
    world.give(0, 0);
    assert_eq!(requests_of(&world.send_all()), [2]);
    world.answer(2, refused(58));
    let asked_at = world.now;
    world.send_next();
    assert!(world.now.since(asked_at) <= 2_000);
}

#[test]
fn refused_as_not_admitted_until_the_deadline_is_not_sent() {
    let mut world = world_with_in_flight(0);
    world
        .submit(0, 0, 3, world.now.after(20_000))
        .expect("accepted");
    for _ in 0..3 {
        world.send_all();
        world.answer(1, refused(58));
        world.advance_to_deadline();
    }
    world.answer(1, refused(58));
    world.advance(20_000);
    assert_eq!(
        world.receipts(),
        [(
            0,
            Receipt::NotSent {
                reason: NotSent::Refused
            }
        )]
    );
    assert_eq!(world.client.account().not_sent, 3);
}

#[test]
fn one_unknown_outcome_among_the_refusals_is_unknown_at_the_deadline() {
    let mut world = world_with_in_flight(0);
    world
        .submit(0, 0, 1, world.now.after(20_000))
        .expect("accepted");
    for number in [58, 57, 58] {
        assert_eq!(
            requests_of(&world.send_all()),
            [1],
            "57: the same number on the same client"
        );
        world.answer(1, refused(number));
        world.advance_to_deadline();
    }
    world.advance(20_000);
    assert_eq!(world.receipts(), [(0, Receipt::Unknown { request: 1 })]);
    let stats = world.client.stats();
    assert_eq!(
        (stats.refusals_not_admitted, stats.refusals_unknown_outcome),
        (2, 1)
    );
    // The last refusal led to no transmission any more.
    assert_eq!(
        (
            stats.batches_resent,
            stats.batches_resent_not_admitted,
            stats.batches_resent_unknown_outcome
        ),
        (2, 1, 1)
    );
}

#[test]
fn already_applied_and_empty_successes_are_stored_without_offset() {
    let mut world = world_with_in_flight(2);
    world.answer(1, refused(59));
    world.answer(2, Verdict::Success);
    let receipts = [
        (0, Receipt::StoredOffsetUnknown),
        (1, Receipt::StoredOffsetUnknown),
    ];
    assert_eq!(world.receipts(), receipts);
    assert_eq!(world.client.account().stored_offset_unknown, 2);
}

#[test]
fn a_permanent_code_fails_only_its_own_batch() {
    for number in [3, 20, 41, 42, 1009, 1010, 2010, 2011, 3007, 60_000] {
        let mut world = world_with_in_flight(3);
        world.answer(2, refused(number));
        assert_eq!(
            world.receipts(),
            [(1, Receipt::Rejected { code: code(number) })]
        );
        world.confirm(1);
        world.confirm(3);
        assert_eq!(world.client.account().stored, 2);
        assert_eq!(world.client.state(), SessionState::Active);
    }
}

#[test]
fn a_permanent_code_after_a_lost_connection_is_unknown() {
    let mut world = world_with_in_flight(1);
    world.disconnect();
    world.log_in();
    assert_eq!(requests_of(&world.send_all()), [1]);
    world.answer(1, refused(20));
    assert_eq!(
        world.receipts(),
        [(0, Receipt::Unknown { request: 1 })],
        "the first one may be stored"
    );
}

#[test]
fn a_permanent_code_while_another_transmission_is_open_waits_for_that() {
    let answers = [
        (refused(20), Receipt::Rejected { code: code(20) }),
        (refused(58), Receipt::Rejected { code: code(20) }),
        (refused(57), Receipt::Unknown { request: 1 }),
        (Verdict::Success, Receipt::StoredOffsetUnknown),
    ];
    for (second, receipt) in answers {
        let mut world = world_with_in_flight(1);
        world.advance(1_000_000);
        assert_eq!(
            requests_of(&world.send_all()),
            [1],
            "sent again after silence"
        );
        world.answer(1, refused(20));
        assert_eq!(
            world.receipts(),
            [],
            "the second transmission is unanswered"
        );
        assert_eq!(world.send_all(), [], "and no third follows");
        world.answer(1, second);
        assert_eq!(world.receipts(), [(0, receipt)]);
    }
}

#[test]
fn a_permanent_code_and_silence_after_it_is_unknown() {
    let mut world = world_with_in_flight(1);
    world.advance(1_000_000);
    world.send_all();
    world.answer(1, refused(20));
    world.advance(1_000_000);
    assert_eq!(world.receipts(), [(0, Receipt::Unknown { request: 1 })]);
}

#[test]
fn a_refusal_that_comes_before_the_write_is_reported_waits_for_the_write() {
    let mut world = world_with_in_flight(0);
    world.give(0, 0);
    world.give(0, 1);
    assert_eq!(world.transmit().map(|sent| request_of(&sent)), Some(1));
    world.answer(1, refused(58));
    world.advance_to_deadline();
    assert_eq!(
        world.transmit(),
        None,
        "the frame is still being written, and order holds"
    );
    world.write_all();
    assert_eq!(requests_of(&world.send_all()), [1, 2]);
}

#[test]
fn a_second_refusal_of_one_transmission_means_nothing() {
    let mut world = world_with_in_flight(1);
    assert_eq!(world.answer(1, refused(58)), ReplyMatch::Batch(BatchKey(0)));
    assert_eq!(world.answer(1, refused(58)), ReplyMatch::Late);
    assert_eq!(world.answer(1, refused(57)), ReplyMatch::Late);
    world.advance(10_000_000);
    assert_eq!(
        world.receipts(),
        [(
            0,
            Receipt::NotSent {
                reason: NotSent::Refused
            }
        )]
    );
    assert_eq!(world.client.stats().replies_late, 2);
}

#[test]
fn overtaking_is_counted_unless_offsets_prove_the_order() {
    let confirm_at = |world: &mut World, request, base_offset| {
        world.answer(
            request,
            Verdict::Confirmed {
                partition_id: 0,
                base_offset,
            },
        );
    };
    let mut world = world_with_in_flight(3);
    confirm_at(&mut world, 3, 30);
    confirm_at(&mut world, 2, 20);
    assert_eq!(
        world.client.stats().overtaken,
        0,
        "2 lies before 3, its reply was late"
    );
    confirm_at(&mut world, 1, 25);
    assert_eq!(world.client.stats().overtaken, 1, "1 lies behind 2");

    let mut world = world_with_in_flight(2);
    confirm_at(&mut world, 2, 10);
    world.answer(1, Verdict::Success);
    assert_eq!(
        world.client.stats().overtaken,
        1,
        "without an offset nothing is proved"
    );
}

#[test]
fn what_was_stored_late_but_confirmed_first_is_counted_unless_offsets_prove_the_order() {
    // Request 1 is dropped in silence, request 2 is stored and its reply is lost.
    let resumed = || {
        let mut world = world_with_in_flight(2);
        world.disconnect();
        world.log_in();
        assert_eq!(requests_of(&world.send_all()), [1, 2]);
        world
    };
    let confirmed = |base_offset| Verdict::Confirmed {
        partition_id: 0,
        base_offset,
    };
    for (first, second, overtaken) in [
        (confirmed(11), Verdict::Success, 1),
        (confirmed(11), confirmed(10), 1),
        (confirmed(11), confirmed(12), 0),
        // A duplicate was stored before the connection was lost, and then everything was taken in
        // its turn.
        (Verdict::Success, Verdict::Success, 0),
        (Verdict::Success, confirmed(12), 0),
    ] {
        let mut world = resumed();
        world.answer(1, first);
        world.answer(2, second);
        assert_eq!(
            world.client.stats().overtaken,
            overtaken,
            "{first:?} {second:?}"
        );
    }
    let mut world = resumed();
    world.disconnect();
    world.log_in();
    world.send_all();
    world.answer(1, Verdict::Success);
    world.answer(2, Verdict::Success);
    assert_eq!(
        world.client.stats().overtaken,
        1,
        "over three connections a duplicate proves nothing"
    );
}

#[test]
fn every_batch_that_one_confirmed_last_may_have_overtaken_is_counted_once() {
    // All are dropped but the last, which is stored; its reply is lost. Then the connection goes,
    // and all go again.
    let mut world = world_with_in_flight(5);
    world.disconnect();
    world.log_in();
    world.send_all();
    for request in 1..=4 {
        let base_offset = 10 + request;
        world.answer(
            request,
            Verdict::Confirmed {
                partition_id: 0,
                base_offset,
            },
        );
        assert_eq!(
            world.client.stats().overtaken,
            0,
            "so far they are in order"
        );
    }
    world.answer(5, Verdict::Success);
    assert_eq!(world.client.stats().overtaken, 4);
    world.give_and_confirm(0, 0);
    assert_eq!(world.client.stats().overtaken, 4);
}

#[test]
fn a_refusal_in_a_strict_lane_overtakes_nothing() {
    let mut world = World::active(config(), strict());
    world.give(0, 0);
    world.give(0, 1);
    assert_eq!(requests_of(&world.send_all()), [1]);
    world.answer(1, refused(58));
    world.advance_to_deadline();
    assert_eq!(
        requests_of(&world.send_all()),
        [1],
        "the second waits behind the first"
    );
    world.confirm(1);
    assert_eq!(requests_of(&world.send_all()), [2]);
    world.confirm(2);
    assert_eq!(world.client.stats().overtaken, 0);
}

#[test]
fn a_refusal_of_one_lane_stops_no_other() {
    let mut world = world_with_in_flight(1);
    world.open(1, window(8));
    world.answer(1, refused(58));
    assert_eq!(world.give_and_confirm(1, 5), 2);
}

/// Two transmissions of request 1 on one connection; the replies to both are owed.
fn world_sent_twice(server_echoes: bool) -> World {
    let mut world = World::active(
        Config {
            heartbeat_interval_us: 20_000_000,
            ..config()
        },
        window(8),
    );
    world.ledger.server_echoes = server_echoes;
    world
        .submit(0, 0, 1, world.now.after(6_000))
        .expect("accepted");
    world.send_all();
    world.advance(1_000);
    assert_eq!(requests_of(&world.send_all()), [1]);
    assert_eq!(world.owed.len(), 2);
    world
}

#[test]
fn a_refusal_delivered_twice_does_not_answer_the_parked_first_transmission() {
    for (number, server_echoes) in [(58, true), (20, true), (58, false), (20, false)] {
        let mut world = world_sent_twice(server_echoes);
        let second = world.owed.remove(1);
        world.deliver(second, refused(number));
        let again = world.deliver(second, refused(number));
        assert_eq!(
            again == ReplyMatch::Late,
            server_echoes,
            "an echo sees through the copy"
        );
        world.advance(6_000);
        assert_eq!(
            world.receipts(),
            [(0, Receipt::Unknown { request: 1 })],
            "the first may commit yet"
        );
    }
}

#[test]
fn a_lane_goes_on_when_its_last_retry_only_waits_for_answers() {
    let mut world = world_sent_twice(true);
    world.advance(2_000);
    let third = world.transmit().expect("silence again");
    assert_eq!(request_of(&third), 1);
    let (second, third) = (world.owed[1], world.owed[2]);
    world.deliver(third, refused(58));
    world.give(0, 1);
    world.advance(2_500);
    assert_eq!(
        world.transmit(),
        None,
        "the retry waits until the refused transmission is written, and the new batch behind it"
    );
    world.deliver(second, refused(20));
    assert_eq!(
        requests_of(&world.send_all()),
        [2],
        "refused for good, the request is not sent again: nothing is left to wait behind"
    );
}

#[test]
fn a_late_copy_of_a_refusal_does_not_answer_the_next_transmission() {
    for server_echoes in [true, false] {
        let mut world = world_with_in_flight(0);
        world.ledger.server_echoes = server_echoes;
        world
            .submit(0, 0, 1, world.now.after(20_000))
            .expect("accepted");
        world.send_all();
        let first = world.owed.remove(0);
        world.deliver(first, refused(58));
        assert_eq!(requests_of(&world.send_next()), [1]);
        world.deliver(first, refused(58));
        world.advance(20_000);
        assert_eq!(world.receipts(), [(0, Receipt::Unknown { request: 1 })]);
    }
}

#[test]
fn refusals_of_all_transmissions_in_any_order_are_a_promise_when_they_echo() {
    for (number, receipt) in [
        (
            58,
            Receipt::NotSent {
                reason: NotSent::Refused,
            },
        ),
        (20, Receipt::Rejected { code: code(20) }),
    ] {
        let mut world = world_sent_twice(true);
        for index in [1, 0] {
            let owed = world.owed.remove(index);
            world.deliver(owed, refused(number));
        }
        world.advance(6_000);
        assert_eq!(world.receipts(), [(0, receipt)]);
    }
}

#[test]
fn without_an_echo_only_a_request_sent_once_can_be_refused_for_certain() {
    let mut once = world_with_in_flight(1);
    once.ledger.server_echoes = false;
    once.answer(1, refused(20));
    assert_eq!(once.receipts(), [(0, Receipt::Rejected { code: code(20) })]);
    let mut twice = world_sent_twice(false);
    twice.answer(1, refused(20));
    twice.answer(1, refused(20));
    assert_eq!(twice.receipts(), [(0, Receipt::Unknown { request: 1 })]);
}

#[test]
fn the_oldest_of_more_transmissions_than_are_told_apart_counts_as_lost() {
    let mut world = World::active(
        Config {
            heartbeat_interval_us: 20_000_000_000,
            ..config()
        },
        window(8),
    );
    world
        .submit(0, 0, 1, world.now.after(700_000_000))
        .expect("accepted");
    for _ in 0..65 {
        assert_eq!(requests_of(&world.send_all()), [1]);
        world.advance(10_000_000);
    }
    for owed in core::mem::take(&mut world.owed).into_iter().skip(1) {
        world.deliver(owed, refused(58));
    }
    world.advance(700_000_000);
    assert_eq!(world.receipts(), [(0, Receipt::Unknown { request: 1 })]);
}

#[test]
fn timestamps_tell_transmissions_from_the_servers_time() {
    let edge = u64::from(u32::MAX);
    for (timestamp, echo) in [
        (0, Echo::Absent),
        (1, Echo::Attempt(1)),
        (edge, Echo::Attempt(u32::MAX)),
        (edge + 1, Echo::ServerTime),
        (1_700_000_000_000_000, Echo::ServerTime),
    ] {
        assert_eq!(Echo::of_timestamp(timestamp), echo);
    }
}
