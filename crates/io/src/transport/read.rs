//! The receive side: one multishot receive into the shared buffer ring, or single receives into a
//! buffer of the connection.
//!
//! A buffer handed to the driver goes back to the kernel with the next call that asks for an event
//! or waits.

use std::ptr::NonNull;

use io_uring::opcode;
use io_uring::squeue;

use super::conn::{Conn, OpState, Phase};
use super::{ConnIndex, Errno, LostCause, Step, Transport};
use crate::ring::{Completion, Op, RECV_GROUP};
use crate::socket::errno::{self, OnRecv};

/// Bytes lent to the driver until its next call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) base: NonNull<u8>,
    pub(super) len: usize,
    /// The provided buffer to give back; `None` with single receives.
    buffer: Option<u16>,
}

impl Transport {
    /// The next receive request of a connection.
    pub(super) fn recv_entry(&self, conn: &Conn) -> squeue::Entry {
        let entry = if self.recv_ring.is_some() {
            opcode::RecvMulti::new(conn.fd(), RECV_GROUP).build()
        } else {
            let buffer = self.arena.recv_buffer(u32::from(conn.index));
            opcode::Recv::new(
                conn.fd(),
                buffer.as_ptr(),
                self.arena.layout().recv_buffers.block_bytes as u32,
            )
            .build()
        };
        entry.user_data(conn.user_data(Op::Recv))
    }

    /// A receive completion: bytes, the end, or an errno.
    pub(super) fn handle_recv(&mut self, index: u16, completion: Completion) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        if !completion.has_more() {
            conn.recv = OpState::Idle;
        }
        match completion.result {
            1.. => self.handle_recv_bytes(index, completion),
            0 => {
                self.hand_back(completion.buffer());
                self.handle_recv_end(index, LostCause::PeerClosed)
            }
            ..0 => self.handle_recv_errno(index, -completion.result),
        }
    }

    fn handle_recv_bytes(&mut self, index: u16, completion: Completion) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        let buffer = completion.buffer();
        if !matches!(conn.phase, Phase::Open | Phase::Failing(_)) {
            self.hand_back(buffer);
            return self.settle(index);
        }
        if conn.recv == OpState::Idle {
            conn.recv = OpState::Wanted;
            self.list(index);
        }
        let Some(received) = self.locate(index, completion) else {
            // Bytes in no buffer of ours: no correct kernel says so, and the stream cannot go on
            // without them.
            return self.handle_recv_end(index, LostCause::Unexpected(Errno(0)));
        };
        self.stats.receives += 1;
        self.stats.receive_bytes += received.len as u64;
        self.received = Some(received);
        Some(Step::Received(ConnIndex(index), received))
    }

    /// Where the bytes of a completion are. `None` when it contradicts what was asked for.
    fn locate(&self, index: u16, completion: Completion) -> Option<Received> {
        let region = &self.arena.layout().recv_buffers;
        let len = usize::try_from(completion.result)
            .ok()
            .filter(|len| *len <= region.block_bytes)?;
        let buffer = completion.buffer();
        let block = match (&self.recv_ring, buffer) {
            (Some(_), Some(id)) if u32::from(id) < region.blocks => id,
            (None, None) => index,
            _ => return None,
        };
        Some(Received {
            base: self.arena.recv_buffer(u32::from(block)),
            len,
            buffer,
        })
    }

    fn handle_recv_errno(&mut self, index: u16, errno: i32) -> Option<Step> {
        match errno::on_recv(errno) {
            OnRecv::NoBuffer => {
                self.stats.receive_buffers_empty += 1;
                self.receive_again(index)
            }
            OnRecv::Again => self.receive_again(index),
            OnRecv::Lost(cause) => self.handle_recv_end(index, cause),
        }
    }

    fn receive_again(&mut self, index: u16) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        if matches!(conn.phase, Phase::Open | Phase::Failing(_)) && conn.recv == OpState::Idle {
            conn.recv = OpState::Wanted;
            self.list(index);
            return None;
        }
        self.settle(index)
    }

    fn handle_recv_end(&mut self, index: u16, cause: LostCause) -> Option<Step> {
        match self.conns[usize::from(index)].phase {
            Phase::Open => self.begin_close(index, cause),
            // After our own shutdown the receive ends like an orderly end, which says nothing. Its
            // errno may say more than that of the write.
            Phase::Failing(LostCause::Broken) if cause != LostCause::PeerClosed => {
                self.begin_close(index, cause);
            }
            Phase::Failing(first_cause) => self.begin_close(index, first_cause),
            _ => {}
        }
        self.settle(index)
    }

    /// Takes back what the driver has seen.
    pub(super) fn recycle_received(&mut self) {
        if let Some(received) = self.received.take() {
            self.hand_back(received.buffer);
        }
    }

    pub(super) fn hand_back(&mut self, buffer: Option<u16>) {
        if let (Some(ring), Some(id)) = (&mut self.recv_ring, buffer) {
            ring.hand_over(id);
        }
    }
}
