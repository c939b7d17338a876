//! The loop of a shard, and its end.
//!
//! ```text
//!   wait (flush, sleep, completions) -> turn (events -> advance -> statistics) -> wait ...
//! ```
//!
//! The end, orderly or not, leaves no record without an answer: what the protocol has not decided by then resolves as
//! `NotSent` when it never left and as `Unknown` otherwise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ringmain_proto::Micros;

use super::core::Core;
use super::{Command, ShardShared};
use crate::error::CallError;
use crate::outcome::NotSentReason;
use crate::receipt::BatchOutcome;
use ringmain_io::driver::{Driver, DriverError};

/// How often counters are published while the shard is busy. An idle shard publishes before it sleeps; one that waits
/// for answers does so after this time.
const PUBLISH_US: u64 = 10_000;

/// Runs until the engine closes the shard, or its ring or its code fails.
pub(super) fn run(mut core: Core, mut driver: impl Driver) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        turn_until_finished(&mut core, &mut driver)
    }));
    let failure = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(PANICKED.to_owned()),
    };
    conclude(core, driver, failure);
}

/// What is said of a shard that ended by a panic.
pub(super) const PANICKED: &str =
    "the shard's thread panicked, which is a defect of ringmain; its message is on standard error";

/// The end of a shard: orderly, or because of `failure`. What is left is answered even if answering panics once more.
pub(super) fn conclude(mut core: Core, driver: impl Driver, failure: Option<String>) {
    let is_orderly = failure.is_none();
    match failure {
        None => tracing::debug!("shard closed"),
        Some(cause) => {
            tracing::error!(cause, "a shard ended before its time; nothing more is sent");
            core.shared.sessions.fail(cause);
        }
    }
    let shared = Arc::clone(&core.shared);
    if catch_unwind(AssertUnwindSafe(|| end(&mut core))).is_err() {
        tracing::error!("the shard's thread panicked while ending");
    }
    publish_last(&mut core, &driver);
    if is_orderly {
        give_back_headers(core, &driver);
    }
    drop(driver);
    shared.slots().close();
    shared.end.set();
}

fn turn_until_finished(core: &mut Core, driver: &mut impl Driver) -> Result<(), DriverError> {
    let mut published_at = Micros::ZERO;
    while let Some(timeout) = turn(core, driver, &mut published_at) {
        driver.wait(Some(timeout))?;
    }
    Ok(())
}

/// Everything between two waits: the events that the last one brought, then what there is to do.
/// Says how long the next wait may take; `None` when the shard has finished.
pub(super) fn turn(
    core: &mut Core,
    driver: &mut impl Driver,
    published_at: &mut Micros,
) -> Option<Duration> {
    let now = core.shared.now();
    core.shared.stats.turns.add(1);
    while let Some(event) = driver.next_event() {
        core.handle_event(now, event);
    }
    let now = core.shared.now();
    core.advance(now, driver);
    if core.has_finished() {
        return None;
    }
    let mut timeout_us = core.next_deadline(now).since(now);
    if (core.is_idle() && timeout_us > PUBLISH_US) || now.since(*published_at) > PUBLISH_US {
        if try_publish(core, driver) {
            *published_at = now;
        } else {
            timeout_us = timeout_us.min(PUBLISH_US + 1);
        }
    } else {
        timeout_us = timeout_us.min(PUBLISH_US + 1);
    }
    Some(Duration::from_micros(timeout_us.min(WAIT_US_MAX)))
}

/// The longest sleep: nothing depends on it, it only keeps the arithmetic of timeouts in range.
const WAIT_US_MAX: u64 = 3_600_000_000;

fn try_publish(core: &mut Core, driver: &impl Driver) -> bool {
    let clients = core.conns.iter().map(|conn| conn.client.stats());
    core.shared
        .stats
        .try_publish(&driver.stats(), &driver.info(), clients, &mut core.samples)
}

fn publish_last(core: &mut Core, driver: &impl Driver) {
    let clients = core.conns.iter().map(|conn| conn.client.stats());
    core.shared
        .stats
        .publish_last(&driver.stats(), &driver.info(), clients, &mut core.samples);
}

/// Answers everything that has no answer yet, and refuses whatever comes later.
fn end(core: &mut Core) {
    let shared = Arc::clone(&core.shared);
    shared.ended.store(true, Ordering::SeqCst);
    // Every append that did not see the end holds its lane's lock or is in the sealed queue.
    let lanes = std::mem::take(&mut *shared.lanes.lock().unwrap_or_else(PoisonError::into_inner));
    for lane in &lanes {
        lane.seal_for_flush(&mut Vec::new());
    }
    let closed = BatchOutcome::NotSent {
        reason: match shared.sessions.failure() {
            None => NotSentReason::Closed,
            Some(_) => NotSentReason::EngineFailed,
        },
    };
    while let Some(batch) = shared.sealed.pop() {
        core.finish_batch(batch, closed);
    }
    for index in 0..core.batches.len() {
        if let Some(in_flight) = core.batches[index].take() {
            // The kernel may still read this memory when the ring failed: tell the receipts, keep the memory.
            let outcome = if in_flight.request == 0 {
                closed
            } else {
                BatchOutcome::Unknown {
                    request: in_flight.request,
                }
            };
            let batch = in_flight.batch;
            batch.ledger.resolve(&outcome, batch.records);
            shared
                .stats
                .count_request(batch.records, batch.payload_bytes);
            batch.cell.resolve(outcome, &mut core.waiters);
        }
    }
    core.serve_waiting();
    while shared.announced.pop().is_some() {}
    end_calls(core, &shared);
    for index in 0..core.conns.len() {
        shared
            .sessions
            .update(index, |status| status.is_active = false);
    }
}

fn end_calls(core: &mut Core, shared: &ShardShared) {
    let why = || match shared.sessions.failure() {
        None => CallError::Closed,
        Some(cause) => CallError::EngineFailed { cause },
    };
    for conn in &mut core.conns {
        for slot in &mut conn.calls {
            if let Some(cell) = slot.cell.take() {
                cell.finish(Err(why()));
            }
        }
    }
    for command in shared.commands().drain(..) {
        match command {
            Command::Call(cell) => cell.finish(Err(why())),
            Command::Purge(request) => request.done.set(),
            Command::Watch { .. }
            | Command::Unwatch { .. }
            | Command::Resolved { .. }
            | Command::Close { .. } => {}
        }
    }
}

/// After an orderly end nothing is in flight: every block is free again, and that is asserted.
fn give_back_headers(core: Core, driver: &impl Driver) {
    let arena = driver.arena();
    for header in core.headers {
        arena.headers().release(header);
    }
    for conn in core.conns {
        for header in conn.into_headers() {
            arena.headers().release(header);
        }
    }
    arena.headers().assert_all_free();
}
