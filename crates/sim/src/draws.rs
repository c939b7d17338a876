//! The parameters of a run, all drawn from its seed before it begins.
//!
//! Role: what is printed first, so that a run can be understood without being watched. Does not:
//! draw anything that happens during the run. Invariant: drawn parameters are legal for the client
//! under test; what is illegal is for its own tests.

use crate::faults::FaultPlan;
use crate::rng::{Rng, Stream};
use ringmain_proto::limits::REQUEST_LAST;
use std::fmt;

/// Parameters of the model broker.
#[derive(Clone, Debug)]
pub struct BrokerDraws {
    /// Topics, each with `partitions` partitions.
    pub topics: u32,
    /// Partitions of a topic.
    pub partitions: u32,
    /// Position of the metadata log when the run begins.
    pub op_start: u64,
    /// Silence after which the server evicts a client, in microseconds.
    pub heartbeat_us: u64,
    /// Shortest and longest time a send takes to commit, in microseconds.
    pub commit_us: (u64, u64),
    /// Shortest and longest time a metadata operation takes to commit, in microseconds.
    pub metadata_us: (u64, u64),
    /// Whether a repeat of an uncommitted send is answered 57; it is met with silence otherwise.
    pub answers_in_flight: bool,
    /// Whether direct replies echo the timestamp of their request; it is 0 otherwise.
    pub echoes: bool,
    /// The code for a stream, topic or partition that does not exist.
    pub unknown_code: u32,
}

/// Parameters of one client and its application.
#[derive(Clone, Debug)]
pub struct ClientDraws {
    /// The partitions it writes to, as (topic, partition): one lane each.
    pub lanes: Vec<(u32, u32)>,
    /// Requests of a lane in flight at most.
    pub window_requests_max: u8,
    /// Whether order is strict, one request at a time.
    pub strict: bool,
    /// Connections of its engine.
    pub connections: u16,
    /// Slots of its engine, at least four.
    pub slots: u32,
    /// Records of a batch at most.
    pub batch_records_max: u32,
    /// Payloads up to this size are copied.
    pub copy_bytes_max: u32,
    /// The largest payload.
    pub payload_bytes_max: u64,
    /// How long a batch waits for more, at most, in microseconds.
    pub linger_us: u64,
    /// Writes of a connection that may hold their memory at once.
    pub writes_max: u8,
    /// How long its shard may take to turn, in microseconds.
    pub turn_us_max: u64,
    /// Steps in a million of appenders and shard that the other interrupts.
    pub interleave_ppm: u32,
    /// Records the application submits in all.
    pub batches: u32,
    /// Records submitted at once.
    pub burst: u32,
    /// Longest pause between two submissions, in microseconds.
    pub pause_us_max: u64,
    /// One submission in a million is a control call instead of a burst.
    pub calls_ppm: u32,
    /// Silence until a request is sent again, in microseconds.
    pub request_timeout_us: u64,
    /// Shortest and longest time allowed for a delivery, in microseconds.
    pub delivery_us: (u64, u64),
    /// Deliveries in a million that have no deadline.
    pub patient_ppm: u32,
    /// Batches that are out at first after a lost connection.
    pub resume_requests_max: u32,
    /// Idle time until a heartbeat, in microseconds.
    pub heartbeat_us: u64,
    /// Time allowed for a login, in microseconds.
    pub login_timeout_us: u64,
    /// Time allowed for a connect, in microseconds.
    pub connect_timeout_us: u64,
    /// Time allowed without write progress, in microseconds.
    pub write_stall_us: u64,
    /// Shortest and longest pause before a reconnect, in microseconds.
    pub reconnect_us: (u64, u64),
    /// Shortest and longest pause before a refused request is sent again, in microseconds.
    pub refusal_us: (u64, u64),
    /// Whether requests whose duplicate protection is lost are sent again.
    pub resends_uncovered: bool,
    /// Submissions in a million that are followed by a purge.
    pub purge_ppm: u32,
    /// First request number.
    pub request_first: u64,
    /// Whether it is closed when work ends, with whatever is open, instead of when everything is
    /// answered.
    pub closes_early: bool,
}

/// Parameters of the network.
#[derive(Clone, Debug)]
pub struct NetworkDraws {
    /// Shortest and longest time on the way, in microseconds.
    pub latency_us: (u64, u64),
    /// Longest time a write takes to reach the kernel, in microseconds.
    pub write_us_max: u64,
    /// Longest time for which the kernel reads memory after it sent it, in microseconds; 0 for a
    /// kernel that copies.
    pub hold_us_max: u64,
    /// Frames a single write may hold, if they have two pieces each.
    pub frames_max: u32,
}

/// All parameters of a run.
#[derive(Clone, Debug)]
pub struct Draws {
    /// The seed they were drawn from.
    pub seed: u64,
    /// The model broker.
    pub broker: BrokerDraws,
    /// The network.
    pub network: NetworkDraws,
    /// The clients.
    pub clients: Vec<ClientDraws>,
    /// When the applications stop submitting and faults stop, in virtual microseconds, at the
    /// latest.
    pub work_us: u64,
    /// The faults.
    pub faults: FaultPlan,
}

impl Draws {
    /// Draws the parameters of run `seed`.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, Stream::Draws);
        let broker = BrokerDraws::draw(&mut rng);
        let network = NetworkDraws::draw(&mut rng);
        let count = *rng.pick(&[1, 1, 2, 2, 3, 4]);
        let clients = (0..count)
            .map(|_| ClientDraws::draw(&mut rng, &broker))
            .collect();
        let work_us = rng.scaled(500_000, 60_000_000);
        let faults = FaultPlan::draw(&mut rng);
        let mut draws = Self {
            seed,
            broker,
            network,
            clients,
            work_us,
            faults,
        };
        // A kernel that holds memory for longer than a client waits for progress would end every
        // connection.
        let stalls = draws.clients.iter().map(|client| client.write_stall_us);
        let hold_us_max = stalls.min().unwrap_or(0) / 2;
        draws.network.hold_us_max = draws.network.hold_us_max.min(hold_us_max);
        if draws.faults.is_empty() && rng.chance(500_000) {
            for client in &mut draws.clients {
                client.become_patient();
            }
        }
        draws
    }

    /// Whether nothing can go wrong: no faults, and patient clients. Then everything must be
    /// stored.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.faults.is_empty() && self.clients.iter().all(ClientDraws::is_patient)
    }
}

fn spread(rng: &mut Rng, low: u64, high: u64) -> (u64, u64) {
    let one = rng.scaled(low, high);
    let other = rng.scaled(low, high);
    (one.min(other), one.max(other))
}

impl BrokerDraws {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            topics: rng.between(1, 2) as u32,
            partitions: rng.scaled(1, 8) as u32,
            op_start: rng.scaled(0, 1_000),
            heartbeat_us: rng.scaled(2_000_000, 30_000_000),
            commit_us: spread(rng, 20, 50_000),
            metadata_us: spread(rng, 20, 50_000),
            answers_in_flight: rng.chance(500_000),
            echoes: rng.chance(800_000),
            unknown_code: *rng.pick(&[20, 1009, 1010, 2010, 2011, 3007]),
        }
    }
}

impl NetworkDraws {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            latency_us: spread(rng, 10, 50_000),
            write_us_max: rng.scaled(1, 5_000),
            hold_us_max: *rng.pick(&[0, 0, 1_000, 200_000, 2_000_000]),
            frames_max: rng.scaled(1, 32) as u32,
        }
    }
}

impl ClientDraws {
    fn draw(rng: &mut Rng, broker: &BrokerDraws) -> Self {
        let lanes = Self::draw_lanes(rng, broker);
        let heartbeat_us = rng.scaled(broker.heartbeat_us / 8, broker.heartbeat_us / 2);
        let mut draws = Self {
            lanes,
            window_requests_max: *rng.pick(&[1, 2, 3, 8, 8, 16, 32]),
            strict: rng.chance(150_000),
            connections: *rng.pick(&[1, 1, 1, 2, 3]),
            slots: rng.scaled(4, 128) as u32,
            batch_records_max: *rng.pick(&[1, 1, 2, 5, 1_000]),
            copy_bytes_max: *rng.pick(&[0, 100, 3_000]),
            payload_bytes_max: *rng.pick(&[8, 8, 50, 700]),
            linger_us: *rng.pick(&[0, 0, 0, 200, 5_000, 100_000]),
            writes_max: *rng.pick(&[1, 1, 2, 8]),
            turn_us_max: *rng.pick(&[0, 5, 200]),
            interleave_ppm: *rng.pick(&[0, 100_000, 500_000]),
            batches: rng.scaled(20, 600) as u32,
            burst: rng.scaled(1, 32) as u32,
            pause_us_max: rng.scaled(1, 500_000),
            calls_ppm: *rng.pick(&[0, 20_000, 100_000, 400_000]),
            request_timeout_us: rng.scaled(5_000, 5_000_000),
            delivery_us: spread(rng, 20_000, 20_000_000),
            patient_ppm: *rng.pick(&[0, 500_000, 1_000_000]),
            resume_requests_max: *rng.pick(&[1, 1, 2, 128]),
            heartbeat_us,
            login_timeout_us: rng.scaled(200_000, 5_000_000),
            connect_timeout_us: rng.scaled(200_000, 5_000_000),
            write_stall_us: rng.scaled(50_000, 5_000_000),
            reconnect_us: spread(rng, 1_000, 2_000_000),
            refusal_us: spread(rng, 500, 1_000_000),
            resends_uncovered: rng.chance(300_000),
            purge_ppm: *rng.pick(&[0, 0, 0, 20_000]),
            request_first: *rng.pick(&[1, 1, 1, 1_000_000, REQUEST_LAST / 4]),
            closes_early: rng.chance(150_000),
        };
        if rng.chance(250_000) {
            draws.become_busy(rng);
        }
        if rng.chance(40_000) {
            draws.request_first = REQUEST_LAST - rng.scaled(1, 200);
        }
        draws
    }

    /// Always something to send, and little patience lost on silence: numbers rise fast while one
    /// is open.
    fn become_busy(&mut self, rng: &mut Rng) {
        self.slots = rng.between(32, 128) as u32;
        self.batches = rng.between(200, 700) as u32;
        self.burst = 32;
        self.pause_us_max = rng.scaled(1, 2_000);
        self.request_timeout_us = rng.scaled(50_000, 5_000_000);
        self.window_requests_max = *rng.pick(&[2, 4, 8, 16, 32]);
    }

    /// No deadlines, no purges, no early end.
    const fn become_patient(&mut self) {
        self.patient_ppm = 1_000_000;
        self.purge_ppm = 0;
        self.closes_early = false;
        self.request_first = 1;
    }

    /// Whether it waits for every answer however long that takes.
    const fn is_patient(&self) -> bool {
        self.patient_ppm == 1_000_000
            && self.purge_ppm == 0
            && !self.closes_early
            && self.request_first < REQUEST_LAST / 2
    }

    /// Some of the partitions there are, in some order: clients share them by chance.
    fn draw_lanes(rng: &mut Rng, broker: &BrokerDraws) -> Vec<(u32, u32)> {
        let mut all: Vec<(u32, u32)> = (0..broker.topics)
            .flat_map(|topic| (0..broker.partitions).map(move |partition| (topic, partition)))
            .collect();
        for index in (1..all.len()).rev() {
            all.swap(index, rng.below(index as u64 + 1) as usize);
        }
        all.truncate(rng.between(1, all.len() as u64) as usize);
        all
    }
}

impl fmt::Display for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: work {} us", self.seed, self.work_us)?;
        writeln!(f, "  broker  {:?}", self.broker)?;
        writeln!(f, "  network {:?}", self.network)?;
        for (index, client) in self.clients.iter().enumerate() {
            writeln!(f, "  client {index} {client:?}")?;
        }
        write!(f, "  faults  {}", self.faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_every_time_and_another_seed_draws_otherwise() {
        assert_eq!(Draws::of(5).to_string(), Draws::of(5).to_string());
        assert_ne!(Draws::of(5).to_string(), Draws::of(6).to_string());
    }

    #[test]
    fn lanes_are_distinct_partitions_that_exist() {
        for seed in 0..200 {
            let draws = Draws::of(seed);
            for client in &draws.clients {
                let mut lanes = client.lanes.clone();
                lanes.sort_unstable();
                lanes.dedup();
                assert_eq!(lanes.len(), client.lanes.len());
                let exists = |&(topic, partition): &(u32, u32)| {
                    topic < draws.broker.topics && partition < draws.broker.partitions
                };
                assert!(!lanes.is_empty() && lanes.iter().all(exists));
            }
        }
    }
}
