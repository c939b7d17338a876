//! What the broker knows, without its sockets: time comes as an argument, bytes go out as they are
//! queued. It knows neither the commands, which change it, nor `net`, which moves the bytes.
//!
//! Contract: give every frame to `commands::receive`, tell of connects and disconnects, call
//! [`State::tick`] when [`State::next_due_us`] has come, and after each of these write what
//! [`State::next_outgoing`] returns for the connections of [`State::take_touched`].

mod catalog;
mod client_table;
mod connection;
mod fault;
mod log;
mod partition;
mod refused;
mod reply;
mod retention;
mod send;
mod session;
#[cfg(test)]
mod tests;
mod topic_options;
mod window;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::header::{COMMAND_REQUEST, HEADER_BYTES, HeaderError, RawRequestHeader};
use ringmain_wire::operation::Operation;

pub(crate) use self::catalog::{Catalog, Freed, Stream, Topic};
pub(crate) use self::client_table::{ClientTable, RequestStatus};
pub(crate) use self::connection::{Connection, ConnectionKey, Outgoing, Session};
pub(crate) use self::partition::{ConsumerKey, Partition};
pub(crate) use self::refused::Refused;
pub(crate) use self::send::{Place, ValidBatch};
pub(crate) use self::topic_options::TopicOptions;
use crate::config::{Config, Now};
use crate::frame::Frame;
use crate::limits::{
    CLIENTS_MAX, CONSUMER_OFFSETS_MAX, CONSUMER_OFFSETS_TOTAL_MAX, OUTBOX_BYTES_MAX,
};
use crate::script::{Fault, ReplyFault, Script, ScriptRun};
use crate::stats::BrokerStats;

/// The last command byte that the protocol assigns. Those above close the connection.
const COMMAND_LAST: u8 = 29;

/// Position of the metadata log before the first login. The captured server stood here.
const COMMIT_AT_START: u64 = 4;

/// The cluster id in committed replies and in evictions.
const CLUSTER_ID: u128 = 0x7269_6E67_6D61_696E;

/// One request while it is handled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) connection: ConnectionKey,
    pub(crate) header: RawRequestHeader,
    pub(crate) operation: Operation,
    pub(crate) now: Now,
}

/// The broker's state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) catalog: Catalog,
    pub(crate) clients: ClientTable,
    pub(crate) stats: BrokerStats,
    /// Position of the latest commit of the metadata log.
    commit: u64,
    connections: HashMap<ConnectionKey, Connection>,
    connections_seen: u64,
    /// Connections whose outgoing queue or reading changed since the last `take_touched`.
    touched: Vec<ConnectionKey>,
    /// Connections with a delayed reply or a stalled reader.
    timed: BTreeSet<ConnectionKey>,
    /// Partitions with uncommitted sends.
    unsettled: BTreeSet<Place>,
    /// Memory of uncommitted sends.
    uncommitted_bytes: u64,
    /// Memory charged for kept records.
    charged_bytes: u64,
    /// Clients in the windows of all partitions.
    window_clients: usize,
    /// Offsets of consumers in all partitions.
    consumer_offsets: usize,
    /// When heartbeats are looked at next.
    heartbeats_due_us: u64,
    /// Bytes that wait to be written or are being written on all connections.
    outgoing_total: u64,
    script: ScriptRun,
    /// A fault keeps every send uncommitted.
    commits_held: bool,
    /// New connections are closed until then, by a fault.
    down_until_us: u64,
    /// What a script does to the reply of the frame at hand. `None` between frames.
    reply_fault: Option<ReplyFault>,
    /// Memory of evicted batches, for the next large frames: fresh memory costs more than the
    /// checksums.
    spare: Vec<Vec<u8>>,
    /// Where reply frames are put together.
    scratch: Vec<u8>,
}

impl State {
    pub(crate) fn new(config: Config, script: Script, now: Now) -> Self {
        let heartbeats_due_us = now.monotonic_us.saturating_add(config.heartbeat_us);
        Self {
            config,
            catalog: Catalog::default(),
            clients: ClientTable::new(CLIENTS_MAX),
            stats: BrokerStats::default(),
            commit: COMMIT_AT_START,
            connections: HashMap::new(),
            connections_seen: 0,
            touched: Vec::new(),
            timed: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            uncommitted_bytes: 0,
            charged_bytes: 0,
            window_clients: 0,
            consumer_offsets: 0,
            heartbeats_due_us,
            outgoing_total: 0,
            script: ScriptRun::new(script),
            commits_held: false,
            down_until_us: 0,
            reply_fault: None,
            spare: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes a new connection; `None` when there are too many or the broker is down, and it is to
    /// be closed at once.
    pub(crate) fn connect(
        &mut self,
        peer: SocketAddr,
        local: SocketAddr,
        now: Now,
    ) -> Option<ConnectionKey> {
        self.stats.connections_accepted += 1;
        let down = now.monotonic_us < self.down_until_us;
        if down || self.connections.len() >= self.config.connections_max {
            self.stats.connections_refused += 1;
            return None;
        }
        self.connections_seen += 1;
        let key = ConnectionKey(self.connections_seen);
        self.connections
            .insert(key, Connection::new(peer, local, now.monotonic_us));
        self.stats.connections_open += 1;
        Some(key)
    }

    /// The peer sends no more: what is queued is still written, and nothing after it.
    pub(crate) fn hang_up(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connections.get_mut(&key)
            && let Some(session) = connection.session.take()
        {
            self.session_lost(session);
        }
        self.queue(key, |connection, _| connection.close());
    }

    /// The connection is gone, with the memory of all that was written on it.
    pub(crate) fn disconnect(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections.remove(&key) else {
            return;
        };
        self.stats.connections_open -= 1;
        self.outgoing_total -= connection.outgoing_bytes() as u64;
        self.timed.remove(&key);
        if let Some(session) = connection.session {
            self.session_lost(session);
        }
    }

    /// The size field of the next frame makes no sense: close.
    pub(crate) fn framing_lost(&mut self, key: ConnectionKey) {
        self.stats.frames_unframed += 1;
        self.close(key);
    }

    /// Takes one frame: the request in it, unless it is none, or a script has dealt with it.
    pub(crate) fn admit(
        &mut self,
        key: ConnectionKey,
        frame: &Frame<'_>,
        now: Now,
    ) -> Option<Call> {
        if self.is_closing(key) {
            return None;
        }
        self.stats.frames_in += 1;
        let header = *RawRequestHeader::from_bytes(&frame.bytes()[..HEADER_BYTES]).ok()?;
        self.stats.bytes_in += u64::from(header.size());
        if header.command() > COMMAND_LAST {
            self.stats.frames_unframed += 1;
            self.close(key);
            return None;
        }
        if header.command() != COMMAND_REQUEST {
            self.stats.frames_foreign += 1;
            return None;
        }
        let call = Call {
            connection: key,
            operation: self.check(key, &header)?,
            header,
            now,
        };
        self.stats.count_request(call.operation);
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.heard_us = now.monotonic_us;
        }
        (!self.meets_fault(&call)).then_some(call)
    }

    /// The operation of a header that keeps the rules.
    fn check(&mut self, key: ConnectionKey, header: &RawRequestHeader) -> Option<Operation> {
        match header.check() {
            Ok(operation) => Some(operation),
            Err(error) => {
                self.stats.requests_invalid += 1;
                let is_internal = matches!(error, HeaderError::OperationInternal { .. });
                if is_internal && header.client() != 0 {
                    let reason = EvictionReason::InvalidRequestOperation;
                    self.evict(key, header.client(), reason);
                }
                None
            }
        }
    }

    /// The request that [`State::admit`] gave out is handled.
    pub(crate) fn handled(&mut self, call: &Call) {
        // A fault that no reply took: only the cut means something without one.
        if self.reply_fault.take() == Some(ReplyFault::Cut) {
            self.close(call.connection);
        }
    }

    /// Adds a fault to the script. It counts from now on.
    pub(crate) fn inject(&mut self, fault: Fault) {
        self.script.add(fault);
    }

    /// Does what has become due.
    pub(crate) fn tick(&mut self, now: Now) {
        self.commit_due(now);
        for key in self.timed.clone() {
            self.queue(key, |connection, _| {
                connection.release_due(now.monotonic_us);
            });
            let waits = self.connections.get(&key).is_some_and(|connection| {
                connection.stalled_until_us > now.monotonic_us || connection.due_us().is_some()
            });
            if !waits {
                self.timed.remove(&key);
            }
        }
        if self.config.heartbeat_us > 0 && now.monotonic_us >= self.heartbeats_due_us {
            self.heartbeats_due_us = now.monotonic_us + (self.config.heartbeat_us / 5).max(1);
            self.evict_silent(now);
        }
    }

    /// When [`State::tick`] has something to do.
    pub(crate) fn next_due_us(&self) -> Option<u64> {
        let heartbeats = (self.config.heartbeat_us > 0).then_some(self.heartbeats_due_us);
        let connections = self
            .timed
            .iter()
            .filter_map(|key| self.connections.get(key));
        let timed = connections.flat_map(|connection| {
            let stalled = (connection.stalled_until_us > 0).then_some(connection.stalled_until_us);
            [connection.due_us(), stalled].into_iter().flatten()
        });
        timed.chain(heartbeats).chain(self.commits_due_us()).min()
    }

    /// Moves the connections that changed to `into`.
    pub(crate) fn take_touched(&mut self, into: &mut Vec<ConnectionKey>) {
        into.append(&mut self.touched);
    }

    /// What to write next on a connection. What was handed out before is written: until then it
    /// counts.
    pub(crate) fn next_outgoing(&mut self, key: ConnectionKey) -> Option<Outgoing> {
        let connection = self.connections.get_mut(&key)?;
        let before = connection.outgoing_bytes();
        let outgoing = connection.next_outgoing();
        self.outgoing_total -= (before - connection.outgoing_bytes()) as u64;
        if let Some(Outgoing::Bytes(bytes) | Outgoing::Pieces(bytes, _)) = &outgoing {
            self.stats.bytes_out += bytes.len() as u64;
        }
        outgoing
    }

    /// Bytes that wait to be written or are being written on a connection.
    pub(crate) fn outgoing_bytes(&self, key: ConnectionKey) -> usize {
        self.connections
            .get(&key)
            .map_or(0, Connection::outgoing_bytes)
    }

    /// Whether all connections together have too much to write.
    pub(crate) fn is_outbound_full(&self) -> bool {
        self.outgoing_total > self.config.outbound_bytes_max()
    }

    /// Whether one more consumer may store an offset in a partition.
    pub(crate) fn has_offset_room(&self, partition: &Partition) -> bool {
        partition.offsets.len() < CONSUMER_OFFSETS_MAX
            && self.consumer_offsets < CONSUMER_OFFSETS_TOTAL_MAX
    }

    /// Stores a consumer's offset outside of the partition's log.
    pub(crate) fn auto_commit(&mut self, place: Place, key: ConsumerKey, offset: u64) {
        if let Some(partition) = self.partition_mut(place)
            && partition.offsets.insert(key, offset).is_none()
        {
            self.consumer_offsets += 1;
        }
    }

    /// Whether a connection has too much to write for more requests of it to be read. One that has
    /// nothing to write now is always read: nothing would wake its reader, and what a script holds
    /// may wait for more requests.
    pub(crate) fn is_behind(&self, key: ConnectionKey) -> bool {
        let connection = self.connections.get(&key);
        let waiting = connection.map_or(0, Connection::queued_bytes);
        waiting > OUTBOX_BYTES_MAX || (waiting > 0 && self.is_outbound_full())
    }

    /// Queues something on a connection and keeps the total right.
    fn queue(&mut self, key: ConnectionKey, queue: impl FnOnce(&mut Connection, &[u8])) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let before = connection.outgoing_bytes();
        queue(connection, &self.scratch);
        self.outgoing_total =
            self.outgoing_total + connection.outgoing_bytes() as u64 - before as u64;
        self.touched.push(key);
    }

    /// Whether a script keeps the broker from reading this connection now.
    pub(crate) fn is_stalled(&self, key: ConnectionKey, now: Now) -> bool {
        self.connections
            .get(&key)
            .is_some_and(|connection| connection.stalled_until_us > now.monotonic_us)
    }

    /// Whether the connection is to be closed.
    pub(crate) fn is_closing(&self, key: ConnectionKey) -> bool {
        self.connections
            .get(&key)
            .is_none_or(Connection::is_closing)
    }

    /// Closes a connection after what is queued for it.
    pub(crate) fn close(&mut self, key: ConnectionKey) {
        if !self.is_closing(key) {
            self.stats.connections_closed += 1;
            self.queue(key, |connection, _| connection.close());
        }
    }

    /// Who is logged in on a connection.
    pub(crate) fn session(&self, key: ConnectionKey) -> Option<Session> {
        self.connections.get(&key)?.session
    }

    /// Where a connection arrived.
    pub(crate) fn local_address(&self, key: ConnectionKey) -> Option<SocketAddr> {
        self.connections
            .get(&key)
            .map(|connection| connection.local)
    }

    /// Memory charged for kept records.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    /// Where a connection comes from.
    pub(crate) fn peer(&self, key: ConnectionKey) -> Option<SocketAddr> {
        self.connections.get(&key).map(|connection| connection.peer)
    }
}
