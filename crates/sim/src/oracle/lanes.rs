//! The oracle's view of lanes: the laws of the window as seen on the wire, and order as seen in the
//! logs.

use super::{BatchRecord, Kind, Oracle, Placement};
use crate::broker::LogId;
use std::collections::BTreeMap;

/// The widest span of open numbers of a lane (law W1).
const SPAN_MAX: u64 = 127;

/// A lane of a client.
#[derive(Debug)]
pub(super) struct Lane {
    /// Topic and partition.
    pub(super) partition: (u32, u32),
    /// Batches accepted for it.
    pub(super) submitted: u32,
    /// Numbers sent and not answered, with their batches.
    pub(super) open: BTreeMap<u64, u32>,
    /// When the client was told last that one of its batches is stored, on the client's clock.
    pub(super) answered_us: u64,
    /// How often the application resumed it.
    pub(super) resumptions: u32,
    /// Batches below were submitted before the last resumption.
    resumed_below: u32,
    /// Batches of a strict lane that are not stored.
    losses: Vec<Loss>,
}

/// A batch of a strict lane that ended otherwise than stored.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// Its place among the batches of its lane.
    order: u32,
    /// Batches submitted after so many resumptions may be stored although it is not.
    accepted_from: Option<u32>,
}

impl Lane {
    pub(super) const fn new(partition: (u32, u32)) -> Self {
        Self {
            partition,
            submitted: 0,
            open: BTreeMap::new(),
            answered_us: 0,
            resumptions: 0,
            resumed_below: 0,
            losses: Vec::new(),
        }
    }

    /// A batch is not stored. One that was not sent because of another, which was accepted
    /// meanwhile, is accepted with it.
    pub(super) fn lose(&mut self, order: u32, is_consequence: bool) {
        let is_accepted = is_consequence && order < self.resumed_below;
        self.losses.push(Loss {
            order,
            accepted_from: is_accepted.then_some(self.resumptions),
        });
    }

    /// What was lost so far is accepted for what is submitted from now on. Without effect where
    /// nothing was lost.
    pub(super) fn resume(&mut self) {
        if self.losses.iter().all(|loss| loss.accepted_from.is_some()) {
            return;
        }
        self.resumptions += 1;
        self.resumed_below = self.submitted;
        for loss in &mut self.losses {
            loss.accepted_from.get_or_insert(self.resumptions);
        }
    }

    /// Whether something before this batch is lost, and that was not accepted for it.
    pub(super) fn is_behind(&self, record: &BatchRecord) -> bool {
        self.losses.iter().any(|loss| {
            loss.order < record.order
                && loss
                    .accepted_from
                    .is_none_or(|from| record.resumptions < from)
        })
    }
}

impl Oracle {
    /// A client handed a batch to a connection under this number.
    pub(crate) fn sent(&mut self, conn: usize, batch: u32, request: u64, now_us: u64) {
        let record = &mut self.batches[batch as usize];
        if record.request.is_none() {
            record.sent_us = now_us;
        }
        let (client, lane, before) = (record.client, record.lane, record.request);
        let (answered, given_up) = (record.receipt.is_some(), record.given_up);
        record.request.get_or_insert(request);
        let resumed = record.sent_on == Some(conn);
        record.sent_on = Some(conn);
        if given_up {
            self.blame(Kind::SentUncovered, || {
                format!(
                    "batch {batch}, request {request}, may be stored, and the server forgot that"
                )
            });
        }
        if answered {
            self.law(|| format!("batch {batch} was answered and is sent again"));
        }
        match before {
            Some(number) if number != request => {
                self.law(|| {
                    format!("batch {batch} had number {number} and is sent again as {request} (W3)")
                });
            }
            Some(_) => {}
            None => self.number_taken(client, request),
        }
        let is_behind = self.clients[client].lanes[lane].is_behind(&self.batches[batch as usize]);
        if is_behind {
            self.law(|| format!("batch {batch} is sent, and one before it is not stored"));
        }
        let open = &mut self.clients[client].lanes[lane].open;
        open.insert(request, batch);
        if !resumed {
            self.judge_resumption(client, lane, conn, request);
        }
        self.judge_window(client, lane, request);
    }

    /// A number was used for the first time by an operation that advances the counter.
    pub(super) fn number_taken(&mut self, client: usize, request: u64) {
        let last = self.clients[client].request_last;
        self.clients[client].request_last = last.max(request);
        if request <= last {
            self.law(|| format!("client {client} used number {request} after {last} (W4)"));
        }
    }

    /// Everything older must have been sent on this connection before.
    fn judge_resumption(&mut self, client: usize, lane: usize, conn: usize, request: u64) {
        let open = &self.clients[client].lanes[lane].open;
        let skipped = open
            .range(..request)
            .find(|&(_, &batch)| self.batches[batch as usize].sent_on != Some(conn))
            .map(|(&older, _)| older);
        if let Some(older) = skipped {
            self.law(|| {
                format!("client {client} sends {request} on connection {conn} before {older} (W5)")
            });
        }
    }

    /// Strict order has no holes: what is in a log has nothing before it that is not stored.
    pub(super) fn judge_holes(&mut self) {
        for batch in 0..self.batches.len() {
            let record = &self.batches[batch];
            let lane = &self.clients[record.client].lanes[record.lane];
            if !record.placements.is_empty() && lane.is_behind(record) {
                let detail = format!("batch {batch} is stored behind a hole: {record:?}");
                self.blame(Kind::StrictBroken, || detail);
            }
        }
    }

    fn judge_window(&mut self, client: usize, lane: usize, request: u64) {
        let record = &self.clients[client];
        let open = &record.lanes[lane].open;
        let (count, window) = (open.len(), record.window);
        let oldest = open.keys().next().copied().unwrap_or(request);
        if request.saturating_sub(oldest) > SPAN_MAX {
            self.law(|| format!("client {client} sends {request} while {oldest} is open (W1)"));
        }
        if count > window {
            self.law(|| {
                format!("client {client} has {count} requests open on a window of {window} (W2)")
            });
        }
    }

    fn law(&mut self, detail: impl FnOnce() -> String) {
        if self.laws {
            self.blame(Kind::LawBroken, detail);
        }
    }

    /// Compares what was overtaken with what each client counted.
    pub(super) fn judge_order(&mut self, counted: &[u64]) {
        let mut overtaken = vec![0u64; self.clients.len()];
        let mut example = vec![None; self.clients.len()];
        let confirmed = self.confirmed();
        for lane in confirmed.chunk_by(|one, next| one.lane() == next.lane()) {
            let mut newest = 0;
            for batch in lane {
                if batch.order < newest {
                    overtaken[batch.client] += 1;
                    example[batch.client].get_or_insert(*batch);
                    if !self.batches[batch.batch].passed_over {
                        self.blame(Kind::OrderBroken, || {
                            format!("a later one overtook what was never refused: {batch:?}")
                        });
                    }
                }
                newest = newest.max(batch.order);
            }
        }
        for (client, &actual) in overtaken.iter().enumerate() {
            let strict = self.clients[client].strict;
            let allowed = if strict { 0 } else { counted[client] };
            let example = example[client];
            if actual > allowed {
                self.blame(Kind::OrderBroken, || {
                    format!(
                        "{actual} batches were overtaken, {allowed} are allowed; one is {example:?}"
                    )
                });
            }
        }
    }

    /// The confirmed batches in the order of the logs, lane by lane. Without those that are stored
    /// more than once, because a log ended or a window was forgotten: of them nobody can say which
    /// copy was confirmed.
    fn confirmed(&self) -> Vec<Confirmed> {
        let mut confirmed = Vec::new();
        for (batch, record) in self.batches.iter().enumerate() {
            let &[Placement { log, base_offset }] = &record.placements[..] else {
                continue;
            };
            if record.receipt.is_some_and(|receipt| receipt.is_stored()) {
                confirmed.push(Confirmed {
                    client: record.client,
                    lane: record.lane,
                    log,
                    base_offset,
                    order: record.order,
                    batch,
                });
            }
        }
        confirmed.sort_unstable();
        confirmed
    }
}

/// A confirmed batch, ordered by lane, log and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Confirmed {
    client: usize,
    lane: usize,
    log: LogId,
    base_offset: u64,
    /// Its place among the batches of its lane.
    order: u32,
    batch: usize,
}

impl Confirmed {
    const fn lane(&self) -> (usize, usize, LogId) {
        (self.client, self.lane, self.log)
    }
}
