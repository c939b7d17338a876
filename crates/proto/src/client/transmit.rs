//! Which frame goes next, and what follows when it was written.

use super::{Client, Heartbeat};
use crate::action::Transmit;
use crate::alarms::Owner;
use crate::calls::CallKind;
use crate::error::DriverError;
use crate::lane::Turn;
use crate::mutation::Mutation;
use crate::outcome::NotSent;
use crate::pace::growing_us;
use crate::session::{SessionEvent, SessionState};
use crate::stage::{Stage, StageEvent};
use crate::{BatchKey, CallKey, Frame, LaneKey, Micros};

impl Client {
    /// The next frame to write. Its memory must stay untouched until [`Client::handle_written`] or
    /// [`Client::handle_disconnected`].
    pub fn poll_transmit(&mut self, now: Micros) -> Option<Transmit> {
        let transmit = match self.session.state {
            SessionState::Connected if self.session.action_due && !self.writes.login => {
                self.transmit_login(now)
            }
            SessionState::Active => self.transmit_active(now)?,
            _ => return None,
        };
        if self.writes.in_flight == 0 {
            self.writes.progress_at = now;
            if !self.alarms.is_armed(Owner::WriteStall) {
                self.alarms
                    .arm(Owner::WriteStall, now.after(self.config.write_stall_us));
            }
        }
        self.writes.in_flight += 1;
        self.session.active_at = now;
        if self.session.heartbeat == Heartbeat::Due {
            // Not idle any more: this frame proves as much as a ping.
            self.session.heartbeat = Heartbeat::Quiet;
            self.alarms.arm(
                Owner::Heartbeat,
                now.after(self.config.heartbeat_interval_us),
            );
        }
        Some(transmit)
    }

    /// All bytes of the frame were handed to the kernel and the kernel is done with their memory.
    ///
    /// # Errors
    /// [`DriverError::NotWriting`] when no write of the frame was in flight.
    pub fn handle_written(&mut self, now: Micros, frame: Frame) -> Result<(), DriverError> {
        let was_in_flight = match frame {
            Frame::Login => core::mem::take(&mut self.writes.login),
            Frame::Ping => core::mem::take(&mut self.writes.ping),
            Frame::Logout => core::mem::take(&mut self.writes.logout),
            Frame::Batch(key) => {
                self.batches.get(key).is_some() && self.batches[key].request.written(now)
            }
            Frame::Call(key) => {
                self.calls.get(key).is_some() && self.calls[key].request.written(now)
            }
        };
        if !was_in_flight {
            return Err(DriverError::NotWriting(frame));
        }
        self.writes.in_flight -= 1;
        self.handle_write_progress(now);
        match frame {
            Frame::Batch(key) => self.batch_written(now, key),
            Frame::Call(key) => self.call_written(now, key),
            Frame::Login | Frame::Ping | Frame::Logout => {}
        }
        self.finish_when_done();
        Ok(())
    }

    /// Some bytes were handed to the kernel: the connection is not stalled. Needed only for frames
    /// that may take longer than [`crate::Config::write_stall_us`]; [`Client::handle_written`]
    /// counts as progress too.
    pub fn handle_write_progress(&mut self, now: Micros) {
        self.writes.progress_at = now;
    }

    fn batch_written(&mut self, now: Micros, key: BatchKey) {
        let batch = &self.batches[key];
        match batch.stage {
            Stage::Held(_) => self.release_batch(now, key),
            Stage::Awaiting => self.arm_silence(now, key),
            _ => self.settle_lane(now, batch.lane),
        }
    }

    fn call_written(&mut self, now: Micros, key: CallKey) {
        let call = &self.calls[key];
        match call.stage {
            Stage::Held(_) => self.release_call(key),
            Stage::Awaiting => self.arm_patience(now, key),
            _ => {}
        }
    }

    /// A call's silence ends with the request timeout, longer each time, or with the deadline if
    /// that is earlier.
    pub(super) fn arm_patience(&mut self, now: Micros, key: CallKey) {
        let request = &self.calls[key].request;
        let timeout_us = self.config.request_timeout_us;
        let patience_us = growing_us(timeout_us, request.silences, timeout_us);
        let at = request.deadline.min(now.after(patience_us));
        self.alarms.arm(Owner::Call(key), at);
    }

    fn transmit_login(&mut self, now: Micros) -> Transmit {
        self.session.action_due = false;
        self.apply(SessionEvent::LoginSent);
        self.alarms
            .arm(Owner::Session, now.after(self.config.login_timeout_us));
        self.writes.login = true;
        Transmit::Login
    }

    fn transmit_active(&mut self, now: Micros) -> Option<Transmit> {
        for kind in CallKind::ALL {
            if let Some(transmit) = self.transmit_call(now, kind) {
                return Some(transmit);
            }
        }
        while self.awaiting < self.progress.open_max
            && let Some(lane) = self.turns.next()
        {
            if let Some(transmit) = self.transmit_lane(now, lane) {
                return Some(transmit);
            }
        }
        if self.session.heartbeat == Heartbeat::Due
            && !self.writes.ping
            && self.call_lines.current(CallKind::Read).is_none()
        {
            return Some(self.transmit_ping(now));
        }
        if self.session.closing.is_some() && self.unresolved == 0 {
            return self.transmit_logout(now);
        }
        None
    }

    fn transmit_call(&mut self, now: Micros, kind: CallKind) -> Option<Transmit> {
        loop {
            let key = self.call_lines.turn(&self.calls, kind)?;
            if self.calls[key].request.deadline <= now {
                self.give_up_call(key, self.overdue_reason(now));
                continue;
            }
            if !self.stamp_call(key, kind) {
                self.give_up_call(key, NotSent::NumbersExhausted);
                continue;
            }
            if self.call_lines.current(kind).is_none() {
                self.call_lines.promote(kind);
            }
            let session = self.session.epoch;
            let call = &mut self.calls[key];
            call.stage.apply(StageEvent::Transmit);
            let attempt = call.request.hand_over(now);
            let (operation, code, request) = (call.operation, call.code, call.request.number);
            self.stats.calls_sent += 1;
            self.end_range(now);
            return Some(Transmit::Call {
                key,
                operation,
                code,
                request,
                session,
                attempt,
            });
        }
    }

    /// Gives a call its number: a metadata call once, a read anew unless a transmission on this
    /// connection may still be answered. `false` when no number is left.
    fn stamp_call(&mut self, key: CallKey, kind: CallKind) -> bool {
        let request = &mut self.calls[key].request;
        let number = match kind {
            CallKind::Metadata if request.number == 0 => self.numbers.take(),
            CallKind::Read if !request.may_be_answered() => self.numbers.repeat_for_read(),
            CallKind::Metadata | CallKind::Read => Some(request.number),
        };
        request.number = number.unwrap_or(request.number);
        number.is_some()
    }

    fn transmit_lane(&mut self, now: Micros, lane: LaneKey) -> Option<Transmit> {
        let turn = self.lanes[lane].turn(&self.batches, self.rules());
        let (Turn::Retry(key) | Turn::New(key)) = turn else {
            self.lane_moved(lane);
            return None;
        };
        if self.deadline(key) <= now {
            // The lane asks for its next turn by itself.
            self.give_up_batch(now, key, self.overdue_reason(now));
            return None;
        }
        if turn == Turn::New(key) {
            let number = self.numbers.take()?;
            self.enter_window(lane, key, number);
        } else {
            self.step_batch(key, StageEvent::Transmit);
            let cause = self.batches[key].request.resend_cause.take();
            self.stats.resent(cause);
            if self.faults.commits(Mutation::NewNumberOnRetry) {
                self.renumber(key);
            }
        }
        let session = self.session.epoch;
        let request = &mut self.batches[key].request;
        let attempt = request.hand_over(now);
        let number = request.number;
        self.alarms.arm(Owner::Batch(key), self.deadline(key));
        self.lane_moved(lane);
        self.end_range(now);
        Some(Transmit::Batch {
            key,
            lane,
            request: number,
            session,
            attempt,
        })
    }

    fn enter_window(&mut self, lane: LaneKey, key: BatchKey, number: u64) {
        self.batches[key].request.number = number;
        self.lanes[lane].enter(&mut self.batches, key);
        self.step_batch(key, StageEvent::Transmit);
        self.pending.insert(number, key);
        self.stats.batches_sent += 1;
    }

    /// The fault of giving a retry a new number.
    fn renumber(&mut self, key: BatchKey) {
        if let Some(number) = self.numbers.take() {
            self.pending.remove(self.batches[key].request.number);
            self.batches[key].request.number = number;
            self.pending.insert(number, key);
        }
    }

    /// After the last number was taken: what waits for one will never get it.
    fn end_range(&mut self, now: Micros) {
        if self.numbers.is_exhausted() {
            self.settle_unnumbered(now);
        }
    }

    fn transmit_ping(&mut self, now: Micros) -> Transmit {
        let request = self.numbers.repeat_for_ping();
        self.session.heartbeat = Heartbeat::Asked { request, at: now };
        // Silence for a request timeout only means "send again". A connection is given up for
        // nothing less than an interval in which the server said nothing at all.
        let patience_us = self
            .config
            .heartbeat_interval_us
            .max(self.config.request_timeout_us);
        self.alarms.arm(Owner::Heartbeat, now.after(patience_us));
        self.writes.ping = true;
        self.stats.pings_sent += 1;
        Transmit::Ping {
            request,
            session: self.session.epoch,
        }
    }

    fn transmit_logout(&mut self, now: Micros) -> Option<Transmit> {
        let Some(request) = self.numbers.take_for_logout() else {
            self.end(SessionEvent::Shut);
            return None;
        };
        self.session.logout_request = request;
        self.apply(SessionEvent::LogoutSent);
        self.session.heartbeat = Heartbeat::Quiet;
        self.alarms.cancel(Owner::Heartbeat);
        self.alarms
            .arm(Owner::Session, now.after(self.config.login_timeout_us));
        self.writes.logout = true;
        Some(Transmit::Logout {
            request,
            session: self.session.epoch,
        })
    }
}
