//! Strict order has no holes: a lane halts at the first batch that is not stored, whatever became
//! of it.

mod common;

use common::{FAR_US, World, config, refused, requests_of, strict, window};
use proptest::prelude::*;
use ringmain_proto::*;
use ringmain_wire::EvictionReason;

const BEHIND: Receipt = Receipt::NotSent {
    reason: NotSent::BehindUnstored,
};

fn world() -> World {
    let calm = Config {
        heartbeat_interval_us: FAR_US,
        write_stall_us: FAR_US,
        ..config()
    };
    World::active(calm, strict())
}

/// A way to lose the batch in flight, and what its receipt is then.
type Loss = (&'static str, fn(&mut World), fn(Receipt) -> bool);

fn is_unknown(receipt: Receipt) -> bool {
    matches!(receipt, Receipt::Unknown { .. })
}

fn losses() -> Vec<Loss> {
    vec![
        (
            "refused for good",
            |world| {
                world.answer(1, refused(20));
            },
            |receipt| matches!(receipt, Receipt::Rejected { .. }),
        ),
        (
            "refused until its deadline",
            |world| {
                world.answer(1, refused(58));
                while world.receipts().is_empty() {
                    world.advance_to_deadline();
                    for request in requests_of(&world.send_all()) {
                        world.answer(request, refused(58));
                    }
                }
            },
            |receipt| {
                matches!(
                    receipt,
                    Receipt::NotSent {
                        reason: NotSent::Refused
                    }
                )
            },
        ),
        (
            "silence until its deadline",
            |world| world.advance(50_000),
            is_unknown,
        ),
        (
            "refused for good when an earlier copy may be stored",
            |world| {
                world.disconnect();
                world.log_in();
                world.send_all();
                world.answer(1, refused(20));
            },
            is_unknown,
        ),
        (
            "a lost session",
            |world| {
                world.evict(EvictionReason::NoSession);
                world.disconnect();
                world.log_in();
            },
            is_unknown,
        ),
    ]
}

#[test]
fn whatever_loses_a_batch_ends_all_behind_it_and_all_that_come_until_the_lane_is_resumed() {
    for (name, lose, is_meant) in losses() {
        println!("{name}");
        let mut world = world();
        world.open(1, window(8));
        let at = world.now.after(50_000);
        world.submit(0, 0, 1, at).expect("accepted");
        world.send_all();
        for key in 1..4 {
            world.give(0, key);
        }
        lose(&mut world);
        let receipts = world.receipts();
        assert_eq!(receipts[0].0, 0);
        assert!(is_meant(receipts[0].1), "{:?}", receipts[0]);
        assert_eq!(receipts[1..], [(1, BEHIND), (2, BEHIND), (3, BEHIND)]);
        assert!(world.client.is_lane_halted(LaneKey(0)));
        world.give(0, 4);
        assert_eq!(world.receipts().last(), Some(&(4, BEHIND)), "at once");
        assert_eq!(world.send_all(), [], "and nothing goes out");
        world.give_and_confirm(1, 5);
        world.resume(0);
        assert!(!world.client.is_lane_halted(LaneKey(0)));
        world.give(0, 6);
        let sent = requests_of(&world.send_next());
        world.confirm(sent[0]);
        assert_eq!(world.client.account().stored, 2, "{name}");
    }
}

#[test]
fn what_is_ahead_of_a_lost_batch_goes_on() {
    let mut world = world();
    world.give(0, 0);
    world.give(0, 1);
    world.send_all();
    let at = world.now.after(500);
    world.submit(0, 2, 1, at).expect("accepted");
    world.give(0, 3);
    world.advance(500);
    let deadline = Receipt::NotSent {
        reason: NotSent::Deadline,
    };
    assert_eq!(world.receipts(), [(2, deadline), (3, BEHIND)]);
    world.confirm(1);
    assert_eq!(requests_of(&world.send_all()), [2]);
    world.confirm(2);
    assert_eq!(world.client.account().stored, 2);
    assert!(world.client.is_lane_halted(LaneKey(0)));
}

#[test]
fn a_loss_after_the_lane_was_resumed_halts_it_again() {
    let mut world = world();
    world.give(0, 0);
    world.send_all();
    world.resume(0);
    world.give(0, 1);
    world.answer(1, refused(20));
    assert_eq!(world.receipts().last(), Some(&(1, BEHIND)));
}

#[test]
fn an_answer_that_comes_during_the_write_decides_whether_the_lane_halts() {
    for (answer, halts) in [(None, true), (Some(Verdict::Success), false)] {
        let mut world = world();
        let at = world.now.after(10);
        world.submit(0, 0, 1, at).expect("accepted");
        world.give(0, 1);
        assert!(world.transmit().is_some());
        world.advance(10);
        assert_eq!(world.receipts(), [], "its memory is being read");
        if let Some(verdict) = answer {
            world.answer(1, verdict);
        }
        world.write_all();
        assert_eq!(world.client.is_lane_halted(LaneKey(0)), halts);
        assert_eq!(world.receipts().len(), if halts { 2 } else { 1 });
    }
}

#[test]
fn a_purge_gives_its_own_reason_and_leaves_the_lane_halted() {
    let purged = Receipt::NotSent {
        reason: NotSent::Purged,
    };
    let mut all = world();
    for key in 0..4 {
        all.give(0, key);
    }
    all.send_all();
    all.purge();
    let unknown = Receipt::Unknown { request: 1 };
    assert_eq!(
        all.receipts(),
        [(1, purged), (2, purged), (3, purged), (0, unknown)]
    );
    assert!(all.client.is_lane_halted(LaneKey(0)));
    let mut some = world();
    for key in [3, 2, 1, 0] {
        some.give(0, key);
    }
    some.send_all();
    some.purge_some(0, |key| key.0 != 1 && key.0 != 3);
    assert_eq!(
        some.receipts(),
        [(2, purged), (1, BEHIND), (0, purged)],
        "in their order"
    );
    some.confirm(1);
    assert_eq!(some.client.account().stored, 1, "what is ahead goes on");
    let mut none = world();
    none.purge();
    none.purge_some(0, |_| true);
    assert!(!none.client.is_lane_halted(LaneKey(0)), "nothing was lost");
    assert_eq!(
        none.client.resume_lane(LaneKey(1)),
        Err(LaneError::NotOpen(LaneKey(1)))
    );
}

#[test]
fn a_pipelined_lane_never_halts() {
    let mut world = World::active(config(), window(2));
    world.give(0, 0);
    world.give(0, 1);
    world.send_all();
    world.answer(1, refused(20));
    world.confirm(2);
    world.give_and_confirm(0, 2);
    assert!(!world.client.is_lane_halted(LaneKey(0)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Two requests that may both be stored are never out at the same time, however short the
    /// deadlines are: one that is given up unanswered holds its place.
    #[test]
    fn one_request_at_most_can_still_be_stored(deadlines in prop::collection::vec(1u64..4_000, 2..40)) {
        let mut world = world();
        for (key, us) in (0..).zip(&deadlines) {
            let at = world.now.after(*us);
            world.submit(0, key, 1, at).expect("accepted");
        }
        let mut numbers = Vec::new();
        for _ in 0..200 {
            numbers.extend(requests_of(&world.send_all()));
            if world.client.unresolved() == 0 {
                break;
            }
            world.advance_to_deadline();
        }
        numbers.dedup();
        prop_assert_eq!(numbers, [1], "nobody answered, so one number was used");
    }
}
