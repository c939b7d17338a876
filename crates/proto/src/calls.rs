//! Control calls: one metadata call and one read in flight at a time, the rest waits in order.
//!
//! Metadata calls go one by one because the server keeps a single watermark of them: a call that arrives after a
//! later one was committed is answered "already applied" without having been done. Reads go one by one because
//! their replies are told apart by number alone.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use ringmain_wire::{CommandCode, Operation, Plane};

use crate::outcome::Answer;
use crate::request::Request;
use crate::stage::{Stage, StageEvent};
use crate::{CallKey, Micros};

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

const FREE: Call = Call {
    stage: Stage::Free,
    kind: CallKind::Read,
    operation: Operation::NonReplicated,
    code: CommandCode::PING,
    request: Request::new(Micros::ZERO),
    refusals_in_row: 0,
};

/// Calls of one kind: the one in flight and those that wait.
#[derive(Debug)]
struct Line {
    current: Option<CallKey>,
    waiting: VecDeque<CallKey>,
}

/// All calls of a client.
#[derive(Debug)]
pub(crate) struct Calls {
    entries: Vec<Call>,
    lines: [Line; CallKind::ALL.len()],
}

impl core::ops::Index<CallKey> for Calls {
    type Output = Call;

    fn index(&self, key: CallKey) -> &Call {
        &self.entries[key.index()]
    }
}

impl core::ops::IndexMut<CallKey> for Calls {
    fn index_mut(&mut self, key: CallKey) -> &mut Call {
        &mut self.entries[key.index()]
    }
}

impl Calls {
    pub(crate) fn new(calls_max: u32) -> Self {
        let len = calls_max as usize;
        Self {
            entries: vec![FREE; len],
            lines: CallKind::ALL.map(|_| Line {
                current: None,
                waiting: VecDeque::with_capacity(len),
            }),
        }
    }

    /// Bytes of the table and of each kind's queue.
    pub(crate) const fn bytes(calls_max: u32) -> usize {
        calls_max as usize * (size_of::<Call>() + CallKind::ALL.len() * size_of::<CallKey>())
    }

    pub(crate) fn get(&self, key: CallKey) -> Option<&Call> {
        self.entries.get(key.index())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = CallKey> + use<> {
        (0..self.entries.len() as u32).map(CallKey)
    }

    /// Turns a free entry into a waiting call.
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
        *call = Call {
            stage: call.stage,
            kind,
            operation,
            code,
            request: Request::new(deadline),
            ..FREE
        };
        self.lines[kind.index()].waiting.push_back(key);
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

    /// The call of a kind that is in flight or about to be sent again.
    pub(crate) const fn current(&self, kind: CallKind) -> Option<CallKey> {
        self.lines[kind.index()].current
    }

    /// The call of a kind to transmit now.
    pub(crate) fn turn(&self, kind: CallKind) -> Option<CallKey> {
        let line = &self.lines[kind.index()];
        match line.current {
            Some(key) => {
                let call = &self[key];
                (call.stage == Stage::Retry && !call.request.write_in_flight()).then_some(key)
            }
            None => line.waiting.front().copied(),
        }
    }

    /// Makes the first waiting call the one in flight.
    pub(crate) fn promote(&mut self, kind: CallKind) {
        let line = &mut self.lines[kind.index()];
        assert!(line.current.is_none(), "one call of a kind at a time");
        line.current = line.waiting.pop_front();
    }

    /// Takes a call out of its line, wherever it stands. At most `calls_max` steps.
    pub(crate) fn leave(&mut self, key: CallKey) {
        let line = &mut self.lines[self.entries[key.index()].kind.index()];
        if line.current == Some(key) {
            line.current = None;
        } else {
            line.waiting.retain(|&waiting| waiting != key);
        }
    }
}
