//! The seam between a shard and what moves its bytes.
//!
//! A shard is written against [`Driver`] and knows no kernel interface. The trait is dispatched
//! statically: a shard with one driver is one program.
//!
//! # The loop of a shard
//!
//! ```text
//! loop {
//!     driver.wait(timeout)?;                          // hand over, sleep, collect
//!     while let Some(event) = driver.next_event() {   // then take the events, one by one
//!         .. may call connect, gather, close ..
//!     }
//!     .. decide; for each connection with frames ready:
//!     let Some(mut write) = driver.gather(conn) else { continue };
//!     write.push_slot(&header, 0..256); write.push_slot(&body, 0..len); write.push_bytes(payload);
//!     write.submit();                                 // goes out with the next wait
//! }
//! ```
//!
//! # Rules for the shard
//!
//! - Every call comes from the thread that made the driver. [`WakeHandle`] is the only exception.
//! - The shard takes every event (until `None`) before it calls `wait` again.
//! - A connection index is in use from `connect` to its ending event: `ConnectFailed` or `Closed`.
//!
//! # Who keeps which memory until when
//!
//! | memory | kept by | until |
//! |---|---|---|
//! | a block whose token was pushed | the shard keeps the token, and neither changes nor releases it | `WriteDone` of that write, or `Closed` of its connection |
//! | bytes pushed by reference | the driver keeps a handle | it drops the handle with the same event, or before |
//! | received bytes | the driver | the next call of the driver; the event's lifetime says so |
//! | the whole arena | the driver keeps a handle | it is dropped with nothing in flight |
//!
//! The driver marks a pushed block as *lent* for this time. Releasing or changing a lent block is
//! an assertion failure of the shard.
//!
//! # Rules for the driver
//!
//! - Events of one connection come in the order in which they happened. Every `connect` has exactly
//!   one of `Connected` and `ConnectFailed`, or `Closed` after a `close` in between. Every
//!   `Connected` has exactly one `Closed`.
//! - After the ending event of a connection nothing of it is in flight in either direction.
//! - Writes of one connection reach the peer in the order of their `submit`, and their `WriteDone`
//!   comes in that order. A write that fails in the middle ends the connection.
//! - What the peer sent before its end is delivered before `Closed`.
//! - Dropping the driver closes every connection and returns with nothing in flight. A driver that
//!   cannot bring everything home leaks the memory instead of freeing it.
//!
//! `tests/transport` holds any implementation against these rules.

mod error;
mod event;
mod features;
mod kind;
mod options;
mod paths;
mod stats;
pub(crate) mod wake;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::memory::{Arena, SlotToken};

pub use error::{DriverError, DriverErrorKind};
pub use event::{ConnIndex, Errno, Event, LostCause};
pub use features::Features;
pub use kind::{DriverChoice, DriverKind, UnknownDriver};
pub use options::SocketOptions;
pub use paths::{CarriedBy, TRAFFIC_KINDS, Traffic, WRITE_PATHS, WritePath};
pub use stats::{DriverInfo, DriverStats};
#[cfg(feature = "simulation")]
pub use wake::WakeBoard;
#[cfg(ringmain_loom)]
pub use wake::model;
pub use wake::{WakeHandle, WakeState};

/// What moves the bytes of one shard. See the module for the rules of both sides.
pub trait Driver {
    /// A write being put together.
    type Gather<'d>: Gather
    where
        Self: 'd;

    /// Starts to connect. Ends in [`Event::Connected`], [`Event::ConnectFailed`] or, after
    /// [`close`](Self::close), [`Event::Closed`]. A refusal that is known at once is an event, too.
    ///
    /// Panics when `conn` is out of range or in use.
    fn connect(&mut self, conn: ConnIndex, address: SocketAddr, options: &SocketOptions);

    /// Gives a connection up: its ending event follows, with [`LostCause::Local`]. While a write is
    /// in flight the connection is reset and the rest of the write discarded. Without effect on a
    /// connection that is free or already on its way to an ending event.
    fn close(&mut self, conn: ConnIndex);

    /// Begins a write. `None` while the connection is not open, or cannot take another write.
    fn gather(&mut self, conn: ConnIndex) -> Option<Self::Gather<'_>>;

    /// Hands everything over, waits until something happens, and collects it.
    ///
    /// Returns at once when events are at hand or another thread called [`WakeHandle::wake`].
    /// Otherwise sleeps at most `timeout` (`None`: without limit; zero: only look). May return
    /// without any event.
    ///
    /// # Errors
    /// [`DriverError`]: the driver is beyond use, and every later call says so again.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DriverError>;

    /// The next event, or `None` when there is none until the next [`wait`](Self::wait).
    fn next_event(&mut self) -> Option<Event<'_>>;

    /// Ends the present or the next [`wait`](Self::wait) from any thread.
    fn wake_handle(&self) -> WakeHandle;

    /// The memory this driver sends from.
    fn arena(&self) -> &Arc<Arena>;

    /// Counters since the start.
    fn stats(&self) -> DriverStats;

    /// What the kernel gave and what was chosen.
    fn info(&self) -> DriverInfo;
}

/// A write being put together: many pieces, one write. Dropping it instead of
/// [`submit`](Self::submit)ting it forgets the pieces and lends nothing.
pub trait Gather {
    /// Pieces that can still be pushed.
    fn room_pieces(&self) -> usize;

    /// Bytes pushed so far.
    fn bytes(&self) -> u64;

    /// Appends `range` of a block of the driver's arena. The block is lent from now on. An empty
    /// range is no piece.
    ///
    /// Panics when there is no room, the range is outside the block, or the block is of another
    /// arena.
    fn push_slot(&mut self, token: &SlotToken, range: Range<usize>);

    /// Appends bytes by reference. Empty bytes are no piece.
    ///
    /// Panics when there is no room.
    fn push_bytes(&mut self, bytes: Bytes);

    /// Starts the write; it leaves with the next [`Driver::wait`]. Ends in [`Event::WriteDone`] or
    /// [`Event::Closed`].
    ///
    /// Panics when nothing was pushed.
    fn submit(self);
}
