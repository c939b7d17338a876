//! The engine: shards, their connections, and the calls that are not sends.
//!
//! A handle and what all its parts share; the data path is in the lanes and on the shard threads.

mod builder;
mod calls;
mod registry;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[cfg(feature = "simulation")]
pub use builder::Simulation;
pub use builder::{EngineBuilder, IntoServerUrl};
use registry::Registry;

use crate::clock::Clock;
use crate::deadline::{self, Deadline};
use crate::error::SendError;
use crate::gate::{Gate, Units};
use crate::lane::Lane;
use crate::outcome::Account;
use crate::process;
use crate::producer::ProducerBuilder;
use crate::receipt::Callbacks;
use crate::shard::{Command, ShardShared};
use crate::stats::Stats;
use crate::topic::{Topic, TopicNews};
use crate::user_code::{Role, assert_may_wait, role};
use ringmain_io::memory::{Arena, Process};

/// How long `close` waits past its deadline for shards to put their connections down. Nothing but
/// the kernel's answer to a cancelled operation is waited for by then, and a ring that refuses
/// everything is given up in two seconds.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// How long opening a lane waits for a shard to look at lanes of which everything is answered.
/// Takes a turn of the shard, unless the machine is busy.
const PLACE_WAIT: Duration = Duration::from_secs(1);

/// What is left when an engine or a producer closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// The final account. It balances, and `in_flight` is 0.
    pub account: Account,
    /// True when every record had its answer before the time was over. Of an engine also: none is
    /// not sent or unknown, and every receipt callback has run.
    pub drained: bool,
    /// Receipt callbacks of the whole engine, not of one producer, that have not run. They still
    /// do, one after the other, unless the process ends.
    pub callbacks_waiting: u64,
}

/// A running engine. Cloning gives another handle to the same one.
///
/// Producers are handles, too. When the last handle of either kind is dropped the shards stop at
/// once: records without an answer resolve as `NotSent` or `Unknown`, and a warning in the log says
/// how many. [`Engine::close`] drains first. Nothing is dropped, stopped or said when the process
/// exits (`std::process::exit`, a handle in a `static`).
///
/// Where the application's code runs: wakers of its tasks, and the drop of payloads by reference,
/// on the threads of the shards, after every answer of that turn; receipt callbacks on a thread of
/// their own. Panics in them are caught and logged. On a shard's thread it must not block, which
/// holds every record of the shard up, and a call that would wait for the shard is refused.
///
/// An engine belongs to the process that built it. After `fork` the parent goes on as before; a
/// child that sends or calls gets an error (`Forked`), and one that closes, flushes, or waits for a
/// receipt panics. It may build an engine of its own.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineInner>,
}

/// A shard as the engine holds it.
pub(crate) struct ShardHandle {
    pub(crate) shared: Arc<ShardShared>,
    arena: Arc<Arena>,
    /// The core that its thread is pinned to.
    core: Option<usize>,
    tables_bytes: usize,
}

/// What the handles and the producers share. Shards do not hold it: it ends them.
pub(crate) struct EngineInner {
    pub(crate) shards: Vec<ShardHandle>,
    pub(crate) credit: Arc<Gate<Units>>,
    pub(crate) callbacks: Arc<Callbacks>,
    pub(crate) clock: Clock,
    /// Where the threads are.
    pub(crate) process: Process,
    pub(crate) slot_bytes: u32,
    pub(crate) partitions_max: u32,
    /// What each shard is told about topics, by shard.
    pub(crate) news: Arc<[Arc<TopicNews>]>,
    registry: Mutex<Registry>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_closed: AtomicBool,
    report: Mutex<Option<CloseReport>>,
}

impl Engine {
    /// Starts the configuration of an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Starts the configuration of a producer to `topic` of `stream`.
    pub fn producer(&self, stream: impl Into<String>, topic: impl Into<String>) -> ProducerBuilder {
        ProducerBuilder::new(self.clone(), stream.into(), topic.into())
    }

    /// What the engine did so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let inner = &self.inner;
        process::assert_here(inner.process);
        let mut stats = Stats::new();
        for shard in &inner.shards {
            shard.shared.stats.add_to(&mut stats);
            stats.cores.push(shard.core);
            stats.sessions_active += shard.shared.sessions.active_count() as u64;
            stats.slots_free += u64::from(shard.shared.slots().stock().free());
            stats.slots += u64::from(shard.arena.slots().blocks());
            stats.arena_bytes += shard.arena.mapping_bytes() as u64;
            stats.tables_bytes += shard.tables_bytes as u64;
        }
        stats.by_reference_bytes_free = inner.credit.stock().available();
        stats.callbacks_waiting = inner.callbacks.waiting();
        stats.account = inner.account();
        stats
    }

    /// Closes every producer, waits at most `within` for what is out and for receipt callbacks,
    /// logs out and stops the shards. What is not answered by then resolves as `NotSent` or
    /// `Unknown`. Never takes noticeably longer than `within`. A second close returns the same
    /// report.
    ///
    /// # Panics
    /// On a shard's own thread (in a waker, or when the owner of a payload is dropped): it would
    /// wait for itself.
    pub fn close(&self, within: Duration) -> CloseReport {
        process::assert_here(self.inner.process);
        assert_may_wait("Engine::close");
        self.inner.close(within)
    }

    pub(crate) fn inner(&self) -> &Arc<EngineInner> {
        &self.inner
    }
}

impl EngineInner {
    /// The lane of a partition, opened by the first that asks.
    ///
    /// # Errors
    /// [`SendError::PartitionsMax`], [`SendError::Forked`], or that the engine is closed.
    pub(crate) fn lane<'t>(
        &self,
        topic: &'t Topic,
        partition: u32,
    ) -> Result<&'t Arc<Lane>, SendError> {
        if !self.process.is_this() {
            return Err(SendError::Forked);
        }
        match topic.lane(partition) {
            Some(lane) => Ok(lane),
            None => self.open_lane(topic, partition),
        }
    }

    #[cold]
    fn open_lane<'t>(&self, topic: &'t Topic, partition: u32) -> Result<&'t Arc<Lane>, SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        let waited_until = Instant::now() + PLACE_WAIT;
        loop {
            let mut registry = self.registry();
            if let Some(lane) = topic.lane(partition) {
                return Ok(lane);
            }
            if let Some((shard, place)) = registry.take_place() {
                let shared = &self.shards[shard].shared;
                let lane = Lane::new(
                    place,
                    topic.lane_config,
                    Arc::clone(&topic.name),
                    partition,
                    Arc::clone(shared),
                    &self.callbacks,
                    registry.random_id(),
                );
                let lane = Arc::new(lane);
                if !shared.keep_lane(Arc::clone(&lane)) {
                    return Err(SendError::EngineFailed);
                }
                topic.keep_lane(lane);
                return Ok(topic.lane(partition).expect("kept just now"));
            }
            if !registry.is_place_coming() || Instant::now() > waited_until {
                return Err(SendError::PartitionsMax {
                    max: self.partitions_max,
                });
            }
            drop(registry);
            // A shard that looks at its queues lets go of the lanes that it finds empty.
            for shard in &self.shards {
                shard.shared.wake();
            }
            std::thread::yield_now();
        }
    }

    /// A producer lets go of its topic.
    pub(crate) fn let_go(&self, topic: &Arc<Topic>) {
        let mut registry = self.registry();
        if registry.let_go(topic) {
            // With the registry locked: who watches the topic again does it after this.
            let topic = Arc::clone(topic);
            self.shards[0].shared.command(Command::Unwatch { topic });
        }
    }

    /// Ends the linger of everything: somebody waits for memory.
    pub(crate) fn hurry(&self) {
        for shard in &self.shards {
            shard.shared.hurry();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The sum over all producers, records of open batches included.
    fn account(&self) -> Account {
        // The lanes first and without the registry: who holds a lane may want the registry, to open
        // another.
        let topics = self.registry().topics();
        topics.iter().for_each(|topic| topic.count_open());
        self.registry().account()
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, within: Duration) -> CloseReport {
        let deadline = Deadline::within(within);
        let stopped = match self.stop(within, deadline) {
            Ok(stopped) => stopped,
            Err(known) => return known,
        };
        // Without the lock: one of them may close the engine, too.
        let report = stopped.with_callbacks(self.callbacks.wait_all_run(deadline));
        *self.report() = Some(report);
        report
    }

    fn report(&self) -> MutexGuard<'_, Option<CloseReport>> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the shards. `Err` with the report of the first time when that was done before.
    fn stop(&self, within: Duration, deadline: Deadline) -> Result<CloseReport, CloseReport> {
        let mut report = self.report();
        if let Some(known) = *report {
            return Err(known);
        }
        self.begin_close(within);
        // A shard may drop the last handle (in a waker); it goes on when this returns, and ends.
        let may_wait = role() != Role::Shard;
        let mut ended = may_wait;
        for ShardHandle { shared, .. } in &self.shards {
            ended = ended && shared.end.wait(deadline.left().saturating_add(CLOSE_GRACE));
        }
        let in_time = !deadline.is_over() || within.is_zero();
        if ended {
            for thread in self
                .threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .drain(..)
            {
                // A panic of the shard was caught and logged there.
                drop(thread.join());
            }
        } else if may_wait {
            ringmain_io::log!(
                error,
                "a shard did not end in time; its thread is left behind"
            );
        }
        let account = self.account();
        assert!(
            account.balances(),
            "the account balances at close: {account}"
        );
        assert!(
            !ended || account.in_flight == 0,
            "every record has its answer at close: {account}"
        );
        let made = CloseReport {
            account,
            drained: ended && in_time && account.not_sent == 0 && account.unknown == 0,
            callbacks_waiting: 0,
        };
        *report = Some(made.with_callbacks(self.callbacks.waiting()));
        Ok(made)
    }

    /// Refuses every later record and call, and tells the shards to end.
    pub(crate) fn begin_close(&self, within: Duration) {
        self.is_closed.store(true, Ordering::Release);
        self.registry().close_all();
        // Whoever waits for memory is told; whoever appends just now is waited for by taking each
        // lane's lock.
        self.credit.close();
        self.callbacks.room().close();
        for shard in &self.shards {
            shard.shared.slots().close();
        }
        let topics = self.registry().topics();
        for lane in topics.iter().flat_map(|topic| topic.lanes()) {
            lane.seal_for_flush(&mut Vec::new());
        }
        for ShardHandle { shared, .. } in &self.shards {
            let deadline = shared.now().after(deadline::micros(within));
            shared.command(Command::Close { deadline });
        }
    }
}

impl CloseReport {
    fn with_callbacks(self, callbacks_waiting: u64) -> Self {
        Self {
            drained: self.drained && callbacks_waiting == 0,
            callbacks_waiting,
            ..self
        }
    }
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        // A forked child has no shards to stop.
        if !self.process.is_this() || self.report().is_some() {
            return;
        }
        let before = self.account();
        let CloseReport {
            account,
            callbacks_waiting,
            ..
        } = self.close(Duration::ZERO);
        let not_sent = account.not_sent - before.not_sent;
        let unknown = account.unknown - before.unknown;
        let unanswered = account.in_flight;
        if not_sent + unknown + unanswered + callbacks_waiting > 0 {
            ringmain_io::log!(
                warn,
                not_sent,
                unknown,
                unanswered,
                callbacks_waiting,
                "the last handle of an engine was dropped before its records were answered: those not \
                 sent are not stored, the others may be; call Engine::close first"
            );
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("shards", &self.inner.shards.len())
            .finish_non_exhaustive()
    }
}
