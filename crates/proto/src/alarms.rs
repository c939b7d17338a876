//! Who owns which timer.

use crate::timers::Timers;
use crate::{BatchKey, CallKey, Config, LaneKey, Micros};

/// The owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The session: pause before a connect or a login, or patience with one.
    Session,
    /// The heartbeat: the idle time, or patience with an answer.
    Heartbeat,
    /// Write progress.
    WriteStall,
    /// The deadline of the close.
    Close,
    /// A lane: the pause after refusals.
    Lane(LaneKey),
    /// A call: patience, pause or deadline.
    Call(CallKey),
    /// A batch: patience or deadline.
    Batch(BatchKey),
}

/// Owners that are not keys.
const SINGLES: u32 = 4;

const fn owners(config: &Config) -> u32 {
    SINGLES + config.lanes_max + config.calls_max + config.requests_max
}

/// All timers of a client.
#[derive(Debug)]
pub(crate) struct Alarms {
    timers: Timers,
    lanes_max: u32,
    calls_max: u32,
}

impl Alarms {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            timers: Timers::new(owners(config)),
            lanes_max: config.lanes_max,
            calls_max: config.calls_max,
        }
    }

    /// Bytes of the timers.
    pub(crate) const fn bytes(config: &Config) -> usize {
        Timers::bytes(owners(config))
    }

    /// Arms or moves the owner's alarm; [`Micros::MAX`] cancels it.
    pub(crate) fn arm(&mut self, owner: Owner, at: Micros) {
        self.timers.arm(self.index(owner), at);
    }

    pub(crate) fn cancel(&mut self, owner: Owner) {
        self.timers.cancel(self.index(owner));
    }

    /// Moves an armed alarm to `at` if that is earlier; arms one that is not armed.
    pub(crate) fn bring_forward(&mut self, owner: Owner, at: Micros) {
        let index = self.index(owner);
        if self.timers.armed(index).is_none_or(|armed| at < armed) {
            self.timers.arm(index, at);
        }
    }

    pub(crate) fn is_armed(&self, owner: Owner) -> bool {
        self.timers.armed(self.index(owner)).is_some()
    }

    pub(crate) fn earliest(&self) -> Option<Micros> {
        self.timers.earliest()
    }

    /// Takes the earliest alarm that is due.
    pub(crate) fn pop_due(&mut self, now: Micros) -> Option<Owner> {
        self.timers.pop_due(now).map(|index| self.owner(index))
    }

    pub(crate) fn check_invariants(&self) {
        self.timers.check_invariants();
    }

    const fn index(&self, owner: Owner) -> u32 {
        match owner {
            Owner::Session => 0,
            Owner::Heartbeat => 1,
            Owner::WriteStall => 2,
            Owner::Close => 3,
            Owner::Lane(key) => SINGLES + key.0,
            Owner::Call(key) => SINGLES + self.lanes_max + key.0,
            Owner::Batch(key) => SINGLES + self.lanes_max + self.calls_max + key.0,
        }
    }

    const fn owner(&self, index: u32) -> Owner {
        let lanes = SINGLES;
        let calls = lanes + self.lanes_max;
        let batches = calls + self.calls_max;
        match index {
            0 => Owner::Session,
            1 => Owner::Heartbeat,
            2 => Owner::WriteStall,
            3 => Owner::Close,
            _ if index < calls => Owner::Lane(LaneKey(index - lanes)),
            _ if index < batches => Owner::Call(CallKey(index - calls)),
            _ => Owner::Batch(BatchKey(index - batches)),
        }
    }
}
