//! The state of one connection: its phase, and what of it is with the kernel.
//!
//! ```text
//!            connect            connected              peer ends, error, close
//!   Free ------------> Connecting --------> Open ------------------------------> Closing
//!    ^                     |                  | write fails                         ^ |
//!    |                     | fails            '--> Failing -- receive side ends ----' |
//!    |                     v                                                          |
//!    '---- ConnectFailed --+------------------- Closed, nothing in flight ------------'
//! ```
//!
//! Invariant: the index is freed, and the events that say so are given, only when no operation,
//! cancellation or notification of the connection is with the kernel.

use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use socket2::{SockAddr, Socket};

use super::LostCause;
use super::outgoing::Writes;
use crate::driver::CarriedBy;
use crate::ring::{Op, UserData};

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No connection.
    Free,
    /// The connect is wanted or in flight.
    Connecting,
    /// Writes and receives are possible.
    Open,
    /// A write failed. What the peer had sent before is still delivered; then comes `Closing`.
    Failing(LostCause),
    /// Everything in flight is on its way home. What still arrives is discarded.
    Closing(LostCause),
    /// The connect failed before or in the kernel.
    Refused(LostCause),
}

/// Where one operation of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpState {
    /// There is none.
    Idle,
    /// To be submitted with the next `wait`.
    Wanted,
    /// With the kernel, or in the submission queue on its way there.
    InFlight,
    /// Likewise, and its cancellation has been asked for.
    Cancelling,
}

impl OpState {
    /// True when a completion is due.
    pub(super) fn is_out(self) -> bool {
        matches!(self, Self::InFlight | Self::Cancelling)
    }
}

/// See the module.
pub(super) struct Conn {
    pub(super) index: u16,
    pub(super) phase: Phase,
    /// Counts the lives of this index.
    pub(super) generation: u32,
    /// `Some` from connect until everything but notifications is home.
    pub(super) socket: Option<Socket>,
    /// `Some` once connected to something: the kernel reads it while a connect is in flight.
    pub(super) address: Option<SockAddr>,
    pub(super) connect: OpState,
    pub(super) recv: OpState,
    /// Of the youngest write's operation. `Idle` when the kernel has taken every byte.
    pub(super) write: OpState,
    pub(super) cancels_in_flight: u32,
    /// Of all writes.
    pub(super) notifications_in_flight: u32,
    pub(super) writes: Writes,
    /// Of the youngest write's operation: its path, and the bytes it was given.
    pub(super) carried_by: CarriedBy,
    pub(super) offered_bytes: u64,
    /// True exactly while the connection is in the list of those with something to submit.
    pub(super) is_listed: bool,
}

impl Conn {
    pub(super) fn new(index: u16, writes_max: u8, pieces_max: usize) -> Self {
        Self {
            index,
            phase: Phase::Free,
            generation: 0,
            socket: None,
            address: None,
            connect: OpState::Idle,
            recv: OpState::Idle,
            write: OpState::Idle,
            cancels_in_flight: 0,
            notifications_in_flight: 0,
            writes: Writes::new(writes_max, pieces_max),
            carried_by: CarriedBy::SendMsg,
            offered_bytes: 0,
            is_listed: false,
        }
    }

    pub(super) fn user_data(&self, op: Op) -> u64 {
        let write = if op == Op::Write {
            self.writes.youngest_number()
        } else {
            0
        };
        UserData {
            op,
            write,
            index: self.index,
            generation: self.generation,
        }
        .encode()
    }

    /// The descriptor for an operation. Panics when the socket is closed already.
    pub(super) fn fd(&self) -> Fd {
        Fd(self
            .socket
            .as_ref()
            .expect("operations come before the close")
            .as_raw_fd())
    }

    /// True when a write may begin.
    pub(super) fn can_write(&self) -> bool {
        self.phase == Phase::Open && self.write == OpState::Idle && self.writes.has_room()
    }

    /// True when no request is with the kernel: the socket may be closed.
    pub(super) fn is_home(&self) -> bool {
        !self.connect.is_out()
            && !self.recv.is_out()
            && !self.write.is_out()
            && self.cancels_in_flight == 0
    }

    /// An operation with the kernel whose cancellation has not been asked for.
    pub(super) fn next_to_cancel(&self) -> Option<Op> {
        [
            (Op::Connect, self.connect),
            (Op::Recv, self.recv),
            (Op::Write, self.write),
        ]
        .into_iter()
        .find_map(|(op, state)| (state == OpState::InFlight).then_some(op))
    }

    /// The cancellation of `op` is on its way.
    pub(super) fn cancelling(&mut self, op: Op) {
        let state = match op {
            Op::Connect => &mut self.connect,
            Op::Recv => &mut self.recv,
            Op::Write => &mut self.write,
            Op::Wake | Op::Cancel => unreachable!("not an operation that is cancelled"),
        };
        assert!(*state == OpState::InFlight);
        *state = OpState::Cancelling;
        self.cancels_in_flight += 1;
    }
}
