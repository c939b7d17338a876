//! Close, purge, abort: everything ends, once, by the deadline.

mod common;

use common::{FAR_US, World, config, refused, requests_of, window};
use ringmain_proto::*;
use ringmain_wire::{EvictionReason, Operation};

/// Key 0 in flight, key 1 refused, keys 2 and 3 waiting.
fn world() -> World {
    let calm = Config {
        heartbeat_interval_us: FAR_US,
        ..config()
    };
    let mut world = World::active(calm, window(2));
    for key in 0..4 {
        world.give(0, key);
    }
    world.send_all();
    world.answer(2, refused(58));
    world
}

fn close(world: &mut World, us: u64) {
    world.client.close(world.now, world.now.after(us));
    world.drain();
}

#[test]
fn close_drains_logs_out_and_ends() {
    let mut world = world();
    close(&mut world, 1_000_000);
    assert_eq!(
        world.submit(0, 9, 1, Micros::MAX),
        Err(SubmitError::Ended(Ended::Closing))
    );
    world.confirm(1);
    assert_eq!(requests_of(&world.send_next()), [2, 3]);
    world.confirm(2);
    world.confirm(3);
    assert_eq!(requests_of(&world.send_all()), [4]);
    world.confirm(4);
    let logout = Transmit::Logout {
        request: 5,
        session: 1,
    };
    assert_eq!(
        world.send_all(),
        [logout],
        "last, with a number of the same counter"
    );
    assert_eq!(
        world.reply(Operation::Logout, 5, Verdict::Success),
        ReplyMatch::Logout
    );
    assert_eq!(world.client.state(), SessionState::Ending);
    world.disconnect();
    assert_eq!(world.client.state(), SessionState::Closed);
    assert_eq!(
        world.client.account(),
        Account {
            accepted: 4,
            stored: 4,
            ..Account::default()
        }
    );
}

#[test]
fn at_the_deadline_of_a_close_everything_is_answered() {
    let mut world = world();
    close(&mut world, 700);
    world.advance(700);
    let closed = Receipt::NotSent {
        reason: NotSent::Closed,
    };
    let mut receipts = world.receipts();
    receipts.sort_by_key(|(key, _)| *key);
    assert_eq!(
        receipts,
        [
            (0, Receipt::Unknown { request: 1 }),
            (1, closed),
            (2, closed),
            (3, closed)
        ]
    );
    assert_eq!(
        world.client.state(),
        SessionState::Ending,
        "no time for a logout"
    );
    world.disconnect();
    assert_eq!(world.client.state(), SessionState::Closed);
}

#[test]
fn a_second_close_only_brings_the_deadline_forward() {
    let mut world = world();
    close(&mut world, 500);
    close(&mut world, 900_000);
    world.advance(500);
    assert_eq!(world.client.state(), SessionState::Ending);
    let mut world = world_closed_in(900_000);
    close(&mut world, 500);
    world.advance(500);
    assert_eq!(world.client.state(), SessionState::Ending);
}

fn world_closed_in(us: u64) -> World {
    let mut world = world();
    close(&mut world, us);
    world
}

#[test]
fn close_without_a_connection_ends_at_once_or_by_its_deadline() {
    let mut idle = World::new(config());
    close(&mut idle, 1_000);
    assert_eq!(idle.client.state(), SessionState::Closed);

    let mut connecting = World::new(config());
    connecting.drain();
    close(&mut connecting, 1_000);
    assert_eq!(
        connecting.client.state(),
        SessionState::Ending,
        "the connect is called off"
    );
    connecting.disconnect();
    assert_eq!(connecting.client.state(), SessionState::Closed);

    let mut down = world();
    down.disconnect();
    close(&mut down, 5_000);
    down.advance(5_000);
    assert!(down.ledger.is_empty());
    if down.connecting {
        down.disconnect();
    }
    assert_eq!(down.client.state(), SessionState::Closed);
}

#[test]
fn close_resumes_over_a_new_connection_while_there_is_time() {
    let mut world = world();
    world.disconnect();
    close(&mut world, 1_000_000);
    world.log_in();
    assert_eq!(requests_of(&world.send_all()), [1, 2]);
    for request in 1..=4 {
        world.confirm(request);
        world.send_all();
    }
    assert_eq!(world.client.state(), SessionState::LoggingOut);
}

#[test]
fn a_logout_that_is_not_answered_or_cut_off_ends_all_the_same() {
    let logging_out = || {
        let mut world = World::active(config(), window(1));
        close(&mut world, 1_000_000);
        assert_eq!(world.send_all().len(), 1);
        world
    };
    let mut silent = logging_out();
    silent.advance(5_000);
    assert_eq!(silent.client.state(), SessionState::Ending);
    let mut cut = logging_out();
    cut.disconnect();
    assert_eq!(cut.client.state(), SessionState::Closed);
    let mut evicted = logging_out();
    evicted.evict(EvictionReason::StaleClient);
    assert_eq!(evicted.client.state(), SessionState::Ending);
}

#[test]
fn purge_hands_back_what_never_left_and_marks_the_rest() {
    let mut world = world();
    world.purge();
    let purged = Receipt::NotSent {
        reason: NotSent::Purged,
    };
    let receipts = [
        (0, Receipt::Unknown { request: 1 }),
        (1, purged),
        (2, purged),
        (3, purged),
    ];
    assert_eq!(world.receipts(), receipts);
    assert_eq!(
        world.confirm(1),
        ReplyMatch::Late,
        "it may have been stored, and is not told twice"
    );
    world.give(0, 0);
    assert_eq!(
        requests_of(&world.send_next()),
        [3],
        "the client stays usable, the pause of the lane goes on"
    );
}

#[test]
fn purge_during_a_write_tells_after_it() {
    let mut world = World::active(config(), window(2));
    world.give(0, 0);
    assert!(world.transmit().is_some());
    world.purge();
    assert_eq!(world.receipts(), []);
    world.write_all();
    assert_eq!(world.receipts(), [(0, Receipt::Unknown { request: 1 })]);
}

#[test]
fn purging_some_batches_leaves_the_others() {
    let mut world = world();
    let purge = |world: &mut World, lane, keys: [u32; 2]| {
        let is_meant = |key: BatchKey| keys.contains(&key.0);
        world
            .client
            .purge_lane(world.now, LaneKey(lane), NotSent::Purged, is_meant);
    };
    purge(&mut world, 0, [0, 2]);
    purge(&mut world, 0, [2, 60]);
    purge(&mut world, 3, [1, 3]);
    purge(&mut world, u32::MAX, [1, 3]);
    world.drain();
    let purged = Receipt::NotSent {
        reason: NotSent::Purged,
    };
    assert_eq!(
        world.receipts(),
        [(2, purged), (0, Receipt::Unknown { request: 1 })]
    );
    assert_eq!(requests_of(&world.send_next()), [2, 3]);
}

/// Withdraws every batch of `world`: key 0 is in flight, 1 refused, 2 and 3 wait.
fn withdrawn() -> World {
    let mut world = world();
    for key in [0, 1, 2, 3, 60, u32::MAX] {
        world.client.withdraw(world.now, BatchKey(key));
    }
    world.drain();
    world
}

#[test]
fn what_is_withdrawn_keeps_its_answer_and_is_never_sent_again() {
    const WITHDRAWN: Receipt = Receipt::NotSent {
        reason: NotSent::Withdrawn,
    };
    const UNKNOWN: Receipt = Receipt::Unknown { request: 1 };
    type End = fn(&mut World);
    let table: [(&str, End, Option<Receipt>); 6] = [
        ("silence", |world| world.advance(1_000_000), Some(UNKNOWN)),
        (
            "the end of its connection",
            |world| world.disconnect(),
            Some(UNKNOWN),
        ),
        (
            "not admitted",
            |world| {
                world.answer(1, refused(58));
            },
            Some(WITHDRAWN),
        ),
        (
            "outcome unknown",
            |world| {
                world.answer(1, refused(57));
            },
            Some(UNKNOWN),
        ),
        (
            "refused for good",
            |world| {
                world.answer(1, refused(2010));
            },
            Some(Receipt::Rejected {
                code: common::code(2010),
            }),
        ),
        (
            "stored",
            |world| {
                world.confirm(1);
            },
            None,
        ),
    ];
    for (what, end, expected) in table {
        let mut world = withdrawn();
        let waiting = [(1, WITHDRAWN), (2, WITHDRAWN), (3, WITHDRAWN)];
        assert_eq!(world.receipts(), waiting, "{what}");
        end(&mut world);
        let receipts = world.receipts();
        let (key, receipt) = *receipts.last().expect("the one in flight ended");
        assert_eq!((receipts.len(), key), (4, 0), "{what}");
        match expected {
            Some(expected) => assert_eq!(receipt, expected, "{what}"),
            None => assert!(matches!(receipt, Receipt::Stored { .. }), "{what}"),
        }
        if world.client.state() != SessionState::Active {
            world.log_in();
        }
        assert_eq!(world.send_all(), [], "{what}: nothing is sent again");
        world.give(0, 0);
        assert_eq!(requests_of(&world.send_next()), [3], "{what}");
    }
}

#[test]
fn purge_then_close_now_is_an_abort() {
    let mut world = world();
    world.purge();
    close(&mut world, 0);
    assert_eq!(world.client.state(), SessionState::Ending);
    assert_eq!(world.transmit(), None);
    world.disconnect();
    assert_eq!(world.client.state(), SessionState::Closed);
    assert_eq!(world.client.poll_deadline(), None);
}

#[test]
fn after_the_end_nothing_is_accepted_and_nothing_happens() {
    let mut world = World::new(config());
    close(&mut world, 0);
    assert_eq!(world.client.state(), SessionState::Closed);
    close(&mut world, 0);
    world.purge();
    world.evict(EvictionReason::InvalidCredentials);
    world.advance(FAR_US);
    assert_eq!(world.client.poll_connection(world.now), None);
    assert_eq!(world.transmit(), None);
    assert_eq!(world.client.state(), SessionState::Closed);
    assert_eq!(world.client.fatal(), None);
    assert!(world.client.handle_disconnected(world.now).is_err());
}
