//! The account of one producer, and the settings its batches carry with them.
//!
//! Shared by the producer's handles, its open batches and the shards: it must not hold the engine
//! alive, so it knows nothing of it.
//!
//! Records are counted as accepted when their batch is sealed, or when somebody asks: a counter
//! that every thread changes for every record costs more than the rest of what a small record
//! needs.
//!
//! Invariant: a record is counted as accepted before its batch can reach a shard, and as resolved
//! once. So whoever reads the resolved counts first and the accepted count afterwards never sees
//! more answers than records.

use crate::outcome::Account;
use crate::receipt::BatchOutcome;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// What a producer's batches need to know of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSettings {
    /// Bytes of a request of copied records, at most the slot.
    pub(crate) batch_bytes_max: u32,
    pub(crate) batch_records_max: u32,
    pub(crate) linger_us: u64,
    pub(crate) delivery_timeout_us: u64,
}

/// One producer's account.
pub(crate) struct Ledger {
    pub(crate) settings: BatchSettings,
    closed: AtomicBool,
    accepted: AtomicU64,
    stored: AtomicU64,
    stored_offset_unknown: AtomicU64,
    rejected: AtomicU64,
    not_sent: AtomicU64,
    unknown: AtomicU64,
}

impl Ledger {
    pub(crate) fn new(settings: BatchSettings) -> Self {
        Self {
            settings,
            closed: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            stored_offset_unknown: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            not_sent: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }
    }

    /// Counts accepted records. Called under the lock of their lane, before it seals their batch.
    pub(crate) fn accept(&self, records: u32) {
        self.accepted
            .fetch_add(u64::from(records), Ordering::Relaxed);
    }

    /// Counts a resolved batch. Called before its receipts are told, so that whoever saw all
    /// receipts sees a settled account.
    pub(crate) fn resolve(&self, outcome: &BatchOutcome, records: u32) {
        let counter = match outcome {
            BatchOutcome::Stored { .. } => &self.stored,
            BatchOutcome::StoredOffsetUnknown { .. } => &self.stored_offset_unknown,
            BatchOutcome::Rejected { .. } => &self.rejected,
            BatchOutcome::NotSent { .. } => &self.not_sent,
            BatchOutcome::Unknown { .. } => &self.unknown,
        };
        counter.fetch_add(u64::from(records), Ordering::Release);
    }

    /// What is counted so far. Records of batches that are still open are not, unless their lanes
    /// were told to [count](crate::lane::Lane::count_open) them.
    pub(crate) fn account(&self) -> Account {
        let mut account = Account {
            stored: self.stored.load(Ordering::Acquire),
            stored_offset_unknown: self.stored_offset_unknown.load(Ordering::Acquire),
            rejected: self.rejected.load(Ordering::Acquire),
            not_sent: self.not_sent.load(Ordering::Acquire),
            unknown: self.unknown.load(Ordering::Acquire),
            ..Account::default()
        };
        account.accepted = self.accepted.load(Ordering::Acquire);
        let resolved = account.resolved();
        assert!(resolved <= account.accepted, "more answers than records");
        account.in_flight = account.accepted - resolved;
        account
    }

    /// Refuses every later record. A record that is being appended on another thread may still get
    /// in; whoever closes takes every lane's lock afterwards.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, ringmain_loom))]
mod loom_tests {
    //! Every interleaving of a sender that accepts, a shard that answers and somebody who reads the
    //! account.

    use std::sync::Arc;

    use super::{BatchSettings, Ledger};
    use crate::receipt::BatchOutcome;
    use crate::sync::Mutex;

    #[test]
    fn loom_no_snapshot_has_more_answers_than_records() {
        loom::model(|| {
            let ledger = Arc::new(Ledger::new(BatchSettings {
                batch_bytes_max: 1,
                batch_records_max: 1,
                linger_us: 0,
                delivery_timeout_us: 0,
            }));
            // The sealed queue: a batch of so many records, behind a lock as the lane's is.
            let sealed = Arc::new(Mutex::new(0));
            let sender = {
                let (ledger, sealed) = (Arc::clone(&ledger), Arc::clone(&sealed));
                loom::thread::spawn(move || {
                    ledger.accept(1);
                    *sealed.lock().expect("no panic") += 1;
                })
            };
            let shard = {
                let (ledger, sealed) = (Arc::clone(&ledger), Arc::clone(&sealed));
                loom::thread::spawn(move || {
                    let records = *sealed.lock().expect("no panic");
                    if records > 0 {
                        ledger.resolve(&BatchOutcome::Unknown { request: 1 }, records);
                    }
                })
            };
            // Asserts by itself that it balances.
            let account = ledger.account();
            assert!(account.balances());
            sender.join().expect("no panic");
            shard.join().expect("no panic");
            assert_eq!(ledger.account().accepted, 1);
        });
    }
}
