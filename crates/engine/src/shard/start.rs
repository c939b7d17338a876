//! Starting a shard: its memory, its thread, its ring, its connections.
//!
//! The arena is mapped by the thread that builds the engine, so that it is shared from the start;
//! the ring is made on the shard's own thread, because the kernel binds it to that thread. `start`
//! returns when the ring stands or the kernel has refused.

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
use ringmain_io::driver::{ConnIndex, Driver, SocketOptions};
use ringmain_io::memory::{Arena, ArenaConfig, DriverMemory, SlotToken};
use ringmain_io::transport::{Transport, TransportConfig};

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

/// Starts a shard and waits until its ring stands.
///
/// # Errors
/// [`BuildError::Setup`]: the kernel refused the memory, the thread or the ring.
pub(crate) fn start(mut config: ShardConfig, with: &ShardStart) -> Result<ShardThread, BuildError> {
    let memory =
        DriverMemory::new(&config.arena()).map_err(|error| BuildError::Setup(error.to_string()))?;
    let arena = Arc::clone(memory.arena());
    let tables_bytes = config.tables_bytes();
    let (sender, receiver) = mpsc::channel();
    let (clock, credit) = (with.clock.clone(), Arc::clone(&with.credit));
    let thread_arena = Arc::clone(&arena);
    let thread = std::thread::Builder::new()
        .name(format!("ringmain-shard-{}", config.index))
        .spawn(move || {
            set_role(Role::Shard);
            // Kept for as long as the thread runs.
            let choice = config.core.take();
            let pinned = choice.as_ref().and_then(|core| pin(config.index, core.id));
            let transport = match Transport::new(&config.transport, memory) {
                Ok(transport) => transport,
                Err(error) => {
                    // The receiver waits for exactly one message.
                    drop(sender.send(Err(BuildError::Setup(error.to_string()))));
                    return;
                }
            };
            let shared = Arc::new(ShardShared::new(
                clock,
                transport.wake_handle(),
                &thread_arena,
                credit,
                config.lanes_max,
                config.clients.len(),
            ));
            let core = make_core(config, Arc::clone(&shared), &thread_arena);
            drop(sender.send(Ok((shared, pinned))));
            run(core, transport);
            drop(choice);
        })
        .map_err(|error| {
            BuildError::Setup(format!(
                "no thread for a shard: {error}; raise the limit of processes (ulimit -u)"
            ))
        })?;
    let (shared, core) = receiver.recv().unwrap_or_else(|_| {
        Err(BuildError::Setup(
            "the shard's thread ended while starting".to_owned(),
        ))
    })?;
    Ok(ShardThread {
        shared,
        arena,
        core,
        tables_bytes,
        thread,
    })
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
