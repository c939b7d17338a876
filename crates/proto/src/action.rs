//! What the driver is told to do: frames to write and the connection to open or close.

use crate::{BatchKey, CallKey, Frame, LaneKey};
use ringmain_wire::{CommandCode, Operation};

/// A frame to write, in the order polled. The numbers go into the request header as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// A login: operation `Register`, request 0, session 0.
    Login,
    /// A batch: operation `SendMessages`.
    Batch {
        /// The batch.
        key: BatchKey,
        /// Its lane.
        lane: LaneKey,
        /// Request number.
        request: u64,
        /// Session epoch.
        session: u64,
        /// 1 for the first transmission, rising.
        attempt: u32,
    },
    /// A control call.
    Call {
        /// The call.
        key: CallKey,
        /// Its operation.
        operation: Operation,
        /// Its command code, carried in the header when the operation is `NonReplicated`.
        code: CommandCode,
        /// Request number.
        request: u64,
        /// Session epoch.
        session: u64,
        /// 1 for the first transmission, rising.
        attempt: u32,
    },
    /// A heartbeat: operation `NonReplicated`, code `Ping`.
    Ping {
        /// Request number.
        request: u64,
        /// Session epoch.
        session: u64,
    },
    /// A logout.
    Logout {
        /// Request number.
        request: u64,
        /// Session epoch.
        session: u64,
    },
}

impl Transmit {
    /// What goes into the timestamp field of the request header: the number of this transmission of
    /// its request, 0 for frames that are not repeated. Servers echo it in refusals, and put their
    /// own time into the log.
    #[must_use]
    pub const fn timestamp(&self) -> u64 {
        match *self {
            Self::Batch { attempt, .. } | Self::Call { attempt, .. } => attempt as u64,
            Self::Login | Self::Ping { .. } | Self::Logout { .. } => 0,
        }
    }

    /// The name under which [`crate::Client::handle_written`] wants to hear of it.
    #[must_use]
    pub const fn frame(&self) -> Frame {
        match *self {
            Self::Login => Frame::Login,
            Self::Batch { key, .. } => Frame::Batch(key),
            Self::Call { key, .. } => Frame::Call(key),
            Self::Ping { .. } => Frame::Ping,
            Self::Logout { .. } => Frame::Logout,
        }
    }
}

/// What to do about the connection. Each is given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionAction {
    /// Open a connection; answer with [`crate::Client::handle_connected`], or with
    /// [`crate::Client::handle_disconnected`] when it fails.
    Connect,
    /// Close the connection, or stop trying to open it; answer with
    /// [`crate::Client::handle_disconnected`] when nothing of it is in flight any more.
    Disconnect,
}
