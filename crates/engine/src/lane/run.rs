//! Several records in a row into one lane, under one lock: what a batch of records costs less than
//! each alone.
//!
//! A run only joins the batch that is open. Whatever needs more than that (a slot, credit for a
//! payload by reference, an error to be told) goes the way that single records take.
//!
//! The caller runs no code of the user while it holds a run.

use std::sync::{Arc, MutexGuard};

use super::open::{Held, Incoming, OpenBatch};
use super::{Lane, LaneState};
use crate::ledger::Ledger;
use crate::receipt::Receipts;

/// See the module. Dropping it hands over what is to be handed over.
pub(crate) struct Run<'l> {
    lane: &'l Arc<Lane>,
    ledger: &'l Arc<Ledger>,
    /// `Some` until the drop.
    state: Option<MutexGuard<'l, LaneState>>,
    joined: u32,
}

impl Lane {
    /// Takes the lock for several records of this producer.
    pub(crate) fn run<'l>(self: &'l Arc<Self>, ledger: &'l Arc<Ledger>) -> Run<'l> {
        Run {
            lane: self,
            ledger,
            state: Some(self.state()),
            joined: 0,
        }
    }
}

impl Run<'_> {
    /// Adds the record to the open batch. False when it has to go alone.
    pub(crate) fn join(&mut self, record: &mut Incoming<'_>) -> bool {
        let state: &mut LaneState = self.state.as_mut().expect("held until the drop");
        let Some(open) = &mut state.open else {
            return false;
        };
        if record.by_reference || self.ledger.is_closed() || open.is_full() {
            return false;
        }
        // Copied records hold no credit.
        let mut none = Held::default();
        let makers = (&mut state.ids, &mut state.cells);
        let has_joined = matches!(
            open.join(self.lane, self.ledger, makers, record, &mut none),
            Ok(true)
        );
        self.joined += u32::from(has_joined);
        has_joined
    }

    /// True when the open batch takes no more: the end of the run seals it, which a sticky
    /// partitioning has to see before it is asked for the next record.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.as_ref().expect("held until the drop");
        state.open.as_ref().is_none_or(OpenBatch::is_full)
    }

    /// Ends the run and gives out its receipts.
    pub(crate) fn end(mut self, receipts: &mut Receipts) {
        let joined = std::mem::take(&mut self.joined);
        if joined == 0 {
            return;
        }
        let state = self.state.as_ref().expect("held until the drop");
        let open = state.open.as_ref().expect("records joined it");
        receipts.push_span(open.cell(), open.count() - joined, joined);
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let mut state = self.state.take().expect("held until the drop");
        let wake = self.lane.settle_open(&mut state);
        drop(state);
        if wake {
            self.lane.shard.wake();
        }
    }
}
