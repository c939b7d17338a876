//! The oracle is tested, as in `mutations`, for what the shard and its appenders add: faults put
//! into the engine on purpose must each be caught within a bounded number of seeds, and by the
//! check that is meant for them.

use ringmain::simulation::{Mutation, commit};
use ringmain_sim::{Draws, Fault, FaultPlan, Kind, Options, run, run_seed};

/// How the first of `seeds_max` seeds fails that does, when the engine commits this fault.
fn first_caught(fault: Mutation, seeds_max: u64) -> Option<(u64, Kind)> {
    let options = Options {
        laws: false,
        ..Options::default()
    };
    commit(Some(fault));
    let caught =
        (1..=seeds_max).find_map(|seed| Some((seed, run_seed(seed, &options).violation?.kind)));
    commit(None);
    caught
}

fn assert_caught(fault: Mutation, seeds_max: u64, expected: &[Kind]) {
    let caught = first_caught(fault, seeds_max);
    let is_expected = caught.is_some_and(|(_, kind)| expected.contains(&kind));
    assert!(is_expected, "{fault:?}: {caught:?}");
}

#[test]
fn a_wake_up_that_an_appender_forgets_is_seen() {
    assert_caught(Mutation::WakeForgotten, 5, &[Kind::LeftOut]);
}

#[test]
fn a_waiter_that_is_not_told_is_seen() {
    assert_caught(Mutation::WaiterForgotten, 5, &[Kind::AccountWrong]);
}

#[test]
fn senders_that_wait_although_there_is_memory_are_seen() {
    assert_caught(Mutation::GateForgotten, 40, &[Kind::Unserved]);
}

#[test]
fn a_slot_given_back_early_is_seen() {
    assert_caught(
        Mutation::SlotEarly,
        100,
        &[Kind::FreedWhileWriting, Kind::ReceiptTwice, Kind::NoReason],
    );
}

#[test]
fn memory_that_is_kept_is_seen() {
    assert_caught(Mutation::CreditKept, 20, &[Kind::MemoryKept, Kind::NotLive]);
}

#[test]
fn a_lane_left_out_is_seen() {
    assert_caught(Mutation::LaneLeftOut, 40, &[Kind::LeftOut]);
}

#[test]
fn a_lane_that_is_not_tried_again_is_seen() {
    assert_caught(Mutation::BusyForgotten, 100, &[Kind::LeftOut]);
}

#[test]
fn lingers_that_are_not_kept_are_seen() {
    assert_caught(Mutation::LingerForgotten, 40, &[Kind::LeftOut, Kind::Late]);
    assert_caught(Mutation::LingerDoubled, 40, &[Kind::LeftOut]);
}

#[test]
fn a_lane_that_lingers_while_a_sender_waits_for_memory_is_seen() {
    assert_caught(Mutation::HurryForgotten, 60, &[Kind::LeftOut]);
}

/// A run in strict order that loses batches, some of them after the application resumed.
fn strict(seed: u64) -> Draws {
    let mut draws = Draws::of(seed);
    draws.clients.truncate(1);
    let client = &mut draws.clients[0];
    client.lanes.truncate(2);
    (client.strict, client.slots, client.batches) = (true, 64, 300);
    (client.burst, client.pause_us_max, client.purge_ppm) = (8, 10_000, 100_000);
    (client.delivery_us, client.patient_ppm) = ((20_000, 300_000), 300_000);
    (client.request_first, client.closes_early) = (1, false);
    draws
}

#[test]
fn a_resumption_that_accepts_later_losses_is_seen() {
    let run_all = |seeds: u64| {
        let options = Options::default();
        (1..=seeds).find_map(|seed| run(&strict(seed), Vec::new(), &options).violation)
    };
    commit(Some(Mutation::ResumedTooEarly));
    let caught = run_all(60).map(|violation| violation.kind);
    commit(None);
    let expected = [Kind::LawBroken, Kind::StrictBroken];
    assert!(
        caught.is_some_and(|kind| expected.contains(&kind)),
        "{caught:?}"
    );
    assert_eq!(run_all(20), None, "the same runs pass without the fault");
}

/// A run in strict order, mostly without a session: lanes halt and go on, and what producers of
/// little patience send has its deadline soon.
fn lingering(seed: u64) -> Draws {
    let mut draws = Draws::of(seed);
    draws.clients.truncate(1);
    draws.work_us = 20_000_000;
    draws.faults = FaultPlan::none()
        .with(Fault::ConnectRefused, 900_000)
        .with(Fault::ResetAnyTime, 2_000);
    let client = &mut draws.clients[0];
    client.lanes.truncate(2);
    (client.strict, client.slots, client.calls_ppm) = (true, 64, 0);
    (client.batches, client.burst, client.pause_us_max) = (600, 1, 60_000);
    (client.patient_ppm, client.purge_ppm) = (300_000, 0);
    (client.linger_us, client.batch_records_max) = (100_000, 1_000);
    client.delivery_us = (25_000, 300_000);
    (client.request_first, client.closes_early) = (1, false);
    draws
}

#[test]
fn a_batch_that_lingers_as_long_as_the_one_before_it_is_seen() {
    let run_all = |seeds: u64| {
        let options = Options::default();
        (1..=seeds).find_map(|seed| run(&lingering(seed), Vec::new(), &options).violation)
    };
    commit(Some(Mutation::NewLingerForgotten));
    let caught = run_all(40).map(|violation| violation.kind);
    commit(None);
    assert!(
        matches!(caught, Some(Kind::LeftOut | Kind::Late)),
        "{caught:?}"
    );
    assert_eq!(run_all(20), None, "the same runs pass without the fault");
}

#[test]
fn deadlines_behind_a_full_window_that_nobody_looks_for_are_seen() {
    assert_caught(Mutation::SweepForgotten, 60, &[Kind::Late]);
}

/// A run in which a lane is full and empty in turns, and appenders come between the steps of the
/// shard.
fn crossed(seed: u64) -> Draws {
    let mut draws = Draws::of(seed);
    draws.clients.truncate(1);
    draws.faults = FaultPlan::none();
    let client = &mut draws.clients[0];
    (client.strict, client.window_requests_max, client.slots) = (false, 1, 64);
    client.lanes.truncate(1);
    (client.batches, client.burst, client.pause_us_max) = (400, 1, 20_000);
    (client.patient_ppm, client.purge_ppm) = (1_000_000, 0);
    (client.linger_us, client.interleave_ppm) = (0, 1_000_000);
    (client.request_first, client.closes_early) = (1, false);
    draws
}

#[test]
fn a_flag_cleared_behind_the_look_at_the_queues_is_seen() {
    let run_all = || {
        let runs = (1..=20).map(|seed| run(&crossed(seed), Vec::new(), &Options::default()));
        runs.filter_map(|summary| summary.violation).next()
    };
    commit(Some(Mutation::FlagClearedLate));
    let caught = run_all().map(|violation| violation.kind);
    commit(None);
    assert_eq!(caught, Some(Kind::LeftOut));
    assert_eq!(run_all(), None, "the same runs pass without the fault");
}
