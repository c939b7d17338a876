//! What a server's progress means: deadlines that wait for it, silence that is recognised, a path
//! that is probed.

mod common;

use common::{FAR_US, World, config, request_of, requests_of, strict, window};
use ringmain_proto::*;
use ringmain_wire::Operation;

const MS: u64 = 1_000;

/// Timeouts as in production.
fn patient() -> Config {
    Config {
        request_timeout_us: 5_000 * MS,
        heartbeat_interval_us: 3_600_000 * MS,
        write_stall_us: 3_600_000 * MS,
        ..config()
    }
}

/// Submits batches with one deadline, which progress moves.
fn give_waiting(world: &mut World, lane: u32, keys: std::ops::Range<u32>, us: u64) {
    let deadline = Deadline {
        at: world.now.after(us),
        progress_us: us,
    };
    for key in keys {
        world.submit_waiting(lane, key, deadline).expect("accepted");
    }
}

fn count(world: &World, is_meant: fn(&Receipt) -> bool) -> usize {
    let receipts = world.receipts();
    receipts
        .iter()
        .filter(|(_, receipt)| is_meant(receipt))
        .count()
}

#[test]
fn a_queue_that_takes_longer_than_the_deadline_is_delivered_while_the_server_answers() {
    for lane in [strict(), window(8)] {
        let mut world = World::active(patient(), lane);
        give_waiting(&mut world, 0, 0..60, 1_000 * MS);
        for _ in 0..60 {
            world.send_all();
            world.advance(200 * MS);
            let request = world.ledger.unresolved(LaneKey(0))[0];
            world.confirm(request);
        }
        assert_eq!(count(&world, Receipt::is_stored), 60);
        assert_eq!(world.client.stats().batches_resent, 0);
    }
}

#[test]
fn one_server_for_many_lanes_that_takes_them_in_turn_is_waited_for() {
    let mut world = World::active(patient(), window(8));
    for lane in 0..4 {
        if lane > 0 {
            world.open(lane, window(8));
        }
        give_waiting(&mut world, lane, lane * 16..lane * 16 + 16, 1_000 * MS);
    }
    while world.client.unresolved() > 0 {
        world.send_all();
        world.advance(300 * MS);
        let oldest = world.owed.remove(0);
        let verdict = world.confirmation();
        world.deliver(oldest, verdict);
    }
    assert_eq!(count(&world, Receipt::is_stored), 64);
    assert_eq!(world.client.stats().batches_resent, 0);
}

#[test]
fn a_server_that_stops_ends_everything_one_deadline_after_its_last_answer() {
    let mut world = World::active(patient(), window(2));
    give_waiting(&mut world, 0, 0..10, 1_000 * MS);
    for request in 1..=3 {
        world.send_all();
        world.advance(900 * MS);
        world.confirm(request);
    }
    world.send_all();
    world.advance(1_000 * MS - 1);
    assert_eq!(world.receipts().len(), 3);
    world.advance(1);
    // The one that was sent last has its own time, which is over too.
    assert_eq!(world.client.unresolved(), 0);
    assert_eq!(
        count(&world, |receipt| matches!(receipt, Receipt::Unknown { .. })),
        2
    );
}

#[test]
fn a_partition_that_is_stuck_ends_at_its_deadline_whatever_others_do() {
    let mut world = World::active(patient(), window(2));
    world.open(1, window(2));
    give_waiting(&mut world, 0, 0..6, 1_000 * MS);
    world.send_all();
    for _ in 0..20 {
        give_waiting(&mut world, 1, 10..11, 1_000 * MS);
        let sent = requests_of(&world.send_all());
        world.advance(50 * MS);
        world.confirm(*sent.last().expect("a batch of the other lane"));
    }
    assert_eq!(world.client.lane_load(LaneKey(0)), (0, 0));
    assert_eq!(count(&world, Receipt::is_stored), 20);
}

#[test]
fn a_close_is_a_deadline_that_nothing_moves() {
    let mut world = World::active(patient(), strict());
    give_waiting(&mut world, 0, 0..40, 1_000 * MS);
    world.client.close(world.now, world.now.after(3_000 * MS));
    for _ in 0..14 {
        world.send_all();
        world.advance(200 * MS);
        let request = world.ledger.unresolved(LaneKey(0))[0];
        world.confirm(request);
    }
    world.send_all();
    world.advance(200 * MS);
    assert_eq!(world.client.unresolved(), 0);
    assert_eq!(
        count(&world, Receipt::is_stored),
        14,
        "all that was answered until then"
    );
}

/// A strict lane whose pace is known: answers after 2 ms.
fn paced() -> World {
    let mut world = World::active(patient(), strict());
    for _ in 0..20 {
        world.give(0, 0);
        let request = request_of(&world.send_all()[0]);
        world.advance(2 * MS);
        world.confirm(request);
    }
    world
}

/// Runs until a batch is sent again; answers pings if wanted. How long that took.
fn time_to_resend(world: &mut World, answers_pings: bool) -> u64 {
    let start = world.now;
    loop {
        for sent in world.send_all() {
            match sent {
                Transmit::Batch { .. } => return world.now.since(start),
                Transmit::Ping { request, .. } if answers_pings => {
                    world.reply(Operation::NonReplicated, request, Verdict::Success);
                }
                _ => {}
            }
        }
        world.advance_to_deadline();
    }
}

#[test]
fn a_dropped_request_is_sent_again_as_soon_as_the_server_has_read_past_it() {
    let mut world = paced();
    world.give(0, 0);
    world.send_all();
    let lost_us = time_to_resend(&mut world, true);
    assert!((200 * MS..300 * MS).contains(&lost_us), "{lost_us}");
    assert_eq!(world.client.stats().pings_sent, 1);
    // Dropped again: each time it takes longer.
    let mut before_us = lost_us;
    for _ in 0..4 {
        let again_us = time_to_resend(&mut world, true);
        assert!(again_us > before_us * 3 / 2, "{again_us} after {before_us}");
        before_us = again_us;
    }
}

#[test]
fn a_server_that_stands_still_is_sent_nothing_again_before_the_request_timeout() {
    let mut world = paced();
    world.give(0, 0);
    world.send_all();
    assert_eq!(time_to_resend(&mut world, false), 5_000 * MS);
    assert_eq!(world.client.stats().pings_sent, 1, "it was asked once");
}

#[test]
fn another_lane_that_is_answered_is_proof_enough() {
    let mut world = paced();
    world.open(1, window(8));
    world.give(0, 0);
    world.send_all();
    world.advance(MS);
    world.give_and_confirm(1, 1);
    let lost_us = time_to_resend(&mut world, false);
    assert_eq!((lost_us, world.client.stats().pings_sent), (199 * MS, 0));
}

#[test]
fn a_request_that_three_later_ones_have_passed_is_sent_again_at_once() {
    let mut world = World::active(patient(), window(8));
    for key in 0..8 {
        world.give(0, key);
    }
    assert_eq!(world.send_all().len(), 8);
    world.advance(12 * MS);
    world.confirm(1);
    for request in [3, 4, 5] {
        assert_eq!(world.send_all(), [], "not yet");
        world.advance(4 * MS);
        world.confirm(request);
    }
    assert_eq!(world.send_all(), [], "less than two round trips");
    world.advance(16 * MS);
    world.confirm(6);
    assert_eq!(requests_of(&world.send_all()), [2]);
    world.confirm(7);
    world.confirm(8);
    assert_eq!(
        world.send_all(),
        [],
        "what passed it before does not count again"
    );
}

#[test]
fn silence_without_end_is_no_storm() {
    let mut world = World::active(
        Config {
            request_timeout_us: 100 * MS,
            ..patient()
        },
        window(8),
    );
    for key in 0..8 {
        world
            .submit(0, key, 1, world.now.after(60_000 * MS))
            .expect("accepted");
    }
    world.send_all();
    while world.client.unresolved() > 0 {
        world.advance_to_deadline();
        world.send_all();
    }
    let resent = world.client.stats().batches_resent;
    assert!((8 * 8..=8 * 12).contains(&resent), "{resent} in a minute");
}

/// Three lanes with eight requests each on a connection that is lost.
fn lost(mutate: fn(&mut Config)) -> World {
    let mut config = Config {
        resume_requests_max: 1,
        ..patient()
    };
    mutate(&mut config);
    let mut world = World::active(config, window(8));
    for lane in [1, 2] {
        world.open(lane, window(8));
    }
    for key in 0..24 {
        world.give(2 - key % 3, key);
    }
    assert_eq!(world.send_all().len(), 24);
    world.disconnect();
    world
}

#[test]
fn after_a_lost_connection_the_oldest_request_goes_alone_and_then_they_double() {
    let mut world = lost(|_| {});
    world.log_in();
    let mut out = requests_of(&world.send_all());
    assert_eq!(out, [1]);
    assert!(!world.client.lane_has_room(LaneKey(0)));
    let mut rounds = Vec::new();
    while !out.is_empty() {
        rounds.push(out.len());
        for request in out {
            world.confirm(request);
        }
        out = requests_of(&world.send_all());
    }
    assert_eq!(rounds, [1, 2, 4, 8, 9]);
    assert!(world.client.lane_has_room(LaneKey(0)));
}

#[test]
fn without_anything_open_nothing_is_probed() {
    let mut world = lost(|_| {});
    world.purge();
    world.log_in();
    for key in 0..8 {
        world.give(0, key);
    }
    assert_eq!(world.send_all().len(), 8);
}

/// Whether everything is stored over a path that breaks with the frame that is one too many, and
/// takes with it what it has not answered.
fn gets_through(mut world: World, frames_max: usize) -> bool {
    for _ in 0..24 {
        world.log_in();
        let mut carried = 0;
        loop {
            let sent = requests_of(&world.send_all());
            carried += sent.len();
            if sent.is_empty() {
                return world.client.account().stored == 24;
            }
            if carried > frames_max {
                world.disconnect();
                break;
            }
            for request in sent {
                world.confirm(request);
            }
        }
    }
    false
}

#[test]
fn a_path_that_carries_less_than_all_that_is_open_makes_progress_each_time() {
    for frames_max in [1, 2, 5, 20] {
        assert!(gets_through(lost(|_| {}), frames_max), "{frames_max}");
    }
    let at_once = |config: &mut Config| config.resume_requests_max = 1_000;
    assert!(
        !gets_through(lost(at_once), 20),
        "the fault that this mends"
    );
}

#[test]
fn a_probe_that_is_dropped_is_sent_again() {
    let mut world = lost(|_| {});
    world.log_in();
    assert_eq!(requests_of(&world.send_all()), [1]);
    world.advance(FAR_US / 2);
    let again = requests_of(&world.send_all());
    assert_eq!(again.len(), 1);
}
