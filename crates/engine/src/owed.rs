//! The answers that are owed for the records of a batch, and whose they are: an account and a cell
//! for each producer.
//!
//! Producers of one topic append to the same lanes, so their records share batches, in the order of
//! their acceptance. A batch of one producer costs nothing for it. One of several notes the
//! producer of each record in a byte, so that the records of one can be taken out while the batch
//! waits.
//!
//! Receipts know a record by its place in the batch as it was appended. What is taken out later
//! moves the records behind it in the log and not in their receipts: `removed` says which places
//! are gone.

use std::sync::Arc;

use ringmain_wire::batch::MESSAGE_HEADER_BYTES;

use crate::ledger::Ledger;
use crate::outcome::NotSentReason;
use crate::receipt::{BatchCell, BatchOutcome};
use crate::user_code::Deferred;

/// Producers of one batch at most. The next one opens a batch.
pub(crate) const SHARES_MAX: usize = 64;

const _: () = assert!(SHARES_MAX <= u8::MAX as usize, "an owner is a byte");

/// The records of one producer in a batch.
struct Share {
    ledger: Arc<Ledger>,
    cell: Arc<BatchCell>,
    /// Records of it that were appended.
    records: u32,
    /// Those that the ledger counts as accepted.
    accepted: u32,
    /// The ledger has the answer. The cell follows.
    is_counted: bool,
}

impl Share {
    fn new(ledger: &Arc<Ledger>, cell: Arc<BatchCell>) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            cell,
            records: 0,
            accepted: 0,
            is_counted: false,
        }
    }

    fn is_of(&self, ledger: &Arc<Ledger>) -> bool {
        Arc::ptr_eq(&self.ledger, ledger)
    }

    fn count_accepted(&mut self) {
        self.ledger.accept(self.records - self.accepted);
        self.accepted = self.records;
    }

    fn count(&mut self, outcome: &BatchOutcome) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.ledger.resolve(outcome, self.accepted);
        }
    }
}

/// The producers of a batch but the first. Kept for the next batch of several.
pub(crate) struct Others {
    shares: Vec<Share>,
    /// The producer of each record that is in the body: 0 is the first one.
    owners: Vec<u8>,
    /// Places of the records that were taken out, in order.
    removed: Vec<u32>,
}

impl Others {
    /// With room for a batch of this many bytes, so that no batch makes it grow.
    pub(crate) fn with_room(batch_bytes: usize) -> Box<Self> {
        Box::new(Self {
            shares: Vec::with_capacity(SHARES_MAX),
            owners: Vec::with_capacity(batch_bytes / MESSAGE_HEADER_BYTES),
            removed: Vec::new(),
        })
    }
}

/// What is owed for a batch, from its first record on.
///
/// Dropped without an answer, whatever went wrong, it gives the one that is true for every batch
/// that nobody looks after any more: `NotSent` when it never left, `Unknown` otherwise.
pub(crate) struct Owed {
    first: Share,
    others: Option<Box<Others>>,
    /// Whose record came last: 0 is the first producer.
    current: usize,
    /// The request number it was handed to the ring with; zero before.
    pub(crate) request: u64,
}

impl Owed {
    /// For a batch whose first record is of this producer, before that is counted.
    pub(crate) fn new(ledger: &Arc<Ledger>, cell: Arc<BatchCell>) -> Self {
        Self {
            first: Share::new(ledger, cell),
            others: None,
            current: 0,
            request: 0,
        }
    }

    /// Makes the next record one of this producer's. False when there is none of it yet.
    #[inline]
    pub(crate) fn turn_to(&mut self, ledger: &Arc<Ledger>) -> bool {
        self.current().is_of(ledger) || self.find(ledger)
    }

    fn find(&mut self, ledger: &Arc<Ledger>) -> bool {
        let found = self.shares().position(|share| share.is_of(ledger));
        self.current = found.unwrap_or(self.current);
        found.is_some()
    }

    /// Adds a producer, whose record is next. `others` is asked for memory at the second.
    pub(crate) fn add(
        &mut self,
        ledger: &Arc<Ledger>,
        cell: Arc<BatchCell>,
        others: impl FnOnce() -> Box<Others>,
    ) {
        let records = self.first.records as usize;
        let others = self.others.get_or_insert_with(|| {
            let mut others = others();
            others.owners.resize(records, 0);
            others
        });
        others.shares.push(Share::new(ledger, cell));
        self.current = others.shares.len();
    }

    /// Whether there is room for one more producer.
    pub(crate) fn has_room(&self) -> bool {
        let others = self.others.as_ref();
        others.is_none_or(|others| others.shares.len() + 1 < SHARES_MAX)
    }

    /// Counts the record that was just appended.
    #[inline]
    pub(crate) fn add_record(&mut self) {
        let Some(others) = &mut self.others else {
            self.first.records += 1;
            return;
        };
        others.owners.push(self.current as u8);
        match self.current.checked_sub(1) {
            None => self.first.records += 1,
            Some(other) => others.shares[other].records += 1,
        }
    }

    #[inline]
    fn current(&self) -> &Share {
        match (&self.others, self.current.checked_sub(1)) {
            (Some(others), Some(other)) => &others.shares[other],
            _ => &self.first,
        }
    }

    /// The cell of the record that came last.
    pub(crate) fn cell(&self) -> &Arc<BatchCell> {
        &self.current().cell
    }

    /// The account of the first record. What all producers of a batch have in common stands in it.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.first.ledger
    }

    /// Tells the ledgers of the records that they do not know of.
    pub(crate) fn count_accepted(&mut self) {
        self.shares_mut().for_each(Share::count_accepted);
    }

    fn shares(&self) -> impl Iterator<Item = &Share> {
        let others = self.others.iter().flat_map(|others| &others.shares);
        std::iter::once(&self.first).chain(others)
    }

    fn shares_mut(&mut self) -> impl Iterator<Item = &mut Share> {
        let others = self.others.iter_mut();
        std::iter::once(&mut self.first).chain(others.flat_map(|others| &mut others.shares))
    }

    /// Whether this producer waits for answers from the batch.
    pub(crate) fn is_to(&self, ledger: &Arc<Ledger>) -> bool {
        self.shares()
            .any(|share| !share.is_counted && share.is_of(ledger))
    }

    /// Whether nobody but this producer waits for answers from the batch.
    pub(crate) fn is_only_to(&self, ledger: &Arc<Ledger>) -> bool {
        self.shares()
            .all(|share| share.is_counted || share.is_of(ledger))
    }

    /// For each of the `records` in the body, whether it is one of this producer's.
    pub(crate) fn owned(&self, ledger: &Arc<Ledger>, records: u32) -> Vec<bool> {
        let is_of: Vec<bool> = self.shares().map(|share| share.is_of(ledger)).collect();
        match &self.others {
            Some(others) => {
                let owners = others.owners.iter();
                owners.map(|owner| is_of[usize::from(*owner)]).collect()
            }
            None => vec![is_of[0]; records as usize],
        }
    }

    /// Takes the records of a producer, which `owned` tells, out of those that are in the body.
    pub(crate) fn remove(&mut self, owned: &[bool]) {
        let others = self.others.as_mut().expect("a batch of several");
        let mut removed = Vec::with_capacity(others.owners.len());
        let mut before = others.removed.iter().copied().peekable();
        let mut place = 0;
        for is_owned in owned {
            while before.next_if_eq(&place).is_some() {
                removed.push(place);
                place += 1;
            }
            if *is_owned {
                removed.push(place);
            }
            place += 1;
        }
        removed.extend(before);
        others.removed = removed;
        let mut owned = owned.iter();
        others
            .owners
            .retain(|_| !owned.next().expect("one for each record"));
    }

    /// The answer when nothing more is known than whether it left; `reason` is why it did not.
    pub(crate) fn without(&self, reason: NotSentReason) -> BatchOutcome {
        match self.request {
            0 => BatchOutcome::NotSent { reason },
            request => BatchOutcome::Unknown { request },
        }
    }

    /// Settles the accounts. Before the receipts are told, so that whoever saw all receipts sees a
    /// settled account.
    pub(crate) fn count(&mut self, answer: &Answer<'_>) {
        for share in self.shares_mut() {
            share.count(&answer.to(&share.ledger));
        }
    }

    /// Tells the receipts.
    pub(crate) fn tell(&self, answer: &Answer<'_>, deferred: &mut Deferred) {
        let removed = self.others.as_ref().map(|others| &others.removed);
        let removed = removed.filter(|removed| !removed.is_empty());
        let removed = removed.map(|removed| Arc::from(removed.as_slice()));
        for share in self.shares().filter(|share| !share.cell.is_resolved()) {
            let outcome = answer.to(&share.ledger);
            share
                .cell
                .resolve_without(removed.clone(), outcome, deferred);
        }
    }

    /// Settles the account of one producer and tells its receipts, ahead of the others.
    pub(crate) fn answer_to(
        &mut self,
        ledger: &Arc<Ledger>,
        outcome: BatchOutcome,
        deferred: &mut Deferred,
    ) {
        let open = |share: &&mut Share| !share.is_counted && share.is_of(ledger);
        if let Some(share) = self.shares_mut().find(open) {
            share.count(&outcome);
            share.cell.resolve(outcome, deferred);
        }
    }

    /// What can be used again, of a batch that is answered.
    pub(crate) fn take_others(&mut self) -> Option<Box<Others>> {
        let mut others = self.others.take()?;
        let Others {
            shares,
            owners,
            removed,
        } = &mut *others;
        debug_assert!(shares.iter().all(|share| share.cell.is_resolved()));
        shares.clear();
        owners.clear();
        removed.clear();
        Some(others)
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if self.shares().any(|share| !share.cell.is_resolved()) {
            let answer = Answer::same(self.without(NotSentReason::EngineFailed));
            self.count(&answer);
            self.tell(&answer, &mut Deferred::default());
        }
    }
}

/// The answer for a batch.
pub(crate) struct Answer<'a> {
    outcome: BatchOutcome,
    /// Who had the batch given up, when it holds records of others, too.
    giver_up: Option<&'a Arc<Ledger>>,
}

impl<'a> Answer<'a> {
    /// The same for all.
    pub(crate) fn same(outcome: BatchOutcome) -> Self {
        Self {
            outcome,
            giver_up: None,
        }
    }

    /// Of a batch that one producer has given up where the order is strict: the records of the
    /// others are behind records that are not stored.
    pub(crate) fn given_up_by(outcome: BatchOutcome, ledger: &'a Arc<Ledger>) -> Self {
        Self {
            outcome,
            giver_up: Some(ledger),
        }
    }

    fn to(&self, ledger: &Arc<Ledger>) -> BatchOutcome {
        match self.giver_up {
            Some(giver_up) if !Arc::ptr_eq(giver_up, ledger) => match self.outcome {
                BatchOutcome::NotSent { .. } => BatchOutcome::NotSent {
                    reason: NotSentReason::BehindUnstored,
                },
                outcome => outcome,
            },
            _ => self.outcome,
        }
    }
}

#[cfg(all(test, not(ringmain_loom)))]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::ledger::BatchSettings;
    use crate::receipt::{Callbacks, CellPool};

    const STORED: BatchOutcome = BatchOutcome::Stored {
        partition: 0,
        base_offset: 1000,
    };

    /// Thirty records of five producers in a batch, and who each is of.
    fn mixed(cells: &mut CellPool) -> (Owed, Vec<Arc<Ledger>>, Vec<(usize, u32)>) {
        let settings = BatchSettings {
            batch_bytes_max: 1 << 16,
            batch_records_max: 100,
            linger_us: 0,
            delivery_timeout_us: 1_000_000,
        };
        let ledgers: Vec<_> = (0..5).map(|_| Arc::new(Ledger::new(settings))).collect();
        let mut owed = Owed::new(&ledgers[0], cells.take());
        let mut records = Vec::new();
        for place in 0..30 {
            let owner = (place * 7 % 5) as usize;
            if !owed.turn_to(&ledgers[owner]) {
                owed.add(&ledgers[owner], cells.take(), || Others::with_room(480));
            }
            owed.add_record();
            records.push((owner, place));
        }
        owed.count_accepted();
        (owed, ledgers, records)
    }

    fn pool() -> CellPool {
        CellPool::new(Arc::new(Callbacks::unlimited()))
    }

    #[test]
    fn places_in_the_log_follow_what_is_taken_out() {
        let mut cells = pool();
        let (mut owed, ledgers, mut records) = mixed(&mut cells);
        let mut deferred = Deferred::default();
        let purged = BatchOutcome::NotSent {
            reason: NotSentReason::Purged,
        };
        for gone in [3, 0, 4] {
            let owned = owed.owned(&ledgers[gone], 30);
            assert!(
                owned
                    .iter()
                    .copied()
                    .eq(records.iter().map(|(of, _)| *of == gone))
            );
            owed.remove(&owned);
            owed.answer_to(&ledgers[gone], purged, &mut deferred);
            records.retain(|(owner, _)| *owner != gone);
            assert_eq!(ledgers[gone].account().not_sent, 6);
            assert!(!owed.is_to(&ledgers[gone]));
        }
        assert!(owed.is_to(&ledgers[1]) && !owed.is_only_to(&ledgers[1]));
        let answer = Answer::same(STORED);
        owed.count(&answer);
        owed.tell(&answer, &mut deferred);
        for (offset, (owner, place)) in (1000..).zip(records) {
            let share = owed.shares().find(|share| share.is_of(&ledgers[owner]));
            let outcome = share.and_then(|share| share.cell.outcome(place));
            assert_eq!(
                outcome,
                Some(Outcome::Stored {
                    partition: 0,
                    offset
                })
            );
            assert_eq!(ledgers[owner].account().stored, 6);
        }
        assert!(ledgers.iter().all(|ledger| ledger.account().in_flight == 0));
    }

    /// Whatever was told already: the rest follows, and nothing twice.
    #[test]
    fn a_drop_answers_what_has_no_answer() {
        let mut cells = pool();
        let (mut owed, ledgers, _) = mixed(&mut cells);
        owed.request = 7;
        owed.answer_to(&ledgers[2], STORED, &mut Deferred::default());
        let mut known = Answer::same(STORED);
        known.giver_up = None;
        owed.shares_mut()
            .nth(3)
            .expect("five")
            .count(&known.to(&ledgers[3]));
        drop(owed);
        let stored: Vec<u64> = ledgers
            .iter()
            .map(|ledger| ledger.account().stored)
            .collect();
        assert_eq!(stored.iter().sum::<u64>(), 12);
        let accounts = ledgers.iter().map(|ledger| ledger.account());
        assert!(
            accounts
                .into_iter()
                .all(|account| account.in_flight == 0 && account.balances())
        );
        let mut unresolved = Vec::new();
        cells.unresolved(&mut unresolved);
        assert!(unresolved.is_empty());
    }

    #[test]
    fn the_sixty_fifth_producer_finds_no_room() {
        let mut cells = pool();
        let (mut owed, ledgers, _) = mixed(&mut cells);
        for _ in 5..SHARES_MAX {
            assert!(owed.has_room());
            let ledger = Arc::new(Ledger::new(ledgers[0].settings));
            owed.add(&ledger, cells.take(), || unreachable!("there are others"));
            owed.add_record();
        }
        assert!(!owed.has_room());
        let records = owed.owned(&ledgers[1], 0).len();
        assert_eq!(records, 30 + SHARES_MAX - 5);
    }
}
