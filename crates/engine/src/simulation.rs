//! What a simulation needs of an engine: shards that it turns itself, a clock that it sets, and
//! steps instead of calls that block. Feature `simulation`, never for production.
//!
//! ```text
//!   EngineBuilder::simulate ---> Engine, one TurnedShard a shard
//!   Producer::try_send, send_async, Engine::call_async, Receipt: as they are, polled by the simulation
//!   begin_close, Flush, Purge: what blocks, as steps
//!   interleave: where another thread may run between two steps of this one
//! ```

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ringmain_io::driver::{Driver, DriverError};
use ringmain_proto::{Client, FatalError, LaneKey, Micros, SessionState};

pub use crate::engine::Simulation;
#[cfg(feature = "mutations")]
pub use crate::hooks::Mutation;
pub use crate::hooks::Point;

use crate::call::TopicInfo;
use crate::engine::Engine;
use crate::gate::{Gate, Stock};
use crate::producer::Producer;
use crate::receipt::{BatchCell, Receipt};
use crate::record::Record;
use crate::shard::{Command, OwedPurge, PurgeRequest, ShardShared, Turned};

/// The time of an engine, set by a simulation. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    now_us: Arc<AtomicU64>,
}

/// When the calendar of a simulation began, in microseconds since the Unix epoch.
const CALENDAR_US: u64 = 1_700_000_000_000_000;

impl VirtualClock {
    /// Sets the microseconds since the engine started.
    pub fn set(&self, now_us: u64) {
        self.now_us.store(now_us, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Micros {
        Micros(self.now_us.load(Ordering::Relaxed))
    }

    pub(crate) fn calendar_us(&self) -> u64 {
        CALENDAR_US + self.now().0
    }
}

/// A shard without a thread. Dropping it is the end of a shard whose thread panicked.
pub struct TurnedShard<D: Driver> {
    shared: Arc<ShardShared>,
    shard: Turned<D>,
}

impl<D: Driver> TurnedShard<D> {
    pub(crate) fn new(shared: Arc<ShardShared>, shard: Turned<D>) -> Self {
        Self { shared, shard }
    }

    pub(crate) fn shared(&self) -> &Arc<ShardShared> {
        &self.shared
    }

    /// One turn of the shard's loop and one call of the driver's `wait`, which must not sleep. Says
    /// how long that call was allowed to; `None` when the shard has ended.
    ///
    /// # Errors
    /// The driver's. The shard has ended.
    pub fn turn(&mut self) -> Result<Option<Duration>, DriverError> {
        self.shard.turn()
    }

    /// The driver; `None` when the shard has ended.
    pub fn driver(&mut self) -> Option<&mut D> {
        self.shard.driver()
    }

    /// What there is to see of the protocol client of a connection, at the end of its shard when
    /// that has come.
    pub fn view(&self, conn: usize) -> ClientView {
        self.shard.view(conn)
    }

    /// Whether the shard would send a batch of a lane at once. False when it has ended.
    pub fn lane_has_room(&self, conn: usize, lane: LaneKey) -> bool {
        let client = self.shard.client(conn);
        client.is_some_and(|client| client.lane_has_room(lane))
    }

    /// Panics when a table of the shard contradicts another. Between two turns.
    pub fn check_invariants(&self) {
        self.shard.check_invariants();
    }

    /// Slots that are free.
    pub fn slots_free(&self) -> u32 {
        self.shared.slots().stock().free()
    }

    /// Slots, free or not.
    pub fn slots(&self) -> u32 {
        self.shared.slots_count()
    }

    /// Whether a sender waits for a slot of this shard although one is free.
    pub fn has_unserved_sender(&self) -> bool {
        self.shared.slots().has_unserved()
    }
}

/// What there is to see of a protocol client.
#[derive(Clone, Copy, Debug)]
pub struct ClientView {
    /// Its id.
    pub id: u128,
    /// Where its session stands.
    pub state: SessionState,
    /// The session's number, if there is one.
    pub session: Option<u64>,
    /// Why it ended for good, if it has.
    pub fatal: Option<FatalError>,
    /// The next request number.
    pub request_next: u64,
    /// Its counters.
    pub stats: ringmain_proto::Stats,
}

impl ClientView {
    pub(crate) fn of(client: &Client) -> Self {
        Self {
            id: client.client(),
            state: client.state(),
            session: client.session(),
            fatal: client.fatal(),
            request_next: client.request_next(),
            stats: *client.stats(),
        }
    }

    /// Whether its request numbers are used up.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.request_next > ringmain_proto::limits::REQUEST_LAST
    }
}

/// Whether a sender waits for memory by reference although there is enough.
pub fn has_unserved_sender(engine: &Engine) -> bool {
    engine.inner().credit.has_unserved()
}

/// Bytes by reference that are not in use.
pub fn credit_free(engine: &Engine) -> u64 {
    engine.inner().credit.stock().available()
}

impl<S: Stock> Gate<S>
where
    S::Grant: Sized,
{
    /// Whether the first who waits could have what it wants.
    fn has_unserved(&self) -> bool {
        let Some(want) = self.first_want() else {
            return false;
        };
        match self.stock().try_take(want) {
            Some(grant) => {
                self.stock().put(grant);
                true
            }
            None => false,
        }
    }
}

/// Tells an engine to close, as [`Engine::close`] does, without waiting. When every shard has
/// ended, `Engine::close` gives the report.
pub fn begin_close(engine: &Engine, within: Duration) {
    engine.inner().begin_close(within);
}

/// Where a record stands in its batch, from 0.
pub fn place_in_batch(receipt: &Receipt) -> u32 {
    receipt.place()
}

/// The shard, the connection and the key of a partition's lane; `None` before its first record.
pub fn place_of(producer: &Producer, partition: u32) -> Option<(usize, usize, u32)> {
    let lane = producer.topic().lane(partition)?;
    let shards = &producer.engine().shards;
    let shard = shards
        .iter()
        .position(|shard| Arc::ptr_eq(&shard.shared, &lane.shard))?;
    Some((shard, usize::from(lane.place.conn), lane.place.key.0))
}

/// A flush under way: what [`Producer::flush`] waits for.
pub struct Flush(Vec<Arc<BatchCell>>);

impl Flush {
    /// Seals every open batch of the producer's topic.
    pub fn begin(producer: &Producer) -> Self {
        let mut cells = Vec::new();
        for lane in producer.topic().lanes() {
            lane.seal_for_flush(&mut cells);
        }
        Self(cells)
    }

    /// Whether everything accepted before has its answer.
    pub fn is_over(&self) -> bool {
        self.0.iter().all(|cell| cell.is_resolved())
    }
}

/// A purge under way: what [`Producer::purge`] waits for.
pub struct Purge(Vec<Arc<PurgeRequest>>);

impl Purge {
    /// Asks every shard for it.
    pub fn begin(producer: &Producer) -> Self {
        for lane in producer.topic().lanes() {
            lane.seal_for_flush(&mut Vec::new());
        }
        let ask = |shared: &ShardShared| {
            let request = Arc::new(PurgeRequest::new(Arc::clone(producer.ledger()), true));
            let owed = OwedPurge(Arc::clone(&request));
            shared.command(Command::Purge(owed));
            request
        };
        let shards = &producer.engine().shards;
        Self(shards.iter().map(|shard| ask(&shard.shared)).collect())
    }

    /// What was handed back, when all shards have carried it out.
    pub fn take_if_over(&self) -> Option<Vec<(u32, Record)>> {
        if !self.0.iter().all(|ask| ask.done.wait(Duration::ZERO)) {
            return None;
        }
        let taken = |ask: &Arc<PurgeRequest>| {
            std::mem::take(&mut *ask.taken.lock().unwrap_or_else(PoisonError::into_inner))
        };
        Some(self.0.iter().flat_map(taken).collect())
    }
}

type Interloper = Box<dyn FnMut(Point)>;

thread_local! {
    static INTERLOPER: RefCell<Option<Interloper>> = const { RefCell::new(None) };
    #[cfg(feature = "mutations")]
    static MUTATION: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
    static TOPIC: RefCell<Option<TopicInfo>> = const { RefCell::new(None) };
}

/// Runs `body`; at every [`Point`] that it comes by on this thread, `other` runs, as another thread
/// might. Points within `other` are passed over.
pub fn interleave<T>(other: impl FnMut(Point) + 'static, body: impl FnOnce() -> T) -> T {
    struct Alone;
    impl Drop for Alone {
        fn drop(&mut self) {
            INTERLOPER.take();
        }
    }
    // Also when `body` panics.
    let _alone = Alone;
    INTERLOPER.set(Some(Box::new(other)));
    body()
}

/// A point that this thread comes by.
pub(crate) fn pass(point: Point) {
    if let Some(mut other) = INTERLOPER.take() {
        other(point);
        INTERLOPER.set(Some(other));
    }
}

/// Builds something that asks the server for a topic, which knows `info` under every name.
pub fn telling_topic<T>(info: TopicInfo, build: impl FnOnce() -> T) -> T {
    TOPIC.set(Some(info));
    let built = build();
    TOPIC.take();
    built
}

/// What a simulation tells about a topic.
pub(crate) fn told_topic() -> Option<TopicInfo> {
    TOPIC.with_borrow(Clone::clone)
}

/// From now on engines of this thread commit this fault, or none.
#[cfg(feature = "mutations")]
pub fn commit(fault: Option<Mutation>) {
    MUTATION.set(fault);
}

/// The fault to commit.
#[cfg(feature = "mutations")]
pub(crate) fn committed() -> Option<Mutation> {
    MUTATION.get()
}
