//! Ends of batches and calls: deciding, holding back while a write is in flight, resolving; and
//! what follows for the lane and for a close.

use super::Client;
use crate::alarms::Owner;
use crate::batch::Batch;
use crate::calls::CallKind;
use crate::lane::{HeldBy, Phase, Turn};
use crate::mutation::Mutation;
use crate::outcome::{Answer, NotSent, Outcome, Receipt};
use crate::request::{GivenUp, Request};
use crate::session::{SessionEvent, SessionState};
use crate::stage::{Stage, StageEvent};
use crate::{BatchKey, CallKey, LaneKey, Micros, Ordering};

impl Client {
    /// Decides a batch, or decides it better. Its outcome is given now, or once no write of it is
    /// in flight.
    pub(super) fn decide_batch(&mut self, now: Micros, key: BatchKey, receipt: Receipt) {
        let lane = self.batches[key].lane;
        self.alarms.cancel(Owner::Batch(key));
        if let (Stage::Queued, Receipt::NotSent { reason }) = (self.batches[key].stage, receipt) {
            let behind = self.batches.behind(key);
            self.decide_queued(key, reason);
            self.halt_lane(lane, behind);
            return self.settle_lane(now, lane);
        }
        self.step_batch(key, StageEvent::Decide(receipt));
        let is_free = !self.batches[key].request.write_in_flight();
        if is_free || self.faults.commits(Mutation::EarlyFree) {
            self.release_batch(now, key);
        } else {
            self.settle_lane(now, lane);
        }
    }

    /// Ends a batch that was never sent, and nothing else: what waits behind it is the caller's
    /// business.
    pub(super) fn decide_queued(&mut self, key: BatchKey, reason: NotSent) {
        let receipt = Receipt::NotSent { reason };
        self.alarms.cancel(Owner::Batch(key));
        let lane = self.batches[key].lane;
        self.lanes[lane].queue.remove(&mut self.batches, key);
        self.batches[key].stage.apply(StageEvent::Decide(receipt));
        self.resolve_batch(key, receipt);
    }

    /// A batch of the lane is not stored. In strict order nothing behind it is sent: those that
    /// wait, from `behind` on, end now, and what comes later ends when it is submitted.
    fn halt_lane(&mut self, lane: LaneKey, behind: Option<BatchKey>) {
        if self.lanes[lane].config.ordering == Ordering::Strict {
            self.lanes[lane].is_halted = !self.faults.commits(Mutation::HaltForgotten);
            if !self.faults.commits(Mutation::HaltSparesQueue) {
                self.end_queue(behind, NotSent::BehindUnstored);
            }
        }
    }

    /// Ends what waits in a queue, from one batch to the last.
    pub(super) fn end_queue(&mut self, from: Option<BatchKey>, reason: NotSent) {
        let mut next = from;
        while let Some(key) = next {
            next = self.batches.behind(key);
            self.decide_queued(key, reason);
        }
    }

    /// Gives the outcome of a decided batch of a window.
    pub(super) fn release_batch(&mut self, now: Micros, key: BatchKey) {
        let Batch {
            stage: Stage::Held(receipt),
            lane,
            request,
            ..
        } = self.batches[key]
        else {
            unreachable!("only decided batches are released");
        };
        self.lanes[lane].leave(key);
        self.pending.remove(request.number);
        self.resolve_batch(key, receipt);
        let is_spared = matches!(receipt, Receipt::Unknown { .. })
            && self.faults.commits(Mutation::UnknownDoesNotHalt);
        if !receipt.is_stored() && !is_spared {
            self.halt_lane(lane, self.lanes[lane].queue.head());
        }
        self.settle_lane(now, lane);
    }

    fn resolve_batch(&mut self, key: BatchKey, receipt: Receipt) {
        let batch = &mut self.batches[key];
        batch.stage.apply(StageEvent::Release);
        let outcome = Outcome::Batch {
            key,
            lane: batch.lane,
            records: batch.records,
            receipt,
        };
        self.account.settle(batch.records, receipt);
        self.unresolved -= 1;
        self.outcomes.push_back(outcome);
        if self.faults.commits(Mutation::ReceiptTwice) {
            self.outcomes.push_back(outcome);
        }
    }

    /// Decides a call. Its outcome is given now, or once no write of it is in flight.
    pub(super) fn decide_call(&mut self, key: CallKey, answer: Answer) {
        self.alarms.cancel(Owner::Call(key));
        self.calls[key].stage.apply(StageEvent::Decide(answer));
        if !self.calls[key].request.write_in_flight() {
            self.release_call(key);
        }
    }

    /// Gives the outcome of a decided call.
    pub(super) fn release_call(&mut self, key: CallKey) {
        let Stage::Held(answer) = self.calls[key].stage else {
            unreachable!("only decided calls are released");
        };
        self.call_lines.leave(self.calls[key].kind, key);
        self.calls[key].stage.apply(StageEvent::Release);
        self.unresolved -= 1;
        self.outcomes.push_back(Outcome::Call { key, answer });
    }

    /// Gives a batch up.
    pub(super) fn give_up_batch(&mut self, now: Micros, key: BatchKey, reason: NotSent) {
        let receipt = give_up_receipt(&self.batches[key].request, reason);
        self.decide_batch(now, key, receipt);
    }

    /// Gives a call up.
    pub(super) fn give_up_call(&mut self, key: CallKey, reason: NotSent) {
        let call = &self.calls[key];
        let answer = match call.request.give_up(reason) {
            // Of a read there is only one thing to tell: it was sent and not answered.
            GivenUp::NotSent(_) if call.kind == CallKind::Read && call.request.was_sent() => {
                Answer::Unknown {
                    request: call.request.number,
                }
            }
            GivenUp::NotSent(reason) => Answer::NotSent { reason },
            GivenUp::Unknown => Answer::Unknown {
                request: call.request.number,
            },
        };
        self.decide_call(key, answer);
    }

    /// Gives everything up.
    pub(super) fn settle_all(&mut self, now: Micros, reason: NotSent) {
        self.settle_strict_queues(reason);
        for key in self.batches.keys() {
            if self.batches[key].stage.is_undecided() {
                self.give_up_batch(now, key, reason);
            }
        }
        for key in self.calls.keys() {
            if self.calls[key].stage.is_undecided() {
                self.give_up_call(key, reason);
            }
        }
        self.finish_when_done();
    }

    /// Gives up what waits in strict lanes, first: one by one, each would take those behind it
    /// along for another reason.
    fn settle_strict_queues(&mut self, reason: NotSent) {
        for key in self.lanes.keys() {
            let lane = &mut self.lanes[key];
            let head = lane.queue.head();
            if lane.config.ordering == Ordering::Strict && head.is_some() {
                lane.is_halted = true;
                self.end_queue(head, reason);
            }
        }
    }

    /// Gives up what has no number, because none is left.
    pub(super) fn settle_unnumbered(&mut self, now: Micros) {
        self.settle_strict_queues(NotSent::NumbersExhausted);
        for key in self.batches.keys() {
            if self.batches[key].stage == Stage::Queued {
                self.give_up_batch(now, key, NotSent::NumbersExhausted);
            }
        }
        for key in self.calls.keys() {
            if self.calls[key].stage == Stage::Queued {
                self.give_up_call(key, NotSent::NumbersExhausted);
            }
        }
    }

    /// Brings deadlines forward to the deadline of the close.
    pub(super) fn cap_deadlines(&mut self, deadline: Micros) {
        for key in self.batches.keys() {
            if self.batches[key].stage.is_undecided() {
                let request = &mut self.batches[key].request;
                if request.progress_us == 0 {
                    request.deadline = request.deadline.min(deadline);
                }
                self.alarms.bring_forward(Owner::Batch(key), deadline);
            }
        }
        for key in self.calls.keys() {
            if self.calls[key].stage.is_undecided() {
                let request = &mut self.calls[key].request;
                request.deadline = request.deadline.min(deadline);
                self.alarms.bring_forward(Owner::Call(key), deadline);
            }
        }
    }

    /// Moves a lane on after its window changed: from draining to the pause, and into the queue for
    /// a turn.
    pub(super) fn settle_lane(&mut self, now: Micros, key: LaneKey) {
        let lane = &mut self.lanes[key];
        if lane.phase == Phase::Draining && lane.awaiting == 0 {
            if lane.retry == 0 {
                lane.phase = Phase::Flowing;
            } else {
                lane.phase = Phase::Pausing;
                let failures = lane.refusals_in_row;
                lane.refusals_in_row = failures.saturating_add(1);
                let pause_us = self.refusal_backoff().pause_us(failures, &mut self.rng);
                self.alarms.arm(Owner::Lane(key), now.after(pause_us));
            }
        }
        self.lane_moved(key);
    }

    /// Queues a lane for a turn if it has something to send; counts it if a law holds it back.
    pub(super) fn lane_moved(&mut self, key: LaneKey) {
        let rules = self.rules();
        let lane = &mut self.lanes[key];
        let held_by = match lane.turn(&self.batches, rules) {
            Turn::Retry(_) | Turn::New(_) => return self.turns.ask(key),
            Turn::WindowFull => Some(HeldBy::Window),
            Turn::SpanFull => Some(HeldBy::Span),
            Turn::Nothing => None,
        };
        if held_by != core::mem::replace(&mut lane.held_by, held_by) {
            self.stats.window_waits += u64::from(held_by == Some(HeldBy::Window));
            self.stats.span_waits += u64::from(held_by == Some(HeldBy::Span));
        }
    }

    /// Ends a close once nothing is unresolved. An active session is ended by its logout instead.
    pub(super) fn finish_when_done(&mut self) {
        if self.session.closing.is_none() || self.unresolved > 0 {
            return;
        }
        match self.session.state {
            SessionState::Disconnected
            | SessionState::Connecting
            | SessionState::Connected
            | SessionState::LoggingIn
            | SessionState::Recycling => self.end(SessionEvent::Shut),
            _ => {}
        }
    }
}

fn give_up_receipt(request: &Request, reason: NotSent) -> Receipt {
    match request.give_up(reason) {
        GivenUp::NotSent(reason) => Receipt::NotSent { reason },
        GivenUp::Unknown => Receipt::Unknown {
            request: request.number,
        },
    }
}
