//! What a driver tells its shard. Plain data.

use std::fmt;
use std::io;

/// A connection of one driver: dense index below `connections_max`, chosen by the shard. Free for a
/// new [`connect`](super::Driver::connect) after its `ConnectFailed` or `Closed` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnIndex(pub u16);

impl fmt::Display for ConnIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One thing that happened. Events of one connection come in the order in which it happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The connection stands; writes are possible and received bytes will follow.
    Connected {
        /// The connection.
        conn: ConnIndex,
    },
    /// The connection could not be made. Nothing of it is in flight; the index is free.
    ConnectFailed {
        /// The connection.
        conn: ConnIndex,
        /// Why.
        cause: LostCause,
    },
    /// Bytes from the peer, in stream order, cut anywhere. Never empty.
    Received {
        /// The connection.
        conn: ConnIndex,
        /// The bytes, valid until the next call to the driver.
        bytes: &'a [u8],
    },
    /// The oldest write that was not reported yet is done: its last byte is with the kernel, and
    /// the kernel no longer reads any of its memory.
    WriteDone {
        /// The connection.
        conn: ConnIndex,
    },
    /// The connection is gone. Nothing of it is in flight in either direction: slots, headers and
    /// `Bytes` of an unfinished write are free. The index is free.
    Closed {
        /// The connection.
        conn: ConnIndex,
        /// Why.
        cause: LostCause,
        /// `Some` exactly when a write was not reported as done: how many bytes of the youngest the
        /// kernel had taken (of any before it, all). Frames that begin behind them never left this
        /// host.
        write_progress_bytes: Option<u64>,
    },
    /// Another thread called [`WakeHandle::wake`](super::WakeHandle::wake) since the last `wait`.
    Woken,
}

/// Why a connection could not be made, or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostCause {
    /// We closed it.
    Local,
    /// The peer ended its stream in an orderly way.
    PeerClosed,
    /// The peer reset the connection, or its host did.
    PeerReset,
    /// The connection had ended when a write came to it, and the kernel does not say why: the peer
    /// reset it, or did not acknowledge in time.
    Broken,
    /// Nobody listens at the address.
    Refused,
    /// Nothing came back in time: connect, user timeout or keepalive.
    TimedOut,
    /// There is no way to the address (no route, network or host down).
    Unreachable(Errno),
    /// A local rule forbids the traffic (firewall, seccomp, cgroup): the environment's fault.
    Forbidden(Errno),
    /// This host ran out of something: descriptors, ports, kernel memory.
    Exhausted(Errno),
    /// An errno that these operations should not give here. Carried so that it is seen.
    Unexpected(Errno),
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("closed by us"),
            Self::PeerClosed => f.write_str("the server closed the connection"),
            Self::PeerReset => f.write_str("the server reset the connection"),
            Self::Broken => f.write_str(
                "the connection broke: the server reset it, or did not acknowledge in time",
            ),
            Self::Refused => f.write_str("connection refused: nobody listens at this address"),
            Self::TimedOut => f.write_str("the server did not answer in time"),
            Self::Unreachable(errno) => write!(f, "the server cannot be reached: {errno}"),
            Self::Forbidden(errno) => write!(f, "a local rule forbids the connection: {errno}"),
            Self::Exhausted(errno) => write!(f, "this host ran out of a resource: {errno}"),
            Self::Unexpected(errno) => write!(f, "unexpected error of the kernel: {errno}"),
        }
    }
}

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The number of an [`io::Error`], 0 when it has none.
    pub(crate) fn of(error: &io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({self})")
    }
}
