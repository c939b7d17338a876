//! Time: patience that ends, pauses that are over, deadlines.

use super::{Client, Heartbeat};
use crate::alarms::Owner;
use crate::lane::Phase;
use crate::outcome::{Answer, NotSent};
use crate::session::{SessionEvent, SessionState};
use crate::stage::Stage;
use crate::{BatchKey, CallKey, LaneKey, Micros};

impl Client {
    /// When [`Client::handle_timeout`] is to be called at the latest, `None` when nothing waits for
    /// time.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Micros> {
        self.alarms.earliest()
    }

    /// Time has passed. Cheap when nothing is due; calling it too often or too late is harmless.
    pub fn handle_timeout(&mut self, now: Micros) {
        while let Some(owner) = self.alarms.pop_due(now) {
            match owner {
                Owner::Session => self.session_alarm(),
                Owner::Heartbeat => self.heartbeat_alarm(now),
                Owner::WriteStall => self.write_stall_alarm(now),
                Owner::Close => self.close_alarm(now),
                Owner::Lane(key) => self.lane_alarm(key),
                Owner::Call(key) => self.call_alarm(now, key),
                Owner::Batch(key) => self.batch_alarm(now, key),
            }
        }
        self.finish_when_done();
    }

    fn session_alarm(&mut self) {
        match self.session.state {
            SessionState::Disconnected | SessionState::Connected => self.session.action_due = true,
            SessionState::Connecting | SessionState::LoggingIn | SessionState::LoggingOut => {
                self.stats.session_timeouts += 1;
                self.recycle();
            }
            _ => {}
        }
    }

    fn heartbeat_alarm(&mut self, now: Micros) {
        if let Heartbeat::Asked { at, .. } = self.session.heartbeat {
            if self.session.heard_at <= at {
                self.stats.heartbeat_timeouts += 1;
                return self.recycle();
            }
            // Its own answer is missing, but the server is there.
            self.session.heartbeat = Heartbeat::Quiet;
        }
        let due_at = self
            .session
            .active_at
            .after(self.config.heartbeat_interval_us);
        if due_at > now {
            self.alarms.arm(Owner::Heartbeat, due_at);
        } else {
            self.session.heartbeat = Heartbeat::Due;
        }
    }

    fn write_stall_alarm(&mut self, now: Micros) {
        if self.writes.in_flight == 0 || self.session.state.is_closing_connection() {
            return;
        }
        let stalled_at = self.writes.progress_at.after(self.config.write_stall_us);
        if stalled_at > now {
            self.alarms.arm(Owner::WriteStall, stalled_at);
        } else {
            self.stats.write_stalls += 1;
            self.recycle();
        }
    }

    /// Why what is overdue was not sent.
    pub(super) fn overdue_reason(&self, now: Micros) -> NotSent {
        match self.session.closing {
            Some(closing) if closing <= now => NotSent::Closed,
            _ => NotSent::Deadline,
        }
    }

    pub(super) fn close_alarm(&mut self, now: Micros) {
        self.settle_all(now, NotSent::Closed);
        match self.session.state {
            SessionState::Active | SessionState::LoggingOut => self.end(SessionEvent::Shut),
            _ => {}
        }
    }

    fn lane_alarm(&mut self, key: LaneKey) {
        if self.lanes[key].phase == Phase::Pausing {
            self.lanes[key].phase = Phase::Flowing;
            self.lane_moved(key);
        }
    }

    fn batch_alarm(&mut self, now: Micros, key: BatchKey) {
        let deadline = self.deadline(key);
        if deadline <= now {
            // A close brings all deadlines forward to its own, so the first that is met decides for
            // all.
            return match self.overdue_reason(now) {
                NotSent::Closed => self.close_alarm(now),
                reason => self.give_up_batch(now, key, reason),
            };
        }
        let batch = &self.batches[key];
        if batch.stage != Stage::Awaiting || batch.request.write_in_flight() {
            // Progress ahead of it has moved its deadline.
            self.alarms.arm(Owner::Batch(key), deadline);
        } else if self.is_silent(now, key) {
            self.resend_silent(now, key);
        } else {
            self.arm_silence(now, key);
        }
    }

    fn call_alarm(&mut self, now: Micros, key: CallKey) {
        let call = &self.calls[key];
        if call.request.deadline <= now {
            return match self.overdue_reason(now) {
                NotSent::Closed => self.close_alarm(now),
                reason => self.give_up_call(key, reason),
            };
        }
        match call.stage {
            Stage::Awaiting => {
                self.stats.silences += 1;
                let call = &mut self.calls[key];
                call.request.silences = call.request.silences.saturating_add(1);
                if call.request.awaits_nothing_new() {
                    let request = call.request.number;
                    return self.decide_call(key, Answer::Unknown { request });
                }
            }
            Stage::Pausing => {}
            stage => unreachable!("before the deadline nothing rings in {stage:?}"),
        }
        self.retry_call(key);
    }
}
