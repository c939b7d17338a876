//! The tables of a shard: connections, lanes, batches; and the order in which a turn of the loop
//! works on them.
//!
//! Owns no socket and no ring: [`super::run`] does, and lends them where needed.
//!
//! Invariants: `batches[i]` is `Some` exactly while the batch in slot `i` is with the protocol
//! client of its connection under the key `i`; its header is `headers[i]`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use ringmain_proto::{BatchKey, Deadline, Ended, FatalError, Frame, Micros, SubmitError};

use super::connection::Connection;
use super::lanes::{LaneEntry, is_wanted};
use super::purge::Purging;
use super::watch::Watches;
use super::{Command, ShardShared, Step};
use crate::batch::SealedBatch;
use crate::hooks::{self, Mutation, Point};
use crate::outcome::NotSentReason;
use crate::receipt::BatchOutcome;
use crate::stats::LatencySamples;
use crate::user_code::Deferred;
use ringmain_io::driver::Driver;
use ringmain_io::memory::SlotToken;

/// A batch in the hands of a protocol client.
pub(super) struct InFlight {
    pub(super) batch: SealedBatch,
    /// When it was first handed to the ring; zero before.
    pub(super) transmitted_at: Micros,
    /// Its transmissions so far.
    pub(super) attempts: u32,
    /// A confirmation named another topic than the one that had the name when it was opened.
    pub(super) is_elsewhere: bool,
    /// When the kernel had taken it for the first time.
    pub(super) written_at: Micros,
}

/// The tables of a shard.
pub(super) struct Core {
    pub(super) shared: Arc<ShardShared>,
    pub(super) conns: Vec<Connection>,
    /// By lane index; `Some` once the lane was seen.
    pub(super) lanes: Vec<Option<LaneEntry>>,
    /// By slot index.
    pub(super) batches: Vec<Option<InFlight>>,
    /// Entries of `batches` that are `Some`.
    pub(super) batches_in_flight: u32,
    /// Header-slab entries, by slot index.
    pub(super) headers: Vec<SlotToken>,
    /// Lanes to look at in this turn.
    pub(super) lanes_due: Vec<u32>,
    /// Lanes whose lock was held by somebody else.
    pub(super) lanes_busy: Vec<u32>,
    /// Lanes whose open batch lingers, by the end of the linger. An entry may be out of date.
    pub(super) lingering: BinaryHeap<Reverse<(Micros, u32)>>,
    /// Lanes watched because they had an open batch and no room.
    pub(super) lanes_pending: u32,
    /// Lanes whose appenders were told that the window is full, each once (`LaneEntry::is_full`).
    pub(super) lanes_full: Vec<u32>,
    /// Memory was given back and nobody was served since.
    pub(super) is_memory_freed: bool,
    /// When pending lanes are next looked through for deadlines.
    pub(super) sweep_at: Micros,
    pub(super) watches: Watches,
    /// Code of the application that this turn made due.
    pub(super) deferred: Deferred,
    pub(super) samples: LatencySamples,
    commands: Vec<Command>,
    /// `Some` while a purge is being carried out.
    pub(super) purge: Option<Purging>,
    /// Batches submitted so far.
    turns: u64,
    pub(super) is_closing: bool,
}

impl Core {
    pub(super) fn new(
        shared: Arc<ShardShared>,
        conns: Vec<Connection>,
        headers: Vec<SlotToken>,
        lanes_max: u32,
    ) -> Self {
        let lanes_max = lanes_max as usize;
        Self {
            shared,
            conns,
            lanes: (0..lanes_max).map(|_| None).collect(),
            batches: (0..headers.len()).map(|_| None).collect(),
            batches_in_flight: 0,
            headers,
            lanes_due: Vec::with_capacity(lanes_max),
            lanes_busy: Vec::with_capacity(lanes_max),
            lingering: BinaryHeap::with_capacity(lanes_max),
            lanes_pending: 0,
            lanes_full: Vec::with_capacity(lanes_max),
            is_memory_freed: false,
            sweep_at: Micros::MAX,
            watches: Watches::new(),
            deferred: Deferred::with_room(),
            samples: LatencySamples::new(),
            commands: Vec::with_capacity(16),
            purge: None,
            turns: 0,
            is_closing: false,
        }
    }

    /// Bytes of the tables that grow with slots and lanes.
    pub(super) const fn tables_bytes(slots: u32, lanes_max: u32) -> usize {
        let slot = size_of::<Option<InFlight>>() + size_of::<SlotToken>();
        slots as usize * slot + lanes_max as usize * size_of::<Option<LaneEntry>>()
    }

    /// Everything there is to do at `now`, until nothing moves any more. Ends with frames handed to
    /// the ring.
    pub(super) fn advance(&mut self, now: Micros, driver: &mut impl Driver) {
        self.shared.at(Step::Commands);
        self.take_commands(now);
        if self.shared.news.take_replaced() {
            self.withdraw_replaced(now);
        }
        self.shared.at(Step::Timers);
        self.run_timers(now);
        self.shared.at(Step::Outcomes);
        self.resolve_outcomes(now);
        self.shared.at(Step::Lanes);
        self.take_announced();
        loop {
            self.reopen_lanes();
            self.submit_sealed(now);
            hooks::pass(Point::TookQueues);
            self.feed_lanes(now);
            self.submit_sealed(now);
            self.shared.at(Step::Transmit);
            for conn in 0..self.conns.len() {
                self.drive_connection(now, conn, driver);
            }
            // Deadlines found while transmitting end batches, which makes room. An appender may
            // have sealed a batch since the lanes were looked at.
            if !self.resolve_outcomes(now) && self.lanes_due.is_empty() {
                break;
            }
        }
        self.shared.at(Step::Serve);
        self.serve_waiting();
        // Last: every answer of this turn is given, every thread released, every frame ready to go.
        self.deferred.run();
    }

    /// When the loop must turn again at the latest.
    pub(super) fn next_deadline(&self, now: Micros) -> Micros {
        let mut next = self.sweep_at;
        for conn in &self.conns {
            if let Some(at) = conn.client.poll_deadline() {
                next = next.min(at);
            }
            next = next.min(conn.attempt_ends_at);
        }
        if let Some(Reverse((at, _))) = self.lingering.peek() {
            next = next.min(*at);
        }
        if !self.lanes_busy.is_empty() {
            next = next.min(now.after(super::lanes::BUSY_RETRY_US));
        }
        if !self.lanes_full.is_empty() {
            // Nobody wakes the shard for what is queued on these, and some of it may have less time
            // than what is out.
            next = next.min(now.after(crate::lane::SWEEP_US));
        }
        next.min(self.watches.next_at())
    }

    /// True when no batch is with a protocol client.
    pub(super) fn is_idle(&self) -> bool {
        self.batches_in_flight == 0
    }

    /// True when the engine asked for the end and every session has ended.
    pub(super) fn has_finished(&self) -> bool {
        self.is_closing
            && self
                .conns
                .iter()
                .all(|conn| conn.client.state().is_final() && !conn.is_open)
    }

    fn take_commands(&mut self, now: Micros) {
        std::mem::swap(&mut self.commands, &mut *self.shared.commands());
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            match command {
                Command::Call(cell) => self.start_call(now, cell),
                Command::Watch { topic, refresh_us } => self.watches.watch(now, topic, refresh_us),
                Command::Unwatch { topic } => self.watches.unwatch(&topic),
                Command::Purge(request) => self.purge(now, &request.0),
                Command::Resolved {
                    conn,
                    lookup,
                    resolved,
                } => self.take_resolved(now, conn, lookup, resolved),
                Command::Close { deadline } => self.close(now, deadline),
            }
        }
        self.commands = commands;
    }

    fn run_timers(&mut self, now: Micros) {
        for index in 0..self.conns.len() {
            self.run_attempt_timer(now, index);
            let client = &mut self.conns[index].client;
            if client.poll_deadline().is_some_and(|at| at <= now) {
                client.handle_timeout(now);
                self.free_overdue(index);
                self.look_at_lanes_of(index);
            }
        }
        self.run_lane_timers(now);
        self.ask_about_topics(now);
    }

    /// A batch that is given up in the middle of a write is decided, and its outcome held back
    /// until the kernel has let go of its memory. A server that does not read would keep it for
    /// long: closing the connection frees it.
    fn free_overdue(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let is_overdue = |frame: &Frame| match frame {
            Frame::Batch(key) => conn.client.is_given_up(*key),
            _ => false,
        };
        if conn.writing.iter().any(is_overdue) {
            ringmain_io::log!(
                warn,
                connection = index,
                "the server does not read; closing to free records that are overdue"
            );
            conn.want_close("the server does not read".to_owned());
        }
    }

    /// Hands sealed batches to their protocol clients, in order.
    pub(super) fn submit_sealed(&mut self, now: Micros) {
        while let Some(batch) = self.shared.sealed.pop() {
            let lane = batch.lane.place.index;
            self.submit(now, batch);
            // What an appender fills now may linger less, and have less time.
            if !hooks::commits(Mutation::NewLingerForgotten) {
                self.look_at_lane(lane);
            }
        }
    }

    fn submit(&mut self, now: Micros, mut batch: SealedBatch) {
        self.turns += 1;
        batch.turn = self.turns;
        self.open_lane(&batch.lane);
        let place = &batch.lane.place;
        let (lane_index, lane_key) = (place.index, place.key);
        let slot_index = batch.body.slot.index();
        let is_replaced = !batch.lane.topic.is_in(batch.life);
        let conn = &mut self.conns[place.conn as usize];
        let entry = self.lanes[lane_index as usize]
            .as_mut()
            .expect("just opened");
        // A lane's batches come in their order: all that were sealed before it was resumed are
        // answered or ahead. One that was lost after that is lost to this batch, too.
        let resumed_losses = batch.resumed_losses;
        let is_all =
            batch.lane.losses() == resumed_losses || hooks::commits(Mutation::ResumedTooEarly);
        if entry.resumed_losses != resumed_losses && is_all {
            entry.resumed_losses = resumed_losses;
            conn.client.resume_lane(lane_key).expect("the lane is open");
        }
        match conn.client.submit(
            place.key,
            BatchKey(slot_index),
            batch.records,
            Deadline {
                at: batch.deadline,
                progress_us: batch.owed.ledger().settings.delivery_timeout_us,
            },
        ) {
            Ok(()) => {
                let entry = &mut self.batches[slot_index as usize];
                assert!(entry.is_none(), "a slot holds one batch");
                self.batches_in_flight += 1;
                *entry = Some(InFlight {
                    batch,
                    transmitted_at: Micros::ZERO,
                    attempts: 0,
                    is_elsewhere: false,
                    written_at: Micros::ZERO,
                });
                if is_replaced {
                    conn.client.withdraw(now, BatchKey(slot_index));
                }
                if !is_wanted(&conn.client, lane_key) {
                    self.mark_full(lane_index);
                }
            }
            Err(SubmitError::Ended(ended)) => {
                let reason = match ended {
                    Ended::Failed(fatal) => login_refused(fatal),
                    Ended::Closing | Ended::NumbersExhausted => NotSentReason::Closed,
                };
                self.finish_batch(batch, BatchOutcome::NotSent { reason });
            }
            Err(error) => panic!("the protocol client refused a batch: {error}"),
        }
    }

    /// Has nothing transmitted any more that was accepted for a topic whose name means another one
    /// now.
    fn withdraw_replaced(&mut self, now: Micros) {
        for (index, in_flight) in self.batches.iter().enumerate() {
            if let Some(InFlight { batch, .. }) = in_flight
                && !batch.lane.topic.is_in(batch.life)
            {
                let key = BatchKey(u32::try_from(index).expect("slots are counted in u32"));
                let conn = &mut self.conns[batch.lane.place.conn as usize];
                conn.client.withdraw(now, key);
            }
        }
    }

    fn close(&mut self, now: Micros, deadline: Micros) {
        self.is_closing = true;
        self.seal_all_lanes(now);
        self.submit_sealed(now);
        for conn in &mut self.conns {
            conn.client.close(now, deadline);
        }
    }
}

/// The reason a record gets when the session can never be.
pub(super) fn login_refused(fatal: FatalError) -> NotSentReason {
    let code = match fatal {
        FatalError::LoginRejected(code) => Some(code),
        FatalError::Evicted(_) | FatalError::LoginFailed => None,
    };
    NotSentReason::LoginRefused { code }
}
