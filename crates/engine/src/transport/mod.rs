//! One ring of one shard and its sockets: connects, gathered writes, receives, wake-ups.
//!
//! The contract of the driver, on the thread that made the transport (and on no other):
//!
//! ```text
//! loop {
//!     transport.wait(timeout)?;                       // flush, sleep, copy completions to a fixed array
//!     while let Some(event) = transport.next_event()  // then dispatch them one by one
//!         { .. may call connect, gather, close .. }
//!     .. decide; for each connection with frames ready and no write in flight:
//!     let mut gather = transport.gather(conn)?;       // None while a write is in flight
//!     gather.push_slot(&header, 0..256); gather.push_slot(&body, 0..len); gather.push_bytes(payload);
//!     gather.submit();                                // goes out with the next wait
//! }
//! ```
//!
//! One law: drain `next_event` to `None` before the next `wait`. A token whose block was pushed stays with the
//! driver and is *lent* (neither changed nor released) until `WriteDone`, or `Closed`, of that connection.
//!
//! What it does not do: frames, retries, reconnects, deadlines (other than the socket's own).

mod config;
mod event;
mod stats;
mod wake;

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::memory::{Arena, SlotToken};
use crate::ring::{RingError, SetupError};

pub use config::{
    CONNECTIONS_MAX, CarriedBy, Features, SocketOptions, TransportConfig, WRITE_PATHS,
    WRITE_PIECES_MAX, WritePath,
};
pub use event::{ConnIndex, Errno, Event, LostCause};
pub use stats::{TransportInfo, TransportStats};
pub use wake::WakeHandle;

/// The kernel side of one shard. See the module.
pub struct Transport {
    arena: Arc<Arena>,
    wake: Arc<wake::WakeShared>,
    stats: TransportStats,
    info: TransportInfo,
    /// The ring accepts one submitting thread only.
    not_send: PhantomData<*const ()>,
}

impl Transport {
    /// Sets the ring up, registers `arena` with it and allocates every table. Call it on the shard thread.
    ///
    /// # Errors
    /// [`SetupError`], which names the likely cause and the remedy. Locked memory being refused is not an error:
    /// what fits is registered, with a warning, and the stats say how much.
    pub fn new(config: &TransportConfig, arena: Arc<Arena>) -> Result<Self, SetupError> {
        let wake = wake::WakeShared::new().map_err(|source| SetupError::Descriptors {
            what: "the wake-up eventfd",
            source,
        })?;
        let info = TransportInfo {
            features: config.features,
            path_small: None,
            path_large: None,
            submission_entries: 0,
            completion_entries: 0,
            page_kind: arena.page_kind(),
        };
        Ok(Self {
            arena,
            wake,
            stats: TransportStats::default(),
            info,
            not_send: PhantomData,
        })
    }

    /// The memory this transport sends from.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Wakes this transport from other threads.
    pub fn wake_handle(&self) -> WakeHandle {
        self.wake.handle()
    }

    /// Starts to connect. Ends in [`Event::Connected`], [`Event::ConnectFailed`] or, after
    /// [`close`](Self::close), [`Event::Closed`]. A refusal that is known at once is reported as an event, too.
    ///
    /// Panics when `conn` is not free.
    pub fn connect(&mut self, conn: ConnIndex, addr: SocketAddr, options: &SocketOptions) {
        let _ = (conn, addr, options);
    }

    /// Begins a write, or `None` when the connection is not open or has a write in flight.
    pub fn gather(&mut self, conn: ConnIndex) -> Option<Gather<'_>> {
        Some(Gather {
            transport: self,
            conn,
        })
    }

    /// True exactly when [`gather`](Self::gather) would give `Some`.
    pub fn can_write(&self, conn: ConnIndex) -> bool {
        let _ = conn;
        false
    }

    /// Gives the connection up: what is in flight is cancelled, then comes [`Event::Closed`]. Bytes the kernel took
    /// before are still delivered when no write was in flight; otherwise the peer sees a reset. Without effect on
    /// a connection that is already closing or free.
    pub fn close(&mut self, conn: ConnIndex) {
        let _ = conn;
    }

    /// Hands everything to the kernel, waits until something happens, and takes completions over.
    ///
    /// Returns at once when events are at hand or somebody called [`WakeHandle::wake`]; otherwise sleeps for at
    /// most `timeout` (`None`: without limit; zero: only look). May return without any event.
    ///
    /// Panics when events of the last call were not drained.
    ///
    /// # Errors
    /// [`RingError`]: the ring is beyond use.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<(), RingError> {
        let _ = timeout;
        Ok(())
    }

    /// The next event, or `None` when there is none until the next [`wait`](Self::wait).
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        None
    }

    /// Counters since the start.
    pub fn stats(&self) -> TransportStats {
        self.stats
    }

    /// What the kernel gave and what was chosen.
    pub fn info(&self) -> TransportInfo {
        self.info
    }
}

/// A write being put together: many pieces, one operation. Dropping it instead of
/// [`submit`](Self::submit)ting forgets the pieces.
pub struct Gather<'t> {
    transport: &'t mut Transport,
    conn: ConnIndex,
}

impl Gather<'_> {
    /// Pieces that can still be pushed.
    pub fn room_pieces(&self) -> usize {
        0
    }

    /// Bytes pushed so far.
    pub fn bytes(&self) -> u64 {
        0
    }

    /// Appends `range` of a block of this transport's arena. The block is lent from now until the write is done or
    /// the connection closed. An empty range is no piece.
    ///
    /// Panics when there is no room, the range is outside the block, or the block is of another arena.
    pub fn push_slot(&mut self, token: &SlotToken, range: Range<usize>) {
        let _ = (token, range, self.conn, &self.transport.stats);
    }

    /// Appends bytes by reference, kept alive until the kernel is done with them. Empty bytes are no piece.
    ///
    /// Panics when there is no room.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        let _ = bytes;
    }

    /// Starts the write; it reaches the kernel with the next [`Transport::wait`]. Ends in [`Event::WriteDone`] or
    /// [`Event::Closed`].
    ///
    /// Panics when nothing was pushed.
    pub fn submit(self) {}
}
