//! A batch on its way: what an application thread seals and a shard sends.
//!
//! Owns its memory (a slot of the arena, and payloads by reference) until the shard gives it back.
//! Builds no bytes: that is the wire crate's job.

use std::sync::Arc;

use bytes::Bytes;
use ringmain_proto::Micros;
use ringmain_wire::batch::{Pieces, Referenced};

use crate::lane::Lane;
use crate::ledger::Ledger;
use crate::outcome::NotSentReason;
use crate::receipt::{BatchCell, BatchOutcome};
use crate::topic::Life;
use crate::user_code::Deferred;
use ringmain_io::memory::SlotToken;

/// The body of a request, ready to be sent: what is in its slot, and payloads where the caller left
/// them.
pub(crate) struct Body {
    pub(crate) slot: SlotToken,
    /// Bytes at the start of the slot.
    pub(crate) own_bytes: usize,
    /// Bytes of the body, payloads by reference included.
    pub(crate) body_bytes: usize,
    /// The payloads by reference, in order.
    pub(crate) payloads: PayloadList,
    /// Bytes taken for them from the by-reference budget.
    pub(crate) credit_bytes: u64,
}

/// Payloads by reference and where they belong.
pub(crate) type PayloadList = Vec<Referenced<Bytes>>;

impl Body {
    pub(crate) fn pieces(&self) -> Pieces<'_, Bytes> {
        Pieces::new(self.own_bytes, &self.payloads)
    }
}

/// The answer that is owed for the records of a batch, from the first one accepted on.
///
/// Dropped without one, whatever went wrong, it gives the answer that is true for every batch that
/// nobody looks after any more: `NotSent` when it never left, `Unknown` otherwise.
pub(crate) struct Owed {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) cell: Arc<BatchCell>,
    /// Records that the ledger counts as accepted.
    pub(crate) records: u32,
    /// The request number it was handed to the ring with; zero before.
    pub(crate) request: u64,
}

impl Owed {
    pub(crate) fn new(ledger: Arc<Ledger>, cell: Arc<BatchCell>) -> Self {
        Self {
            ledger,
            cell,
            records: 0,
            request: 0,
        }
    }

    /// The answer when nothing more is known than whether it left; `reason` is why it did not.
    pub(crate) fn without(&self, reason: NotSentReason) -> BatchOutcome {
        match self.request {
            0 => BatchOutcome::NotSent { reason },
            request => BatchOutcome::Unknown { request },
        }
    }

    /// Settles the account and tells the receipts. The only way to an answer.
    pub(crate) fn settle(&self, outcome: BatchOutcome, deferred: &mut Deferred) {
        self.ledger.resolve(&outcome, self.records);
        self.cell.resolve(outcome, deferred);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.cell.is_resolved() {
            let outcome = self.without(NotSentReason::EngineFailed);
            self.settle(outcome, &mut Deferred::default());
        }
    }
}

/// A sealed batch.
pub(crate) struct SealedBatch {
    pub(crate) lane: Arc<Lane>,
    pub(crate) owed: Owed,
    pub(crate) body: Body,
    /// The losses of its lane that the application had accepted before it was sealed.
    pub(crate) resumed_losses: u32,
    /// What its records are meant for.
    pub(crate) life: Life,
    /// At least 1.
    pub(crate) records: u32,
    /// Sum of the payloads.
    pub(crate) payload_bytes: u64,
    /// When the first record was accepted.
    pub(crate) opened_at: Micros,
    /// When it was sealed.
    pub(crate) sealed_at: Micros,
    /// When every record of it must have its answer, unless the server answers what is ahead of it
    /// until then.
    pub(crate) deadline: Micros,
}
