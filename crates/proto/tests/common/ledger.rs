//! What the client did and was told, written down plainly; and the laws, derived from that.

use std::collections::HashMap;

use ringmain_proto::*;
use ringmain_wire::{CodeClass, ErrorCode, Operation, Plane};

/// One transmission of a batch.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    connection: u32,
    answer: Option<Verdict>,
}

/// One accepted batch without an outcome.
#[derive(Clone, Debug)]
struct Entry {
    lane: LaneKey,
    records: u32,
    deadline: Micros,
    /// Order of submission, over all lanes.
    ordinal: u64,
    request: u64,
    transmissions: Vec<Transmission>,
    write_in_flight: bool,
    /// The successes that were delivered.
    confirmed: Vec<Verdict>,
    /// A purge gave it up; only a write holds its outcome back.
    is_purged: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Whether refusals tell which transmission they answer.
    pub(crate) server_echoes: bool,
    entries: HashMap<BatchKey, Entry>,
    calls: HashMap<CallKey, (Operation, u64)>,
    lanes: HashMap<LaneKey, LaneConfig>,
    account: Account,
    ordinal: u64,
    connection: u32,
    /// Every number below was taken or skipped.
    request_next: u64,
    pub(crate) closing: bool,
    /// Strict lanes in which a batch was not stored, with the ordinal of the first, until they are
    /// resumed.
    lost: HashMap<LaneKey, u64>,
}

fn is_success(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Refused(code) => code.class() == CodeClass::AlreadyApplied,
        _ => true,
    }
}

/// Whether the answer proves that this transmission stored nothing.
fn is_refusal(verdict: Verdict) -> bool {
    !is_success(verdict)
        && !matches!(verdict, Verdict::Refused(code) if code.class() == CodeClass::UnknownOutcome)
}

impl Entry {
    /// Whether all transmissions are known to have stored nothing.
    fn is_all_refused(&self) -> bool {
        self.transmissions
            .iter()
            .all(|sent| sent.answer.is_some_and(is_refusal))
    }

    /// Whether it must be sent again before anything later of its lane, on this connection.
    fn needs_resend(&self, now: Micros, connection: u32) -> bool {
        let Some(last) = self.transmissions.last() else {
            return false;
        };
        let is_retried = last.connection != connection
            || matches!(last.answer, Some(Verdict::Refused(code)) if code.class() != CodeClass::Permanent);
        is_retried && !self.is_decided(now)
    }

    /// Whether no transmission can follow.
    fn is_decided(&self, now: Micros) -> bool {
        let refusals = |is_meant: fn(ErrorCode) -> bool| {
            let is_meant = |sent: &&Transmission| matches!(sent.answer, Some(Verdict::Refused(code)) if is_meant(code));
            self.transmissions.iter().filter(is_meant).count()
        };
        self.deadline <= now
            || self.is_purged
            || !self.confirmed.is_empty()
            || refusals(|code| code.class() == CodeClass::Permanent) > 0
            || refusals(|code| code == ErrorCode::UNAUTHENTICATED) > 1
    }
}

impl Ledger {
    pub(crate) fn new(request_first: u64) -> Self {
        Self {
            server_echoes: true,
            request_next: request_first,
            ..Self::default()
        }
    }

    pub(crate) fn open(&mut self, lane: LaneKey, config: LaneConfig) {
        self.lanes.insert(lane, config);
    }

    /// The driver accepts what was lost.
    pub(crate) fn resume(&mut self, lane: LaneKey) {
        self.lost.remove(&lane);
    }

    pub(crate) fn submit(&mut self, lane: LaneKey, key: BatchKey, records: u32, deadline: Micros) {
        self.ordinal += 1;
        let entry = Entry {
            lane,
            records,
            deadline,
            ordinal: self.ordinal,
            request: 0,
            transmissions: Vec::new(),
            write_in_flight: false,
            confirmed: Vec::new(),
            is_purged: false,
        };
        assert!(
            self.entries.insert(key, entry).is_none(),
            "a key in use was accepted"
        );
        self.account.accepted += u64::from(records);
        self.account.in_flight += u64::from(records);
    }

    pub(crate) fn call(&mut self, key: CallKey, operation: Operation) {
        assert!(
            self.calls.insert(key, (operation, 0)).is_none(),
            "a key in use was accepted"
        );
    }

    pub(crate) fn transmit(&mut self, now: Micros, transmit: &Transmit, epoch: Option<u64>) {
        assert!(
            !self.closing,
            "nothing goes out on a connection that is given up"
        );
        match *transmit {
            Transmit::Login => {}
            Transmit::Batch {
                key,
                lane,
                request,
                session,
                attempt,
            } => {
                assert_eq!(Some(session), epoch, "W3: the epoch is the current one");
                self.transmit_batch(now, key, lane, request, attempt);
            }
            Transmit::Call {
                key,
                operation,
                request,
                session,
                ..
            } => {
                assert_eq!(Some(session), epoch, "W3: the epoch is the current one");
                self.transmit_call(key, operation, request);
            }
            Transmit::Ping { request, .. } => {
                assert_eq!(request, self.request_next, "W4: a ping takes no number");
            }
            Transmit::Logout { request, .. } => {
                assert!(
                    self.entries.is_empty() && self.calls.is_empty(),
                    "the logout is last"
                );
                self.take_number(request);
            }
        }
    }

    fn transmit_call(&mut self, key: CallKey, operation: Operation, request: u64) {
        let previous = self.calls[&key].1;
        let in_flight = self.calls.iter().find(|(other, (_, number))| {
            **other != key && *number != 0 && (self.calls[other].0.plane() == operation.plane())
        });
        assert!(in_flight.is_none(), "one call of a kind at a time");
        match operation.plane() {
            Plane::Metadata if previous == 0 => self.take_number(request),
            Plane::Metadata => assert_eq!(request, previous, "W3: a retry keeps its number"),
            _ if request == previous => {}
            _ => {
                assert!(request >= self.request_next, "a read repeats the counter");
                self.request_next = request;
            }
        }
        self.calls.insert(key, (operation, request));
    }

    fn transmit_batch(
        &mut self,
        now: Micros,
        key: BatchKey,
        lane: LaneKey,
        request: u64,
        attempt: u32,
    ) {
        let connection = self.connection;
        let entry = self.entries[&key].clone();
        assert_eq!(entry.lane, lane);
        assert!(
            self.lost
                .get(&lane)
                .is_none_or(|lost| entry.ordinal < *lost),
            "strict order: nothing behind a batch that is not stored is sent"
        );
        assert!(!entry.write_in_flight, "one write of a batch at a time");
        assert!(entry.deadline > now, "nothing is sent past its deadline");
        assert_eq!(attempt as usize, entry.transmissions.len() + 1);
        let unresolved = || {
            self.entries
                .values()
                .filter(|other| other.lane == lane && other.request != 0)
        };
        if entry.request == 0 {
            self.check_first(now, key, &entry, request);
        } else {
            assert_eq!(request, entry.request, "W3: a retry keeps its number");
            let earlier = unresolved().filter(|other| other.request < request);
            for other in earlier {
                assert!(
                    !other.needs_resend(now, connection),
                    "W5: {} goes before {request}",
                    other.request
                );
            }
        }
        if entry.request == 0 {
            self.take_number(request);
        }
        let entry = self.entries.get_mut(&key).expect("found above");
        entry.request = request;
        entry.write_in_flight = true;
        entry.transmissions.push(Transmission {
            connection,
            answer: None,
        });
    }

    fn check_first(&self, now: Micros, key: BatchKey, entry: &Entry, request: u64) {
        let config = self.lanes[&entry.lane];
        let window = if config.ordering == Ordering::Strict {
            1
        } else {
            config.window_requests_max
        };
        let of_lane = || {
            self.entries
                .iter()
                .filter(|(_, other)| other.lane == entry.lane)
        };
        let unresolved = || of_lane().filter(|(_, other)| other.request != 0);
        assert!(
            unresolved().count() < usize::from(window),
            "W2: the window is not exceeded"
        );
        for (_, other) in unresolved() {
            assert!(
                request - other.request <= 127,
                "W1: {request} is too far above {}",
                other.request
            );
            assert!(
                !other.needs_resend(now, self.connection),
                "W5, W7: {} goes before any new one",
                other.request
            );
        }
        for (other_key, other) in of_lane() {
            assert!(
                *other_key == key || other.request != 0 || other.ordinal > entry.ordinal,
                "first submitted, first sent"
            );
        }
    }

    fn take_number(&mut self, request: u64) {
        assert!(
            request >= self.request_next,
            "W4: numbers rise and are never reused"
        );
        self.request_next = request + 1;
    }

    pub(crate) fn written(&mut self, frame: Frame) {
        if let Frame::Batch(key) = frame {
            let entry = self
                .entries
                .get_mut(&key)
                .expect("memory was freed while it was being written");
            assert!(
                core::mem::take(&mut entry.write_in_flight),
                "one write of a batch at a time"
            );
        }
    }

    /// A reply to one transmission of a send, or, when `attempt` is 0, to none that was made.
    pub(crate) fn answer(&mut self, request: u64, attempt: u64, verdict: Verdict) {
        let connection = self.connection;
        let mut entries = self.entries.values_mut();
        let Some(entry) = entries.find(|entry| request != 0 && entry.request == request) else {
            return;
        };
        if is_success(verdict) {
            entry.confirmed.push(verdict);
        }
        let answered = (attempt as usize)
            .checked_sub(1)
            .and_then(|index| entry.transmissions.get_mut(index));
        if let Some(sent) = answered
            && sent.connection == connection
        {
            sent.answer.get_or_insert(verdict);
        }
    }

    /// The driver purges.
    pub(crate) fn purge(&mut self) {
        for entry in self.entries.values_mut() {
            entry.is_purged = true;
        }
    }

    /// The driver purges batches of one lane.
    pub(crate) fn purge_some(&mut self, lane: LaneKey, is_meant: impl Fn(BatchKey) -> bool) {
        for (key, entry) in &mut self.entries {
            entry.is_purged |= entry.lane == lane && is_meant(*key);
        }
    }

    pub(crate) fn disconnect(&mut self) {
        self.connection += 1;
        self.closing = false;
        for entry in self.entries.values_mut() {
            entry.write_in_flight = false;
        }
    }

    pub(crate) fn resolve(&mut self, outcome: &Outcome) {
        let (key, lane, records, receipt) = match *outcome {
            Outcome::Batch {
                key,
                lane,
                records,
                receipt,
            } => (key, lane, records, receipt),
            Outcome::Call { key, .. } => {
                assert!(self.calls.remove(&key).is_some(), "an outcome for nothing");
                return;
            }
        };
        let entry = self
            .entries
            .remove(&key)
            .expect("one outcome for each batch");
        assert_eq!((lane, records), (entry.lane, entry.records));
        assert!(
            !entry.write_in_flight,
            "no outcome while a write is in flight"
        );
        self.count(&entry, records, receipt);
        let is_stored = receipt.is_stored();
        let behind = Receipt::NotSent {
            reason: NotSent::BehindUnstored,
        };
        if receipt == behind {
            let lost = self.lost.get(&lane);
            assert!(
                lost.is_some_and(|lost| *lost < entry.ordinal),
                "something ahead of it is lost"
            );
        } else if !is_stored && self.lanes[&lane].ordering == Ordering::Strict {
            let lost = self.lost.entry(lane).or_insert(entry.ordinal);
            *lost = entry.ordinal.min(*lost);
        }
        assert!(
            entry.confirmed.is_empty() || is_stored,
            "a success was delivered: {entry:?}"
        );
    }

    /// Books a receipt, and checks that what was delivered for the batch allows it.
    fn count(&mut self, entry: &Entry, records: u32, receipt: Receipt) {
        let records = u64::from(records);
        self.account.in_flight -= records;
        match receipt {
            Receipt::Stored {
                partition_id,
                base_offset,
            } => {
                assert!(entry.confirmed.contains(&Verdict::Confirmed {
                    partition_id,
                    base_offset
                }));
                self.account.stored += records;
            }
            Receipt::StoredOffsetUnknown => {
                assert!(
                    entry
                        .confirmed
                        .iter()
                        .any(|verdict| !matches!(verdict, Verdict::Confirmed { .. }))
                );
                self.account.stored_offset_unknown += records;
            }
            Receipt::Rejected { code } => {
                assert!(
                    entry.is_all_refused(),
                    "a rejection is a promise: {entry:?}"
                );
                assert!(
                    entry
                        .transmissions
                        .iter()
                        .any(|sent| sent.answer == Some(Verdict::Refused(code)))
                );
                self.account.rejected += records;
            }
            Receipt::NotSent { .. } => {
                assert!(entry.is_all_refused(), "not sent is a promise: {entry:?}");
                self.account.not_sent += records;
            }
            Receipt::Unknown { request } => {
                assert!(request != 0 && request == entry.request);
                let is_told_apart = self.server_echoes || entry.transmissions.len() == 1;
                let is_certain = is_told_apart && entry.is_all_refused();
                assert!(!is_certain, "unknown is not for what is certain: {entry:?}");
                self.account.unknown += records;
            }
        }
    }

    pub(crate) fn check_account(&self, account: &Account) {
        assert_eq!(*account, self.account);
    }

    pub(crate) fn check_deadlines(&self, now: Micros) {
        for (key, entry) in &self.entries {
            assert!(
                entry.deadline > now || entry.write_in_flight,
                "{key:?} is past its deadline: {entry:?}"
            );
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.calls.is_empty()
    }

    /// Numbers of the lane's unresolved requests, rising.
    pub(crate) fn unresolved(&self, lane: LaneKey) -> Vec<u64> {
        let of_lane = self
            .entries
            .values()
            .filter(|entry| entry.lane == lane && entry.request != 0);
        let mut numbers: Vec<u64> = of_lane.map(|entry| entry.request).collect();
        numbers.sort_unstable();
        numbers
    }
}
