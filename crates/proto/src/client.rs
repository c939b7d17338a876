//! The facade: state, construction, the caller's verbs and the getters. What happens on events is
//! in the modules below, by kind of event.

mod connection;
mod invariants;
mod progress;
mod reply;
mod settle;
mod timeout;
mod transmit;

use alloc::collections::VecDeque;

use ringmain_wire::{CommandCode, Operation};

use crate::alarms::{Alarms, Owner};
use crate::backoff::{Backoff, Rng};
use crate::batch::{self, Batches};
use crate::calls::{self, CallKind, CallLines, Calls};
use crate::error::{CallError, Ended, LaneError, SubmitError};
use crate::lane::{Lane, Lanes, Rules, Turns};
use crate::limits::REQUEST_SPAN_MAX;
use crate::mutation::{Faults, Mutation};
use crate::numbers::Numbers;
use crate::outcome::{Account, NotSent, Outcome, Receipt};
use crate::pending::Pending;
use crate::session::{FatalError, SessionState};
use crate::stage::Stage;
use crate::stats::Stats;
use crate::{
    BatchKey, CallKey, Config, ConfigError, Deadline, LaneConfig, LaneKey, Micros, Ordering,
};

/// One logical client: an id for life, one session at a time, over successive connections.
///
/// See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Client {
    config: Config,
    session: Session,
    numbers: Numbers,
    lanes: Lanes,
    turns: Turns,
    batches: Batches,
    /// Request numbers of all windows.
    pending: Pending,
    calls: Calls,
    call_lines: CallLines,
    alarms: Alarms,
    writes: Writes,
    outcomes: VecDeque<Outcome>,
    account: Account,
    /// Batches and calls that are accepted and not resolved.
    unresolved: u32,
    /// Batches that wait for an answer, of all lanes.
    awaiting: u32,
    progress: Progress,
    stats: Stats,
    rng: Rng,
    faults: Faults,
}

/// The session's data beside its state.
#[derive(Debug)]
struct Session {
    state: SessionState,
    /// Whether the one thing that the state asks of the driver was not handed out yet: to connect
    /// (`Disconnected`, after the pause), to log in (`Connected`, after the pause), to disconnect
    /// (`Recycling`, `Ending`, `Failing`).
    action_due: bool,
    /// Epoch of the last accepted login, 0 before the first.
    epoch: u64,
    /// Whether the server said that it forgot this client, since the last login.
    coverage_in_doubt: bool,
    /// Connections since the last sign of progress.
    connects_in_row: u32,
    /// Logins refused for now on this connection.
    postponed_in_row: u32,
    heartbeat: Heartbeat,
    /// When a frame was handed over last.
    active_at: Micros,
    /// When the peer was heard last, whatever it said.
    heard_at: Micros,
    /// Number of the logout, while `LoggingOut`.
    logout_request: u64,
    /// `Some` exactly while `Failing` or `Failed`.
    fatal: Option<FatalError>,
    /// The deadline of the close, once the client is closing.
    closing: Option<Micros>,
}

/// Where the heartbeat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heartbeat {
    /// Counting idle time.
    Quiet,
    /// To be sent.
    Due,
    /// Sent under this number at this time, not answered.
    Asked { request: u64, at: Micros },
}

/// How far the server has come, on all lanes together.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// No request below this number is undecided.
    oldest: u64,
    /// When the oldest undecided request was answered for good last.
    oldest_at: Micros,
    /// When the frame was handed over that was sent last of those that are answered: the server has
    /// read what was sent before it.
    heard_behind: Micros,
    /// Batches that may wait for an answer. After a lost connection one, and one more with each
    /// answer: a path that carries less than all of them before it breaks again would otherwise
    /// carry the same ones each time.
    open_max: u32,
}

/// Frames in the driver's hands.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    in_flight: u32,
    login: bool,
    ping: bool,
    logout: bool,
    /// When the driver last reported progress of a write, or took the first.
    progress_at: Micros,
}

impl Client {
    /// A client that wants its first connection at once. Allocates all tables; nothing allocates
    /// later.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            session: Session {
                state: SessionState::Disconnected,
                action_due: true,
                epoch: 0,
                coverage_in_doubt: false,
                connects_in_row: 0,
                postponed_in_row: 0,
                heartbeat: Heartbeat::Quiet,
                active_at: Micros::ZERO,
                heard_at: Micros::ZERO,
                logout_request: 0,
                fatal: None,
                closing: None,
            },
            numbers: Numbers::new(config.request_first),
            lanes: Lanes::new(Lane::new(LaneConfig::default(), false), config.lanes_max),
            turns: Turns::new(config.lanes_max),
            batches: Batches::new(batch::FREE, config.requests_max),
            pending: Pending::new(config.requests_max),
            calls: Calls::new(calls::FREE, config.calls_max),
            call_lines: CallLines::new(config.calls_max),
            alarms: Alarms::new(&config),
            writes: Writes::default(),
            outcomes: VecDeque::with_capacity(Self::outcomes_len(&config)),
            account: Account::default(),
            unresolved: 0,
            awaiting: 0,
            progress: Progress {
                oldest: config.request_first,
                oldest_at: Micros::ZERO,
                heard_behind: Micros::ZERO,
                open_max: u32::MAX,
            },
            stats: Stats::default(),
            rng: Rng::new(config.seed),
            faults: Faults::new(&config),
            config,
        })
    }

    /// Bytes that a client of this configuration allocates, all of them in [`Client::new`].
    #[must_use]
    pub const fn memory_bytes(config: &Config) -> usize {
        let lanes = Lanes::bytes(config.lanes_max);
        let turns = Turns::bytes(config.lanes_max);
        let batches = Batches::bytes(config.requests_max);
        let pending = Pending::bytes(config.requests_max);
        let calls = Calls::bytes(config.calls_max);
        let call_lines = CallLines::bytes(config.calls_max);
        let alarms = Alarms::bytes(config);
        let outcomes = Self::outcomes_len(config) * size_of::<Outcome>();
        lanes + turns + batches + pending + calls + call_lines + alarms + outcomes
    }

    /// Each key waits at most once for its outcome to be polled.
    const fn outcomes_len(config: &Config) -> usize {
        config.requests_max as usize + config.calls_max as usize
    }

    /// Opens a lane for a partition that no other open lane names.
    ///
    /// # Errors
    /// [`LaneError`]: key out of range, lane open already, window out of range.
    pub fn open_lane(&mut self, lane: LaneKey, config: LaneConfig) -> Result<(), LaneError> {
        config.validate()?;
        match self.lanes.get(lane) {
            None => Err(LaneError::KeyOutOfRange(lane)),
            Some(open) if open.is_open => Err(LaneError::AlreadyOpen(lane)),
            Some(_) => {
                self.lanes[lane] = Lane::new(config, true);
                Ok(())
            }
        }
    }

    /// Closes a lane whose batches are all resolved, so that its key can be opened again.
    ///
    /// # Errors
    /// [`LaneError`]: lane not open, or batches waiting or in flight.
    pub fn close_lane(&mut self, lane: LaneKey) -> Result<(), LaneError> {
        match self.lanes.opened(lane) {
            None => Err(LaneError::NotOpen(lane)),
            Some(open) if !open.is_idle() => Err(LaneError::Busy(lane)),
            Some(_) => {
                self.alarms.cancel(Owner::Lane(lane));
                self.lanes[lane].is_open = false;
                Ok(())
            }
        }
    }

    /// Lets a strict lane that has halted send what is submitted from now on. The caller accepts
    /// that this is stored although something before it is not, or may not be. Without effect on
    /// others.
    ///
    /// # Errors
    /// [`LaneError::NotOpen`].
    pub fn resume_lane(&mut self, lane: LaneKey) -> Result<(), LaneError> {
        if self.lanes.opened(lane).is_none() {
            return Err(LaneError::NotOpen(lane));
        }
        self.lanes[lane].is_halted = false;
        Ok(())
    }

    /// Whether the lane is strict and has halted: what is submitted to it is answered at once.
    #[must_use]
    pub fn is_lane_halted(&self, lane: LaneKey) -> bool {
        self.lanes.opened(lane).is_some_and(|open| open.is_halted)
    }

    /// Accepts a batch of `records` records (at least 1) for a lane, behind those that wait there.
    /// From now on it ends in exactly one outcome.
    ///
    /// The outcome is decided by `deadline` at the latest, whether the connection is up or down,
    /// and given at once unless a write of the batch is in flight: then it follows that write, or
    /// the end of its connection, which is given up after [`Config::write_stall_us`] without
    /// progress. [`Micros::MAX`] means no deadline. A [`Deadline`] may wait for a server that
    /// answers what is ahead of the batch.
    ///
    /// # Errors
    /// [`SubmitError`]; the batch then is not part of the account.
    pub fn submit(
        &mut self,
        lane: LaneKey,
        key: BatchKey,
        records: u32,
        deadline: impl Into<Deadline>,
    ) -> Result<(), SubmitError> {
        let deadline = deadline.into();
        self.refuse_when_ended()?;
        if records == 0 {
            return Err(SubmitError::Empty);
        }
        if self.lanes.opened(lane).is_none() {
            return Err(SubmitError::LaneNotOpen(lane));
        }
        match self.batches.get(key) {
            None => return Err(SubmitError::KeyOutOfRange(key)),
            Some(batch) if batch.stage != Stage::Free => {
                return Err(SubmitError::KeyInUse(key));
            }
            Some(_) => {}
        }
        self.batches.occupy(key, lane, records, deadline);
        self.lanes[lane].queue.push(&mut self.batches, key);
        self.account.accept(records);
        self.unresolved += 1;
        if self.lanes[lane].is_halted {
            self.end_queue(Some(key), NotSent::BehindUnstored);
        } else {
            self.alarms.arm(Owner::Batch(key), deadline.at);
            self.lane_moved(lane);
        }
        Ok(())
    }

    /// Accepts a control call, behind those of its kind that wait: a metadata operation, or
    /// `NonReplicated` with its command code (the code is ignored for metadata operations).
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(
        &mut self,
        key: CallKey,
        operation: Operation,
        code: CommandCode,
        deadline: Micros,
    ) -> Result<(), CallError> {
        self.refuse_when_ended()?;
        let kind = CallKind::of(operation).ok_or(CallError::NotACall(operation))?;
        match self.calls.get(key) {
            None => return Err(CallError::KeyOutOfRange(key)),
            Some(call) if call.stage != Stage::Free => return Err(CallError::KeyInUse(key)),
            Some(_) => {}
        }
        self.calls.occupy(key, kind, operation, code, deadline);
        self.call_lines.push(kind, key);
        self.alarms.arm(Owner::Call(key), deadline);
        self.unresolved += 1;
        Ok(())
    }

    /// Stops accepting, resolves everything by `deadline` at the latest, logs out and ends. A
    /// second call can only bring the deadline forward. One that has passed ends everything now,
    /// without a logout.
    pub fn close(&mut self, now: Micros, deadline: Micros) {
        if self.session.state.is_final() {
            return;
        }
        let deadline = self
            .session
            .closing
            .map_or(deadline, |earlier| earlier.min(deadline));
        self.session.closing = Some(deadline);
        self.alarms.arm(Owner::Close, deadline);
        self.cap_deadlines(deadline);
        if deadline <= now {
            self.close_alarm(now);
        }
        self.finish_when_done();
    }

    /// Gives everything up: what was never sent, or only refused, ends `NotSent`; what may have
    /// been stored ends `Unknown`. The client stays usable. Followed by `close(now, now)` it is an
    /// abort.
    pub fn purge(&mut self, now: Micros) {
        self.settle_all(now, NotSent::Purged);
    }

    /// Gives up for `reason` the undecided batches of one lane that are meant, as [`Client::purge`]
    /// does with all; the outcomes of those that wait come in their order. In a strict lane, the
    /// others that wait behind one of them end [`NotSent::BehindUnstored`].
    pub fn purge_lane(
        &mut self,
        now: Micros,
        lane: LaneKey,
        reason: NotSent,
        is_meant: impl Fn(BatchKey) -> bool,
    ) {
        if self.lanes.opened(lane).is_none() {
            return;
        }
        let is_strict = self.lanes[lane].config.ordering == Ordering::Strict;
        let mut is_behind = false;
        let mut next = self.lanes[lane].queue.head();
        while let Some(key) = next {
            next = self.batches.behind(key);
            if is_meant(key) {
                self.decide_queued(key, reason);
                is_behind = is_strict;
            } else if is_behind {
                self.decide_queued(key, NotSent::BehindUnstored);
            }
        }
        self.lanes[lane].is_halted |= is_behind;
        let window = self.lanes[lane].window;
        for &key in window.keys() {
            if is_meant(key) && self.batches[key].stage.is_undecided() {
                self.give_up_batch(now, key, reason);
            }
        }
        self.settle_lane(now, lane);
        self.finish_when_done();
    }

    /// Transmits one batch no more. One that waits for a transmission is given up as
    /// [`Client::purge_lane`] does; one that is out keeps its chance of an answer, and is given up
    /// where it would be sent again. For a batch whose destination is not what it was. Without
    /// effect on one that is decided or unknown.
    pub fn withdraw(&mut self, now: Micros, key: BatchKey) {
        let Some(batch) = self.batches.get(key) else {
            return;
        };
        match batch.stage {
            Stage::Queued | Stage::Retry => {
                self.give_up_batch(now, key, NotSent::Withdrawn);
                self.finish_when_done();
            }
            Stage::Awaiting => self.batches[key].request.withdraw(),
            Stage::Free | Stage::Pausing | Stage::Held(_) | Stage::Resolved => {}
        }
    }

    /// The next outcome. Its key is free from now on.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        let outcome = self.outcomes.pop_front()?;
        match outcome {
            Outcome::Batch { key, .. } => {
                let is_told_once = self.batches[key].stage == Stage::Resolved;
                assert!(
                    is_told_once || !self.faults.is_none(),
                    "an outcome is told once"
                );
                if is_told_once {
                    self.batches.vacate(key);
                }
            }
            Outcome::Call { key, .. } => self.calls.vacate(key),
        }
        Some(outcome)
    }

    /// Whether a batch submitted to the lane now could be transmitted at once. A driver that
    /// batches while busy seals a batch when this is true and keeps filling it otherwise.
    #[must_use]
    pub fn lane_has_room(&self, lane: LaneKey) -> bool {
        self.session.state == SessionState::Active
            && self.refuse_when_ended().is_ok()
            && self.awaiting < self.progress.open_max
            && self
                .lanes
                .opened(lane)
                .is_some_and(|open| open.has_room(&self.batches, self.rules()))
    }

    /// Whether the batch is given up and its outcome waits for a write of it: closing the
    /// connection ends that.
    #[must_use]
    pub fn is_given_up(&self, key: BatchKey) -> bool {
        let is_lost =
            |receipt: Receipt| matches!(receipt, Receipt::NotSent { .. } | Receipt::Unknown { .. });
        self.batches
            .get(key)
            .is_some_and(|batch| matches!(batch.stage, Stage::Held(receipt) if is_lost(receipt)))
    }

    /// Batches of the lane that wait, and requests of the lane without a final answer.
    #[must_use]
    pub fn lane_load(&self, lane: LaneKey) -> (u32, u32) {
        self.lanes
            .opened(lane)
            .map_or((0, 0), |lane| (lane.queue.len(), lane.window.len().into()))
    }

    /// The client id.
    #[must_use]
    pub const fn client(&self) -> u128 {
        self.config.client
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Where the session is.
    #[must_use]
    pub const fn state(&self) -> SessionState {
        self.session.state
    }

    /// Epoch of the last accepted login, `None` before the first.
    #[must_use]
    pub const fn session(&self) -> Option<u64> {
        match self.session.epoch {
            0 => None,
            epoch => Some(epoch),
        }
    }

    /// Why the client failed, `None` unless it did.
    #[must_use]
    pub const fn fatal(&self) -> Option<FatalError> {
        self.session.fatal
    }

    /// The number that the next send or metadata call takes.
    #[must_use]
    pub const fn request_next(&self) -> u64 {
        self.numbers.next()
    }

    /// Records by what became of them.
    #[must_use]
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Batches and calls that were accepted and whose outcome is not decided, or held back by a
    /// write.
    #[must_use]
    pub const fn unresolved(&self) -> u32 {
        self.unresolved
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    fn refuse_when_ended(&self) -> Result<(), Ended> {
        if let Some(error) = self.session.fatal {
            return Err(Ended::Failed(error));
        }
        if self.session.closing.is_some() {
            return Err(Ended::Closing);
        }
        if self.numbers.is_exhausted() {
            return Err(Ended::NumbersExhausted);
        }
        Ok(())
    }

    const fn reconnect_backoff(&self) -> Backoff {
        Backoff {
            us_min: self.config.reconnect_backoff_us_min,
            us_max: self.config.reconnect_backoff_us_max,
        }
    }

    const fn refusal_backoff(&self) -> Backoff {
        Backoff {
            us_min: self.config.refusal_backoff_us_min,
            us_max: self.config.refusal_backoff_us_max,
        }
    }

    /// The rules under which lanes take their turns at this moment.
    fn rules(&self) -> Rules {
        Rules {
            request_next: self.numbers.next(),
            span_max: REQUEST_SPAN_MAX + u64::from(self.faults.commits(Mutation::Span128)),
            retries_oldest_first: !self.faults.commits(Mutation::ResumeOutOfOrder),
        }
    }
}
