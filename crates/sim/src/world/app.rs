//! An application: its engine, the shard that the world turns, and everything it waits for.
//!
//! Role: holds. Does not: decide when something happens; the world does. Invariant: a future is
//! polled when it was made and when its waker was called, and at no other time, so a wake-up that
//! is forgotten shows.

use crate::draws::{ClientDraws, Draws};
use crate::kernel::{Limits, SimDriver};
use crate::rng::{Rng, Stream};
use ringmain::simulation::{ClientView, Purge, Simulation, TurnedShard, VirtualClock};
use ringmain::{
    CallError, CallReply, Engine, OnLostCoverage, Ordering, Partitioning, Producer, Receipt,
    SendError, TopicInfo,
};
use ringmain_proto::{Config, LaneKey};
use ringmain_wire::frame::FrameDecoder;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// Control calls an application has open at once.
pub(super) const CALLS_MAX: u32 = 4;

/// A delivery timeout that no run reaches: the longest that a producer can have.
const PATIENCE_US: u64 = ringmain::limits::TIMEOUT_US_MAX;

/// Slots whose number the smallest memory gives, and their size.
const SMALL_SLOT_BYTES: u32 = 4096;

pub(super) type Shard = Rc<RefCell<TurnedShard<SimDriver>>>;

/// A connection as its kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Socket {
    /// None.
    Idle,
    /// Coming up.
    Connecting,
    /// Up, under its number on the network.
    Up { net: usize },
    /// Given up, and the kernel is not done with it.
    Ending,
}

/// A connection of an engine.
pub(super) struct Conn {
    pub(super) socket: Socket,
    /// Counts attempts, to tell what belongs to one that is over.
    pub(super) life: u64,
    /// Reads along what the shard is handed.
    pub(super) tap: FrameDecoder,
    /// The server ended the session on this connection.
    pub(super) evicted: bool,
    pub(super) logins: u64,
}

impl Conn {
    fn new() -> Self {
        Self {
            socket: Socket::Idle,
            life: 0,
            tap: FrameDecoder::new(),
            evicted: false,
            logins: 0,
        }
    }
}

/// A producer with its settings.
pub(super) struct Sender {
    pub(super) producer: Producer,
    pub(super) topic: u32,
    /// `None` for one without a deadline.
    pub(super) delivery_us: Option<u64>,
    pub(super) linger_us: u64,
}

/// A lane as the application sees it.
#[derive(Default)]
pub(super) struct LaneOut {
    /// Connection and key, once it is open.
    pub(super) place: Option<(usize, LaneKey)>,
    /// The shard found it held by an appender, which seals what is open then or next.
    pub(super) was_busy: bool,
    /// The batch that its last record joined.
    pub(super) last: Option<u32>,
    /// Batches that were not sent yet, oldest first.
    pub(super) unsent: VecDeque<u32>,
}

/// A batch as far as the application can know it.
pub(super) struct BatchOut {
    pub(super) lane: usize,
    /// The numbers of its records.
    pub(super) records: Vec<u32>,
    pub(super) payload_bytes: usize,
    /// On the engine's clock.
    pub(super) lingers_until_us: u64,
    /// Something may have ended its linger: a sender that waits for memory, or what seals batches.
    pub(super) is_hurried: bool,
    /// It takes no more records: a later batch of the lane, a flush, a purge, a close.
    pub(super) is_sealed: bool,
    pub(super) is_sent: bool,
    /// The server has said that it is stored.
    pub(super) is_told: bool,
    pub(super) deadline_us: Option<u64>,
    /// The answers of its records.
    pub(super) answers: u32,
    pub(super) receipt: Option<ringmain_proto::Receipt>,
}

type SendFuture = Pin<Box<dyn Future<Output = Result<Receipt, SendError>> + Send>>;
type CallFuture = Pin<Box<dyn Future<Output = Result<CallReply, CallError>>>>;

/// Something that an application waits for.
pub(super) enum Task {
    /// The answer for a record.
    Answer {
        receipt: Receipt,
        batch: u32,
        place: u32,
    },
    /// Memory for a record.
    Send { future: SendFuture, out: RecordOut },
    /// The answer of a call.
    Call { future: CallFuture, key: u64 },
}

/// A record on its way in.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordOut {
    pub(super) number: u32,
    pub(super) lane: usize,
    pub(super) sender: usize,
    pub(super) bytes: usize,
    pub(super) probe: bool,
}

/// Notes which task was woken.
struct Alarm {
    task: u64,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.woken.lock().expect("no panic").push(self.task);
    }
}

/// See the module. The shard goes before the engine, whose drop waits for it otherwise.
pub(super) struct App {
    pub(super) draws: ClientDraws,
    pub(super) shard: Shard,
    pub(super) senders: Vec<Sender>,
    pub(super) tasks: BTreeMap<u64, Task>,
    task_next: u64,
    woken: Arc<Mutex<Vec<u64>>>,
    pub(super) engine: Engine,
    pub(super) clock: VirtualClock,
    pub(super) conns: Vec<Conn>,
    /// The oracle's number of its first connection.
    pub(super) first_client: usize,
    pub(super) lanes: Vec<LaneOut>,
    pub(super) batches: BTreeMap<u32, BatchOut>,
    /// The batches that were sent, by connection and request number.
    pub(super) requests: BTreeMap<(usize, u64), u32>,
    pub(super) purges: Vec<Purge>,
    pub(super) credit: u64,
    /// How far its clock is ahead of virtual time.
    pub(super) ahead_us: u64,
    /// Until then its shard is not scheduled.
    pub(super) paused_us: u64,
    /// Until then it may be late: its shard was not scheduled, or its clock jumped.
    pub(super) excused_us: u64,
    pub(super) turn_at_us: Option<u64>,
    /// Its shard ends every linger in its next turn.
    pub(super) is_hurried: bool,
    pub(super) ticket: u64,
    /// Random numbers of the application.
    pub(super) rng: Rng,
    pub(super) records_sent: u32,
    pub(super) calls_made: u32,
    pub(super) calls_open: u32,
    pub(super) sends_open: u32,
    pub(super) work_done: bool,
    /// It was told to close.
    pub(super) closing: bool,
    /// Its shard has ended.
    pub(super) has_ended: bool,
}

impl App {
    /// Application `index` of a run. `first_client` is the oracle's number of its first connection.
    pub(super) fn new(
        draws: &Draws,
        index: usize,
        client: ClientDraws,
        first_client: usize,
        tune: impl Fn(&mut Config),
    ) -> Self {
        let seed = draws.seed ^ (index as u64) << 48;
        let mut seeds = Rng::stream(seed, Stream::Clients);
        let clock = VirtualClock::default();
        let conns = usize::from(client.connections);
        let limits = Limits {
            writes: usize::from(client.writes_max),
            frames: draws.network.frames_max as usize,
        };
        let mut driver = |memory| SimDriver::new(memory, conns, limits);
        let with = Simulation {
            clock: clock.clone(),
            random: [seeds.next_u64(), seeds.next_u64() | 1],
            tune: &mut |config| {
                configure(config, &client);
                tune(config);
            },
            driver: &mut driver,
        };
        let (engine, mut shards) = build(&client)
            .simulate(with)
            .expect("drawn settings are legal");
        let shard = shards.pop().expect("an engine has a shard");
        let senders = senders(
            &engine,
            &client,
            draws.broker.topics,
            draws.broker.partitions,
        );
        Self {
            credit: ringmain::simulation::credit_free(&engine),
            shard: Rc::new(RefCell::new(shard)),
            senders,
            tasks: BTreeMap::new(),
            task_next: 0,
            woken: Arc::default(),
            engine,
            clock,
            conns: (0..conns).map(|_| Conn::new()).collect(),
            first_client,
            lanes: client.lanes.iter().map(|_| LaneOut::default()).collect(),
            batches: BTreeMap::new(),
            requests: BTreeMap::new(),
            purges: Vec::new(),
            ahead_us: 0,
            paused_us: 0,
            excused_us: 0,
            turn_at_us: None,
            is_hurried: false,
            ticket: 0,
            rng: Rng::stream(seed, Stream::Workload),
            records_sent: 0,
            calls_made: 0,
            calls_open: 0,
            sends_open: 0,
            work_done: false,
            closing: false,
            has_ended: false,
            draws: client,
        }
    }

    /// What there is to see of a protocol client.
    pub(super) fn view(&self, conn: usize) -> ClientView {
        self.shard.borrow().view(conn)
    }

    /// All of them.
    pub(super) fn views(&self) -> Vec<ClientView> {
        (0..self.conns.len()).map(|conn| self.view(conn)).collect()
    }

    /// Its clock at an instant of virtual time.
    pub(super) fn clock_us(&self, now_us: u64) -> u64 {
        now_us + self.ahead_us
    }

    /// Calls its driver, if its shard has not ended.
    pub(super) fn driver<T>(&self, call: impl FnOnce(&mut SimDriver) -> T) -> Option<T> {
        self.shard.borrow_mut().driver().map(call)
    }

    /// A name and a waker for a new task.
    pub(super) fn task_name(&mut self) -> (u64, Waker) {
        let task = self.task_next;
        self.task_next += 1;
        (task, self.waker(task))
    }

    /// The waker of a task.
    pub(super) fn waker(&self, task: u64) -> Waker {
        let woken = Arc::clone(&self.woken);
        Waker::from(Arc::new(Alarm { task, woken }))
    }

    /// The tasks that were woken since the last call, in that order.
    pub(super) fn take_woken(&self) -> Vec<u64> {
        std::mem::take(&mut *self.woken.lock().expect("no panic"))
    }

    /// Whether the application waits for nothing.
    pub(super) fn is_quiet(&self) -> bool {
        self.tasks.is_empty() && self.purges.is_empty()
    }

    /// Whether everything that it asks for may be refused.
    pub(super) fn is_over(&self) -> bool {
        let is_over = |view: &ClientView| view.fatal.is_some() || view.is_exhausted();
        self.closing || self.has_ended || self.views().iter().all(is_over)
    }

    /// The engine's batches end their linger now.
    pub(super) fn hurry(&mut self) {
        self.is_hurried = true;
        for lane in &self.lanes {
            for batch in &lane.unsent {
                let batch = self.batches.get_mut(batch).expect("kept until it is sent");
                batch.is_hurried = true;
            }
        }
    }

    /// The open batches of a topic, or of all, take no more records.
    pub(super) fn seal(&mut self, topic: Option<u32>) {
        self.hurry();
        for (lane, out) in self.draws.lanes.iter().zip(&self.lanes) {
            if let Some(last) = out.last
                && topic.is_none_or(|topic| topic == lane.0)
            {
                let batch = self.batches.get_mut(&last);
                batch.expect("kept for the whole run").is_sealed = true;
            }
        }
    }

    pub(super) fn describe(&self) -> String {
        let states: Vec<_> = self.views().iter().map(|view| view.state).collect();
        format!(
            "clients {states:?}, {} tasks, {} of them sends, {} purges, ended {}, asleep {:?}",
            self.tasks.len(),
            self.sends_open,
            self.purges.len(),
            self.has_ended,
            self.driver(|driver| driver.is_asleep()),
        )
    }
}

/// The engine of an application.
fn build(draws: &ClientDraws) -> ringmain::EngineBuilder {
    // The smallest memory has eight slots of the smallest size.
    let slots = draws.slots.max(4);
    let slot_bytes = SMALL_SLOT_BYTES * if slots < 8 { 2 } else { 1 };
    let policy = if draws.resends_uncovered {
        OnLostCoverage::Resend
    } else {
        OnLostCoverage::Report
    };
    Engine::builder()
        .server("iggy://iggy:iggy@127.0.0.1:8090")
        .connections(draws.connections)
        .cores(Vec::new())
        .huge_pages(false)
        .slot_bytes(slot_bytes)
        .memory_bytes_max(2 * u64::from(slots) * u64::from(slot_bytes))
        .partitions_max(draws.lanes.len() as u32 * 2 + 16)
        .on_lost_coverage(policy)
}

/// The settings of a protocol client, from what was drawn for it.
fn configure(config: &mut Config, draws: &ClientDraws) {
    config.request_first = draws.request_first;
    config.connect_timeout_us = draws.connect_timeout_us;
    config.login_timeout_us = draws.login_timeout_us;
    config.request_timeout_us = draws.request_timeout_us;
    config.resume_requests_max = draws.resume_requests_max;
    config.write_stall_us = draws.write_stall_us;
    config.heartbeat_interval_us = draws.heartbeat_us;
    (
        config.reconnect_backoff_us_min,
        config.reconnect_backoff_us_max,
    ) = draws.reconnect_us;
    (config.refusal_backoff_us_min, config.refusal_backoff_us_max) = draws.refusal_us;
}

/// Four producers a topic: of little patience, of some, and two of all there is.
fn senders(engine: &Engine, draws: &ClientDraws, topics: u32, partitions: u32) -> Vec<Sender> {
    let mut senders = Vec::new();
    for topic in 0..topics {
        // Producers share requests when they have the same patience.
        let (low_us, high_us) = draws.delivery_us;
        for delivery_us in [Some(low_us), Some(high_us.max(low_us + 1)), None, None] {
            let ordering = if draws.strict {
                Ordering::Strict
            } else {
                Ordering::Pipelined
            };
            let timeout_us = delivery_us.unwrap_or(PATIENCE_US);
            let linger_us = draws.linger_us.min(timeout_us / 2);
            let info = TopicInfo {
                stream_id: 1,
                topic_id: topic,
                created_at_us: 1,
                partitions_count: partitions,
                messages_count: 0,
            };
            // The application names the partition in the key.
            let named = |_: &[u8], key: Option<&[u8]>, _: u32| {
                let key = key.and_then(|key| key.try_into().ok());
                key.map_or(u32::MAX, u32::from_le_bytes)
            };
            let builder = engine
                .producer(crate::codec::STREAM, topic.to_string())
                .partitioning(Partitioning::Custom(Arc::new(named)))
                .ordering(ordering)
                .window_requests_max(draws.window_requests_max.into())
                .batch_records_max(draws.batch_records_max)
                .copy_bytes_max(draws.copy_bytes_max)
                .linger_us(linger_us)
                .delivery_timeout_us(timeout_us)
                .partitions_refresh_us(PATIENCE_US);
            let built = ringmain::simulation::telling_topic(info, || builder.build());
            senders.push(Sender {
                producer: built.expect("drawn settings are legal"),
                topic,
                delivery_us,
                linger_us,
            });
        }
    }
    senders
}
