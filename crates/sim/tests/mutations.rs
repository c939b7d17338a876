//! The oracle is tested: faults put into the client on purpose must each be caught within a bounded
//! number of seeds, and by the check that is meant for them.
//!
//! The laws of the window are switched off here: outcomes alone must give the mutants away, because
//! a check of the law that a mutant breaks would prove nothing about the rest of the oracle.

use ringmain_proto::{Config, Mutation};
use ringmain_sim::{Draws, Fault, FaultPlan, Kind, Options, run, run_seed};

/// Judges by outcomes alone.
fn outcomes(tune: fn(&mut Config)) -> Options {
    Options {
        laws: false,
        tune,
        ..Options::default()
    }
}

/// The first of `seeds_max` seeds that fails, and how.
fn first_caught(tune: fn(&mut Config), seeds_max: u64) -> Option<(u64, Kind)> {
    let options = outcomes(tune);
    (1..=seeds_max).find_map(|seed| Some((seed, run_seed(seed, &options).violation?.kind)))
}

#[test]
fn a_new_number_on_a_retry_stores_twice() {
    let caught = first_caught(
        |config| config.mutation = Some(Mutation::NewNumberOnRetry),
        20,
    );
    assert!(
        matches!(caught, Some((_, Kind::StoredTwice | Kind::NoReason))),
        "{caught:?}"
    );
}

#[test]
fn a_receipt_given_twice_is_seen() {
    let caught = first_caught(|config| config.mutation = Some(Mutation::ReceiptTwice), 2);
    assert!(
        matches!(caught, Some((_, Kind::ReceiptTwice))),
        "{caught:?}"
    );
}

#[test]
fn retries_newest_first_break_the_order() {
    let caught = first_caught(
        |config| config.mutation = Some(Mutation::ResumeOutOfOrder),
        60,
    );
    assert!(matches!(caught, Some((_, Kind::OrderBroken))), "{caught:?}");
}

#[test]
fn memory_given_back_early_is_seen() {
    let caught = first_caught(|config| config.mutation = Some(Mutation::EarlyFree), 60);
    assert!(
        matches!(caught, Some((_, Kind::FreedWhileWriting))),
        "{caught:?}"
    );
}

/// Runs that lose batches of strict lanes while others wait behind them.
fn strict(seed: u64) -> Draws {
    let mut draws = Draws::of(seed);
    draws.clients.truncate(1);
    draws.work_us = 20_000_000;
    draws.faults = FaultPlan::none()
        .with(Fault::SendDropped, 30_000)
        .with(Fault::RefusedForGood, 20_000);
    let client = &mut draws.clients[0];
    client.lanes.truncate(2);
    (client.strict, client.slots, client.batches) = (true, 64, 300);
    (client.burst, client.pause_us_max, client.purge_ppm) = (16, 10_000, 0);
    (client.request_timeout_us, client.patient_ppm) = (5_000_000, 0);
    (client.delivery_us, client.request_first) = ((100_000, 1_000_000), 1);
    draws
}

#[test]
fn sending_behind_a_hole_in_strict_order_is_seen() {
    let faults: [fn(&mut Config); 3] = [
        |config| config.mutation = Some(Mutation::HaltForgotten),
        |config| config.mutation = Some(Mutation::HaltSparesQueue),
        |config| config.mutation = Some(Mutation::UnknownDoesNotHalt),
    ];
    for tune in faults {
        let options = outcomes(tune);
        let caught = (1..=8).find_map(|seed| run(&strict(seed), Vec::new(), &options).violation);
        assert_eq!(
            caught.map(|violation| violation.kind),
            Some(Kind::StrictBroken)
        );
    }
    let sound =
        (1..=8).find_map(|seed| run(&strict(seed), Vec::new(), &Options::default()).violation);
    assert_eq!(sound, None, "the same runs pass without the mutations");
}

#[test]
fn a_record_given_up_while_the_server_answers_is_seen() {
    let slow = |seed| {
        let mut draws = strict(seed);
        draws.faults = FaultPlan::none();
        draws.broker.commit_us = (100_000, 200_000);
        draws.clients[0].delivery_us = (1_000_000, 2_000_000);
        (draws.clients[0].closes_early, draws.clients[0].calls_ppm) = (false, 0);
        draws
    };
    let options = outcomes(|config| config.mutation = Some(Mutation::ProgressIgnored));
    let caught = run(&slow(1), Vec::new(), &options).violation;
    assert_eq!(caught.map(|violation| violation.kind), Some(Kind::NoReason));
    for seed in 1..=4 {
        let summary = run(&slow(seed), Vec::new(), &Options::default());
        assert_eq!(summary.violation, None);
        let stored = summary.account.stored;
        assert!(stored > 0 && stored == summary.account.accepted);
    }
}

/// A run in which numbers rise fast while a dropped request is open: the only way to the far end of
/// a window.
fn crowded(seed: u64) -> Draws {
    let mut draws = Draws::of(seed);
    draws.clients.truncate(1);
    draws.work_us = 20_000_000;
    draws.broker.commit_us = (50, 200);
    draws.network.latency_us = (20, 100);
    draws.faults = FaultPlan::none().with(Fault::SendDropped, 20_000);
    let client = &mut draws.clients[0];
    client.lanes.truncate(2);
    (client.strict, client.window_requests_max, client.slots) = (false, 8, 64);
    (client.batches, client.burst, client.pause_us_max) = (400, 32, 100);
    (
        client.request_timeout_us,
        client.patient_ppm,
        client.purge_ppm,
    ) = (2_000_000, 1_000_000, 0);
    client.request_first = 1;
    draws
}

#[test]
fn a_window_one_number_too_wide_swallows() {
    let options = outcomes(|config| config.mutation = Some(Mutation::Span128));
    let caught = (1..=12).find_map(|seed| run(&crowded(seed), Vec::new(), &options).violation);
    assert_eq!(
        caught.map(|violation| violation.kind),
        Some(Kind::Swallowed)
    );
    let sound =
        (1..=12).find_map(|seed| run(&crowded(seed), Vec::new(), &Options::default()).violation);
    assert_eq!(sound, None, "the same runs pass without the mutation");
}
