//! One lane: the queue of batches that were never sent and the window of requests without a final
//! answer.
//!
//! ```text
//! submit -> queue  | n  n+3  n+4  n+9 |  -> outcome
//!                  +---- window ------+     numbers rise, the oldest first
//! ```
//!
//! The window holds the law's `unresolved(P)`: a request enters with its first transmission and
//! leaves with its outcome. `awaiting + retry + held = window length`.

use alloc::collections::VecDeque;

use crate::batch::{Batches, Queue};
use crate::config::LaneConfig;
use crate::limits::WINDOW_REQUESTS_MAX;
use crate::order::Doubts;
use crate::outcome::Receipt;
use crate::pace::Pace;
use crate::stage::{Stage, StageEvent};
use crate::table::Table;
use crate::{BatchKey, LaneKey, Micros};

/// What a lane does with its turn to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Sends: retries first, then new batches.
    Flowing,
    /// A request was refused: nothing is sent until everything in flight is answered or silent for
    /// too long.
    Draining,
    /// Drained; pauses before the refused requests go out again.
    Pausing,
}

/// What a lane would do, were it its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Send this one again, under its number.
    Retry(BatchKey),
    /// Send this one for the first time.
    New(BatchKey),
    /// Nothing: drains, pauses, has nothing to send, or the next in order is still being written.
    Nothing,
    /// Nothing: a batch waits for a place in the window (law W2).
    WindowFull,
    /// Nothing: a batch waits because the oldest unresolved request is too far behind (law W1).
    SpanFull,
}

/// The laws that can hold a batch back while its lane flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBy {
    /// Law W2.
    Window,
    /// Law W1.
    Span,
}

/// What holds for every lane of a client when it asks for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The number a new request would take.
    pub(crate) request_next: u64,
    /// How far it may be above the oldest unresolved one (law W1).
    pub(crate) span_max: u64,
    /// Retries go oldest first (law W5). `false` is a fault for the simulator to find.
    pub(crate) retries_oldest_first: bool,
}

/// Requests of a lane without a final answer, by rising number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    keys: [BatchKey; WINDOW_REQUESTS_MAX as usize],
    len: u8,
}

impl Window {
    pub(crate) const fn new() -> Self {
        Self {
            keys: [BatchKey(u32::MAX); WINDOW_REQUESTS_MAX as usize],
            len: 0,
        }
    }

    pub(crate) const fn len(&self) -> u8 {
        self.len
    }

    pub(crate) fn keys(&self) -> &[BatchKey] {
        &self.keys[..self.len as usize]
    }

    fn push(&mut self, key: BatchKey) {
        assert!(
            self.len < WINDOW_REQUESTS_MAX,
            "the window's ceiling is checked before"
        );
        self.keys[self.len as usize] = key;
        self.len += 1;
    }

    fn remove(&mut self, key: BatchKey) {
        let position = self
            .keys()
            .iter()
            .position(|&found| found == key)
            .expect("an unresolved batch is in the window");
        self.keys
            .copy_within(position + 1..self.len as usize, position);
        self.len -= 1;
    }
}

/// One lane; the entry of a closed one waits for its key to be opened.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) config: LaneConfig,
    pub(crate) is_open: bool,
    /// A batch of this strict lane is not stored, or may not be: nothing behind it is sent.
    pub(crate) is_halted: bool,
    pub(crate) queue: Queue,
    pub(crate) window: Window,
    pub(crate) phase: Phase,
    /// Requests of the window in [`Stage::Awaiting`].
    pub(crate) awaiting: u8,
    /// Requests of the window in [`Stage::Retry`].
    pub(crate) retry: u8,
    /// When a request of it was answered for good last.
    pub(crate) answered_at: Micros,
    /// When that was the oldest of its window.
    pub(crate) head_at: Micros,
    /// How long its requests take.
    pub(crate) pace: Pace,
    /// Refusals since the last confirmation.
    pub(crate) refusals_in_row: u32,
    /// Confirmed batches whose order is not settled.
    pub(crate) doubts: Doubts,
    /// What a waiting batch was last held back by, so that each wait is counted once.
    pub(crate) held_by: Option<HeldBy>,
}

impl Lane {
    /// A lane without batches.
    pub(crate) const fn new(config: LaneConfig, is_open: bool) -> Self {
        Self {
            config,
            is_open,
            is_halted: false,
            queue: Queue::new(),
            window: Window::new(),
            phase: Phase::Flowing,
            awaiting: 0,
            retry: 0,
            answered_at: Micros::ZERO,
            head_at: Micros::ZERO,
            pace: Pace::UNKNOWN,
            refusals_in_row: 0,
            doubts: Doubts::NONE,
            held_by: None,
        }
    }

    /// What it would do, were it its turn.
    pub(crate) fn turn(&self, batches: &Batches, rules: Rules) -> Turn {
        if self.phase != Phase::Flowing {
            return Turn::Nothing;
        }
        if self.retry > 0 {
            // Retries go first, in order (law W5). While the last transmission of the next one is
            // still being written, the rest waits behind it.
            let next = self.next_retry(batches, rules);
            return match batches[next].request.write_in_flight() {
                true => Turn::Nothing,
                false => Turn::Retry(next),
            };
        }
        match self.queue.head() {
            None => Turn::Nothing,
            Some(_) if self.window.len() >= self.config.window() => Turn::WindowFull,
            Some(_) if self.is_span_full(batches, rules) => Turn::SpanFull,
            Some(head) => Turn::New(head),
        }
    }

    /// Whether a batch submitted now would be sent at once.
    pub(crate) fn has_room(&self, batches: &Batches, rules: Rules) -> bool {
        self.phase == Phase::Flowing
            && self.retry == 0
            && self.queue.len() == 0
            && self.window.len() < self.config.window()
            && !self.is_span_full(batches, rules)
    }

    /// Law W1: whether a new request would be too far above the oldest unresolved one.
    fn is_span_full(&self, batches: &Batches, rules: Rules) -> bool {
        self.oldest_request(batches)
            .is_some_and(|oldest| rules.request_next - oldest > rules.span_max)
    }

    /// The lowest unresolved number.
    pub(crate) fn oldest_request(&self, batches: &Batches) -> Option<u64> {
        self.window
            .keys()
            .first()
            .map(|&key| batches[key].request.number)
    }

    /// The oldest request of its window that is not decided.
    pub(crate) fn head(&self, batches: &Batches) -> Option<BatchKey> {
        let mut keys = self.window.keys().iter().copied();
        keys.find(|&key| batches[key].stage.is_undecided())
    }

    /// Whether nothing waits and nothing is unresolved.
    pub(crate) const fn is_idle(&self) -> bool {
        self.queue.len() == 0 && self.window.len() == 0
    }

    /// Takes a batch into the window, behind all others, before its first transmission.
    pub(crate) fn enter(&mut self, batches: &mut Batches, key: BatchKey) {
        self.queue.remove(batches, key);
        self.window.push(key);
    }

    /// Moves a batch of the window on and keeps the counts.
    pub(crate) fn step(
        &mut self,
        batches: &mut Batches,
        key: BatchKey,
        event: StageEvent<Receipt>,
    ) {
        let before = batches[key].stage;
        batches[key].stage.apply(event);
        let after = batches[key].stage;
        for (stage, count) in [
            (Stage::Awaiting, &mut self.awaiting),
            (Stage::Retry, &mut self.retry),
        ] {
            *count += u8::from(after == stage);
            *count -= u8::from(before == stage);
        }
    }

    /// Takes a decided batch out of the window.
    pub(crate) fn leave(&mut self, key: BatchKey) {
        self.window.remove(key);
    }

    fn next_retry(&self, batches: &Batches, rules: Rules) -> BatchKey {
        let is_retry = |key: &BatchKey| batches[*key].stage == Stage::Retry;
        let mut keys = self.window.keys().iter().copied();
        let next = match rules.retries_oldest_first {
            true => keys.find(is_retry),
            false => keys.rfind(is_retry),
        };
        next.expect("a lane with retries has one in its window")
    }
}

/// All lanes of a client.
pub(crate) type Lanes = Table<LaneKey, Lane>;

impl Lanes {
    /// The lane of a key, `None` when it is not open or out of range.
    pub(crate) fn opened(&self, key: LaneKey) -> Option<&Lane> {
        self.get(key).filter(|lane| lane.is_open)
    }
}

/// Lanes that may have something to send, in round-robin order. Each is looked at again when its
/// turn comes, so a stale entry does no harm.
#[derive(Debug)]
pub(crate) struct Turns {
    queue: VecDeque<LaneKey>,
    is_queued: Table<LaneKey, bool>,
}

impl Turns {
    pub(crate) fn new(lanes_max: u32) -> Self {
        Self {
            queue: VecDeque::with_capacity(lanes_max as usize),
            is_queued: Table::new(false, lanes_max),
        }
    }

    /// Bytes of the queue and the marks.
    pub(crate) const fn bytes(lanes_max: u32) -> usize {
        lanes_max as usize * (size_of::<LaneKey>() + size_of::<bool>())
    }

    /// Forgets who asked.
    pub(crate) fn clear(&mut self) {
        while self.next().is_some() {}
    }

    /// Queues a lane behind the others, once.
    pub(crate) fn ask(&mut self, key: LaneKey) {
        if !core::mem::replace(&mut self.is_queued[key], true) {
            self.queue.push_back(key);
        }
    }

    /// The next lane that asked.
    pub(crate) fn next(&mut self) -> Option<LaneKey> {
        let key = self.queue.pop_front()?;
        self.is_queued[key] = false;
        Some(key)
    }

    /// Whether the lane waits for its turn.
    pub(crate) fn is_asked(&self, key: LaneKey) -> bool {
        self.is_queued[key]
    }
}
