//! Starting a shard: its memory, its thread, its driver, its connections.
//!
//! The arena is mapped by the thread that builds the engine, so that it is shared from the start;
//! the driver is made on the shard's own thread, because the kernel binds a ring to that thread.
//! `start` returns when the driver stands or the kernel has refused.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use ringmain_proto::{Client, Config};

use super::ShardShared;
use super::addresses::Addresses;
use super::connection::{Connection, ConnectionHeaders};
use super::core::Core;
use super::run::run;
use crate::clock::Clock;
use crate::cores;
use crate::error::BuildError;
use crate::gate::{Gate, Units};
use crate::limits;
use crate::resolver::Targets;
use crate::user_code::{Role, set_role};
use ringmain_io::driver::{ConnIndex, Driver, DriverChoice, SocketOptions};
use ringmain_io::epoll::{Epoll, EpollConfig};
use ringmain_io::memory::{Arena, ArenaConfig, DriverMemory, SlotToken};
use ringmain_io::ring::SetupError;
use ringmain_io::transport::{Transport, TransportConfig, WritePath};

/// All that a shard needs to know.
pub(crate) struct ShardConfig {
    pub(crate) index: u16,
    /// The core to pin to.
    pub(crate) core: cores::Choice,
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) huge_pages: bool,
    /// One for each connection: client id, seed, timeouts, tables.
    pub(crate) clients: Vec<Config>,
    pub(crate) lanes_max: u32,
    pub(crate) targets: Arc<Targets>,
    pub(crate) login_body: Bytes,
    pub(crate) socket_options: SocketOptions,
    pub(crate) driver: DriverChoice,
    pub(crate) transport: TransportConfig,
}

/// What all shards of an engine share.
pub(crate) struct ShardStart {
    pub(crate) clock: Clock,
    pub(crate) credit: Arc<Gate<Units>>,
}

/// A running shard.
pub(crate) struct ShardThread {
    pub(crate) shared: Arc<ShardShared>,
    pub(crate) arena: Arc<Arena>,
    /// The core that the thread is pinned to.
    pub(crate) core: Option<usize>,
    /// Memory of its tables, all of it taken at the start.
    pub(crate) tables_bytes: usize,
    /// Why io_uring is not its driver, where it was tried.
    pub(crate) refusal: Option<SetupError>,
    pub(crate) thread: JoinHandle<()>,
}

impl ShardConfig {
    /// The shard's memory.
    ///
    /// ```text
    ///   slots                        slots * slot_bytes
    ///   header of each slot's batch  slots * 256
    ///   headers of each connection   3 * 256 (login, logout, heartbeat) and calls_max * 256
    ///   receive buffers              RECV_BUFFERS_MIN or two a connection, 16 KiB each
    /// ```
    fn arena(&self) -> ArenaConfig {
        let conns = u32::try_from(self.clients.len()).expect("few connections");
        let call_headers: u32 = self.clients.iter().map(|client| client.calls_max).sum();
        ArenaConfig {
            slot_bytes: self.slot_bytes,
            slots: self.slots,
            headers: self.slots + 3 * conns + call_headers,
            recv_buffer_bytes: limits::RECV_BUFFER_BYTES,
            recv_buffers: (2 * conns)
                .max(limits::RECV_BUFFERS_MIN)
                .next_power_of_two(),
            huge_pages: self.huge_pages,
        }
    }
}

impl ShardConfig {
    /// The tables of the protocol clients, each with room for every slot, and the shard's own.
    pub(crate) fn tables_bytes(&self) -> usize {
        let clients: usize = self.clients.iter().map(Client::memory_bytes).sum();
        clients + Core::tables_bytes(self.slots, self.lanes_max)
    }
}

/// Starts a shard and waits until its driver stands.
///
/// # Errors
/// [`BuildError::Setup`]: the kernel refused the memory, the thread or the driver.
pub(crate) fn start(mut config: ShardConfig, with: &ShardStart) -> Result<ShardThread, BuildError> {
    let memory =
        DriverMemory::new(&config.arena()).map_err(|error| BuildError::Setup(error.to_string()))?;
    let arena = Arc::clone(memory.arena());
    let tables_bytes = config.tables_bytes();
    let (sender, receiver) = mpsc::channel();
    let with = (with.clock.clone(), Arc::clone(&with.credit));
    let thread = std::thread::Builder::new()
        .name(format!("ringmain-shard-{}", config.index))
        .spawn(move || {
            set_role(Role::Shard);
            // Kept for as long as the thread runs.
            let choice = config.core.take();
            let pinned = choice.as_ref().and_then(|core| pin(config.index, core.id));
            match make_driver(&config, memory) {
                Ok(Made::IoUring(ring)) => serve(config, *ring, with, (&sender, pinned, None)),
                Ok(Made::Epoll(epoll, refusal)) => {
                    serve(config, *epoll, with, (&sender, pinned, refusal));
                }
                // The receiver waits for exactly one message.
                Err(error) => drop(sender.send(Err(BuildError::Setup(error.to_string())))),
            }
            drop(choice);
        })
        .map_err(|error| {
            BuildError::Setup(format!(
                "no thread for a shard: {error}; raise the limit of processes (ulimit -u)"
            ))
        })?;
    let (shared, core, refusal) = receiver.recv().unwrap_or_else(|_| {
        Err(BuildError::Setup(
            "the shard's thread ended while starting".to_owned(),
        ))
    })?;
    Ok(ShardThread {
        shared,
        arena,
        core,
        tables_bytes,
        refusal,
        thread,
    })
}

/// The driver of a shard.
enum Made {
    IoUring(Box<Transport>),
    /// And why it is not io_uring, where that was tried.
    Epoll(Box<Epoll>, Option<SetupError>),
}

/// Makes the driver that configuration asks for. `Auto` sets the real ring up, which tries an
/// operation on it, and takes epoll when this host refuses.
fn make_driver(config: &ShardConfig, memory: DriverMemory) -> Result<Made, SetupError> {
    let epoll = EpollConfig {
        connections_max: config.transport.connections_max,
        write_pieces_max: config.transport.write_pieces_max,
        busy_poll_us: config.transport.busy_poll_us,
    };
    if config.driver == DriverChoice::Epoll {
        return Ok(Made::Epoll(Box::new(Epoll::new(&epoll, memory)?), None));
    }
    let may_change = config.driver == DriverChoice::Auto
        && matches!(
            config.transport.write_path,
            WritePath::Auto | WritePath::SendMsg
        );
    match Transport::try_new(&config.transport, memory) {
        Ok(ring) => Ok(Made::IoUring(Box::new(ring))),
        Err((refusal, memory)) if may_change && refusal.is_refusal_of_io_uring() => Ok(
            Made::Epoll(Box::new(Epoll::new(&epoll, memory)?), Some(refusal)),
        ),
        Err((error, _)) => Err(error),
    }
}

/// What a shard's thread tells the one that starts it: its shared part, the core it is pinned to,
/// and why io_uring is not its driver.
type Started = Result<(Arc<ShardShared>, Option<usize>, Option<SetupError>), BuildError>;

/// The rest of the shard's thread: tells that it runs, and runs.
fn serve(
    config: ShardConfig,
    driver: impl Driver,
    (clock, credit): (Clock, Arc<Gate<Units>>),
    (starter, pinned, refusal): (&mpsc::Sender<Started>, Option<usize>, Option<SetupError>),
) {
    let arena = Arc::clone(driver.arena());
    let shared = Arc::new(ShardShared::new(
        clock,
        driver.wake_handle(),
        &arena,
        credit,
        config.lanes_max,
        config.clients.len(),
    ));
    let core = make_core(config, Arc::clone(&shared), &arena);
    drop(arena);
    drop(starter.send(Ok((shared, pinned, refusal))));
    run(core, driver);
}

/// Makes a shard without a thread: the caller turns it.
///
/// # Errors
/// [`BuildError::Setup`]: the kernel refused the memory.
#[cfg(feature = "simulation")]
pub(crate) fn start_turned<D: Driver>(
    config: ShardConfig,
    with: &ShardStart,
    driver: &mut dyn FnMut(DriverMemory) -> D,
) -> Result<(crate::simulation::TurnedShard<D>, Arc<Arena>), BuildError> {
    let memory =
        DriverMemory::new(&config.arena()).map_err(|error| BuildError::Setup(error.to_string()))?;
    let arena = Arc::clone(memory.arena());
    let driver = driver(memory);
    let shared = Arc::new(ShardShared::new(
        with.clock.clone(),
        driver.wake_handle(),
        &arena,
        Arc::clone(&with.credit),
        config.lanes_max,
        config.clients.len(),
    ));
    let core = make_core(config, Arc::clone(&shared), &arena);
    let shard = super::turned::Turned::new(core, driver);
    Ok((crate::simulation::TurnedShard::new(shared, shard), arena))
}

/// Pins the thread; the core, if the system did it.
fn pin(shard: u16, core: usize) -> Option<usize> {
    if core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
        ringmain_io::log!(info, shard, core, "the shard's thread is pinned");
        return Some(core);
    }
    ringmain_io::log!(
        warn,
        shard,
        core,
        "cannot pin the shard's thread to this core; it runs unpinned"
    );
    None
}

fn make_core(config: ShardConfig, shared: Arc<ShardShared>, arena: &Arena) -> Core {
    let take = || {
        arena
            .headers()
            .acquire()
            .expect("the slab is sized by the sum of its owners")
    };
    let headers: Vec<SlotToken> = (0..config.slots).map(|_| take()).collect();
    let conns = config
        .clients
        .iter()
        .enumerate()
        .map(|(index, client)| {
            let headers = ConnectionHeaders {
                login: take(),
                logout: take(),
                ping: take(),
                calls: (0..client.calls_max).map(|_| take()).collect(),
            };
            Connection::new(
                ConnIndex(u16::try_from(index).expect("few connections")),
                Client::new(*client).expect("the builder checks the settings"),
                (client.connect_timeout_us, client.login_timeout_us),
                config.login_body.clone(),
                Addresses::new(
                    Arc::clone(&config.targets),
                    usize::from(config.index) + index,
                ),
                config.socket_options,
                headers,
            )
        })
        .collect();
    Core::new(shared, conns, headers, config.lanes_max)
}
