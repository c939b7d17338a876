//! Which lane may hand over its open batch now: room in the window, linger, deadlines.
//!
//! ```text
//!   announced --> due --> room? --no--> pending: looked at again when an answer comes
//!                          |
//!                         yes --> lingers? --yes--> in the heap until then
//!                                   |
//!                                   no --> sealed
//! ```

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ringmain_proto::limits::REQUEST_LAST;
use ringmain_proto::{Client, LaneKey, Micros};

use super::core::Core;
use crate::hooks::{self, Mutation, Point};
use crate::lane::{Lane, SWEEP_US, SealRule, Sealing, expiring_before};

/// How soon a lane is tried again whose lock somebody else held. An append takes far less, unless
/// its thread was taken off the processor.
pub(super) const BUSY_RETRY_US: u64 = 50;

/// A lane as its shard knows it.
pub(super) struct LaneEntry {
    pub(super) lane: Arc<Lane>,
    /// It has, or may have, an open batch that the shard is to take.
    pub(super) is_pending: bool,
    /// It is in `lanes_due`.
    pub(super) is_due: bool,
    /// It is in `lanes_full`.
    pub(super) is_full: bool,
    /// The losses that the application had accepted when it was last resumed.
    pub(super) resumed_losses: u32,
    /// The moment under which it is in `lingering`, once: a batch that lingers longer is found when
    /// this entry comes up, and for one that lingers less (of another producer of the topic) the
    /// entry is made anew.
    pub(super) lingers_until: Option<Micros>,
    /// The offset behind the last confirmed batch.
    pub(super) offset_next: u64,
}

impl Core {
    /// Makes a lane known and opens it on its connection, in the place of one that was given up.
    pub(super) fn open_lane(&mut self, lane: &Arc<Lane>) {
        let index = lane.place.index;
        if let Some(known) = &self.lanes[index as usize] {
            if Arc::ptr_eq(&known.lane, lane) {
                return;
            }
            self.close_lane(index);
        }
        let client = &mut self.conns[lane.place.conn as usize].client;
        client
            .open_lane(lane.place.key, lane.config)
            .expect("the engine numbers lanes densely and checks their settings");
        self.lanes[index as usize] = Some(LaneEntry {
            lane: Arc::clone(lane),
            is_pending: false,
            is_due: false,
            is_full: false,
            resumed_losses: 0,
            lingers_until: None,
            offset_next: 0,
        });
    }

    /// Forgets the lane in a place that has another one now: the engine gave it up with everything
    /// answered and not announced, and appends nothing to it any more.
    fn close_lane(&mut self, index: u32) {
        let entry = self.lanes[index as usize].take().expect("it was opened");
        assert!(
            !entry.is_pending,
            "a lane that was announced is not given up"
        );
        let place = &entry.lane.place;
        self.conns[place.conn as usize]
            .client
            .close_lane(place.key)
            .expect("a lane with something unanswered is not given up");
        // What is said about the place was said about the lane.
        self.lanes_due.retain(|due| *due != index);
        self.lanes_busy.retain(|busy| *busy != index);
        self.lanes_full.retain(|full| *full != index);
        self.lingering.retain(|Reverse((_, other))| *other != index);
    }

    pub(super) fn take_announced(&mut self) {
        while let Some(lane) = self.shared.announced.pop() {
            self.open_lane(&lane);
            self.set_pending(lane.place.index, true);
            self.look_at_lane(lane.place.index);
        }
    }

    /// Tells appenders of a lane without room that they need not wake the shard.
    pub(super) fn mark_full(&mut self, index: u32) {
        let entry = self.lanes[index as usize]
            .as_mut()
            .expect("only known lanes are full");
        if !entry.is_full {
            entry.is_full = true;
            entry.lane.set_window_full(true);
            self.lanes_full.push(index);
        }
    }

    /// Takes that back where there is room now, and looks at what was queued meanwhile. Room is
    /// made on this thread only: by answers and sessions before this runs, or by a transmission
    /// after it, whose completion brings the next turn.
    pub(super) fn reopen_lanes(&mut self) {
        if hooks::commits(Mutation::FlagClearedLate) {
            self.take_announced();
            hooks::pass(Point::Reopened);
        }
        let mut any = false;
        let mut at = 0;
        while let Some(index) = self.lanes_full.get(at) {
            let entry = self.lanes[*index as usize]
                .as_mut()
                .expect("only known lanes are full");
            let place = &entry.lane.place;
            let client = &self.conns[place.conn as usize].client;
            if is_wanted(client, place.key) {
                entry.is_full = false;
                entry.lane.set_window_full(false);
                let index = self.lanes_full.swap_remove(at);
                if !hooks::commits(Mutation::LaneLeftOut) {
                    self.look_at_lane(index);
                }
                any = true;
            } else {
                at += 1;
            }
        }
        if any && !hooks::commits(Mutation::FlagClearedLate) {
            hooks::pass(Point::Reopened);
            // Pairs with the fence of an appender between its push and its look at the flag.
            fence(Ordering::SeqCst);
            self.take_announced();
        }
    }

    /// Queues a lane to be looked at in this turn, if it may have an open batch.
    pub(super) fn look_at_lane(&mut self, index: u32) {
        if let Some(entry) = &mut self.lanes[index as usize]
            && entry.is_pending
            && !entry.is_due
        {
            entry.is_due = true;
            self.lanes_due.push(index);
        }
    }

    /// Queues all pending lanes of a connection: its session changed, or a pause is over.
    pub(super) fn look_at_lanes_of(&mut self, conn: usize) {
        if self.lanes_pending == 0 {
            return;
        }
        for index in 0..self.lanes.len() {
            if let Some(entry) = &self.lanes[index]
                && entry.is_pending
                && entry.lane.place.conn as usize == conn
            {
                self.look_at_lane(entry.lane.place.index);
            }
        }
    }

    /// Seals the open batches of lanes that have room.
    pub(super) fn feed_lanes(&mut self, now: Micros) {
        // Also later than in the turn of the hurry: lanes that had no room then get some.
        let is_waited_for = self.shared.slots().has_waiters() || self.shared.credit().has_waiters();
        let hurried = self.shared.hurry.swap(false, Ordering::Relaxed)
            || (is_waited_for && !hooks::commits(Mutation::HurryForgotten));
        if hurried {
            while let Some(Reverse((_, index))) = self.lingering.pop() {
                self.linger_over(index);
            }
        }
        let mut due = std::mem::take(&mut self.lanes_due);
        for index in due.drain(..) {
            let entry = self.lanes[index as usize]
                .as_mut()
                .expect("only known lanes are due");
            entry.is_due = false;
            let (conn, key) = (entry.lane.place.conn as usize, entry.lane.place.key);
            if is_wanted(&self.conns[conn].client, key) {
                self.seal_lane(
                    now,
                    index,
                    if hurried {
                        SealRule::All
                    } else {
                        SealRule::Lingered
                    },
                );
            } else {
                hooks::pass(Point::FoundFull);
                self.mark_full(index);
                self.watch_deadlines(now);
            }
        }
        self.lanes_due = due;
    }

    fn seal_lane(&mut self, now: Micros, index: u32, rule: SealRule) {
        let entry = self.lanes[index as usize]
            .as_mut()
            .expect("only known lanes are sealed");
        match entry.lane.try_seal(now, rule) {
            Sealing::Sealed | Sealing::Empty => self.set_pending(index, false),
            Sealing::Busy if hooks::commits(Mutation::BusyForgotten) => {}
            Sealing::Busy => self.lanes_busy.push(index),
            Sealing::NotDue(at) => {
                if rule != SealRule::Lingered
                    || entry.lingers_until.is_some_and(|known| known <= at)
                {
                    return;
                }
                if hooks::commits(Mutation::LingerForgotten) {
                    return;
                }
                let at = match hooks::commits(Mutation::LingerDoubled) {
                    true => at.after(at.since(now)),
                    false => at,
                };
                if entry.lingers_until.replace(at).is_some() {
                    self.lingering.retain(|Reverse((_, other))| *other != index);
                }
                self.lingering.push(Reverse((at, index)));
            }
        }
    }

    fn linger_over(&mut self, index: u32) {
        self.lanes[index as usize]
            .as_mut()
            .expect("only known lanes linger")
            .lingers_until = None;
        self.look_at_lane(index);
    }

    pub(super) fn run_lane_timers(&mut self, now: Micros) {
        while let Some(Reverse((at, index))) = self.lingering.peek().copied()
            && at <= now
        {
            self.lingering.pop();
            self.linger_over(index);
        }
        let mut busy = std::mem::take(&mut self.lanes_busy);
        for index in busy.drain(..) {
            self.look_at_lane(index);
        }
        self.lanes_busy = busy;
        if self.sweep_at <= now {
            self.sweep(now);
        }
    }

    /// Takes open batches whose first record is about to run out of time, room or not: the protocol
    /// client answers them at their deadline.
    fn sweep(&mut self, now: Micros) {
        self.sweep_at = Micros::MAX;
        if self.lanes_pending == 0 || hooks::commits(Mutation::SweepForgotten) {
            return;
        }
        let expiring = SealRule::Expiring(expiring_before(now));
        for index in 0..self.lanes.len() {
            if let Some(entry) = &self.lanes[index]
                && entry.is_pending
            {
                self.seal_lane(now, entry.lane.place.index, expiring);
            }
        }
        self.watch_deadlines(now);
    }

    fn watch_deadlines(&mut self, now: Micros) {
        if self.lanes_pending > 0 {
            self.sweep_at = self.sweep_at.min(now.after(SWEEP_US));
        }
    }

    /// Seals everything, before the end.
    pub(super) fn seal_all_lanes(&mut self, now: Micros) {
        self.take_announced();
        for index in 0..self.lanes.len() {
            if let Some(entry) = &self.lanes[index] {
                self.seal_lane(now, entry.lane.place.index, SealRule::All);
            }
        }
    }

    fn set_pending(&mut self, index: u32, is_pending: bool) {
        let entry = self.lanes[index as usize]
            .as_mut()
            .expect("only known lanes are pending");
        if entry.is_pending != is_pending {
            entry.is_pending = is_pending;
            if is_pending {
                self.lanes_pending += 1;
            } else {
                self.lanes_pending -= 1;
            }
        }
    }
}

/// Whether the client sends a batch of this lane at once, or answers it at once: because its
/// session can never be again, its numbers are used up, or strict order has halted the lane.
pub(super) fn is_wanted(client: &Client, lane: LaneKey) -> bool {
    client.lane_has_room(lane)
        || client.fatal().is_some()
        || client.request_next() > REQUEST_LAST
        || client.is_lane_halted(lane)
}
