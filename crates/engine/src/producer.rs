//! The producer: where records enter.
//!
//! A handle over a topic, a way to pick partitions and an account. Appending is the lane's job,
//! waiting for memory the gate's.

mod builder;
mod route;
mod send;

use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub use builder::ProducerBuilder;
use route::Router;
use send::{Patience, SendFuture};

use crate::deadline::Deadline;
use crate::engine::{CloseReport, EngineInner};
use crate::error::{Refused, RefusedBatch, SendError};
use crate::ledger::Ledger;
use crate::outcome::Account;
use crate::process;
use crate::receipt::{Receipt, Receipts};
use crate::record::Record;
use crate::shard::{Command, OwedPurge, PurgeRequest};
use crate::topic::HeldTopic;
use crate::user_code::assert_may_wait;

/// How long a close or a purge waits for shards past its time: for the kernel to answer cancelled
/// operations, nothing else.
const GIVE_UP_GRACE: Duration = Duration::from_secs(3);

/// Whether requests of one partition may overtake each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Several requests in flight; a refused or silently dropped one can be overtaken, which is
    /// counted. The default.
    #[default]
    Pipelined,
    /// One request in flight for each partition; never reorders, and leaves no holes: behind the
    /// first record of a partition that ends otherwise than stored nothing is sent. Every record of
    /// that partition that waits, or comes later, ends as not sent
    /// ([`NotSentReason::BehindUnstored`](crate::NotSentReason)), until [`Producer::resume`].
    /// Partitions halt one by one, for all producers of the topic.
    Strict,
}

/// Sends records to one topic. Cloning gives another handle to the same producer; all of them may
/// be used at once.
///
/// The topic is whichever has the name when the server takes a record. When the name comes to mean
/// another topic (deleted and created anew, renamed), records that wait end as `NotSent`, and
/// records that are out without an answer as `Unknown`, from the moment that the engine learns of
/// it; those accepted afterwards go to the new one. The engine learns when a producer is built,
/// when the server's answers do not fit, and by asking every `partitions_refresh_us`; a record that
/// the server took before that is in the topic that had the name.
///
/// A producer is a handle to its engine. Dropping one loses nothing as long as another handle to
/// the engine, or another producer of it, is left: what was accepted is still sent. With the last
/// one the engine stops at once, as [`Engine`](crate::Engine) says: call [`Producer::close`] or
/// [`Engine::close`](crate::Engine::close) before.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<ProducerInner>,
}

pub(crate) struct ProducerInner {
    engine: Arc<EngineInner>,
    topic: HeldTopic,
    ledger: Arc<Ledger>,
    router: Router,
    /// Payloads up to this size are copied.
    copy_bytes_max: usize,
}

/// Records that [`Producer::purge`] took back.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Purged {
    /// Records that had not been sent, with the partition they were queued for; their receipts say
    /// `NotSent`. The key is gone: it is not part of a stored record. Those of one partition are in
    /// order.
    pub records: Vec<(u32, Record)>,
    /// Records that may have been sent; their receipts say `Unknown`.
    pub unknown: u64,
}

impl Producer {
    /// Accepts one record, waiting as long as it takes: for memory, and for receipt callbacks that
    /// fell behind.
    ///
    /// # Errors
    /// Every [`SendError`] but `Full` and `DeadlineOver`; the record was not accepted.
    pub fn send(&self, mut record: Record) -> Result<Receipt, SendError> {
        self.inner.send_record(&mut record, Patience::Unlimited)
    }

    /// Accepts one record, waiting for memory until `deadline`.
    ///
    /// # Errors
    /// Every [`SendError`] but `Full`, with the record.
    pub fn send_deadline(
        &self,
        record: Record,
        deadline: Instant,
    ) -> Result<Receipt, Box<Refused>> {
        self.send_or_hand_back(record, Patience::Until(deadline))
    }

    /// Accepts one record if there is memory, and never waits.
    ///
    /// # Errors
    /// Every [`SendError`] but `DeadlineOver`, with the record.
    pub fn try_send(&self, record: Record) -> Result<Receipt, Box<Refused>> {
        self.send_or_hand_back(record, Patience::None)
    }

    fn send_or_hand_back(
        &self,
        mut record: Record,
        patience: Patience,
    ) -> Result<Receipt, Box<Refused>> {
        match self.inner.send_record(&mut record, patience) {
            Ok(receipt) => Ok(receipt),
            Err(error) => Err(Box::new(Refused { error, record })),
        }
    }

    /// Accepts one record; the future waits for memory. Dropping the future before it is ready
    /// drops the record, which was then never accepted.
    ///
    /// # Errors
    /// Every [`SendError`] but `Full` and `DeadlineOver`.
    pub fn send_async(
        &self,
        record: Record,
    ) -> impl Future<Output = Result<Receipt, SendError>> + Send + use<> {
        SendFuture::new(Arc::clone(&self.inner), record)
    }

    /// Accepts the bytes of `payload` as one record without an owned buffer, waiting for memory as
    /// long as it takes. Payloads that fit a batch of copied records are copied into it; larger
    /// ones into a buffer of their own.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub fn send_slice(&self, payload: &[u8], key: Option<&[u8]>) -> Result<Receipt, SendError> {
        self.inner.send_slice(payload, key, Patience::Unlimited)
    }

    /// Accepts records in order, waiting for memory as long as it takes. The receipts take one
    /// entry a batch.
    ///
    /// Costs less for each record than [`Producer::send`]: a lock and a clock are shared by up to
    /// 32 records, which have one time of origin unless they bring their own. With a custom
    /// partitioning, records go one by one.
    ///
    /// Up to 32 records are taken from the iterator before the first of them is accepted. An
    /// iterator that waits (for a channel, for the answer to an earlier record) holds back those it
    /// has given: use [`Producer::send`] for such.
    ///
    /// # Errors
    /// [`RefusedBatch`] with the first record that was not accepted, those already taken from the
    /// iterator behind it, and the receipts of those before it.
    pub fn send_batch(
        &self,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Receipts, Box<RefusedBatch>> {
        let mut accepted = Receipts::default();
        // Fused: an iterator may start over after its end.
        let mut records = records.into_iter().fuse();
        let chunk_max = self.inner.router.chunk_max();
        let mut chunk = Vec::with_capacity(chunk_max);
        loop {
            // The user's iterator runs here, while no lock is held.
            chunk.extend(records.by_ref().take(chunk_max));
            if chunk.is_empty() {
                return Ok(accepted);
            }
            if let Err((at, error)) = self.inner.send_chunk(&mut chunk, &mut accepted) {
                let rest = chunk.split_off(at + 1);
                let record = chunk.pop().expect("the refused record is in the chunk");
                return Err(Box::new(RefusedBatch {
                    error,
                    record,
                    rest,
                    accepted,
                }));
            }
            chunk.clear();
        }
    }

    /// Sends what is open now, whatever its linger, and waits until every record accepted before
    /// the call has its answer, at most `within`. Returns whether all have. Records of other
    /// producers of the same topic count too.
    ///
    /// # Panics
    /// On a shard's own thread (in a waker, or when the owner of a payload is dropped): it would
    /// wait for itself.
    #[must_use]
    pub fn flush(&self, within: Duration) -> bool {
        process::assert_here(self.inner.engine.process);
        assert_may_wait("Producer::flush");
        self.flush_until(Deadline::within(within))
    }

    fn flush_until(&self, deadline: Deadline) -> bool {
        let mut cells = Vec::new();
        for lane in self.inner.topic.lanes() {
            lane.seal_for_flush(&mut cells);
        }
        for cell in &cells {
            cell.wait(deadline.instant());
        }
        cells.iter().all(|cell| cell.is_resolved())
    }

    /// Accepts nothing more, flushes, and gives up what is unanswered after `within`: it resolves
    /// as `NotSent` or `Unknown`. Never takes noticeably longer than `within`.
    ///
    /// Connections that are in the middle of writing a record given up are closed and made again:
    /// that is the only way to get its memory back.
    ///
    /// # Panics
    /// As [`Producer::flush`] does.
    pub fn close(&self, within: Duration) -> CloseReport {
        process::assert_here(self.inner.engine.process);
        assert_may_wait("Producer::close");
        let deadline = Deadline::within(within);
        self.inner.ledger.close();
        self.inner.engine.hurry();
        let drained = self.flush_until(deadline);
        if !drained {
            self.give_up(false);
        }
        let account = self.account();
        CloseReport {
            account,
            drained: drained && account.in_flight == 0,
            callbacks_waiting: self.inner.engine.callbacks.waiting(),
        }
    }

    /// Takes back what was not sent, and gives up what was: for a shutdown that cannot wait. The
    /// producer stays usable; in strict order, after [`Producer::resume`]. Records of other
    /// producers in the same requests go on; in strict order they are behind what was taken back,
    /// and end as not sent.
    ///
    /// # Panics
    /// As [`Producer::flush`] does.
    #[must_use = "the records taken back are not sent any more"]
    pub fn purge(&self) -> Purged {
        assert_may_wait("Producer::purge");
        let before = self.account();
        let records = self.give_up(true);
        Purged {
            records,
            unknown: self.account().unknown - before.unknown,
        }
    }

    /// Goes on in partitions that [`Ordering::Strict`] has halted: records accepted after this call
    /// are sent, although something before them is not stored, or may not be. An unknown one may
    /// then still be stored behind them.
    ///
    /// Records accepted before the call, but answered after it, stay behind what was lost. Another
    /// record that is not stored halts its partition again. Without effect in partitions that have
    /// lost nothing since the last call, and in pipelined order.
    pub fn resume(&self) {
        for lane in self.inner.topic.lanes() {
            lane.resume();
        }
    }

    fn give_up(&self, hand_back: bool) -> Vec<(u32, Record)> {
        let mut cells = Vec::new();
        for lane in self.inner.topic.lanes() {
            lane.seal_for_flush(&mut cells);
        }
        let mut records = Vec::new();
        let requests: Vec<_> = self
            .inner
            .engine
            .shards
            .iter()
            .map(|shard| {
                let request =
                    Arc::new(PurgeRequest::new(Arc::clone(&self.inner.ledger), hand_back));
                let owed = OwedPurge(Arc::clone(&request));
                shard.shared.command(Command::Purge(owed));
                request
            })
            .collect();
        let deadline = Deadline::within(GIVE_UP_GRACE);
        for request in requests {
            request.done.wait(deadline.left());
            records.append(&mut request.taken.lock().unwrap_or_else(PoisonError::into_inner));
        }
        // What was in the middle of a write follows when the kernel has let go of it.
        while self.account().in_flight > 0
            && let Some(cell) = cells.iter().find(|cell| !cell.is_resolved())
            && !deadline.is_over()
        {
            cell.wait(deadline.instant());
        }
        records
    }

    /// How many records got which answer.
    #[must_use]
    pub fn account(&self) -> Account {
        process::assert_here(self.inner.engine.process);
        self.inner.topic.count_open();
        self.inner.ledger.account()
    }

    /// Makes the first sends as fast as later ones: opens the lanes of all partitions. Their memory
    /// was mapped and touched when the engine was built.
    pub fn warm(&self) {
        for partition in 0..self.inner.topic.partitions_count() {
            // What stands in the way is told by the send that meets it.
            if self
                .inner
                .engine
                .lane(&self.inner.topic, partition)
                .is_err()
            {
                return;
            }
        }
    }

    /// How many partitions the topic had when last asked.
    #[must_use]
    pub fn partitions_count(&self) -> u32 {
        self.inner.topic.partitions_count()
    }
}

#[cfg(feature = "simulation")]
impl Producer {
    pub(crate) fn topic(&self) -> &crate::topic::Topic {
        &self.inner.topic
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.inner.ledger
    }

    pub(crate) fn engine(&self) -> &EngineInner {
        &self.inner.engine
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer")
            .field("topic", &format_args!("{}", self.inner.topic.name))
            .field("account", &self.account())
            .finish_non_exhaustive()
    }
}
