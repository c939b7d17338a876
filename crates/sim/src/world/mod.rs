//! The world of a run: virtual time, the network, the broker, the applications with their engines,
//! and the oracle, one event after another.
//!
//! Role: carries events from where they are made to whom they concern, and runs the phases of a
//! run. Does not: decide what is right; the oracle does. Invariants: everything that happens is an
//! event of the queue, so a run is a function of its seed and options; after each turn of a shard
//! the answers that it gave are seen before what it sent.
//!
//! # Phases
//!
//! Work, with faults; settling, without; two rounds of probes that must be answered, the second one
//! with `Stored`; closing; and then everything that is still under way, stale copies above all,
//! runs out.

mod answers;
mod app;
mod application;
mod checks;
mod kernel_side;
mod server_side;
mod shard_side;
mod strikes;

use crate::broker::{Broker, Env, Timer};
use crate::draws::Draws;
use crate::faults::{Fault, Faults, Strike};
use crate::network::Network;
use crate::oracle::{Kind, Oracle};
use crate::queue::EventQueue;
use crate::rng::{Rng, Stream};
use crate::trace::Trace;
use crate::{Options, Summary};
use app::App;
use std::collections::BTreeMap;

/// Virtual time that a phase without faults may take.
const PHASE_US_MAX: u64 = 600_000_000;

/// What a client may take to log out.
const CLOSE_US: u64 = 10_000_000;

/// Events of a run at most: beyond them something goes in circles.
const EVENTS_MAX: u64 = 4_000_000;

/// Events of one instant at most.
const EVENTS_PER_INSTANT_MAX: u64 = 100_000;

/// A connection of an application, in one of its lives.
#[derive(Clone, Copy, Debug)]
struct Line {
    app: usize,
    conn: usize,
    life: u64,
}

/// Something that happens.
#[derive(Debug)]
enum Event {
    /// A shard turns. Out of date unless the ticket is the last one.
    Turn { app: usize, ticket: u64 },
    /// An application does something.
    Work { app: usize },
    /// A connection attempt ended.
    Connected { line: Line, accepted: bool },
    /// The kernel took bytes of a write.
    Taken { line: Line },
    /// The kernel is done with the memory of a write.
    Freed { line: Line },
    /// The kernel is done with a connection.
    Torn { line: Line },
    /// Bytes may have arrived at the client.
    ClientBytes { conn: usize },
    /// The client notices the end of a connection.
    ClientHangup { conn: usize },
    /// Bytes may have arrived at the server.
    ServerBytes { conn: usize },
    /// The server notices the end of a connection.
    ServerHangup { conn: usize },
    /// The broker asked for it.
    Broker(Timer),
    /// The server is back after a restart.
    ServerUp,
    /// A timed fault strikes.
    Strike(Fault),
    /// Work ends at the latest.
    WorkEnds,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Work,
    Settling,
    Probing,
    ProbingAgain,
    Closing,
    RunningOut,
}

/// A run under way.
pub(crate) struct World {
    queue: EventQueue<Event>,
    faults: Faults,
    network: Network,
    broker: Broker,
    broker_rng: Rng,
    server_paused_us: u64,
    oracle: Oracle,
    trace: Trace,
    apps: Vec<App>,
    /// The batch that begins with a record, by the record's number.
    firsts: BTreeMap<u32, u32>,
    /// The number of the next record.
    record_next: u32,
    phase: Phase,
    /// When work ends at the latest.
    work_us: u64,
    /// When something happened last.
    active_us: u64,
    /// A phase that lasts longer hangs. Work ends by itself.
    phase_until_us: u64,
    faultless: bool,
    events: u64,
    digest: u64,
}

impl World {
    /// The world of a run, before anything happened.
    pub(crate) fn new(draws: &Draws, script: Vec<Strike>, options: &Options) -> Self {
        let mut oracle = Oracle::new(options.laws);
        let mut apps = Vec::new();
        let mut clients = 0;
        for (index, client) in draws.clients.iter().enumerate() {
            let app = App::new(draws, index, client.clone(), clients, options.tune);
            for conn in 0..app.conns.len() {
                oracle.add_client(app.view(conn).id, client);
            }
            clients += app.conns.len();
            apps.push(app);
        }
        let mut world = Self {
            queue: EventQueue::default(),
            faults: Faults::new(draws.seed, draws.faults.clone(), script.clone()),
            network: Network::new(draws.seed, draws.network.clone()),
            broker: Broker::new(draws.broker.clone()),
            broker_rng: Rng::stream(draws.seed, Stream::Broker),
            server_paused_us: 0,
            oracle,
            trace: Trace::new(options.trace_lines),
            apps,
            firsts: BTreeMap::new(),
            record_next: 0,
            phase: Phase::Work,
            work_us: draws.work_us,
            active_us: 0,
            phase_until_us: u64::MAX,
            faultless: draws.is_calm() && script.is_empty(),
            events: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        };
        world.queue.push(draws.work_us, Event::WorkEnds);
        for app in 0..world.apps.len() {
            world.turn_at(app, 0);
            world.queue.push(0, Event::Work { app });
        }
        for &fault in Fault::ALL.iter().filter(|fault| fault.is_timed()) {
            world.schedule_strike(fault);
        }
        world
    }

    /// Runs until nothing can happen any more, or something is wrong.
    pub(crate) fn run(&mut self) {
        let mut instant = (0, 0);
        while self.oracle.violation().is_none() {
            let Some(event) = self.queue.pop() else {
                return self.finish();
            };
            if self.is_out_of_date(&event) {
                continue;
            }
            self.events += 1;
            let now_us = self.queue.now_us();
            if now_us > self.phase_until_us {
                return self.blame_phase();
            }
            instant = if instant.0 == now_us {
                (now_us, instant.1 + 1)
            } else {
                (now_us, 0)
            };
            if self.events > EVENTS_MAX || instant.1 > EVENTS_PER_INSTANT_MAX {
                let events = self.events;
                self.oracle.blame(Kind::NotLive, || {
                    format!("{events} events, and it goes on: {event:?}")
                });
                return;
            }
            if !matches!(event, Event::WorkEnds | Event::Strike(_)) {
                self.active_us = now_us;
            }
            self.fold(&event, now_us);
            self.handle(event);
            self.next_phase();
        }
    }

    /// Whether a shard was told otherwise since it was to turn.
    fn is_out_of_date(&self, event: &Event) -> bool {
        match *event {
            Event::Turn { app, ticket } => {
                self.apps[app].has_ended || self.apps[app].ticket != ticket
            }
            _ => false,
        }
    }

    fn blame_phase(&mut self) {
        let phase = self.phase;
        let apps: Vec<_> = self.apps.iter().map(App::describe).collect();
        self.oracle.blame(Kind::NotLive, || {
            format!("{phase:?} takes too long: {apps:?}")
        });
    }

    /// Mixes an event into the digest: two runs with one digest did the same.
    fn fold(&mut self, event: &Event, now_us: u64) {
        let kind = std::mem::discriminant(event);
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&(self.digest, kind, now_us), &mut hasher);
        self.digest = std::hash::Hasher::finish(&hasher);
    }

    fn handle(&mut self, event: Event) {
        let now_us = self.queue.now_us();
        for app in &self.apps {
            app.clock.set(app.clock_us(now_us));
        }
        match event {
            Event::Turn { app, .. } => self.turn(app),
            Event::Work { app } => self.work(app),
            Event::Connected { line, accepted } => self.connected(line, accepted),
            Event::Taken { line } => self.taken(line),
            Event::Freed { line } => self.freed(line),
            Event::Torn { line } => self.torn(line),
            Event::ClientBytes { conn } => self.client_bytes(conn),
            Event::ClientHangup { conn } => self.client_hangup(conn),
            Event::ServerBytes { conn } => self.server_bytes(conn),
            Event::ServerHangup { conn } => self.server_hangup(conn),
            Event::Broker(timer) => self.broker_timer(timer),
            Event::ServerUp => self.broker.start(),
            Event::Strike(fault) => self.strike(fault),
            Event::WorkEnds => {
                if self.phase == Phase::Work {
                    self.enter(Phase::Settling);
                }
            }
        }
    }

    fn now_us(&self) -> u64 {
        self.queue.now_us()
    }

    /// Calls into the broker and carries out what it wants.
    fn with_broker<T>(&mut self, call: impl FnOnce(&mut Broker, &mut Env<'_>) -> T) -> T {
        let mut env = Env {
            now_us: self.queue.now_us(),
            faults: &mut self.faults,
            rng: &mut self.broker_rng,
        };
        let result = call(&mut self.broker, &mut env);
        self.server_outputs();
        result
    }

    /// Moves on while the phase is over: some have nothing to wait for.
    fn next_phase(&mut self) {
        while self.oracle.violation().is_none() && self.is_phase_over() {
            self.enter(match self.phase {
                Phase::Work => Phase::Settling,
                Phase::Settling => Phase::Probing,
                Phase::Probing => Phase::ProbingAgain,
                Phase::ProbingAgain => Phase::Closing,
                Phase::Closing | Phase::RunningOut => Phase::RunningOut,
            });
        }
    }

    fn is_phase_over(&self) -> bool {
        let mut apps = self.apps.iter();
        match self.phase {
            Phase::Work => apps.all(|app| app.work_done && app.is_quiet()),
            Phase::Settling | Phase::Probing | Phase::ProbingAgain => apps.all(App::is_quiet),
            Phase::Closing => apps.all(|app| app.has_ended),
            Phase::RunningOut => false,
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.check_memory();
        self.phase = phase;
        self.trace
            .note(self.queue.now_us(), || format!("phase {phase:?}"));
        match phase {
            Phase::Work | Phase::RunningOut => {}
            Phase::Settling => {
                self.faults.stop();
                self.with_broker(|broker, _| broker.heal());
                for app in 0..self.apps.len() {
                    self.close_early(app);
                }
            }
            Phase::Probing => self.probe(false),
            Phase::ProbingAgain => self.probe(true),
            Phase::Closing => {
                for app in 0..self.apps.len() {
                    self.close_app(app, CLOSE_US);
                }
            }
        }
        self.phase_until_us = self.queue.now_us() + PHASE_US_MAX;
    }

    fn finish(&mut self) {
        if self.phase != Phase::RunningOut {
            let phase = self.phase;
            let apps: Vec<_> = self.apps.iter().map(App::describe).collect();
            return self.oracle.blame(Kind::NotLive, || {
                format!("nothing happens any more in {phase:?}: {apps:?}")
            });
        }
        if self.faultless && self.faults.coverage().fired(Fault::EvictedStale) > 0 {
            let why =
                || "a client without heartbeats, and nothing kept it from sending them".to_owned();
            self.oracle.blame(Kind::NoReason, why);
        }
        self.check_reports();
        let views = self.apps.iter().flat_map(App::views);
        let overtaken: Vec<u64> = views.map(|view| view.stats.overtaken).collect();
        self.oracle
            .close(&overtaken, self.broker.logs(), &self.firsts, self.faultless);
    }

    /// What the run came to.
    pub(crate) fn summary(&self) -> Summary {
        let views = self.apps.iter().flat_map(App::views);
        Summary {
            violation: self.oracle.violation().cloned(),
            virtual_us: self.active_us,
            events: self.events,
            digest: self.digest,
            account: self.oracle.account(),
            swallowed_after_give_up: self.oracle.swallowed_after_give_up(),
            stats: views.map(|view| view.stats).collect(),
            coverage: self.faults.coverage().clone(),
            fates: self.oracle.fates(),
            trace: self.trace.lines(),
        }
    }
}
