//! Answers: receipts told, accounts kept, memory given back.
//!
//! The protocol gives an outcome only when no write of its frame is in flight, so everything of the
//! batch is free here.

use ringmain_proto::{BatchKey, CallKey, Micros, NotSent, Ordering, Outcome, Receipt};

use super::Step;
use super::core::{Core, InFlight, login_refused};
use crate::batch::SealedBatch;
use crate::error::is_missing;
use crate::hooks::{self, Mutation, Point};
use crate::outcome::NotSentReason;
use crate::owed::Answer;
use crate::receipt::BatchOutcome;
use crate::stats::BatchTimes;

impl Core {
    /// Resolves everything that has an outcome. False when there was nothing.
    pub(super) fn resolve_outcomes(&mut self, now: Micros) -> bool {
        let mut any = false;
        for index in 0..self.conns.len() {
            while let Some(outcome) = self.conns[index].client.poll_outcome() {
                any = true;
                match outcome {
                    Outcome::Batch { key, receipt, .. } => self.resolve_batch(now, key, receipt),
                    Outcome::Call {
                        key: CallKey(key),
                        answer,
                    } => {
                        let cell = self.conns[index].calls[key as usize].cell.take();
                        self.finish_call(now, cell.expect("a call has one outcome"), answer);
                    }
                }
            }
        }
        any
    }

    fn resolve_batch(&mut self, now: Micros, BatchKey(key): BatchKey, receipt: Receipt) {
        let in_flight = self.batches[key as usize]
            .take()
            .expect("a batch has one outcome");
        self.batches_in_flight -= 1;
        let outcome = self.outcome_of(&in_flight, receipt);
        self.look_at_lane(in_flight.batch.lane.place.index);
        self.note_times(now, &in_flight);
        self.finish_batch(in_flight.batch, outcome);
    }

    fn outcome_of(&mut self, in_flight: &InFlight, receipt: Receipt) -> BatchOutcome {
        let lane = &in_flight.batch.lane;
        let was_resent = in_flight.attempts > 1;
        let is_replaced = in_flight.is_elsewhere || !lane.topic.is_in(in_flight.batch.life);
        let is_behind = matches!(
            receipt,
            Receipt::NotSent {
                reason: NotSent::BehindUnstored
            }
        );
        if lane.config.ordering == Ordering::Strict && !receipt.is_stored() && !is_behind {
            lane.count_loss();
        }
        match receipt {
            // One transmission may be in the topic that had the name, another in the one that has
            // it.
            Receipt::Stored { .. } if was_resent && in_flight.is_elsewhere => {
                BatchOutcome::Unknown {
                    request: in_flight.batch.owed.request,
                }
            }
            Receipt::StoredOffsetUnknown if was_resent && is_replaced => BatchOutcome::Unknown {
                request: in_flight.batch.owed.request,
            },
            Receipt::Stored {
                partition_id,
                base_offset,
            } => {
                self.note_offset(&in_flight.batch, base_offset);
                BatchOutcome::Stored {
                    partition: partition_id,
                    base_offset,
                }
            }
            Receipt::StoredOffsetUnknown => BatchOutcome::StoredOffsetUnknown {
                partition: lane.partition,
            },
            Receipt::Rejected { code } => {
                if is_missing(code) {
                    lane.topic.mark_stale();
                }
                BatchOutcome::Rejected { code }
            }
            Receipt::NotSent { reason } => BatchOutcome::NotSent {
                reason: not_sent(reason),
            },
            Receipt::Unknown { request } => BatchOutcome::Unknown { request },
        }
    }

    /// Offsets that fall show a log that began anew, if no batch was overtaken: the server is
    /// asked.
    fn note_offset(&mut self, batch: &SealedBatch, base_offset: u64) {
        let entry = self.lanes[batch.lane.place.index as usize]
            .as_mut()
            .expect("a batch that was sent has its lane open");
        if base_offset < entry.offset_next {
            batch.lane.topic.mark_stale();
        }
        entry.offset_next = base_offset.saturating_add(u64::from(batch.records));
    }

    fn note_times(&mut self, now: Micros, in_flight: &InFlight) {
        if in_flight.written_at == Micros::ZERO {
            return;
        }
        self.samples.push(&BatchTimes {
            opened_at: in_flight.batch.opened_at,
            sealed_at: in_flight.batch.sealed_at,
            transmitted_at: in_flight.transmitted_at,
            written_at: in_flight.written_at,
            resolved_at: now,
        });
    }

    /// Serves who waits for memory that was given back since the last call.
    pub(super) fn serve_waiting(&mut self) {
        if std::mem::take(&mut self.is_memory_freed) {
            hooks::pass(Point::FreedMemory);
            if hooks::commits(Mutation::GateForgotten) {
                return;
            }
            let wakers = &mut self.deferred.wakers;
            self.shared
                .slots()
                .serve_waiting_with(|waker| wakers.push(waker));
            self.shared
                .credit()
                .serve_waiting_with(|waker| wakers.push(waker));
        }
    }

    pub(super) fn count_answer(&self, batch: &SealedBatch) {
        let stats = &self.shared.stats;
        stats.count_request(batch.records, batch.payload_bytes);
    }

    /// Tells the receipts and gives the memory back. The only end of a batch while the shard runs.
    pub(super) fn finish_batch(&mut self, mut batch: SealedBatch, outcome: BatchOutcome) {
        if let Some(purge) = &mut self.purge {
            purge.take(&batch, &outcome);
        }
        self.shared.at(Step::FinishBatch);
        let answer = match &self.purge {
            None => Answer::same(outcome),
            Some(purge) => purge.answer(&batch, outcome),
        };
        batch.owed.count(&answer);
        self.count_answer(&batch);
        self.is_memory_freed = true;
        // Memory first: whoever is woken by a receipt finds room. Those who wait for memory are
        // served once a turn.
        let mut body = batch.body;
        self.shared.slots().put_quietly(body.slot);
        if body.credit_bytes > 0 && !hooks::commits(Mutation::CreditKept) {
            self.shared.credit().put_quietly(body.credit_bytes);
        }
        // Their owners are the application's: dropped when all of this turn is answered.
        let payloads = body.payloads.drain(..);
        self.deferred
            .payloads
            .extend(payloads.map(|referenced| referenced.payload));
        self.shared.keep_payload_list(body.payloads);
        batch.owed.tell(&answer, &mut self.deferred);
        self.shared.keep_others(batch.owed.take_others());
    }
}

fn not_sent(reason: NotSent) -> NotSentReason {
    match reason {
        NotSent::Deadline => NotSentReason::DeadlineOver,
        NotSent::Refused => NotSentReason::NotAdmitted,
        NotSent::Purged => NotSentReason::Purged,
        NotSent::BehindUnstored => NotSentReason::BehindUnstored,
        NotSent::Withdrawn => NotSentReason::TopicReplaced,
        NotSent::Failed(fatal) => login_refused(fatal),
        NotSent::Closed | NotSent::NumbersExhausted => NotSentReason::Closed,
    }
}
