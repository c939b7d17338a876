//! Each fault that can be put in on purpose is one that the ledger sees. Run with `--features
//! mutations`.

mod common;

use common::{World, config, refused, strict, window};
use ringmain_proto::*;

fn faulty(mutation: Mutation) -> Config {
    Config {
        mutation: Some(mutation),
        ..config()
    }
}

/// A world with three requests in flight, after a reconnect.
fn resumed(mutation: Mutation) -> World {
    let mut world = World::active(faulty(mutation), window(4));
    for key in 0..3 {
        world.give(0, key);
    }
    world.send_all();
    world.disconnect();
    world.log_in();
    world
}

#[test]
#[should_panic(expected = "W1: 129 is too far above 1")]
fn a_span_of_128_is_seen() {
    let mut world = World::with_oldest_silent(faulty(Mutation::Span128));
    world.consume_until(129);
    world.give(0, 2);
    world.send_all();
}

#[test]
#[should_panic(expected = "W3: a retry keeps its number")]
fn a_new_number_on_a_retry_is_seen() {
    resumed(Mutation::NewNumberOnRetry).send_all();
}

#[test]
#[should_panic(expected = "one outcome for each batch")]
fn a_receipt_given_twice_is_seen() {
    World::active(faulty(Mutation::ReceiptTwice), window(4)).give_and_confirm(0, 0);
}

#[test]
#[should_panic(expected = "goes before 3")]
fn a_resume_out_of_order_is_seen() {
    resumed(Mutation::ResumeOutOfOrder).send_all();
}

#[test]
#[should_panic(expected = "no outcome while a write is in flight")]
fn an_early_free_is_seen() {
    let mut world = World::active(faulty(Mutation::EarlyFree), window(4));
    world.give(0, 0);
    world.transmit();
    world.confirm(1);
}

/// A strict lane that has lost its first batch while another waited, and is given one more.
fn halted(mutation: Mutation, verdict: Verdict) {
    let mut world = World::active(faulty(mutation), strict());
    world.give(0, 0);
    world.give(0, 1);
    world.send_all();
    world.answer(1, verdict);
    world.give(0, 2);
    world.send_all();
}

#[test]
#[should_panic(expected = "strict order: nothing behind")]
fn a_halt_that_ends_what_waits_only_is_seen() {
    halted(Mutation::HaltForgotten, refused(20));
}

#[test]
#[should_panic(expected = "strict order: nothing behind")]
fn a_halt_that_spares_what_waits_is_seen() {
    halted(Mutation::HaltSparesQueue, refused(20));
}

#[test]
#[should_panic(expected = "strict order: nothing behind")]
fn going_on_behind_an_unknown_is_seen() {
    let mut world = World::active(faulty(Mutation::UnknownDoesNotHalt), strict());
    let at = world.now.after(10);
    world.submit(0, 0, 1, at).expect("accepted");
    world.give(0, 1);
    world.send_all();
    world.advance(10);
    world.send_all();
}

#[test]
fn without_a_chosen_mutation_the_feature_changes_nothing() {
    let mut world = World::with_oldest_silent(config());
    world.consume_until(129);
    world.give(0, 2);
    assert_eq!(world.send_all(), []);
}
