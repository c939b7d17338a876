//! What the server's progress means for what waits: deadlines, silence, and how much is sent after
//! a lost connection.

use super::{Client, Heartbeat};
use crate::alarms::Owner;
use crate::mutation::Mutation;
use crate::pace::{PASSED_BY_MAX, growing_us};
use crate::request::ResendCause;
use crate::stage::{Stage, StageEvent};
use crate::{BatchKey, LaneKey, Micros, Receipt};

impl Client {
    /// When a batch is given up: at its own deadline, or, if that is later, when there was no
    /// progress ahead of it for as long as it allows; at the deadline of a close in any case.
    /// Bounded, because each progress leaves less ahead.
    pub(super) fn deadline(&self, key: BatchKey) -> Micros {
        let batch = &self.batches[key];
        let request = &batch.request;
        if request.progress_us == 0 || self.faults.commits(Mutation::ProgressIgnored) {
            return request.deadline;
        }
        let closing = self.session.closing.unwrap_or(Micros::MAX);
        let lane = &self.lanes[batch.lane];
        let ahead_at = match batch.stage {
            // All that is in the window is ahead of it.
            Stage::Queued => lane.answered_at,
            _ => lane.head_at,
        };
        let moved_at = ahead_at.max(self.progress.oldest_at);
        let moved = moved_at.after(request.progress_us);
        request.deadline.max(moved).min(closing)
    }

    /// A batch is answered for good.
    pub(super) fn note_progress(&mut self, now: Micros, key: BatchKey) {
        let (lane, request) = (self.batches[key].lane, self.batches[key].request);
        self.skip_decided();
        if request.number == self.progress.oldest {
            self.progress.oldest_at = now;
        }
        let is_head = self.lanes[lane].head(&self.batches) == Some(key);
        let entry = &mut self.lanes[lane];
        entry.answered_at = now;
        if is_head {
            entry.head_at = now;
        }
        if !request.was_sent_once() {
            return;
        }
        entry.pace.take(now.since(request.handed_at));
        self.note_heard(request.handed_at);
        self.pass_by(now, lane, key);
    }

    /// A frame is answered that was handed over at this moment: the server has read what was sent
    /// before.
    pub(super) fn note_heard(&mut self, handed_at: Micros) {
        self.progress.heard_behind = self.progress.heard_behind.max(handed_at);
    }

    /// Moves on to the oldest undecided request. Numbers are passed once, so this costs one step
    /// for each.
    pub(super) fn skip_decided(&mut self) {
        while self.progress.oldest < self.numbers.next() {
            let open = self.pending.find(self.progress.oldest);
            if open.is_some_and(|key| self.batches[key].stage.is_undecided()) {
                return;
            }
            self.progress.oldest += 1;
        }
    }

    /// A later request is answered: the earlier ones of its lane that were sent before it, and are
    /// not, may be lost.
    fn pass_by(&mut self, now: Micros, lane: LaneKey, answered: BatchKey) {
        let later = self.batches[answered].request;
        let mut at = 0;
        // A withdrawn one leaves the window instead of being sent again.
        while let Some(&key) = self.lanes[lane].window.keys().get(at) {
            at += 1;
            let request = &mut self.batches[key].request;
            if request.number >= later.number {
                return;
            }
            if request.handed_at > later.handed_at {
                continue;
            }
            request.passed_by = request.passed_by.saturating_add(1);
            if self.is_awaiting(key) && self.is_passed_by(now, key) {
                self.resend_silent(now, key);
            }
        }
    }

    /// Whether requests that were sent after it were answered before it, so many and for so long
    /// that it must be lost.
    fn is_passed_by(&self, now: Micros, key: BatchKey) -> bool {
        let batch = &self.batches[key];
        let waited_us = now.since(batch.request.handed_at);
        batch.request.passed_by >= PASSED_BY_MAX
            && waited_us >= self.lanes[batch.lane].pace.passed_by_us()
    }

    /// Whether it was written and may be sent again.
    fn is_awaiting(&self, key: BatchKey) -> bool {
        let batch = &self.batches[key];
        batch.stage == Stage::Awaiting
            && !batch.request.write_in_flight()
            && !batch.request.awaits_nothing_new()
    }

    /// A batch was written, or its alarm rang before it was silent for long enough: when to look at
    /// it again.
    pub(super) fn arm_silence(&mut self, now: Micros, key: BatchKey) {
        let since = self.silent_since(key);
        let (early_us, late_us) = self.silences_us(key);
        let waited_us = now.since(since);
        let next = if waited_us < early_us.min(late_us) {
            since.after(early_us.min(late_us))
        } else {
            // Waits for a sign: looks again after a while that grows with the time waited.
            since.after(late_us).min(now.after((waited_us / 4).max(1)))
        };
        self.alarms
            .arm(Owner::Batch(key), next.min(self.deadline(key)));
    }

    /// Whether a batch that waits for its answer was silent for so long that it is sent again.
    pub(super) fn is_silent(&mut self, now: Micros, key: BatchKey) -> bool {
        let waited_us = now.since(self.silent_since(key));
        let (early_us, late_us) = self.silences_us(key);
        if waited_us >= late_us {
            return true;
        }
        if waited_us < early_us || !self.is_awaiting(key) {
            return false;
        }
        let (lane, handed_at) = (self.batches[key].lane, self.batches[key].request.handed_at);
        if self.lanes[lane].head(&self.batches) != Some(key) {
            // One at a time: the answer to the oldest tells about the others.
            return false;
        }
        let is_proven = self.progress.heard_behind > handed_at || self.is_passed_by(now, key);
        if !is_proven && self.session.heartbeat == Heartbeat::Quiet {
            self.session.heartbeat = Heartbeat::Due;
        }
        is_proven
    }

    /// Since when it is this request's turn to be answered.
    fn silent_since(&self, key: BatchKey) -> Micros {
        let batch = &self.batches[key];
        let ahead_at = self.lanes[batch.lane].head_at.max(self.progress.oldest_at);
        batch.request.written_at.max(ahead_at)
    }

    /// Silence after which a request is sent again with proof that it is lost, and without.
    fn silences_us(&self, key: BatchKey) -> (u64, u64) {
        let batch = &self.batches[key];
        let timeout_us = self.config.request_timeout_us;
        let grown = |us| growing_us(us, batch.request.silences, timeout_us);
        let overdue_us = self.lanes[batch.lane].pace.overdue_us();
        (grown(overdue_us), grown(timeout_us))
    }

    /// Sends a silent batch again.
    pub(super) fn resend_silent(&mut self, now: Micros, key: BatchKey) {
        self.stats.silences += 1;
        let request = &mut self.batches[key].request;
        request.silences = request.silences.saturating_add(1);
        if request.awaits_nothing_new() {
            let request = request.number;
            self.decide_batch(now, key, Receipt::Unknown { request });
        } else {
            request.resend_cause = Some(ResendCause::Silence);
            self.retry_batch(now, key);
        }
    }

    /// After a login: what was open on the lost connection goes first, and one request alone before
    /// all others.
    pub(super) fn resume_lanes(&mut self) {
        self.progress.open_max = match self.pending.len() {
            0 => u32::MAX,
            _ => self.config.resume_requests_max,
        };
        self.skip_decided();
        self.turns.clear();
        if let Some(oldest) = self.pending.find(self.progress.oldest) {
            self.lane_moved(self.batches[oldest].lane);
        }
        for lane in self.lanes.keys() {
            if self.lanes[lane].is_open {
                self.lane_moved(lane);
            }
        }
    }

    /// Moves a batch of a window on and keeps the counts.
    pub(super) fn step_batch(&mut self, key: BatchKey, event: StageEvent<Receipt>) {
        let lane = self.batches[key].lane;
        let was_awaiting = self.batches[key].stage == Stage::Awaiting;
        self.lanes[lane].step(&mut self.batches, key, event);
        self.awaiting += u32::from(self.batches[key].stage == Stage::Awaiting);
        self.awaiting -= u32::from(was_awaiting);
    }
}
