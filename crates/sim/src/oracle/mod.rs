//! The oracle: knows what the applications asked for, what the server stored and what the clients
//! answered, and finds the first thing that cannot all be true.
//!
//! Role: judges. Does not: know how the client under test works, nor share a line of code with it.
//!
//! # What it checks
//!
//! * Truth: every accepted batch and call gets one answer. `Stored` means in the log, at that
//!   offset, on that partition; `StoredOffsetUnknown` means in the log; `Rejected` and `NotSent`
//!   mean in no log, at any time, stale copies included. Within one life of a partition a batch is
//!   stored once, unless the server was made to forget the client's duplicate window while a copy
//!   could be under way. Nothing that a client still counts on is answered with success by the
//!   duplicate window without being stored ("swallowed").
//! * Order: a confirmed batch of a lane is stored after a later one only if the server refused or
//!   dropped a copy of it. Those that are, are at most as many as the client counted, and none in
//!   strict order.
//! * Strict order has no holes: no batch of a strict lane is in a log when one before it ended
//!   otherwise than stored, unless the application resumed the lane between; and as long as that is
//!   so, one request of the lane at most can still be stored.
//! * Memory: a batch's memory is not given back while a write of it is in flight, and bytes arrive
//!   as submitted. What is lent to the kernel does not change. An application that waits for
//!   nothing holds no memory: all of it came back, once.
//! * Batches: a record joins the batch that its receipt says, at that place; a batch leaves with
//!   the records that joined it, in their order; all records of a batch get one answer, and it is
//!   told to each.
//! * Waiting: futures are polled when their waker was called and at no other time, and the accounts
//!   of the engine are what the polled answers add up to, so a waiter that is not told shows. When
//!   a shard goes to sleep, no sender waits for memory that there is, and no lane has both
//!   something due and room to send it.
//! * Linger: no batch is sent before its linger is over, unless it is full, about to expire, or
//!   wanted at once.
//! * Lost coverage: after a login from which the client can tell that the server forgot it, nothing
//!   that may have been admitted before is sent again, unless its policy says so.
//! * Reasons: `Unknown` needs a deadline that is over, a loss that the client can have noticed, or
//!   a refusal with a copy unaccounted for; `NotSent` and `Rejected` need theirs. A run without
//!   faults stores everything with offsets.
//! * Time: nothing is answered more than some 30 ms late: when a deadline is over, and the server
//!   has answered nothing for as long as the batch waits for progress, only a write in flight may
//!   hold the answer back. Nothing that waits for progress is given up while the server answers its
//!   lane, nor before it was out for so long. Once faults stop, everything is answered, and what is
//!   sent then is stored.
//! * Laws, if asked for: numbers rise and are never used twice, a retry keeps its number, the span
//!   of a lane's open numbers is at most 127, its count at most the window, and a new connection
//!   begins with the open requests in order. These look at the wire instead of at the outcome, so a
//!   breach shows before it does harm.
//!
//! # What it does not check
//!
//! * That a refusal drains a window before the refused are sent again (W7), except by the order
//!   that results.
//! * That pauses between retries grow, and that jitter is even.
//! * That `StoredOffsetUnknown` is given only for want of an offset.
//! * Order between batches answered `Unknown` and others, and order across lanes.

mod calls;
mod lanes;
mod violation;

pub use violation::{Kind, Violation};

use crate::broker::{LogEntry, LogId};
use crate::draws::ClientDraws;
use calls::CallRecord;
use lanes::Lane;
use ringmain_proto::{Account, NotSent, Receipt};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A copy of a batch in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placement {
    log: LogId,
    base_offset: u64,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The client's answer; `None` when there was none before the run ended.
    pub receipt: Option<Receipt>,
    /// The base offsets of all copies that were stored, in whatever log, in the order in which they
    /// were.
    pub offsets: Vec<u64>,
}

/// What is known about a batch.
#[derive(Clone, Debug)]
struct BatchRecord {
    client: usize,
    lane: usize,
    /// Its place among the batches of its lane.
    order: u32,
    /// How often its lane had been resumed when it was submitted.
    resumptions: u32,
    records: u32,
    /// On the client's clock; `None` for never.
    deadline_us: Option<u64>,
    /// How long it waits for progress of the server, whatever its deadline.
    progress_us: u64,
    request: Option<u64>,
    /// When it was sent first, on the client's clock.
    sent_us: u64,
    /// The connection that it was sent on last.
    sent_on: Option<usize>,
    receipt: Option<Receipt>,
    placements: Vec<Placement>,
    refused: bool,
    /// A copy was refused or dropped, so that later ones could overtake it.
    passed_over: bool,
    /// Logs on which the server forgot the client's window while a copy could be under way.
    uncovered: Vec<LogId>,
    /// Must end as `Stored`: it was submitted after faults stopped.
    probe: bool,
    /// Submitted before the last loss that its client can have noticed.
    unsettled: bool,
    /// It may have been admitted before a loss that its client noticed, and the client is not to
    /// send such again.
    given_up: bool,
}

/// What is known about a client.
#[derive(Debug, Default)]
struct ClientRecord {
    identity: u128,
    strict: bool,
    window: usize,
    lanes: Vec<Lane>,
    /// When it received an answer to any send last, on its clock.
    heard_us: u64,
    /// Deadlines of the open batches and calls, on the client's clock.
    deadlines: BTreeSet<(u64, u32)>,
    open: BTreeSet<u32>,
    /// The highest number seen of an operation that advances the counter.
    request_last: u64,
    account: Account,
    /// The server evicted it for good.
    may_fail: bool,
    failed: bool,
    purged: bool,
    /// The deadline of its close, on its clock.
    closes_at_us: Option<u64>,
    /// Its request numbers are used up.
    exhausted: bool,
    /// Its session was forgotten and it has no new one.
    forgotten: bool,
    /// It sends again what may have been admitted before a loss.
    resends_uncovered: bool,
    /// The epoch of its last login, 0 before the first.
    epoch: u64,
    /// It was told that the server knows no session of it, since the last login.
    told_forgotten: bool,
}

/// Judges a run.
pub(crate) struct Oracle {
    laws: bool,
    clients: Vec<ClientRecord>,
    batches: Vec<BatchRecord>,
    calls: BTreeMap<u64, CallRecord>,
    applied: BTreeMap<u64, u32>,
    first: Option<Violation>,
    /// Answers of the duplicate window for what was given up before: harmless, and proof that the
    /// case was met.
    swallowed_after_give_up: u64,
}

impl Oracle {
    pub(crate) fn new(laws: bool) -> Self {
        Self {
            laws,
            clients: Vec::new(),
            batches: Vec::new(),
            calls: BTreeMap::new(),
            applied: BTreeMap::new(),
            first: None,
            swallowed_after_give_up: 0,
        }
    }

    /// Registers a client; clients are numbered in this order.
    pub(crate) fn add_client(&mut self, identity: u128, draws: &ClientDraws) {
        let lanes = draws.lanes.iter().map(|&partition| Lane::new(partition));
        let window = if draws.strict {
            1
        } else {
            usize::from(draws.window_requests_max)
        };
        self.clients.push(ClientRecord {
            identity,
            window,
            strict: draws.strict,
            resends_uncovered: draws.resends_uncovered,
            lanes: lanes.collect(),
            ..ClientRecord::default()
        });
    }

    /// The first violation found.
    pub(crate) const fn violation(&self) -> Option<&Violation> {
        self.first.as_ref()
    }

    /// Notes a violation; the first one counts.
    pub(crate) fn blame(&mut self, kind: Kind, detail: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(Violation {
                kind,
                detail: detail(),
            });
        }
    }

    /// How often the window answered for something that was given up before.
    pub(crate) const fn swallowed_after_give_up(&self) -> u64 {
        self.swallowed_after_give_up
    }

    /// A batch was accepted by a client. Returns its number over the whole run.
    pub(crate) fn submitted(
        &mut self,
        client: usize,
        lane: usize,
        records: u32,
        deadline_us: Option<u64>,
        progress_us: u64,
        probe: bool,
    ) -> u32 {
        let batch = self.batches.len() as u32;
        let record = &mut self.clients[client];
        let (order, unsettled) = (record.lanes[lane].submitted, record.forgotten);
        let resumptions = record.lanes[lane].resumptions;
        record.lanes[lane].submitted += 1;
        record.open.insert(batch);
        record.account.accepted += u64::from(records);
        record.account.in_flight += u64::from(records);
        if let Some(deadline_us) = deadline_us {
            record.deadlines.insert((deadline_us, batch));
        }
        self.batches.push(BatchRecord {
            client,
            lane,
            order,
            resumptions,
            records,
            deadline_us,
            progress_us,
            request: None,
            sent_us: 0,
            sent_on: None,
            receipt: None,
            placements: Vec::new(),
            refused: false,
            passed_over: false,
            uncovered: Vec::new(),
            probe,
            unsettled,
            given_up: false,
        });
        batch
    }

    /// One more record joined a batch.
    pub(crate) fn joined(&mut self, batch: u32) {
        let record = &mut self.batches[batch as usize];
        record.records += 1;
        let account = &mut self.clients[record.client].account;
        account.accepted += 1;
        account.in_flight += 1;
    }

    /// A client answered for a batch.
    pub(crate) fn resolved(&mut self, now_us: u64, batch: u32, receipt: Receipt, writing: bool) {
        let record = &mut self.batches[batch as usize];
        if record.receipt.is_some() {
            return self.blame(Kind::ReceiptTwice, || {
                format!("batch {batch} was answered again: {receipt:?}")
            });
        }
        record.receipt = Some(receipt);
        let record = record.clone();
        let client = &mut self.clients[record.client];
        client.open.remove(&batch);
        if let Some(deadline_us) = record.deadline_us {
            client.deadlines.remove(&(deadline_us, batch));
        }
        if let Some(request) = record.request {
            client.lanes[record.lane].open.remove(&request);
        }
        settle(&mut client.account, record.records, receipt);
        let is_behind = client.lanes[record.lane].is_behind(&record);
        if client.strict && !receipt.is_stored() {
            let reason = NotSent::BehindUnstored;
            let is_consequence = receipt == Receipt::NotSent { reason };
            client.lanes[record.lane].lose(record.order, is_consequence);
        }
        if writing {
            self.blame(Kind::FreedWhileWriting, || {
                format!("batch {batch} is free, and a write of it is in flight")
            });
        }
        self.judge_truth(batch, &record, receipt);
        self.judge_reason(now_us, batch, &record, receipt, is_behind);
    }

    fn judge_truth(&mut self, batch: u32, record: &BatchRecord, receipt: Receipt) {
        match receipt {
            Receipt::Stored {
                partition_id,
                base_offset,
            } => {
                let (_, partition) = self.clients[record.client].lanes[record.lane].partition;
                let there = record
                    .placements
                    .iter()
                    .any(|placement| placement.base_offset == base_offset);
                if partition_id != partition || !there {
                    self.blame(Kind::StoredWrong, || {
                        format!("batch {batch} on partition {partition}: {receipt:?}, but it is at {:?}", record.placements)
                    });
                }
            }
            Receipt::StoredOffsetUnknown if record.placements.is_empty() => {
                self.blame(Kind::StoredWrong, || {
                    format!("batch {batch}: {receipt:?}, but it is in no log")
                });
            }
            Receipt::Rejected { .. } | Receipt::NotSent { .. } => self.judge_absence(batch),
            Receipt::StoredOffsetUnknown | Receipt::Unknown { .. } => {}
        }
        let client = &self.clients[record.client];
        let ended = client.failed || client.exhausted;
        if record.probe && !receipt.is_stored() && !ended {
            self.blame(Kind::NotLive, || {
                format!("batch {batch} was sent after faults stopped, and ended as {receipt:?}")
            });
        }
    }

    /// A batch that was answered `Rejected` or `NotSent` must be in no log.
    fn judge_absence(&mut self, batch: u32) {
        let record = &self.batches[batch as usize];
        let absent = matches!(
            record.receipt,
            Some(Receipt::Rejected { .. } | Receipt::NotSent { .. })
        );
        if absent && !record.placements.is_empty() {
            let (receipt, placements) = (record.receipt, record.placements.clone());
            self.blame(Kind::StoredAfterAll, || {
                format!("batch {batch}: {receipt:?}, but it is at {placements:?}")
            });
        }
    }

    fn judge_reason(
        &mut self,
        now_us: u64,
        batch: u32,
        record: &BatchRecord,
        receipt: Receipt,
        is_behind: bool,
    ) {
        let client = &self.clients[record.client];
        // Progress since then keeps it from being given up.
        let progress_at_us = match record.request {
            Some(_) => record.sent_us,
            None => client.lanes[record.lane].answered_us,
        };
        let waits_until_us = match record.progress_us {
            0 => 0,
            progress_us => {
                (progress_at_us + progress_us).min(client.closes_at_us.unwrap_or(u64::MAX))
            }
        };
        let overdue = record
            .deadline_us
            .is_some_and(|deadline_us| deadline_us.max(waits_until_us) <= now_us);
        let sound = match receipt {
            Receipt::Stored { .. } | Receipt::StoredOffsetUnknown => true,
            Receipt::Rejected { .. } => record.refused,
            Receipt::NotSent {
                reason: NotSent::Deadline,
            } => overdue && record.deadline_us < client.closes_at_us.or(Some(u64::MAX)),
            Receipt::NotSent {
                reason: NotSent::Closed,
            } => client.closes_at_us.is_some_and(|at_us| at_us <= now_us),
            // A refusal may arrive while a write holds back the answer that something else decided.
            Receipt::NotSent {
                reason: NotSent::Refused,
            } => record.passed_over && (overdue || client.purged || client.failed),
            Receipt::NotSent {
                reason: NotSent::Purged,
            } => client.purged,
            Receipt::NotSent {
                reason: NotSent::BehindUnstored,
            } => is_behind || self.has_decided_ahead(record),
            Receipt::NotSent {
                reason: NotSent::Failed(_),
            } => client.failed,
            Receipt::NotSent {
                reason: NotSent::NumbersExhausted,
            } => client.exhausted || client.closes_at_us.is_some(),
            // No application of the simulator withdraws anything.
            Receipt::NotSent {
                reason: NotSent::Withdrawn,
            } => false,
            Receipt::Unknown { request } => {
                let told = record.request == Some(request);
                told && (overdue
                    || client.failed
                    || client.purged
                    || record.refused
                    || record.unsettled)
            }
        };
        if !sound {
            self.blame(Kind::NoReason, || {
                format!("batch {batch}: {receipt:?} at {now_us} for no reason: {record:?}")
            });
        }
    }

    /// Whether something ahead of a batch in its lane may be given up already, and its answer held
    /// back by a write.
    fn has_decided_ahead(&self, record: &BatchRecord) -> bool {
        let client = &self.clients[record.client];
        client.open.iter().any(|&batch| {
            let ahead = &self.batches[batch as usize];
            ahead.lane == record.lane && ahead.order < record.order && client.purged
        })
    }

    /// A client ended for good; from here on its answers may be `Failed`.
    pub(crate) fn failed(&mut self, client: usize) {
        self.clients[client].failed = true;
        if !self.clients[client].may_fail {
            self.blame(Kind::NoReason, || {
                format!("client {client} failed, and nobody evicted it for good")
            });
        }
    }

    /// The server evicted a client for good.
    pub(crate) fn evicted_for_good(&mut self, identity: u128) {
        for client in self
            .clients
            .iter_mut()
            .filter(|client| client.identity == identity)
        {
            client.may_fail = true;
        }
    }

    /// The request numbers of a client are used up.
    pub(crate) fn exhausted(&mut self, client: usize) {
        self.clients[client].exhausted = true;
    }

    /// A client is closing: whatever is open ends by `deadline_us` on its clock.
    pub(crate) fn closing(&mut self, client: usize, deadline_us: u64) {
        let record = &mut self.clients[client];
        let closes_at_us = record.closes_at_us.unwrap_or(u64::MAX).min(deadline_us);
        record.closes_at_us = Some(closes_at_us);
        record.deadlines.clear();
        for &batch in &record.open {
            let own = &mut self.batches[batch as usize].deadline_us;
            let capped = own.map_or(deadline_us, |own| own.min(deadline_us));
            *own = Some(capped);
            record.deadlines.insert((capped, batch));
        }
        for call in self.calls.values_mut().filter(|call| call.client == client) {
            call.end_by(deadline_us);
        }
    }

    /// A client was purged.
    pub(crate) fn purged(&mut self, client: usize) {
        self.clients[client].purged = true;
    }

    /// A client received an answer to a send; to this batch, if it says that it is stored.
    pub(crate) fn heard(&mut self, client: usize, stored: Option<u32>, now_us: u64) {
        self.clients[client].heard_us = now_us;
        if let Some(batch) = stored {
            let lane = self.batches[batch as usize].lane;
            self.clients[client].lanes[lane].answered_us = now_us;
        }
    }

    /// The application of a client accepts what its lane has lost so far.
    pub(crate) fn resumed(&mut self, client: usize, lane: usize) {
        self.clients[client].lanes[lane].resume();
    }

    /// The server may have forgotten what it knew about all clients, or about one, and the client
    /// can notice.
    pub(crate) fn coverage_lost(&mut self, identity: Option<u128>) {
        for client in &mut self.clients {
            if identity.is_some_and(|identity| identity != client.identity) {
                continue;
            }
            client.forgotten = true;
            for &batch in &client.open {
                self.batches[batch as usize].unsettled = true;
            }
        }
        for call in self.calls.values_mut() {
            if identity.is_none_or(|identity| identity == self.clients[call.client].identity) {
                call.uncovered = true;
            }
        }
    }

    /// A client has a new session.
    pub(crate) fn registered(&mut self, identity: u128) {
        for client in self
            .clients
            .iter_mut()
            .filter(|client| client.identity == identity)
        {
            client.forgotten = false;
        }
    }

    /// A client was told that the server knows no session of it.
    pub(crate) fn told_forgotten(&mut self, client: usize) {
        self.clients[client].told_forgotten = true;
    }

    /// A client was told its new epoch.
    pub(crate) fn logged_in(&mut self, client: usize, epoch: u64) {
        let record = &mut self.clients[client];
        let before = std::mem::replace(&mut record.epoch, epoch);
        let told = std::mem::take(&mut record.told_forgotten);
        let noticed = before != 0 && (epoch <= before || told);
        if !noticed || record.resends_uncovered {
            return;
        }
        for &batch in &record.open {
            let batch = &mut self.batches[batch as usize];
            batch.given_up = batch.request.is_some() && !batch.passed_over;
        }
    }

    /// The server forgot the duplicate window of a client on the partition of a log.
    pub(crate) fn window_forgotten(&mut self, identity: u128, log: LogId) {
        for record in &mut self.batches {
            if self.clients[record.client].identity == identity && record.request.is_some() {
                record.uncovered.push(log);
            }
        }
    }

    /// The server stored a batch.
    pub(crate) fn stored(&mut self, batch: u32, log: LogId, home: (u32, u32), base_offset: u64) {
        let Some(record) = self.batches.get_mut(batch as usize) else {
            return self.blame(Kind::Corrupt, || {
                format!("the log holds batch {batch}, which nobody sent")
            });
        };
        let meant = self.clients[record.client].lanes[record.lane].partition;
        let again = record
            .placements
            .iter()
            .any(|placement| placement.log == log);
        let covered = !record.uncovered.contains(&log);
        record.placements.push(Placement { log, base_offset });
        if again && covered {
            let placements = record.placements.clone();
            self.blame(Kind::StoredTwice, || {
                format!("batch {batch} is stored twice: {placements:?}")
            });
        }
        if home != meant {
            self.blame(Kind::Corrupt, || {
                format!("batch {batch} for {meant:?} is stored in {home:?}")
            });
        }
        self.judge_absence(batch);
    }

    /// The duplicate window answered success for a batch without looking.
    pub(crate) fn below_window(&mut self, batch: u32, log: LogId) {
        let record = &self.batches[batch as usize];
        if record
            .placements
            .iter()
            .any(|placement| placement.log == log)
        {
            return;
        }
        if record.receipt.is_some() {
            self.swallowed_after_give_up += 1;
            return;
        }
        let request = record.request;
        self.blame(Kind::Swallowed, || {
            format!("batch {batch}, request {request:?}, is below the window of {log:?} and was never stored")
        });
    }

    /// A copy of a batch was refused for now, or dropped.
    pub(crate) fn not_taken(&mut self, batch: u32) {
        self.batches[batch as usize].passed_over = true;
    }

    /// The server refused a batch for good.
    pub(crate) fn refused(&mut self, batch: u32) {
        let record = &mut self.batches[batch as usize];
        record.refused = true;
        record.passed_over = true;
    }

    /// After a client was drained: nothing overdue may be open, unless a write holds it.
    pub(crate) fn check_overdue(
        &mut self,
        client: usize,
        now_us: u64,
        writing: impl Fn(u32) -> bool,
    ) {
        let closes_at_us = self.clients[client].closes_at_us.unwrap_or(u64::MAX);
        let late = self.clients[client]
            .deadlines
            .iter()
            .take_while(|(deadline_us, _)| *deadline_us <= now_us)
            .find(|&&(_, batch)| {
                let record = &self.batches[batch as usize];
                let moved_us = self.clients[client].heard_us.max(record.sent_us);
                let until_us = (moved_us + record.progress_us).min(closes_at_us);
                let is_waiting = record.progress_us > 0 && now_us < until_us;
                !is_waiting && !writing(batch)
            })
            .copied();
        if let Some((deadline_us, batch)) = late {
            self.blame(Kind::Late, || {
                format!("batch {batch} had until {deadline_us}, it is {now_us}, and no answer")
            });
        }
    }

    /// The account of an application must be what the answers of its clients add up to.
    pub(crate) fn check_accounts(&mut self, clients: Range<usize>, account: Account) {
        let expected = sum(&self.clients[clients.clone()]);
        if account != expected {
            self.blame(Kind::AccountWrong, || {
                format!("clients {clients:?} say {account:?}, answers say {expected:?}")
            });
        }
    }

    /// What became of every batch.
    pub(crate) fn fates(&self) -> Vec<Fate> {
        let fate = |record: &BatchRecord| Fate {
            receipt: record.receipt,
            offsets: record
                .placements
                .iter()
                .map(|placement| placement.base_offset)
                .collect(),
        };
        self.batches.iter().map(fate).collect()
    }

    /// What became of the records of all clients.
    pub(crate) fn account(&self) -> Account {
        sum(&self.clients)
    }

    /// The last judgement, when nothing can happen any more. `overtaken` is what each client
    /// counted, `firsts` names batches by the numbers of their first records.
    pub(crate) fn close<'a>(
        &mut self,
        overtaken: &[u64],
        logs: impl Iterator<Item = (LogId, &'a [LogEntry])>,
        firsts: &BTreeMap<u32, u32>,
        faultless: bool,
    ) {
        for batch in 0..self.batches.len() as u32 {
            let record = &self.batches[batch as usize];
            let receipt = record.receipt;
            if receipt.is_none() {
                self.blame(Kind::ReceiptMissing, || {
                    format!("batch {batch} was never answered")
                });
            } else if faultless && !matches!(receipt, Some(Receipt::Stored { .. })) {
                self.blame(Kind::NoReason, || {
                    format!("batch {batch} ended as {receipt:?} in a run without faults")
                });
            }
        }
        self.audit_logs(logs, firsts);
        self.judge_order(overtaken);
        self.judge_holes();
        self.judge_calls();
    }

    /// The logs hold what the commits announced, without gaps.
    fn audit_logs<'a>(
        &mut self,
        logs: impl Iterator<Item = (LogId, &'a [LogEntry])>,
        firsts: &BTreeMap<u32, u32>,
    ) {
        for (log, entries) in logs {
            let mut next = 0;
            for entry in entries {
                let announced = entry.batch.is_none_or(|first| {
                    let batch = firsts[&first];
                    let placement = Placement {
                        log,
                        base_offset: entry.base_offset,
                    };
                    let record = &self.batches[batch as usize];
                    record.records == entry.records && record.placements.contains(&placement)
                });
                if entry.base_offset != next || !announced {
                    self.blame(Kind::Corrupt, || {
                        format!("{log:?} holds {entry:?}, where offset {next} is due")
                    });
                }
                next = entry.base_offset + u64::from(entry.records);
            }
        }
    }
}

/// Moves the records of a batch to where its receipt puts them.
fn settle(account: &mut Account, records: u32, receipt: Receipt) {
    let records = u64::from(records);
    account.in_flight -= records;
    let total = match receipt {
        Receipt::Stored { .. } => &mut account.stored,
        Receipt::StoredOffsetUnknown => &mut account.stored_offset_unknown,
        Receipt::Rejected { .. } => &mut account.rejected,
        Receipt::NotSent { .. } => &mut account.not_sent,
        Receipt::Unknown { .. } => &mut account.unknown,
    };
    *total += records;
}

fn sum(clients: &[ClientRecord]) -> Account {
    let mut sum = Account::default();
    for Account {
        accepted,
        stored,
        stored_offset_unknown,
        rejected,
        not_sent,
        unknown,
        in_flight,
    } in clients.iter().map(|client| client.account)
    {
        sum.accepted += accepted;
        sum.stored += stored;
        sum.stored_offset_unknown += stored_offset_unknown;
        sum.rejected += rejected;
        sum.not_sent += not_sent;
        sum.unknown += unknown;
        sum.in_flight += in_flight;
    }
    sum
}
