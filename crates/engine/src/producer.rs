//! The producer: where records enter.

mod builder;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use builder::ProducerBuilder;

use crate::engine::CloseReport;
use crate::error::{Refused, RefusedBatch, SendError};
use crate::outcome::Account;
use crate::receipt::{Receipt, Receipts};
use crate::record::Record;

/// Whether requests of one partition may overtake each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Several requests in flight; a refused or silently dropped one can be overtaken, which is counted. The default.
    #[default]
    Pipelined,
    /// One request in flight for each partition; never reorders.
    Strict,
}

/// Sends records to one topic. Cloning gives another handle to the same producer; all of them may be used at once.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<ProducerInner>,
}

pub(crate) struct ProducerInner {}

/// Records that [`Producer::purge`] took back.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Purged {
    /// Records that had not been sent, with the partition they were queued for; their receipts say `NotSent`. The key
    /// is gone: it is not part of a stored record.
    pub records: Vec<(u32, Record)>,
    /// Records that may have been sent; their receipts say `Unknown`.
    pub unknown: u64,
}

impl Producer {
    /// Accepts one record, waiting for memory as long as it takes.
    ///
    /// # Errors
    /// Every [`SendError`] but `Full` and `DeadlineOver`; the record was not accepted.
    pub fn send(&self, record: Record) -> Result<Receipt, SendError> {
        let _ = (record, &self.inner);
        Err(SendError::Closed)
    }

    /// Accepts one record, waiting for memory until `deadline`.
    ///
    /// # Errors
    /// Every [`SendError`] but `Full`, with the record.
    pub fn send_deadline(&self, record: Record, deadline: Instant) -> Result<Receipt, Refused> {
        let _ = deadline;
        Err(Refused {
            error: SendError::Closed,
            record,
        })
    }

    /// Accepts one record if there is memory, and never waits.
    ///
    /// # Errors
    /// Every [`SendError`] but `DeadlineOver`, with the record.
    pub fn try_send(&self, record: Record) -> Result<Receipt, Refused> {
        Err(Refused {
            error: SendError::Closed,
            record,
        })
    }

    /// Accepts one record; the future waits for memory. Dropping the future before it is ready drops the record, which
    /// was then never accepted.
    ///
    /// # Errors
    /// Every [`SendError`] but `Full` and `DeadlineOver`.
    pub fn send_async(
        &self,
        record: Record,
    ) -> impl Future<Output = Result<Receipt, SendError>> + Send + use<> {
        let _ = record;
        std::future::ready(Err(SendError::Closed))
    }

    /// Accepts the bytes of `payload` as one record without an owned buffer, waiting for memory as long as it takes.
    /// Payloads over the copy threshold are copied once more, into a buffer of their own.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub fn send_slice(&self, payload: &[u8], key: Option<&[u8]>) -> Result<Receipt, SendError> {
        let _ = (payload, key);
        Err(SendError::Closed)
    }

    /// Accepts records in order, waiting for memory as long as it takes, and takes each lane's lock once for a run of
    /// records of one partition.
    ///
    /// # Errors
    /// [`RefusedBatch`] with the first record that was not accepted and the receipts of those before it.
    pub fn send_batch(
        &self,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Receipts, RefusedBatch> {
        let _ = records.into_iter();
        Ok(Receipts::default())
    }

    /// Sends what is open now, and waits until every record accepted before the call is resolved, at most `within`.
    /// Returns whether all were.
    pub fn flush(&self, within: Duration) -> bool {
        let _ = within;
        true
    }

    /// Accepts nothing more, flushes, and gives up what is unanswered after `within`: it resolves as `NotSent` or
    /// `Unknown`. Never takes noticeably longer than `within`.
    pub fn close(&self, within: Duration) -> CloseReport {
        let _ = within;
        CloseReport::default()
    }

    /// Takes back what was not sent, and gives up what was: for a shutdown that cannot wait.
    pub fn purge(&self) -> Purged {
        Purged::default()
    }

    /// How many records got which answer.
    #[must_use]
    pub fn account(&self) -> Account {
        Account::default()
    }

    /// Makes the first sends as fast as later ones: opens the lanes of all partitions and touches their memory.
    pub fn warm(&self) {}

    /// How many partitions the topic had when last asked.
    #[must_use]
    pub fn partitions_count(&self) -> u32 {
        0
    }
}
