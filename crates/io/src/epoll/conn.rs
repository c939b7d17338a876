//! What the driver knows of one connection.

use socket2::Socket;

use crate::driver::LostCause;
use crate::memory::Mapping;
use crate::socket;
use crate::socket::write_queue::WriteQueue;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No connection.
    Free,
    /// The kernel connects.
    Connecting,
    /// Writes and receives are possible.
    Open,
    /// A write failed. What the peer had sent before is still delivered; then comes the end.
    Failing(LostCause),
    /// The shard gave it up; its ending event is due.
    Closing(LostCause),
    /// The connect failed; its ending event is due.
    Refused(LostCause),
}

/// How far the write of a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// There is none.
    Nothing,
    /// The kernel has yet to take bytes of it.
    Partly,
    /// The kernel has all of it, and the shard does not know yet.
    Whole,
}

/// See the module.
pub(super) struct Conn {
    pub(super) phase: Phase,
    /// `Some` from connect to the end.
    pub(super) socket: Option<Socket>,
    /// The pieces of the write.
    pub(super) queue: WriteQueue,
    pub(super) sent: Sent,
    /// Refusals of the write in a row for want of kernel memory.
    pub(super) refusals: u32,
    /// An [`Event::Connected`](crate::driver::Event::Connected) is due.
    pub(super) is_connected_due: bool,
    /// The socket may have bytes, its end or an error.
    pub(super) is_readable: bool,
    /// The end of the stream, or an error, is behind the bytes.
    pub(super) has_ended: bool,
    /// The socket may have room.
    pub(super) is_writable: bool,
    /// True exactly while the connection is in the list of those with a write to offer.
    pub(super) is_listed: bool,
    /// True exactly while it is in one of the lists of those that may have an event.
    pub(super) is_active: bool,
}

impl Conn {
    pub(super) fn new(pieces_max: usize) -> Self {
        Self {
            phase: Phase::Free,
            socket: None,
            queue: WriteQueue::new(pieces_max),
            sent: Sent::Nothing,
            refusals: 0,
            is_connected_due: false,
            is_readable: false,
            has_ended: false,
            is_writable: false,
            is_listed: false,
            is_active: false,
        }
    }

    /// A new life. The lists may still have the index from the last one, which is harmless.
    pub(super) fn begin(&mut self) {
        self.is_connected_due = false;
        (self.is_readable, self.has_ended, self.is_writable) = (false, false, false);
    }

    /// Closes the socket and frees the memory of the write. Gives what the kernel has of a write
    /// that was not reported.
    pub(super) fn end(&mut self, mapping: &Mapping) -> Option<u64> {
        self.phase = Phase::Free;
        let socket = self.socket.take();
        if self.sent == Sent::Partly {
            socket::reset_on_close(socket.as_ref().expect("what writes has a socket"));
        }
        drop(socket);
        let progress = (self.sent != Sent::Nothing).then(|| self.queue.done_bytes());
        self.sent = Sent::Nothing;
        self.queue.clear(mapping);
        progress
    }
}
