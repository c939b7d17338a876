//! Configuration of an engine, checked when it is built, and the start of its shards.

#[cfg(feature = "simulation")]
mod simulate;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ringmain_proto::{Config, OnLostCoverage};
use ringmain_wire::codec::Encode;
use ringmain_wire::payload::login::{ClientVersion, LoginRegister, LoginRegisterWithPat};
use ringmain_wire::{Name, ProtocolVersion, Secret, Text, WireError};

use super::registry::Registry;
use crate::clock::Clock;
use crate::cores;
use crate::deadline::Deadline;
use crate::engine::{Engine, EngineInner, ShardHandle};
use crate::error::{BuildError, CallError, in_range};
use crate::gate::{Gate, Units};
use crate::limits;
use crate::receipt::Callbacks;
use crate::resolver::{Resolver, Targets};
use crate::server_url::{Credentials, ReconnectionRetries, ServerUrl, ServerUrlError};
use crate::shard::{self, ShardConfig, ShardStart, ShardThread};
use ringmain_io::driver::{DriverChoice, SocketOptions};
use ringmain_io::memory::Process;
use ringmain_io::ring::SetupError;
use ringmain_io::transport::{Features, TransportConfig, WritePath};

#[cfg(feature = "simulation")]
pub use simulate::Simulation;

/// Configures and starts an [`Engine`].
#[derive(Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct EngineBuilder {
    server: Option<Result<ServerUrl, ServerUrlError>>,
    shards: u16,
    cores: Option<Vec<usize>>,
    connections: Option<u16>,
    memory_bytes_max: u64,
    slot_bytes: u32,
    driver: Option<DriverChoice>,
    write_path: WritePath,
    busy_poll_us: u32,
    huge_pages: bool,
    request_timeout_us: u64,
    connect_timeout_us: u64,
    partitions_max: u32,
    on_lost_coverage: OnLostCoverage,
    features: Features,
    socket_options: SocketOptions,
    resolver: Resolver,
}

impl Default for EngineBuilder {
    fn default() -> Self {
        Self {
            server: None,
            shards: 1,
            cores: None,
            connections: None,
            memory_bytes_max: limits::MEMORY_BYTES_DEFAULT,
            slot_bytes: limits::SLOT_BYTES_DEFAULT,
            driver: None,
            write_path: WritePath::Auto,
            busy_poll_us: 0,
            huge_pages: true,
            request_timeout_us: limits::REQUEST_TIMEOUT_US_DEFAULT,
            connect_timeout_us: limits::CONNECT_TIMEOUT_US_DEFAULT,
            partitions_max: limits::PARTITIONS_ENGINE_DEFAULT,
            on_lost_coverage: OnLostCoverage::Report,
            features: Features::default(),
            socket_options: SocketOptions::default(),
            resolver: Resolver::default(),
        }
    }
}

/// What [`EngineBuilder::server`] takes: a URL in text or one that was parsed before.
pub trait IntoServerUrl {
    /// The parsed URL.
    ///
    /// # Errors
    /// When the text is not a server URL.
    fn into_server_url(self) -> Result<ServerUrl, ServerUrlError>;
}

impl IntoServerUrl for ServerUrl {
    fn into_server_url(self) -> Result<ServerUrl, ServerUrlError> {
        Ok(self)
    }
}

impl IntoServerUrl for &str {
    fn into_server_url(self) -> Result<ServerUrl, ServerUrlError> {
        ServerUrl::parse(self)
    }
}

impl IntoServerUrl for String {
    fn into_server_url(self) -> Result<ServerUrl, ServerUrlError> {
        ServerUrl::parse(&self)
    }
}

impl EngineBuilder {
    /// The server, as `iggy://user:password@host:port` or a [`ServerUrl`]. Required.
    pub fn server(mut self, server: impl IntoServerUrl) -> Self {
        self.server = Some(server.into_server_url());
        self
    }

    /// Shard threads, 1 to 64. Default 1: one core moves several gigabytes a second.
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards;
        self
    }

    /// The cores to pin shard threads to, one a shard, by the numbers of `core_affinity`; an empty
    /// list pins nothing.
    ///
    /// Default: cores of the process's affinity mask that no other engine of this host has, the
    /// last ones first and never the first one; nothing when the mask has no more cores than
    /// shards. A shard that gets none runs unpinned. What was chosen is logged, and in
    /// [`Stats::cores`](crate::Stats::cores).
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = Some(cores.into());
        self
    }

    /// Connections of all shards together, at least one a shard, at most 256. Default: one a shard.
    pub fn connections(mut self, connections: u16) -> Self {
        self.connections = Some(connections);
        self
    }

    /// Bytes the engine may hold from accept to receipt, 64 KiB to 1 TiB. Default 128 MiB: half of
    /// it in slots for copied records, a 64th for receipt callbacks that wait to run, the rest for
    /// records by reference. Callbacks also take what records by reference leave free.
    ///
    /// Outside of it: tables of 1 KiB a partition and of about 200 bytes for each slot on each
    /// connection of its shard. Many slots on many connections add up: 32,768 slots and 64
    /// connections take 400 MB. `Stats::tables_bytes` has the sum.
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Bytes of one slot, the largest request of copied records: 4 KiB to 16 MiB. Default 256 KiB.
    ///
    /// Every partition in use fills a slot of its own. Slots (half of the memory divided by this)
    /// should be four times the partitions: measured with 64 partitions, twice gave 0.6 of the
    /// throughput, once 0.3, since requests leave nearly empty.
    pub fn slot_bytes(mut self, bytes: u32) -> Self {
        self.slot_bytes = bytes;
        self
    }

    /// What moves the bytes. Default: what the server URL says (`driver=`), or
    /// [`DriverChoice::Auto`]: io_uring, or epoll where this host refuses io_uring. The log says so
    /// once, with cause and remedy; [`Stats::shards`](crate::Stats::shards) has the driver of each
    /// shard.
    ///
    /// Without io_uring there is one write path, [`WritePath::SendMsg`]. `Auto` with a path that
    /// needs io_uring takes no other driver, and [`DriverChoice::Epoll`] contradicts it.
    pub fn driver(mut self, driver: DriverChoice) -> Self {
        self.driver = Some(driver);
        self
    }

    /// How frames reach the socket. Default: measured.
    pub fn write_path(mut self, write_path: WritePath) -> Self {
        self.write_path = write_path;
        self
    }

    /// How long a shard spins for new work before it sleeps, in microseconds, 0 to 1,000,000: lower
    /// latency for a core of its own. Default 0.
    pub fn busy_poll_us(mut self, busy_poll_us: u32) -> Self {
        self.busy_poll_us = busy_poll_us;
        self
    }

    /// Whether memory is asked for in huge pages; there may be none, which costs nothing. Default
    /// true.
    pub fn huge_pages(mut self, huge_pages: bool) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// Kernel features that may be used. Default: all that the kernel has.
    pub fn features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// Options of every socket. Default: those of [`SocketOptions`].
    pub fn socket_options(mut self, options: SocketOptions) -> Self {
        self.socket_options = options;
        self
    }

    /// What happens to records in flight when the server has lost its memory of duplicates. Default
    /// [`OnLostCoverage::Report`]: their receipt says `Unknown`.
    pub fn on_lost_coverage(mut self, policy: OnLostCoverage) -> Self {
        self.on_lost_coverage = policy;
        self
    }

    /// Silence after which a request is sent again in any case, on every connection, 1 ms to a day.
    /// Default 5 s. It doubles with each silence in a row, up to 10 s. A request that was lost is
    /// sent again earlier, from 200 ms on, when the server has answered something that was sent
    /// after it.
    pub fn request_timeout_us(mut self, timeout_us: u64) -> Self {
        self.request_timeout_us = timeout_us;
        self
    }

    /// How long `build` waits for the logins, 1 ms to a day. Default 10 s. It gives up earlier when
    /// every address has failed or the server has refused the login.
    ///
    /// Later connections have the same time: a lookup and a connect together, which all addresses
    /// share, and after them the answer to the login, where one of several addresses has half of it
    /// and none more than ten minutes.
    pub fn connect_timeout_us(mut self, timeout_us: u64) -> Self {
        self.connect_timeout_us = timeout_us;
        self
    }

    /// How the host names of the URL become addresses: instead of the system's resolver, which is
    /// the default. Called at each attempt to connect, with host and port, on a thread of its own,
    /// so it may block.
    pub fn resolver(
        mut self,
        resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.resolver = Resolver(Arc::new(resolve));
        self
    }

    /// Partitions the engine may send to at the same time, of all topics together, 1 to 65,536.
    /// Default 1024. Each costs about 1 KiB, outside `memory_bytes_max`.
    ///
    /// A partition counts from the first record for it until no producer holds its topic and
    /// everything of the topic is answered; partitions that get no record do not count.
    pub fn partitions_max(mut self, partitions: u32) -> Self {
        self.partitions_max = partitions;
        self
    }

    /// Checks the configuration, maps and registers the memory, starts the shards and logs in on
    /// every connection.
    ///
    /// # Errors
    /// The caller's fault for every option out of range and for a login refused; the environment's
    /// when the kernel refuses the ring, the memory or a thread, or the server cannot be reached.
    pub fn build(mut self) -> Result<Engine, BuildError> {
        let server = self.server.take().ok_or(BuildError::ServerMissing)??;
        self.driver = self.driver.or(server.options().driver);
        let plan = self.plan()?;
        let process = this_process()?;
        let targets = self.targets(&server)?;
        let login_body = login_body(&server).map_err(|error| {
            BuildError::Call(CallError::Encode {
                operation: "LoginRegister",
                why: error.to_string(),
            })
        })?;
        let mut registry = Registry::new(&plan.conns_of_shards, self.partitions_max, entropy()?);
        let start = ShardStart {
            clock: Clock::system(),
            credit: Arc::new(Gate::new(Units::new(plan.by_reference_bytes))),
        };
        let mut cores = self.choose_cores().into_iter();
        let mut started = Vec::new();
        for (index, conns) in plan.conns_of_shards.iter().enumerate() {
            let clients = (0..*conns)
                .map(|conn| self.client(&server, &mut registry, index == 0 && conn == 0, &plan))
                .collect();
            let login = (Arc::clone(&targets), login_body.clone());
            let mut config = self.shard_config(index, &plan, clients, login);
            config.core = cores.next().flatten();
            started.push(shard::start(config, &start));
        }
        self.assemble(&server, registry, (process, start), started)
    }

    fn targets(&self, server: &ServerUrl) -> Result<Arc<Targets>, BuildError> {
        match Targets::new(server.addresses(), &self.resolver) {
            Ok(targets) => Ok(Arc::new(targets)),
            Err(error) => Err(BuildError::Setup(format!(
                "no thread to look names up: {error}; raise the limit of processes (ulimit -u)"
            ))),
        }
    }

    fn choose_cores(&self) -> Vec<cores::Choice> {
        match &self.cores {
            Some(named) => cores::named(named),
            None => cores::free(usize::from(self.shards)),
        }
    }

    /// What shard `index` needs to know.
    fn shard_config(
        &self,
        index: usize,
        plan: &Plan,
        clients: Vec<Config>,
        (targets, login_body): (Arc<Targets>, Bytes),
    ) -> ShardConfig {
        let conns = plan.conns_of_shards[index];
        ShardConfig {
            index: u16::try_from(index).expect("few shards"),
            core: None,
            slots: plan.slots,
            slot_bytes: self.slot_bytes,
            huge_pages: self.huge_pages,
            clients,
            lanes_max: u32::from(conns) * plan.lanes_per_conn,
            targets,
            login_body,
            socket_options: self.socket_options,
            driver: self.driver.unwrap_or_default(),
            transport: TransportConfig {
                connections_max: conns,
                write_pieces_max: limits::WRITE_PIECES_MAX,
                write_path: self.write_path,
                features: self.features,
                busy_poll_us: self.busy_poll_us,
                ..TransportConfig::default()
            },
        }
    }

    /// Joins the shards to an engine and waits for the logins. When one of them could not be
    /// started the others are stopped.
    fn assemble(
        &self,
        server: &ServerUrl,
        registry: Registry,
        (process, start): (Process, ShardStart),
        started: Vec<Result<ShardThread, BuildError>>,
    ) -> Result<Engine, BuildError> {
        let (mut shards, mut threads) = (Vec::new(), Vec::new());
        let (mut failed, mut refused) = (None, None);
        for shard in started {
            match shard {
                Ok(ShardThread {
                    shared,
                    arena,
                    core,
                    tables_bytes,
                    refusal,
                    thread,
                }) => {
                    refused = refused.or(refusal);
                    shards.push(ShardHandle {
                        shared,
                        arena,
                        core,
                        tables_bytes,
                    });
                    threads.push(thread);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        tell_refused(refused);
        let news = shards.iter().map(|shard| Arc::clone(&shard.shared.news));
        let inner = Arc::new(EngineInner {
            news: news.collect(),
            shards,
            callbacks: self.callbacks(&start.credit),
            credit: start.credit,
            process,
            clock: start.clock,
            slot_bytes: self.slot_bytes,
            partitions_max: self.partitions_max,
            registry: Mutex::new(registry),
            threads: Mutex::new(threads),
            is_closed: AtomicBool::new(false),
            report: Mutex::new(None),
        });
        // From here on dropping `inner` stops what was started.
        if let Some(error) = failed {
            return Err(error);
        }
        let within = Duration::from_micros(self.connect_timeout_us);
        let deadline = Deadline::within(within);
        // A round over all addresses, as often as the URL says.
        let rounds = match server.options().reconnection_retries {
            Some(ReconnectionRetries::Limit(retries)) => retries.saturating_add(1),
            Some(ReconnectionRetries::Unlimited) => u32::MAX,
            None => 1,
        };
        for shard in &inner.shards {
            shard
                .shared
                .sessions
                .wait_all_active(rounds, within, deadline)?;
        }
        Ok(Engine { inner })
    }

    /// What receipt callbacks may hold: a part of the memory for themselves, and what is free of
    /// `credit`.
    fn callbacks(&self, credit: &Arc<Gate<Units>>) -> Arc<Callbacks> {
        let own_bytes = self.memory_bytes_max / limits::CALLBACKS_SHARE;
        Arc::new(Callbacks::new(own_bytes, Arc::clone(credit)))
    }

    fn plan(&self) -> Result<Plan, BuildError> {
        let connections = self.connections.unwrap_or(self.shards);
        self.check_ranges(connections)?;
        if let Some(cores) = &self.cores
            && !cores.is_empty()
            && cores.len() != usize::from(self.shards)
        {
            return Err(BuildError::Contradiction {
                option: "cores",
                other: "shards",
                why: "give one core for each shard, or an empty list to pin nothing",
            });
        }
        if self.driver == Some(DriverChoice::Epoll)
            && matches!(self.write_path, WritePath::WritevFixed | WritePath::SendZc)
        {
            return Err(BuildError::Contradiction {
                option: "write_path",
                other: "driver",
                why: "this path needs io_uring: choose Auto or SendMsg, or another driver",
            });
        }
        // Half in slots, half by reference; see `limits::MEMORY_BYTES_DEFAULT`.
        let shards = u64::from(self.shards);
        let slots = self.memory_bytes_max / 2 / u64::from(self.slot_bytes) / shards;
        if slots < limits::SHARD_SLOTS_MIN {
            return Err(BuildError::Contradiction {
                option: "memory_bytes_max",
                other: "slot_bytes",
                why: "half of the memory must hold four slots for each shard: raise the one or lower the other",
            });
        }
        let slots = u32::try_from(slots)
            .unwrap_or(u32::MAX)
            .min(limits::SHARD_SLOTS_MAX);
        let slots_bytes = u64::from(slots) * u64::from(self.slot_bytes) * shards;
        Ok(Plan {
            conns_of_shards: (0..self.shards)
                .map(|shard| {
                    connections / self.shards + u16::from(shard < connections % self.shards)
                })
                .collect(),
            lanes_per_conn: self.partitions_max.div_ceil(u32::from(connections)),
            slots,
            by_reference_bytes: self.memory_bytes_max
                - slots_bytes
                - self.memory_bytes_max / limits::CALLBACKS_SHARE,
        })
    }

    fn check_ranges(&self, connections: u16) -> Result<(), BuildError> {
        use limits::{
            BUSY_POLL_US_MAX, CONNECTIONS_MAX, MEMORY_BYTES_MAX, MEMORY_BYTES_MIN,
            PARTITIONS_ENGINE_MAX, SHARDS_MAX, SLOT_BYTES_MAX, SLOT_BYTES_MIN, TIMEOUT_US_MAX,
            TIMEOUT_US_MIN,
        };
        in_range("shards", self.shards, 1, SHARDS_MAX)?;
        in_range("connections", connections, self.shards, CONNECTIONS_MAX)?;
        in_range(
            "slot_bytes",
            self.slot_bytes,
            SLOT_BYTES_MIN,
            SLOT_BYTES_MAX,
        )?;
        in_range(
            "memory_bytes_max",
            self.memory_bytes_max,
            MEMORY_BYTES_MIN,
            MEMORY_BYTES_MAX,
        )?;
        in_range("busy_poll_us", self.busy_poll_us, 0, BUSY_POLL_US_MAX)?;
        in_range(
            "request_timeout_us",
            self.request_timeout_us,
            TIMEOUT_US_MIN,
            TIMEOUT_US_MAX,
        )?;
        in_range(
            "connect_timeout_us",
            self.connect_timeout_us,
            TIMEOUT_US_MIN,
            TIMEOUT_US_MAX,
        )?;
        in_range(
            "partitions_max",
            self.partitions_max,
            1,
            PARTITIONS_ENGINE_MAX,
        )?;
        if self.slot_bytes.is_multiple_of(SLOT_BYTES_MIN) {
            return Ok(());
        }
        Err(BuildError::NotMultiple {
            option: "slot_bytes",
            found: u64::from(self.slot_bytes),
            unit: u64::from(SLOT_BYTES_MIN),
        })
    }

    /// The settings of one connection's client.
    fn client(
        &self,
        server: &ServerUrl,
        registry: &mut Registry,
        is_control: bool,
        plan: &Plan,
    ) -> Config {
        let options = server.options();
        // Zero is the one id that the protocol reserves.
        let mut config = Config::new(registry.random_id().max(1), registry.random_u64());
        config.requests_max = plan.slots;
        config.lanes_max = plan.lanes_per_conn;
        config.calls_max = if is_control {
            limits::CALLS_MAX + limits::REFRESH_CALLS_MAX
        } else {
            1
        };
        config.request_timeout_us = self.request_timeout_us;
        config.write_stall_us = limits::WRITE_STALL_US;
        config.connect_timeout_us = self.connect_timeout_us;
        // A server that takes connections and answers no login leaves time for another one.
        let shares = server.addresses().len().min(2) as u64;
        config.login_timeout_us =
            (self.connect_timeout_us / shares).min(limits::LOGIN_TIMEOUT_US_MAX);
        config.on_lost_coverage = self.on_lost_coverage;
        if let Some(interval_us) = options.heartbeat_interval_us {
            config.heartbeat_interval_us =
                interval_us.clamp(limits::TIMEOUT_US_MIN, limits::TIMEOUT_US_MAX);
        }
        let waits_us = [
            options.reconnection_interval_us,
            options.reestablish_after_us,
        ];
        if let Some(interval_us) = waits_us.into_iter().flatten().max() {
            let interval_us = interval_us.clamp(limits::TIMEOUT_US_MIN, limits::TIMEOUT_US_MAX);
            config.reconnect_backoff_us_min = interval_us;
            config.reconnect_backoff_us_max = interval_us.max(config.reconnect_backoff_us_max);
        }
        config
    }
}

/// Says once, for all shards, why none has a ring; the cause has the remedy in it.
fn tell_refused(refused: Option<SetupError>) {
    if let Some(cause) = refused {
        ringmain_io::log!(
            warn,
            %cause,
            "no io_uring here, epoll moves the bytes; nothing is lost but speed"
        );
    }
}

/// How the configuration is carried out.
struct Plan {
    conns_of_shards: Vec<u16>,
    lanes_per_conn: u32,
    /// Of each shard.
    slots: u32,
    by_reference_bytes: u64,
}

/// The body of every login.
fn login_body(server: &ServerUrl) -> Result<Bytes, WireError> {
    let client_version = ClientVersion {
        protocol_version: ProtocolVersion::CURRENT,
        sdk_name: Name::new("ringmain")?,
        sdk_version: Name::new(env!("CARGO_PKG_VERSION"))?,
    };
    let context = Text::EMPTY;
    let body = match server.credentials() {
        Credentials::Password { username, password } => LoginRegister {
            client_version,
            username: Name::new(username)?,
            password: Secret::new(password.expose())?,
            context,
        }
        .to_vec(),
        Credentials::Token(token) => LoginRegisterWithPat {
            client_version,
            token: Secret::new(token.expose())?,
            context,
        }
        .to_vec(),
    };
    Ok(body.into())
}

fn this_process() -> Result<Process, BuildError> {
    Process::this()
        .map_err(|error| BuildError::Setup(format!("forks cannot be watched for: {error}")))
}

/// A seed from the system, never all zero: that would stop the generator.
fn entropy() -> Result<[u64; 2], BuildError> {
    let number = || {
        getrandom::u64().map_err(|error| {
            BuildError::Setup(format!("the system gives no random numbers: {error}"))
        })
    };
    Ok([number()?, number()? | 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login_timeout_us(hosts: &str, connect_timeout_us: u64) -> u64 {
        let url = ServerUrl::parse(&format!("iggy://iggy:iggy@{hosts}")).expect("a URL");
        let builder = Engine::builder()
            .cores([])
            .connect_timeout_us(connect_timeout_us);
        let plan = builder.plan().expect("defaults");
        let mut registry = Registry::new(&[1], 1, [1, 2]);
        let config = builder.client(&url, &mut registry, true, &plan);
        config.validate().expect("in range");
        assert_eq!(config.connect_timeout_us, connect_timeout_us);
        config.login_timeout_us
    }

    #[test]
    fn a_login_has_the_time_that_the_caller_gives() {
        let cases = [
            ("h:1", 60_000_000, 60_000_000),
            ("h:1", 1_000, 1_000),
            ("h:1,i:1", 60_000_000, 30_000_000),
            ("h:1,i:1,j:1", 60_000_000, 30_000_000),
            ("h:1", limits::TIMEOUT_US_MAX, limits::LOGIN_TIMEOUT_US_MAX),
        ];
        for (hosts, connect_us, login_us) in cases {
            assert_eq!(login_timeout_us(hosts, connect_us), login_us, "{hosts}");
        }
    }

    #[test]
    fn a_builder_shows_no_secret() {
        let builder = Engine::builder().server("iggy://user:pl4nted@host:1");
        assert!(!format!("{builder:?}").contains("pl4nted"));
    }
}
