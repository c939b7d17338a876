//! Giving up what one producer has queued and sent: for [`Producer::purge`](crate::Producer::purge)
//! and for a close that has run out of time.
//!
//! A batch that holds no records of others is given up whole. Of one that several producers share,
//! which was not sent, the records are taken out and the rest goes on; where it was sent, they are
//! unknown. Where the order is strict, what is behind a record that is not stored is not sent
//! either: there a shared batch is given up whole, too.

use std::sync::{Arc, PoisonError};

use ringmain_proto::{BatchKey, Micros, NotSent, Ordering};

use super::PurgeRequest;
use super::core::{Core, InFlight};
use crate::batch::SealedBatch;
use crate::hooks::{self, Mutation};
use crate::ledger::Ledger;
use crate::outcome::NotSentReason;
use crate::owed::Answer;
use crate::receipt::BatchOutcome;
use crate::record::Record;

/// A purge that is being carried out.
pub(super) struct Purging {
    request: Arc<PurgeRequest>,
    /// Records that were never sent, with their partition, by the turn of their batch.
    taken: Vec<(u64, u32, Vec<Record>)>,
}

impl Purging {
    fn ledger(&self) -> &Arc<Ledger> {
        &self.request.ledger
    }

    /// Keeps what a batch of the producer holds that is not sent any more.
    pub(super) fn take(&mut self, batch: &SealedBatch, outcome: &BatchOutcome) {
        let purged = BatchOutcome::NotSent {
            reason: NotSentReason::Purged,
        };
        if *outcome == purged && batch.owed.is_to(self.ledger()) {
            self.take_records(batch, &batch.owed.owned(self.ledger(), batch.records));
        }
    }

    fn take_records(&mut self, batch: &SealedBatch, owned: &[bool]) {
        if self.request.hand_back {
            let records = batch.records(owned);
            self.taken.push((batch.turn, batch.lane.partition, records));
        }
    }

    /// The answer for a batch that ends while the purge is carried out.
    pub(super) fn answer(&self, batch: &SealedBatch, outcome: BatchOutcome) -> Answer<'_> {
        let ledger = self.ledger();
        if batch.owed.is_to(ledger) && !batch.owed.is_only_to(ledger) {
            Answer::given_up_by(outcome, ledger)
        } else {
            Answer::same(outcome)
        }
    }

    /// Hands over what was taken, in the order of acceptance.
    fn hand_back(mut self) {
        self.taken.sort_by_key(|(turn, ..)| *turn);
        let mut taken = self
            .request
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, partition, records) in self.taken {
            taken.extend(records.into_iter().map(|record| (partition, record)));
        }
    }
}

impl Core {
    pub(super) fn purge(&mut self, now: Micros, request: &Arc<PurgeRequest>) {
        self.submit_sealed(now);
        // What is decided already is not given up.
        self.resolve_outcomes(now);
        self.purge = Some(Purging {
            request: Arc::clone(request),
            taken: Vec::new(),
        });
        // Who takes records back purges; a close does not want them.
        let (reason, told) = if request.hand_back {
            (NotSent::Purged, NotSentReason::Purged)
        } else {
            (NotSent::Closed, NotSentReason::Closed)
        };
        self.take_out_shared(&request.ledger, told);
        for entry in self.lanes.iter().flatten() {
            let place = &entry.lane.place;
            let batches = &self.batches;
            let is_meant = |BatchKey(key)| {
                batches[key as usize]
                    .as_ref()
                    .is_some_and(|in_flight| in_flight.batch.owed.is_to(&request.ledger))
            };
            self.conns[place.conn as usize]
                .client
                .purge_lane(now, place.key, reason, is_meant);
        }
        self.resolve_outcomes(now);
        if hooks::commits(Mutation::SlotEarly) {
            self.free_at_once(request);
        }
        self.close_what_holds(&request.ledger);
        if let Some(purging) = self.purge.take() {
            purging.hand_back();
        }
    }

    /// Answers the records of a producer in batches that it shares, where the others need not be
    /// told.
    ///
    /// The protocol client goes on counting the records of a batch as they were: it only sums them
    /// up.
    fn take_out_shared(&mut self, ledger: &Arc<Ledger>, reason: NotSentReason) {
        for index in 0..self.batches.len() {
            let Some(InFlight { batch, .. }) = &mut self.batches[index] else {
                continue;
            };
            let owed = &batch.owed;
            if !owed.is_to(ledger)
                || owed.is_only_to(ledger)
                || batch.lane.config.ordering == Ordering::Strict
            {
                continue;
            }
            let outcome = owed.without(reason);
            if owed.request == 0 {
                let owned = owed.owned(ledger, batch.records);
                if let Some(purge) = &mut self.purge {
                    purge.take_records(batch, &owned);
                }
                let (records, bytes) = (batch.records, batch.payload_bytes);
                batch.take_out(&owned, &mut self.deferred.payloads);
                batch.owed.remove(&owned);
                batch.owed.answer_to(ledger, outcome, &mut self.deferred);
                self.shared
                    .stats
                    .count_records(records - batch.records, bytes - batch.payload_bytes);
            } else {
                batch.owed.answer_to(ledger, outcome, &mut self.deferred);
            }
        }
    }

    /// What is left is in a write that the kernel has not finished: only closing the connection
    /// frees it.
    fn close_what_holds(&mut self, ledger: &Arc<Ledger>) {
        let mut held = false;
        for in_flight in self.batches.iter().flatten() {
            if in_flight.batch.owed.is_to(ledger) {
                self.conns[in_flight.batch.lane.place.conn as usize]
                    .want_close("closed to free records that were given up".to_owned());
                held = true;
            }
        }
        if held {
            ringmain_io::log!(
                debug,
                "closing connections to free batches that were given up in the middle of a write"
            );
        }
    }
}

/// A fault on purpose.
impl Core {
    #[cold]
    fn free_at_once(&mut self, request: &PurgeRequest) {
        for index in 0..self.batches.len() {
            let is_meant = |held: &InFlight| held.batch.owed.is_to(&request.ledger);
            if let Some(held) = self.batches[index].take_if(|held| is_meant(held)) {
                let unknown = BatchOutcome::Unknown { request: 1 };
                self.finish_batch(held.batch, unknown);
            }
        }
    }
}
