//! The world of a run: virtual time, the network, the broker, the clients and the oracle, one event after another.
//!
//! Role: carries events from where they are made to whom they concern, and runs the phases of a run. Does not:
//! decide what is right; the oracle does.
//! Invariants: everything that happens is an event of the queue, so a run is a function of its seed and options;
//! after each input a client is drained before anything else happens.
//!
//! # Phases
//!
//! Work, with faults; settling, without; two rounds of probes that must be answered, the second one with `Stored`;
//! closing; and then everything that is still under way, stale copies above all, runs out.

mod application;
mod client_side;
mod server_side;
mod strikes;

use crate::broker::{Broker, Env, Timer};
use crate::draws::Draws;
use crate::driver::Driver;
use crate::faults::{Fault, Faults, Strike};
use crate::network::Network;
use crate::oracle::{Kind, Oracle};
use crate::queue::EventQueue;
use crate::rng::{Rng, Stream};
use crate::trace::Trace;
use crate::{Options, Summary};
use ringmain_proto::Frame;

/// Virtual time that a phase without faults may take.
const PHASE_US_MAX: u64 = 600_000_000;

/// What a client may take to log out.
const CLOSE_US: u64 = 10_000_000;

/// Events of a run at most: beyond them something goes in circles.
const EVENTS_MAX: u64 = 4_000_000;

/// Events of one instant at most.
const EVENTS_PER_INSTANT_MAX: u64 = 100_000;

/// Something that happens.
#[derive(Debug)]
enum Event {
    /// A client may have something due.
    Wake { client: usize },
    /// The application of a client does something.
    Work { client: usize },
    /// A connection attempt ended.
    Connected {
        client: usize,
        attempt: u64,
        accepted: bool,
    },
    /// The kernel took bytes of a write.
    Written { client: usize, conn: usize },
    /// The kernel is done with the memory of a frame.
    Released {
        client: usize,
        conn: usize,
        frame: Frame,
    },
    /// Bytes may have arrived at the client.
    ClientBytes { conn: usize },
    /// The client notices the end of a connection.
    ClientHangup { conn: usize },
    /// The kernel is done with a connection.
    Torn { client: usize },
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
    drivers: Vec<Driver>,
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
        let mut drivers = Vec::new();
        for (index, client) in draws.clients.iter().enumerate() {
            let driver = Driver::new(draws.seed, index, client.clone(), options.tune);
            oracle.add_client(driver.client.client(), client);
            drivers.push(driver);
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
            drivers,
            phase: Phase::Work,
            work_us: draws.work_us,
            active_us: 0,
            phase_until_us: u64::MAX,
            faultless: draws.is_calm() && script.is_empty(),
            events: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        };
        world.queue.push(draws.work_us, Event::WorkEnds);
        for client in 0..world.drivers.len() {
            world.queue.push(0, Event::Work { client });
        }
        for &fault in Fault::ALL.iter().filter(|fault| fault.is_timed()) {
            world.schedule_strike(fault);
        }
        world
    }

    /// Runs until nothing can happen any more, or something is wrong.
    pub(crate) fn run(&mut self) {
        for client in 0..self.drivers.len() {
            self.drain(client);
        }
        let mut instant = (0, 0);
        while self.oracle.violation().is_none() {
            let Some(event) = self.queue.pop() else {
                return self.finish();
            };
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

    fn blame_phase(&mut self) {
        let phase = self.phase;
        let clients: Vec<_> = self
            .drivers
            .iter()
            .map(|driver| driver.client.state())
            .collect();
        self.oracle.blame(Kind::NotLive, || {
            format!("{phase:?} takes too long, clients are {clients:?}")
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
        match event {
            Event::Wake { client } => self.wake(client),
            Event::Work { client } => self.work(client),
            Event::Connected {
                client,
                attempt,
                accepted,
            } => self.connected(client, attempt, accepted),
            Event::Written { client, conn } => self.written(client, conn),
            Event::Released {
                client,
                conn,
                frame,
            } => self.released(client, conn, frame),
            Event::ClientBytes { conn } => self.client_bytes(conn),
            Event::ClientHangup { conn } => self.client_hangup(conn),
            Event::Torn { client } => self.torn(client),
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
        while self.is_phase_over() {
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
        let mut drivers = self.drivers.iter();
        match self.phase {
            Phase::Work => drivers.all(|driver| driver.work_done && driver.is_quiet()),
            Phase::Settling | Phase::Probing | Phase::ProbingAgain => drivers.all(Driver::is_quiet),
            Phase::Closing => drivers.all(|driver| driver.client.state().is_final()),
            Phase::RunningOut => false,
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.trace
            .note(self.queue.now_us(), || format!("phase {phase:?}"));
        match phase {
            Phase::Work | Phase::RunningOut => {}
            Phase::Settling => {
                self.faults.stop();
                self.with_broker(|broker, _| broker.heal());
                for client in 0..self.drivers.len() {
                    self.close_early(client);
                }
            }
            Phase::Probing => self.probe(false),
            Phase::ProbingAgain => self.probe(true),
            Phase::Closing => {
                for client in 0..self.drivers.len() {
                    self.close_client(client, CLOSE_US);
                }
            }
        }
        self.phase_until_us = self.queue.now_us() + PHASE_US_MAX;
    }

    fn finish(&mut self) {
        if self.phase != Phase::RunningOut {
            let phase = self.phase;
            return self.oracle.blame(Kind::NotLive, || {
                format!("nothing happens any more in {phase:?}")
            });
        }
        if self.faultless && self.faults.coverage().fired(Fault::EvictedStale) > 0 {
            let why =
                || "a client without heartbeats, and nothing kept it from sending them".to_owned();
            self.oracle.blame(Kind::NoReason, why);
        }
        let overtaken: Vec<u64> = self
            .drivers
            .iter()
            .map(|driver| driver.client.stats().overtaken)
            .collect();
        self.oracle
            .close(&overtaken, self.broker.logs(), self.faultless);
    }

    /// What the run came to.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            violation: self.oracle.violation().cloned(),
            virtual_us: self.active_us,
            events: self.events,
            digest: self.digest,
            account: self.oracle.account(),
            swallowed_after_give_up: self.oracle.swallowed_after_give_up(),
            stats: self
                .drivers
                .iter()
                .map(|driver| *driver.client.stats())
                .collect(),
            coverage: self.faults.coverage().clone(),
            fates: self.oracle.fates(),
            trace: self.trace.lines(),
        }
    }
}
