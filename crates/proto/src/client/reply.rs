//! Replies: whom they are for and what follows.

use ringmain_wire::{CodeClass, Operation};

use super::{Client, Heartbeat};
use crate::alarms::Owner;
use crate::calls::CallKind;
use crate::lane::Phase;
use crate::outcome::{Answer, NotSent, Receipt};
use crate::reply::{Echo, Reply, ReplyMatch, Verdict};
use crate::request::{Judgement, RefusalKind, ResendCause, Success};
use crate::session::{SessionEvent, SessionState};
use crate::stage::{Stage, StageEvent};
use crate::{BatchKey, CallKey, Micros};

impl Client {
    /// A reply arrived on the connection that is up. What it says about a request holds; a reply
    /// that matches nothing is counted and changes nothing.
    pub fn handle_reply(&mut self, now: Micros, reply: &Reply) -> ReplyMatch {
        self.session.heard_at = now;
        let matched = match reply.operation.client_operation() {
            Operation::Register => self.match_login(now, reply),
            Operation::Logout => self.match_logout(reply),
            Operation::SendMessages => self.match_batch(now, reply),
            operation => self.match_call(now, operation, reply),
        };
        match matched {
            ReplyMatch::Late => self.stats.replies_late += 1,
            ReplyMatch::Foreign => self.stats.replies_foreign += 1,
            // No progress: a session that ends again and again right after its login must not
            // hurry.
            ReplyMatch::Login => {}
            _ if self.session.state != SessionState::Active => {}
            _ => self.session.connects_in_row = 0,
        }
        self.finish_when_done();
        matched
    }

    fn match_login(&mut self, now: Micros, reply: &Reply) -> ReplyMatch {
        if reply.request != 0 {
            return ReplyMatch::Foreign;
        }
        if self.session.state != SessionState::LoggingIn {
            return ReplyMatch::Late;
        }
        self.handle_login_reply(now, reply.verdict);
        ReplyMatch::Login
    }

    fn match_logout(&mut self, reply: &Reply) -> ReplyMatch {
        if self.session.state != SessionState::LoggingOut
            || reply.request != self.session.logout_request
        {
            return unmatched(reply.request <= self.numbers.next());
        }
        self.end(SessionEvent::Shut);
        ReplyMatch::Logout
    }

    fn match_batch(&mut self, now: Micros, reply: &Reply) -> ReplyMatch {
        let Some(key) = self.pending.find(reply.request) else {
            return unmatched(reply.request < self.numbers.next());
        };
        let stage = self.batches[key].stage;
        let judgement = self.batches[key].request.judge(reply.verdict, reply.echo);
        if judgement == Judgement::SessionLost {
            self.recycle();
        }
        if judgement != Judgement::Late {
            self.progress.open_max = self.progress.open_max.saturating_add(1);
        }
        if matches!(judgement, Judgement::Done(_) | Judgement::Rejected(_)) {
            self.note_progress(now, key);
        }
        if let Stage::Held(receipt) = stage {
            return self.improve_held(now, key, receipt, judgement);
        }
        match judgement {
            Judgement::Late => return ReplyMatch::Late,
            Judgement::Done(success) => self.confirm_batch(now, key, success),
            Judgement::Rejected(code) => self.decide_batch(now, key, Receipt::Rejected { code }),
            Judgement::Unknown(_) => self.decide_batch(
                now,
                key,
                Receipt::Unknown {
                    request: reply.request,
                },
            ),
            Judgement::Wait(_) => self.await_others(now, key),
            Judgement::Refused(kind) => self.refuse_batch(now, key, kind),
            Judgement::SessionLost => self.retry_batch(now, key),
        }
        ReplyMatch::Batch(key)
    }

    /// An answer that comes after the batch was decided but before its receipt was told. A success
    /// always holds; any other answer only improves on `Unknown`.
    fn improve_held(
        &mut self,
        now: Micros,
        key: BatchKey,
        receipt: Receipt,
        judgement: Judgement,
    ) -> ReplyMatch {
        match (receipt, judgement) {
            (Receipt::Stored { .. } | Receipt::StoredOffsetUnknown, _) | (_, Judgement::Late) => {
                return ReplyMatch::Late;
            }
            (_, Judgement::Done(success)) => self.confirm_batch(now, key, success),
            (Receipt::Unknown { .. }, Judgement::Rejected(code)) => {
                self.decide_batch(now, key, Receipt::Rejected { code });
            }
            (Receipt::Unknown { .. }, _) => self.give_up_batch(now, key, NotSent::Refused),
            _ => return ReplyMatch::Late,
        }
        ReplyMatch::Batch(key)
    }

    fn confirm_batch(&mut self, now: Micros, key: BatchKey, success: Success) {
        let (receipt, offset) = match success {
            Success::Confirmed {
                partition_id,
                base_offset,
            } => (
                Receipt::Stored {
                    partition_id,
                    base_offset,
                },
                Some(base_offset),
            ),
            Success::Plain | Success::AlreadyApplied => (Receipt::StoredOffsetUnknown, None),
        };
        self.count_overtaking(key, offset);
        self.lanes[self.batches[key].lane].refusals_in_row = 0;
        self.decide_batch(now, key, receipt);
    }

    /// Counts what the confirmation of a batch shows to be out of order, or cannot show to be in
    /// order.
    fn count_overtaking(&mut self, key: BatchKey, offset: Option<u64>) {
        let batch = &self.batches[key];
        let lane = &mut self.lanes[batch.lane];
        let (number, is_in_order) = (batch.request.number, batch.is_in_order(offset));
        let is_in_doubt = batch.request.is_order_in_doubt(offset.is_some());
        let (mut oldest, mut newest) = (number, number);
        for &other in lane.window.keys() {
            let other = &mut self.batches[other];
            oldest = oldest.min(other.request.number);
            newest = newest.max(other.request.number);
            if other.request.number < number {
                let offset = offset.unwrap_or(0);
                let bound = other.below_offset.get_or_insert(offset);
                *bound = offset.min(*bound);
            }
        }
        lane.doubts.expire(oldest);
        let overtaken_before = lane.doubts.settle(number, offset);
        if is_in_order && is_in_doubt && newest > number {
            lane.doubts.add(number, offset, newest);
        }
        self.stats.overtaken += u64::from(!is_in_order) + u64::from(overtaken_before);
    }

    /// Law W7: the lane drains, pauses and goes on with this request, in its order.
    fn refuse_batch(&mut self, now: Micros, key: BatchKey, kind: RefusalKind) {
        match kind {
            RefusalKind::NotAdmitted => self.stats.refusals_not_admitted += 1,
            RefusalKind::UnknownOutcome => self.stats.refusals_unknown_outcome += 1,
        }
        // An answer ends a row of silences.
        self.batches[key].request.silences = 0;
        let lane = self.batches[key].lane;
        if self.lanes[lane].phase == Phase::Flowing {
            self.lanes[lane].phase = Phase::Draining;
        }
        self.batches[key].request.resend_cause = Some(ResendCause::Refused(kind));
        self.retry_batch(now, key);
    }

    /// Puts a batch among those to be sent again.
    pub(super) fn retry_batch(&mut self, now: Micros, key: BatchKey) {
        if self.batches[key].request.is_withdrawn() {
            return self.give_up_batch(now, key, NotSent::Withdrawn);
        }
        let lane = self.batches[key].lane;
        self.step_batch(key, StageEvent::Resend);
        self.alarms.arm(Owner::Batch(key), self.deadline(key));
        self.settle_lane(now, lane);
    }

    /// Refused for good, but other transmissions are still unanswered: wait as long as for a silent
    /// request.
    fn await_others(&mut self, now: Micros, key: BatchKey) {
        let lane = self.batches[key].lane;
        self.step_batch(key, StageEvent::AwaitOthers);
        let request = &mut self.batches[key].request;
        (request.written_at, request.silences) = (now, 0);
        self.arm_silence(now, key);
        // It may have been the lane's last retry, and what is new need not wait behind it any more.
        self.settle_lane(now, lane);
    }

    fn match_call(&mut self, now: Micros, operation: Operation, reply: &Reply) -> ReplyMatch {
        let Some(kind) = CallKind::of(operation) else {
            return ReplyMatch::Foreign;
        };
        let current = self.call_lines.current(kind).filter(|&key| {
            let call = &self.calls[key];
            call.operation == operation
                && call.request.number == reply.request
                && reply.request != 0
        });
        let Some(key) = current else {
            return self.match_ping(now, operation, reply);
        };
        if !self.calls[key].stage.is_undecided() {
            return ReplyMatch::Late;
        }
        let judgement = match (kind, reply.echo, reply.verdict) {
            // The metadata log keeps one result for a number and gives it to every transmission.
            (CallKind::Metadata, Echo::ServerTime, Verdict::Refused(code))
                if code.class() == CodeClass::Permanent =>
            {
                Judgement::Rejected(code)
            }
            _ => self.calls[key].request.judge(reply.verdict, reply.echo),
        };
        match judgement {
            Judgement::Late => return ReplyMatch::Late,
            Judgement::Done(Success::AlreadyApplied) => {
                self.decide_call(key, Answer::AlreadyApplied);
            }
            Judgement::Done(_) => {
                self.decide_call(key, Answer::Answered);
                return ReplyMatch::Call {
                    key,
                    answered: true,
                };
            }
            Judgement::Rejected(code) => self.decide_call(key, Answer::Rejected { code }),
            // A read leaves nothing behind, so its refusal is the whole answer.
            Judgement::Unknown(code) | Judgement::Wait(code) if kind == CallKind::Read => {
                self.decide_call(key, Answer::Rejected { code });
            }
            Judgement::Unknown(_) => self.decide_call(
                key,
                Answer::Unknown {
                    request: reply.request,
                },
            ),
            Judgement::Wait(_) => {
                let call = &mut self.calls[key];
                call.stage.apply(StageEvent::AwaitOthers);
                self.arm_patience(now, key);
            }
            Judgement::Refused(_) => self.pause_call(now, key),
            Judgement::SessionLost => {
                self.retry_call(key);
                self.recycle();
            }
        }
        ReplyMatch::Call {
            key,
            answered: false,
        }
    }

    fn match_ping(&mut self, now: Micros, operation: Operation, reply: &Reply) -> ReplyMatch {
        let Heartbeat::Asked { request, at } = self.session.heartbeat else {
            return unmatched(reply.request <= self.numbers.next());
        };
        if operation != Operation::NonReplicated || request != reply.request {
            return unmatched(reply.request <= self.numbers.next());
        }
        self.note_heard(at);
        self.session.heartbeat = Heartbeat::Quiet;
        self.alarms.arm(
            Owner::Heartbeat,
            now.after(self.config.heartbeat_interval_us),
        );
        ReplyMatch::Ping
    }

    /// Has a call sent again.
    pub(super) fn retry_call(&mut self, key: CallKey) {
        let call = &mut self.calls[key];
        call.stage.apply(StageEvent::Resend);
        let deadline = call.request.deadline;
        self.alarms.arm(Owner::Call(key), deadline);
    }

    fn pause_call(&mut self, now: Micros, key: CallKey) {
        let failures = self.calls[key].refusals_in_row;
        self.calls[key].refusals_in_row = failures.saturating_add(1);
        let pause_us = self.refusal_backoff().pause_us(failures, &mut self.rng);
        let at = self.calls[key].request.deadline.min(now.after(pause_us));
        self.calls[key].stage.apply(StageEvent::Pause);
        self.alarms.arm(Owner::Call(key), at);
    }
}

/// A number that was used is late, one of the future was never sent.
const fn unmatched(was_used: bool) -> ReplyMatch {
    if was_used {
        ReplyMatch::Late
    } else {
        ReplyMatch::Foreign
    }
}
