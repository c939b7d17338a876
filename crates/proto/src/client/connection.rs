//! The connection and the session: connect, log in, resume, evictions, giving up, the end.

use ringmain_wire::{CodeClass, ErrorCode, EvictionReason};

use super::{Client, Heartbeat, Writes};
use crate::action::ConnectionAction;
use crate::alarms::Owner;
use crate::calls::CallKind;
use crate::config::OnLostCoverage;
use crate::error::DriverError;
use crate::eviction::{Reaction, reaction};
use crate::lane::Phase;
use crate::outcome::{Answer, NotSent, Receipt};
use crate::reply::Verdict;
use crate::session::{FatalError, SessionEvent, SessionState};
use crate::stage::Stage;
use crate::{CallKey, Micros};

impl Client {
    /// What to do about the connection, once for each time it is to be done.
    pub fn poll_connection(&mut self, now: Micros) -> Option<ConnectionAction> {
        if !self.session.action_due {
            return None;
        }
        if self.session.state == SessionState::Disconnected {
            self.session.action_due = false;
            self.apply(SessionEvent::Connect);
            self.session.connects_in_row = self.session.connects_in_row.saturating_add(1);
            self.alarms
                .arm(Owner::Session, now.after(self.config.connect_timeout_us));
            return Some(ConnectionAction::Connect);
        }
        if self.session.state.is_closing_connection() {
            self.session.action_due = false;
            return Some(ConnectionAction::Disconnect);
        }
        None
    }

    /// The connection is up. The login follows.
    ///
    /// # Errors
    /// [`DriverError::Session`] when no connect was asked for.
    pub fn handle_connected(&mut self, _now: Micros) -> Result<(), DriverError> {
        self.session.state = self.session.state.on(SessionEvent::Connected)?;
        if self.session.state == SessionState::Connected {
            self.alarms.cancel(Owner::Session);
            self.session.action_due = true;
            self.session.postponed_in_row = 0;
        }
        Ok(())
    }

    /// The connection is down, or could not be made, for whatever reason and whoever ended it; and
    /// nothing of it is in flight: the kernel is done with the memory of every frame.
    ///
    /// # Errors
    /// [`DriverError::Session`] when there was none.
    pub fn handle_disconnected(&mut self, now: Micros) -> Result<(), DriverError> {
        let before = self.session.state;
        self.session.state = before.on(SessionEvent::Disconnected)?;
        // The end of a session that was logged out or shut is no loss.
        if !matches!(before, SessionState::LoggingOut | SessionState::Ending) {
            self.stats.disconnects += 1;
        }
        self.session.heartbeat = Heartbeat::Quiet;
        self.session.action_due = false;
        self.writes = Writes::default();
        self.numbers.lose_connection();
        for owner in [Owner::Session, Owner::Heartbeat, Owner::WriteStall] {
            self.alarms.cancel(owner);
        }
        if self.session.state.is_final() {
            self.alarms.cancel(Owner::Close);
        }
        self.lose_connection_batches(now);
        self.lose_connection_calls();
        if self.session.state == SessionState::Disconnected {
            let failures = self.session.connects_in_row.saturating_sub(1);
            let pause_us = self.reconnect_backoff().pause_us(failures, &mut self.rng);
            self.alarms.arm(Owner::Session, now.after(pause_us));
            self.finish_when_done();
        }
        Ok(())
    }

    /// The server ended the session. Call it instead of, not in addition to, a reply; the
    /// connection is given up.
    pub fn handle_eviction(&mut self, now: Micros, reason: EvictionReason) {
        self.stats.evictions += 1;
        match reaction(reason) {
            Reaction::Resume => self.recycle(),
            Reaction::ResumeUncovered => {
                self.session.coverage_in_doubt = self.session.epoch != 0;
                self.recycle();
            }
            Reaction::BlameCall => match self.blamed_call() {
                Some(key) => {
                    self.decide_call(key, Answer::Evicted { reason });
                    self.recycle();
                }
                None => self.fail(now, FatalError::Evicted(reason)),
            },
            Reaction::Fatal => self.fail(now, FatalError::Evicted(reason)),
        }
        self.finish_when_done();
    }

    /// The call that a "malformed request" can only mean: one that waits for its answer.
    fn blamed_call(&self) -> Option<CallKey> {
        let mut kinds = CallKind::ALL.into_iter();
        kinds.find_map(|kind| {
            self.call_lines
                .current(kind)
                .filter(|&key| self.calls[key].stage == Stage::Awaiting)
        })
    }

    /// The answer to the login.
    pub(super) fn handle_login_reply(&mut self, now: Micros, verdict: Verdict) {
        self.alarms.cancel(Owner::Session);
        match verdict {
            Verdict::LoggedIn { session: 0 } | Verdict::Success | Verdict::Confirmed { .. } => {
                // Nonsense from the peer: a new connection is a new chance.
                self.recycle();
            }
            Verdict::LoggedIn { session } => self.accept_login(now, session),
            Verdict::LoginFailed => self.fail(now, FatalError::LoginFailed),
            Verdict::Refused(code) => self.refuse_login(now, code),
        }
    }

    fn accept_login(&mut self, now: Micros, epoch: u64) {
        let previous = core::mem::replace(&mut self.session.epoch, epoch);
        let is_lost = previous != 0 && (epoch <= previous || self.session.coverage_in_doubt);
        self.session.coverage_in_doubt = false;
        self.apply(SessionEvent::LoginAccepted);
        self.stats.logins += 1;
        self.session.active_at = now;
        self.alarms.arm(
            Owner::Heartbeat,
            now.after(self.config.heartbeat_interval_us),
        );
        if is_lost {
            self.stats.coverage_losses += 1;
            if self.config.on_lost_coverage == OnLostCoverage::Report {
                self.report_uncovered(now);
            }
        }
        self.resume_lanes();
        self.finish_when_done();
    }

    /// Ends what may be stored and can no longer be protected from being stored twice.
    fn report_uncovered(&mut self, now: Micros) {
        for key in self.batches.keys() {
            let request = self.batches[key].request;
            if self.batches[key].stage == Stage::Retry && !request.is_certainly_not_stored() {
                self.decide_batch(
                    now,
                    key,
                    Receipt::Unknown {
                        request: request.number,
                    },
                );
            }
        }
        if let Some(key) = self.call_lines.current(CallKind::Metadata) {
            let request = self.calls[key].request;
            if self.calls[key].stage.is_undecided() && !request.is_certainly_not_stored() {
                self.decide_call(
                    key,
                    Answer::Unknown {
                        request: request.number,
                    },
                );
            }
        }
    }

    fn refuse_login(&mut self, now: Micros, code: ErrorCode) {
        match code.class() {
            CodeClass::NotAdmitted | CodeClass::UnknownOutcome => {
                self.stats.logins_postponed += 1;
                self.apply(SessionEvent::LoginPostponed);
                let failures = self.session.postponed_in_row;
                self.session.postponed_in_row = failures.saturating_add(1);
                let pause_us = self.reconnect_backoff().pause_us(failures, &mut self.rng);
                self.alarms.arm(Owner::Session, now.after(pause_us));
            }
            CodeClass::AlreadyApplied | CodeClass::SessionDead => self.recycle(),
            CodeClass::Permanent => self.fail(now, FatalError::LoginRejected(code)),
        }
    }

    /// Gives the connection up for a new one. While logging out there is no new one.
    pub(super) fn recycle(&mut self) {
        match self.session.state {
            SessionState::Connecting
            | SessionState::Connected
            | SessionState::LoggingIn
            | SessionState::Active => {
                self.apply(SessionEvent::Recycle);
                self.give_up_connection();
            }
            SessionState::LoggingOut => self.end(SessionEvent::Shut),
            _ => {}
        }
    }

    /// Ends the client for good, with a reason.
    pub(super) fn fail(&mut self, now: Micros, error: FatalError) {
        if self.session.state.is_final()
            || matches!(
                self.session.state,
                SessionState::Ending | SessionState::Failing
            )
        {
            return;
        }
        self.session.fatal = Some(error);
        self.end(SessionEvent::Fail);
        self.settle_all(now, NotSent::Failed(error));
    }

    /// Ends the session with `Shut` or `Fail`, from a state that allows it.
    pub(super) fn end(&mut self, event: SessionEvent) {
        let is_closing_connection = self.session.state.is_closing_connection();
        self.apply(event);
        self.alarms.cancel(Owner::Close);
        if self.session.state.is_final() {
            self.session.action_due = false;
            self.alarms.cancel(Owner::Session);
        } else if !is_closing_connection {
            self.give_up_connection();
        }
    }

    fn give_up_connection(&mut self) {
        self.session.action_due = true;
        self.session.heartbeat = Heartbeat::Quiet;
        self.alarms.cancel(Owner::Session);
        self.alarms.cancel(Owner::Heartbeat);
    }

    /// Applies an event that this crate itself decided on: an illegal one is a mistake in here.
    pub(super) fn apply(&mut self, event: SessionEvent) {
        match self.session.state.on(event) {
            Ok(state) => self.session.state = state,
            Err(error) => panic!("{error}"),
        }
    }

    fn lose_connection_batches(&mut self, now: Micros) {
        for lane in self.lanes.keys() {
            if self.lanes[lane].is_open {
                self.lanes[lane].phase = Phase::Flowing;
                self.alarms.cancel(Owner::Lane(lane));
            }
        }
        for key in self.batches.keys() {
            let batch = &mut self.batches[key];
            batch.request.lose_connection();
            let request = batch.request.number;
            match batch.stage {
                Stage::Free | Stage::Queued | Stage::Resolved => {}
                Stage::Held(_) => self.release_batch(now, key),
                _ if batch.request.awaits_nothing_new() => {
                    self.decide_batch(now, key, Receipt::Unknown { request });
                }
                _ => self.retry_batch(now, key),
            }
        }
    }

    fn lose_connection_calls(&mut self) {
        for key in self.calls.keys() {
            let call = &mut self.calls[key];
            call.request.lose_connection();
            let request = call.request.number;
            match call.stage {
                Stage::Free | Stage::Queued | Stage::Resolved => {}
                Stage::Held(_) => self.release_call(key),
                _ if call.request.awaits_nothing_new() => {
                    self.decide_call(key, Answer::Unknown { request });
                }
                _ => self.retry_call(key),
            }
        }
    }
}
