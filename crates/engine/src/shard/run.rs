//! The loop of a shard, and its end.
//!
//! ```text
//!   wait (flush, sleep, completions) -> turn (events -> advance -> statistics) -> wait ...
//! ```
//!
//! The end, orderly or not, leaves nothing without an answer: records, calls, purges, and senders
//! that wait for memory. What the protocol has not decided by then resolves as `NotSent` when it
//! never left and as `Unknown` otherwise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ringmain_io::driver::{Driver, DriverError};
use ringmain_io::foreign::drop_each;
use ringmain_proto::Micros;

use super::core::Core;
use super::{PANICKED, ShardShared, Step};
use crate::batch::SealedBatch;
use crate::owed::Answer;

/// How often counters are published while the shard is busy. An idle shard publishes before it
/// sleeps; one that waits for answers does so after this time.
const PUBLISH_US: u64 = 10_000;

/// The longest sleep: nothing depends on it, it only keeps the arithmetic of timeouts in range.
const WAIT_US_MAX: u64 = 3_600_000_000;

/// Runs until the engine closes the shard, or its ring or its code fails.
pub(super) fn run(core: Core, driver: impl Driver) {
    let mut running = Running::new(core, driver);
    let outcome = catch_unwind(AssertUnwindSafe(|| running.turn_until_finished()));
    if let Ok(Err(error)) = &outcome {
        running.fail(error.to_string());
    }
    // Whatever a step of the end could not do, the drop of what is left does: see `Owed`.
    if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
        ringmain_io::log!(
            error,
            "the shard's thread panicked while freeing its tables"
        );
    }
}

/// A shard that runs. Dropping it is its end, by a panic unless it finished or failed before.
pub(super) struct Running<D: Driver> {
    pub(super) core: Core,
    /// `Some` until the end has come to it.
    driver: Option<D>,
    published_at: Micros,
    /// Why it ends; `None` once every session has ended and nothing is in flight.
    failure: Option<String>,
    /// The last field: what the others answer when they are dropped is answered before.
    end: EndSignal,
}

/// Tells those who wait for the end of a shard.
struct EndSignal(Arc<ShardShared>);

impl Drop for EndSignal {
    fn drop(&mut self) {
        self.0.end.set();
    }
}

impl<D: Driver> Running<D> {
    pub(super) fn new(core: Core, driver: D) -> Self {
        Self {
            end: EndSignal(Arc::clone(&core.shared)),
            core,
            driver: Some(driver),
            published_at: Micros::ZERO,
            failure: Some(PANICKED.to_owned()),
        }
    }

    fn turn_until_finished(&mut self) -> Result<(), DriverError> {
        while let Some(timeout) = self.turn() {
            self.core.shared.at(Step::Wait);
            self.driver().wait(Some(timeout))?;
        }
        Ok(())
    }

    /// Everything between two waits: the events that the last one brought, then what there is to
    /// do. Says how long the next wait may take; `None` when the shard has finished.
    pub(super) fn turn(&mut self) -> Option<Duration> {
        let core = &mut self.core;
        let driver = self.driver.as_mut().expect("taken at the end");
        let now = core.shared.now();
        core.shared.stats.turns.add(1);
        while let Some(event) = driver.next_event() {
            core.shared.at(Step::Event);
            core.handle_event(now, event);
        }
        let now = core.shared.now();
        core.advance(now, driver);
        if core.has_finished() {
            self.failure = None;
            return None;
        }
        let mut timeout_us = core.next_deadline(now).since(now);
        let is_published_late = now.since(self.published_at) > PUBLISH_US;
        if (core.is_idle() && timeout_us > PUBLISH_US) || is_published_late {
            if try_publish(core, driver) {
                self.published_at = now;
            } else {
                timeout_us = timeout_us.min(PUBLISH_US + 1);
            }
        } else {
            timeout_us = timeout_us.min(PUBLISH_US + 1);
        }
        Some(Duration::from_micros(timeout_us.min(WAIT_US_MAX)))
    }

    /// Has the end say why.
    pub(super) fn fail(&mut self, cause: String) {
        self.failure = Some(cause);
    }

    pub(super) fn driver(&mut self) -> &mut D {
        self.driver.as_mut().expect("taken at the end")
    }
}

impl<D: Driver> Drop for Running<D> {
    /// Every step stands alone: one that panics, which is a defect, spares those behind it.
    fn drop(&mut self) {
        let shared = Arc::clone(&self.end.0);
        let core = &mut self.core;
        let is_orderly = self.failure.is_none();
        match self.failure.take() {
            None => ringmain_io::log!(debug, "shard closed"),
            Some(cause) => {
                ringmain_io::log!(
                    error,
                    cause,
                    "a shard ended before its time; nothing more is sent"
                );
                shared.sessions.fail(cause);
            }
        }
        shared.ended.store(true, Ordering::SeqCst);
        seal_open(&shared);
        answer_sealed(core, &shared);
        let mut left = Vec::new();
        step(&shared, Step::EndInFlight, || {
            answer_in_flight(core, &mut left);
        });
        step(&shared, Step::EndGates, || {
            shared.slots().close();
            // Those who wait for this shard's sake see that it has ended; others queue up again.
            shared.credit().dismiss_waiting();
        });
        step(&shared, Step::EndCalls, || end_calls(core, &shared));
        step(&shared, Step::EndSessions, || {
            for index in 0..core.conns.len() {
                shared
                    .sessions
                    .update(index, |status| status.is_active = false);
            }
        });
        step(&shared, Step::EndDeferred, || core.deferred.run());
        step(&shared, Step::EndPublish, || {
            publish_last(core, self.driver.as_ref().expect("taken below"));
        });
        step(&shared, Step::EndHeaders, || {
            if is_orderly {
                give_back_headers(core, self.driver.as_ref().expect("taken below"));
            }
        });
        step(&shared, Step::EndTransport, || drop(self.driver.take()));
        // Here and not before: the kernel may have read it until the driver was gone.
        step(&shared, Step::EndMemory, || give_back(left, &shared));
    }
}

/// One step of the end.
fn step(shared: &ShardShared, name: Step, run: impl FnOnce()) {
    let run = || {
        run();
        shared.at(name);
    };
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        ringmain_io::log!(
            error,
            step = ?name,
            "the shard's thread panicked while ending, which is a defect of ringmain"
        );
    }
}

fn try_publish(core: &mut Core, driver: &impl Driver) -> bool {
    core.shared.at(Step::Publish);
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

/// Seals every open batch. Every append that did not see the end holds its lane's lock or is in the
/// sealed queue.
fn seal_open(shared: &ShardShared) {
    let lanes = std::mem::take(&mut *shared.lanes.lock().unwrap_or_else(PoisonError::into_inner));
    for lane in &lanes {
        step(shared, Step::EndLanes, || {
            lane.seal_for_flush(&mut Vec::new());
        });
    }
    while shared.announced.pop().is_some() {}
}

fn answer_sealed(core: &mut Core, shared: &ShardShared) {
    while let Some(batch) = shared.sealed.pop() {
        step(shared, Step::EndSealed, || {
            let outcome = batch.owed.without(shared.why_not_sent());
            core.finish_batch(batch, outcome);
        });
    }
}

/// Answers what is with the protocol clients and gives it out: the kernel may still read its
/// memory.
fn answer_in_flight(core: &mut Core, left: &mut Vec<SealedBatch>) {
    for index in 0..core.batches.len() {
        let Some(in_flight) = core.batches[index].take() else {
            continue;
        };
        let mut batch = in_flight.batch;
        let answer = Answer::same(batch.owed.without(core.shared.why_not_sent()));
        batch.owed.count(&answer);
        core.count_answer(&batch);
        batch.owed.tell(&answer, &mut core.deferred);
        left.push(batch);
    }
}

fn end_calls(core: &mut Core, shared: &ShardShared) {
    for conn in &mut core.conns {
        for cell in conn.calls.iter_mut().filter_map(|slot| slot.cell.take()) {
            cell.end(shared.why_no_call());
        }
    }
    let commands = std::mem::take(&mut *shared.commands());
    commands.into_iter().for_each(|command| command.end(shared));
}

/// Gives the budget of records by reference back, which other shards share, and lets their owners
/// go. The slots stay: no lane of this shard takes a record any more.
fn give_back(left: Vec<SealedBatch>, shared: &ShardShared) {
    for batch in left {
        let body = batch.body;
        let payloads = body.payloads.into_iter();
        let mut payloads: Vec<_> = payloads.map(|referenced| referenced.payload).collect();
        drop_each("the owner of a payload", &mut payloads);
        if body.credit_bytes > 0 {
            shared.credit().put(body.credit_bytes);
        }
    }
}

/// After an orderly end nothing is in flight: every block is free again, and that is asserted.
fn give_back_headers(core: &mut Core, driver: &impl Driver) {
    let arena = driver.arena();
    for header in core.headers.drain(..) {
        arena.headers().release(header);
    }
    for conn in core.conns.drain(..) {
        for header in conn.into_headers() {
            arena.headers().release(header);
        }
    }
    arena.headers().assert_all_free();
}
