//! The table of batches: one entry for each [`BatchKey`], and the links of the queues they wait in.

use crate::outcome::Receipt;
use crate::request::Request;
use crate::stage::{Stage, StageEvent};
use crate::table::Table;
use crate::{BatchKey, Deadline, LaneKey, Micros};

/// One batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) stage: Stage<Receipt>,
    pub(crate) lane: LaneKey,
    pub(crate) records: u32,
    pub(crate) request: Request,
    /// Its place in the log is in order only below this offset: the lowest of the later batches of
    /// the lane that were confirmed first, 0 when one of them has no known offset. `None` when
    /// there is none.
    pub(crate) below_offset: Option<u64>,
    /// Neighbours in the lane's queue, while `Queued`.
    previous: Option<BatchKey>,
    next: Option<BatchKey>,
}

/// The entry of a key that is not in use.
pub(crate) const FREE: Batch = Batch {
    stage: Stage::Free,
    lane: LaneKey(0),
    records: 0,
    request: Request::new(Deadline::fixed(Micros::ZERO)),
    below_offset: None,
    previous: None,
    next: None,
};

/// All batches of a client.
pub(crate) type Batches = Table<BatchKey, Batch>;

impl Batches {
    /// Turns a free entry into a queued batch. The caller links it.
    pub(crate) fn occupy(
        &mut self,
        key: BatchKey,
        lane: LaneKey,
        records: u32,
        deadline: Deadline,
    ) {
        let batch = &mut self[key];
        batch.stage.apply(StageEvent::Submit);
        *batch = Batch {
            stage: batch.stage,
            lane,
            records,
            request: Request::new(deadline),
            ..FREE
        };
    }

    /// The batch behind this one in its lane's queue.
    pub(crate) fn behind(&self, key: BatchKey) -> Option<BatchKey> {
        self[key].next
    }

    /// Frees a resolved entry.
    pub(crate) fn vacate(&mut self, key: BatchKey) {
        let batch = &mut self[key];
        batch.stage.apply(StageEvent::Tell);
        *batch = Batch {
            stage: batch.stage,
            ..FREE
        };
    }
}

impl Batch {
    /// Whether a confirmation at `offset`, if that is known, proves that no later batch that was
    /// confirmed before this one was stored before it.
    pub(crate) fn is_in_order(&self, offset: Option<u64>) -> bool {
        let is_below = |bound| offset.is_some_and(|offset| offset < bound);
        self.below_offset.is_none_or(is_below)
    }
}

/// A first-in first-out queue of batches, linked through the table, with removal from the middle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    head: Option<BatchKey>,
    tail: Option<BatchKey>,
    len: u32,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self {
            head: None,
            tail: None,
            len: 0,
        }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    pub(crate) const fn head(&self) -> Option<BatchKey> {
        self.head
    }

    pub(crate) fn push(&mut self, batches: &mut Batches, key: BatchKey) {
        batches[key].previous = self.tail;
        batches[key].next = None;
        match self.tail {
            Some(tail) => batches[tail].next = Some(key),
            None => self.head = Some(key),
        }
        self.tail = Some(key);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, batches: &mut Batches, key: BatchKey) {
        let Batch { previous, next, .. } = batches[key];
        match previous {
            Some(previous) => batches[previous].next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => batches[next].previous = previous,
            None => self.tail = previous,
        }
        batches[key].previous = None;
        batches[key].next = None;
        self.len -= 1;
    }

    pub(crate) fn iter<'a>(
        &self,
        batches: &'a Batches,
    ) -> impl Iterator<Item = BatchKey> + use<'a> {
        core::iter::successors(self.head, move |&key| batches[key].next)
    }
}
