//! What only trying tells: a ring with everything ringmain uses, the clock, a server.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ringmain::{Call, CallError, Engine, Features, ServerUrl};
use ringmain_io::driver::Driver;
use ringmain_io::memory::{ArenaConfig, DriverMemory};
use ringmain_io::transport::{Transport, TransportConfig};
use ringmain_wire::CommandCode;
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::cluster::{ClusterMetadata, ROLE_LEADER, STATUS_HEALTHY};
use ringmain_wire::payload::system::Stats;

/// Looks at the clock in one round, and rounds.
const LOOKS: u32 = 20_000;
const ROUNDS: usize = 9;
/// Pings whose round trips are counted.
const PINGS: usize = 50;

/// A ring that works, and what it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// What the kernel offers of what ringmain uses.
    pub features: Features,
    /// Bytes of a small arena that could be registered.
    pub registered_bytes: u64,
}

/// A node of the cluster, as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `name host:port`.
    pub name: String,
    /// Whether it takes writes.
    pub is_leader: bool,
    /// Whether it is in service.
    pub is_healthy: bool,
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Microseconds from the start to a login, or why there was none.
    pub login: Result<u64, String>,
    /// Round trips of pings in microseconds, rising; empty when none was answered.
    pub round_trips_us: Vec<u64>,
    /// The nodes, `Ok(None)` when the server does not know the question.
    pub nodes: Result<Option<Vec<Node>>, String>,
    /// The server's version.
    pub version: Result<String, String>,
}

/// Sets up a driver as a shard does, over a small arena, and lets it go.
///
/// # Errors
/// Cause and remedy, as the engine would say it.
pub fn probe_ring() -> Result<Ring, String> {
    // On a thread of its own: the driver blocks a signal for the thread that makes it.
    let probe = std::thread::Builder::new().spawn(|| {
        let memory = DriverMemory::new(&ArenaConfig {
            slots: 4,
            ..ArenaConfig::default()
        })
        .map_err(|error| error.to_string())?;
        let driver = Transport::new(&TransportConfig::default(), memory)
            .map_err(|error| error.to_string())?;
        Ok(Ring {
            features: driver.info().features,
            registered_bytes: driver.stats().registered_bytes,
        })
    });
    match probe.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            Err("the probe of io_uring panicked; this is a defect of ringmain".to_owned())
        }
        Err(error) => Err(format!("no thread to try a ring on: {error}")),
    }
}

/// Nanoseconds of one look at the monotonic clock: the median of several rounds.
#[must_use]
pub fn clock_cost_ns() -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..LOOKS {
                black_box(Instant::now());
            }
            started.elapsed().as_nanos() as f64 / f64::from(LOOKS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Logs in at `url`, asks who is there, and logs out.
#[must_use]
pub fn probe_server(url: &ServerUrl, timeout: Duration) -> Server {
    let started = Instant::now();
    let timeout_us = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
    let built = Engine::builder()
        .server(url.clone())
        .cores([])
        .connect_timeout_us(timeout_us)
        .build();
    let engine = match built {
        Ok(engine) => engine,
        Err(error) => {
            return Server {
                login: Err(error.to_string()),
                round_trips_us: Vec::new(),
                nodes: Err("no login".to_owned()),
                version: Err("no login".to_owned()),
            };
        }
    };
    let login_us = us(started);
    let mut round_trips_us = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let started = Instant::now();
        if read(&engine, CommandCode::PING, timeout).is_err() {
            break;
        }
        round_trips_us.push(us(started));
    }
    round_trips_us.sort_unstable();
    let server = Server {
        login: Ok(login_us),
        round_trips_us,
        nodes: nodes(&engine, timeout),
        version: version(&engine, timeout),
    };
    engine.close(Duration::from_secs(1));
    server
}

fn us(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn read(engine: &Engine, code: CommandCode, timeout: Duration) -> Result<Vec<u8>, CallError> {
    let reply = engine.call(Call::read(code.0, &[][..]), timeout)?;
    Ok(reply.body.to_vec())
}

fn nodes(engine: &Engine, timeout: Duration) -> Result<Option<Vec<Node>>, String> {
    let body = match read(engine, CommandCode::GET_CLUSTER_METADATA, timeout) {
        Ok(body) => body,
        // A server without the command refuses it.
        Err(CallError::Refused { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let cluster = ClusterMetadata::decode(&body).map_err(|error| error.to_string())?;
    let nodes = cluster.nodes.0.iter().map(|node| Node {
        name: format!(
            "{} {}:{}",
            crate::parse::text(node.name.as_str().as_bytes()),
            crate::parse::text(node.ip.as_str().as_bytes()),
            node.tcp_port
        ),
        is_leader: node.role == ROLE_LEADER,
        is_healthy: node.status == STATUS_HEALTHY,
    });
    Ok(Some(nodes.collect()))
}

fn version(engine: &Engine, timeout: Duration) -> Result<String, String> {
    let body = read(engine, CommandCode::GET_STATS, timeout).map_err(|error| error.to_string())?;
    let stats = Stats::decode(&body).map_err(|error| error.to_string())?;
    Ok(crate::parse::text(
        stats.iggy_server_version.as_str().as_bytes(),
    ))
}
