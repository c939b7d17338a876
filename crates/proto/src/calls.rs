//! Control calls: one metadata call and one read in flight at a time, the rest waits in order.
//!
//! Metadata calls go one by one because the server keeps a single watermark of them: a call that
//! arrives after a later one was committed is answered "already applied" without having been done.
//! Reads go one by one because their replies are told apart by number alone.

use alloc::collections::VecDeque;

use ringmain_wire::{CommandCode, Operation, Plane};

use crate::outcome::Answer;
use crate::request::Request;
use crate::stage::{Stage, StageEvent};
use crate::table::Table;
use crate::{CallKey, Deadline, Micros};

/// The two kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Replicated: takes a number, is recognised when sent twice.
    Metadata,
    /// Not replicated: repeats the counter's value, may be asked again at will.
    Read,
}

impl CallKind {
    pub(crate) const ALL: [Self; 2] = [Self::Metadata, Self::Read];

    /// The kind of an operation, `None` for one that is not a call.
    pub(crate) const fn of(operation: Operation) -> Option<Self> {
        if operation.is_internal() {
            return None;
        }
        match operation.plane() {
            Plane::Metadata => Some(Self::Metadata),
            Plane::NonReplicated => Some(Self::Read),
            Plane::Session | Plane::Partition => None,
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) stage: Stage<Answer>,
    pub(crate) kind: CallKind,
    pub(crate) operation: Operation,
    pub(crate) code: CommandCode,
    pub(crate) request: Request,
    /// Refusals in a row.
    pub(crate) refusals_in_row: u32,
}

/// The entry of a key that is not in use.
pub(crate) const FREE: Call = Call {
    stage: Stage::Free,
    kind: CallKind::Read,
    operation: Operation::NonReplicated,
    code: CommandCode::PING,
    request: Request::new(Deadline::fixed(Micros::ZERO)),
    refusals_in_row: 0,
};

/// All calls of a client.
pub(crate) type Calls = Table<CallKey, Call>;

impl Calls {
    /// Turns a free entry into a waiting call. The caller puts it in line.
    pub(crate) fn occupy(
        &mut self,
        key: CallKey,
        kind: CallKind,
        operation: Operation,
        code: CommandCode,
        deadline: Micros,
    ) {
        let call = &mut self[key];
        call.stage.apply(StageEvent::Submit);
        let request = Request::new(Deadline::fixed(deadline));
        *call = Call {
            stage: call.stage,
            kind,
            operation,
            code,
            request,
            ..FREE
        };
    }

    /// Frees a resolved entry.
    pub(crate) fn vacate(&mut self, key: CallKey) {
        let call = &mut self[key];
        call.stage.apply(StageEvent::Tell);
        *call = Call {
            stage: call.stage,
            ..FREE
        };
    }
}

/// The order of calls: for each kind the one in flight and those that wait.
#[derive(Debug)]
pub(crate) struct CallLines {
    lines: [Line; CallKind::ALL.len()],
}

#[derive(Debug)]
struct Line {
    /// In flight, or about to be sent again.
    current: Option<CallKey>,
    /// Never sent, first come first.
    waiting: VecDeque<CallKey>,
}

impl CallLines {
    pub(crate) fn new(calls_max: u32) -> Self {
        let line = |_| Line {
            current: None,
            waiting: VecDeque::with_capacity(calls_max as usize),
        };
        Self {
            lines: CallKind::ALL.map(line),
        }
    }

    /// Bytes of the lines.
    pub(crate) const fn bytes(calls_max: u32) -> usize {
        CallKind::ALL.len() * calls_max as usize * size_of::<CallKey>()
    }

    /// The call of a kind that is in flight or about to be sent again.
    pub(crate) const fn current(&self, kind: CallKind) -> Option<CallKey> {
        self.lines[kind.index()].current
    }

    /// The call of a kind to transmit now.
    pub(crate) fn turn(&self, calls: &Calls, kind: CallKind) -> Option<CallKey> {
        let line = &self.lines[kind.index()];
        match line.current {
            Some(key) => {
                let call = &calls[key];
                (call.stage == Stage::Retry && !call.request.write_in_flight()).then_some(key)
            }
            None => line.waiting.front().copied(),
        }
    }

    /// Puts a call at the end of its kind's line.
    pub(crate) fn push(&mut self, kind: CallKind, key: CallKey) {
        self.lines[kind.index()].waiting.push_back(key);
    }

    /// Makes the first waiting call the one in flight.
    pub(crate) fn promote(&mut self, kind: CallKind) {
        let line = &mut self.lines[kind.index()];
        assert!(line.current.is_none(), "one call of a kind at a time");
        line.current = line.waiting.pop_front();
    }

    /// Takes a call out of its line, wherever it stands. At most `calls_max` steps.
    pub(crate) fn leave(&mut self, kind: CallKind, key: CallKey) {
        let line = &mut self.lines[kind.index()];
        if line.current == Some(key) {
            line.current = None;
        } else {
            line.waiting.retain(|&waiting| waiting != key);
        }
    }
}
