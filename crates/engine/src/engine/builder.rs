//! Configuration of an engine, checked when it is built.

use crate::engine::{Engine, WritePath};
use crate::error::BuildError;
use crate::limits;
use crate::server_url::{ServerUrl, ServerUrlError};

/// Configures and starts an [`Engine`].
#[derive(Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct EngineBuilder {
    server: Option<Result<ServerUrl, ServerUrlError>>,
    shards: u16,
    cores: Vec<usize>,
    connections: u16,
    memory_bytes_max: u64,
    slot_bytes: u32,
    write_path: WritePath,
    busy_poll: bool,
    request_timeout_us: u64,
    connect_timeout_us: u64,
    partitions_max: u32,
}

impl Default for EngineBuilder {
    fn default() -> Self {
        Self {
            server: None,
            shards: 1,
            cores: Vec::new(),
            connections: 1,
            memory_bytes_max: limits::MEMORY_BYTES_DEFAULT,
            slot_bytes: limits::SLOT_BYTES_DEFAULT,
            write_path: WritePath::Auto,
            busy_poll: false,
            request_timeout_us: limits::REQUEST_TIMEOUT_US_DEFAULT,
            connect_timeout_us: limits::CONNECT_TIMEOUT_US_DEFAULT,
            partitions_max: limits::PARTITIONS_ENGINE_DEFAULT,
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

    /// The cores to pin shard threads to, one a shard, by the numbers of `core_affinity`. Default: the last cores of
    /// the process's affinity mask, unless there are fewer cores than shards; an empty list pins nothing.
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = cores.into();
        self
    }

    /// Connections of all shards together, at least one a shard, at most 256. Default: one a shard.
    pub fn connections(mut self, connections: u16) -> Self {
        self.connections = connections;
        self
    }

    /// Bytes the engine may hold from accept to receipt, 64 KiB to 1 TiB. Default 128 MiB, half of it in slots for
    /// copied records, half for records by reference.
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Bytes of one slot, the largest request of copied records: 4 KiB to 16 MiB. Default 256 KiB.
    pub fn slot_bytes(mut self, bytes: u32) -> Self {
        self.slot_bytes = bytes;
        self
    }

    /// How frames reach the socket. Default: measured.
    pub fn write_path(mut self, write_path: WritePath) -> Self {
        self.write_path = write_path;
        self
    }

    /// Shards spin instead of sleeping: lower latency for a whole core each. Default false.
    pub fn busy_poll(mut self, busy_poll: bool) -> Self {
        self.busy_poll = busy_poll;
        self
    }

    /// Silence after which a request is sent again, on every connection, 1 ms to a day. Default 5 s.
    pub fn request_timeout_us(mut self, timeout_us: u64) -> Self {
        self.request_timeout_us = timeout_us;
        self
    }

    /// How long `build` waits for the logins, 1 ms to a day. Default 10 s. It gives up earlier when every address has
    /// refused the connection or the server has refused the login.
    pub fn connect_timeout_us(mut self, timeout_us: u64) -> Self {
        self.connect_timeout_us = timeout_us;
        self
    }

    /// Partitions the engine may send to, of all topics together, 1 to 65,536. Default 1024. Each costs about 1 KiB,
    /// outside `memory_bytes_max`.
    pub fn partitions_max(mut self, partitions: u32) -> Self {
        self.partitions_max = partitions;
        self
    }

    /// Checks the configuration, maps and registers the memory, starts the shards and logs in on every connection.
    ///
    /// # Errors
    /// The caller's fault for every option out of range; the environment's when the kernel refuses the ring, the memory
    /// or a thread, or the server cannot be reached.
    pub fn build(self) -> Result<Engine, BuildError> {
        let _ = (
            self.request_timeout_us,
            self.connect_timeout_us,
            self.partitions_max,
            &self.cores,
            self.write_path,
            self.busy_poll,
            self.slot_bytes,
            self.connections,
            self.shards,
        );
        let server = self.server.ok_or(BuildError::ServerMissing)??;
        let _ = server;
        Err(BuildError::Setup(
            "the shards cannot be started yet".to_owned(),
        ))
    }
}
