//! The write side: gathering, the three paths, short writes, notifications.
//!
//! One operation is in flight for each socket, of its youngest write. What it did not take is
//! offered again from that byte on. A write is done when its last byte is with the kernel and every
//! zero-copy notification of it has come; writes are reported in their order.

use std::ops::Range;

use bytes::Bytes;
use io_uring::{opcode, squeue};

use super::conn::{OpState, Phase};
use super::registration::ARENA_BUFFER;
use super::{ConnIndex, Errno, Event, LostCause, Step, Transport};
use crate::driver;
use crate::driver::{CarriedBy, Traffic};
use crate::memory::SlotToken;
use crate::ring::{Completion, Op};
use crate::socket;
use crate::socket::errno::{self, OnWrite, REFUSALS_MAX};
use crate::socket::write_queue::WriteQueue;

/// Zero-copy operations of one connection whose notifications may be due at once. A write that is
/// cut into more goes on by `sendmsg` until some have come; each has its place in the completion
/// queue.
pub(super) const NOTIFICATIONS_MAX: u32 = 16;
/// Ask the kernel to say whether zero copy copied (`IORING_SEND_ZC_REPORT_USAGE`, Linux 6.2).
const REPORT_USAGE: u16 = 1 << 3;
/// Its answer: it did (`IORING_NOTIF_USAGE_ZC_COPIED`).
const USAGE_COPIED: u32 = 1 << 31;

/// A write of a connection being put together, in the tables of that connection.
pub struct Gather<'t> {
    transport: &'t mut Transport,
    conn: ConnIndex,
    is_submitted: bool,
}

impl driver::Gather for Gather<'_> {
    fn room_pieces(&self) -> usize {
        self.queue().room_pieces()
    }

    fn bytes(&self) -> u64 {
        self.queue().bytes()
    }

    fn push_slot(&mut self, token: &SlotToken, range: Range<usize>) {
        let transport = &mut *self.transport;
        let queue = &mut transport.conns[usize::from(self.conn.0)]
            .writes
            .next()
            .queue;
        let mapping = transport.arena.mapping();
        queue.push_range(mapping, token, range, transport.registered_bytes);
    }

    fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.transport.conns[usize::from(self.conn.0)]
                .writes
                .next()
                .queue
                .push_bytes(bytes);
        }
    }

    fn submit(mut self) {
        self.is_submitted = true;
        let index = self.conn.0;
        let transport = &mut *self.transport;
        let conn = &mut transport.conns[usize::from(index)];
        let queue = &conn.writes.next().queue;
        let is_large = queue.bytes() >= u64::from(transport.zero_copy_bytes_min);
        let traffic = Traffic::of(is_large, queue.is_registered());
        let is_measured = transport.trials[traffic as usize].decided().is_none();
        if is_measured {
            transport.meter.begin();
        }
        conn.writes.begin(traffic, is_measured);
        conn.write = OpState::Wanted;
        transport.stats.writes += 1;
        transport.list(index);
    }
}

impl Gather<'_> {
    fn queue(&self) -> &WriteQueue {
        &self.transport.conns[usize::from(self.conn.0)]
            .writes
            .peek_next()
            .queue
    }
}

impl Drop for Gather<'_> {
    fn drop(&mut self) {
        if !self.is_submitted {
            let conn = &mut self.transport.conns[usize::from(self.conn.0)];
            conn.writes
                .next()
                .queue
                .clear(self.transport.arena.mapping());
        }
    }
}

impl Transport {
    /// Begins a write. `None` when the connection is not open, the kernel has not taken all bytes
    /// of the write before, or [`writes_max`](super::TransportConfig::writes_max) writes are not
    /// done yet.
    pub(super) fn begin_gather(&mut self, conn: ConnIndex) -> Option<Gather<'_>> {
        let this = &mut self.conns[usize::from(conn.0)];
        if !this.can_write() {
            return None;
        }
        // Not empty only when an earlier gather was leaked.
        this.writes.next().queue.clear(self.arena.mapping());
        Some(Gather {
            transport: self,
            conn,
            is_submitted: false,
        })
    }

    /// True exactly when [`gather`](crate::driver::Driver::gather) would give `Some`.
    pub fn can_write(&self, conn: ConnIndex) -> bool {
        self.conns[usize::from(conn.0)].can_write()
    }

    /// The next operation of a connection's youngest write.
    pub(super) fn write_entry(&mut self, index: u16) -> squeue::Entry {
        let features = self.ring.features();
        let conn = &mut self.conns[usize::from(index)];
        let (fd, user_data) = (conn.fd(), conn.user_data(Op::Write));
        let notifications_full = conn.notifications_in_flight == NOTIFICATIONS_MAX;
        let write = conn.writes.youngest().expect("a write is wanted");
        conn.carried_by = match self.trials[write.traffic as usize].path() {
            _ if write.plain_only => CarriedBy::SendMsg,
            CarriedBy::SendZc if notifications_full => CarriedBy::SendMsg,
            path => path,
        };
        let window = write.queue.window();
        conn.offered_bytes = window.bytes;
        // One notification for each write instead of one for each piece the socket takes. Not for
        // plain sends: a send that waits for all hides the errno that cut it short, and coming back
        // costs those next to nothing.
        let wait_all = if features.send_zc_wait_all {
            libc::MSG_WAITALL
        } else {
            0
        };
        let entry = match conn.carried_by {
            CarriedBy::WritevFixed => {
                opcode::WritevFixed::new(fd, window.iovecs, window.len, ARENA_BUFFER).build()
            }
            CarriedBy::SendMsg => opcode::SendMsg::new(fd, write.queue.message(&window))
                .flags(libc::MSG_NOSIGNAL as u32)
                .build(),
            CarriedBy::SendZc => {
                let fixed = features.vectored_fixed && write.traffic.is_registered();
                opcode::SendMsgZc::new(fd, write.queue.message(&window))
                    .flags((libc::MSG_NOSIGNAL | wait_all) as u32)
                    .ioprio(REPORT_USAGE)
                    .buf_index(fixed.then_some(ARENA_BUFFER))
                    .build()
            }
        };
        entry.user_data(user_data)
    }

    /// The kernel is done with the memory of one zero-copy operation.
    pub(super) fn handle_notification(
        &mut self,
        index: u16,
        number: u8,
        completion: Completion,
    ) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        let Some(write) = conn
            .writes
            .numbered(number)
            .filter(|write| write.notifications_in_flight > 0)
        else {
            return self.handle_stale(completion);
        };
        write.notifications_in_flight -= 1;
        conn.notifications_in_flight -= 1;
        self.stats.zero_copy_notifications += 1;
        self.stats.zero_copy_copied += u64::from(completion.result as u32 & USAGE_COPIED != 0);
        self.retire_write(index)
    }

    /// The operation of the youngest write is home.
    pub(super) fn handle_write(&mut self, index: u16, completion: Completion) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        let write = conn
            .writes
            .youngest()
            .expect("an operation in flight belongs to a write");
        conn.write = OpState::Idle;
        // Only a zero-copy send announces more: its notification. It may do so even when it failed.
        write.notifications_in_flight += u32::from(completion.has_more());
        conn.notifications_in_flight += u32::from(completion.has_more());
        let path = conn.carried_by as usize;
        self.stats.write_operations[path] += 1;
        let Ok(taken) = u64::try_from(completion.result) else {
            return self.handle_write_errno(index, -completion.result);
        };
        if taken > conn.offered_bytes || taken == 0 {
            // No correct kernel answers so; believing it would corrupt the stream or never end.
            return self.fail_write(index, LostCause::Unexpected(Errno(0)));
        }
        write.queue.advance(taken);
        write.refusals = 0;
        self.stats.write_bytes[path] += taken;
        self.stats.short_writes += u64::from(taken < conn.offered_bytes);
        if self.meter.is_running() {
            self.meter.carried(write.traffic, conn.carried_by, taken);
        }
        if write.queue.is_done() || conn.phase != Phase::Open {
            return self.retire_write(index);
        }
        conn.write = OpState::Wanted;
        self.list(index);
        None
    }

    /// Reports the oldest write if it is done: every byte is with the kernel and no notification is
    /// due.
    pub(super) fn retire_write(&mut self, index: u16) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        if conn.phase != Phase::Open {
            return self.settle(index);
        }
        if !conn.writes.is_oldest_done() {
            return None;
        }
        let was_measured = conn.writes.retire_oldest(self.arena.mapping());
        self.meter.end(u32::from(was_measured));
        // Those behind it may have been done before; they are reported before anything else is
        // looked at.
        self.retiring = conn.writes.is_oldest_done().then_some(index);
        Some(Step::Event(Event::WriteDone {
            conn: ConnIndex(index),
        }))
    }

    fn handle_write_errno(&mut self, index: u16, errno: i32) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        if conn.phase != Phase::Open {
            // Failing or closing: ECANCELED, EPIPE or whatever came first. It changes nothing any
            // more.
            return self.settle(index);
        }
        let path = conn.carried_by;
        let write = conn
            .writes
            .youngest()
            .expect("an operation in flight belongs to a write");
        match errno::on_write(errno, path) {
            OnWrite::LeavePath => {
                crate::log!(
                    warn,
                    path = path.name(),
                    errno,
                    "the kernel refuses this write path; it is not used again"
                );
                self.trials.iter_mut().for_each(|trial| trial.refuse(path));
                self.write_again_plainly(index)
            }
            OnWrite::Plainly => self.write_again_plainly(index),
            OnWrite::Again(cause) => {
                write.refusals += 1;
                if write.refusals > REFUSALS_MAX {
                    return self.fail_write(index, cause);
                }
                conn.write = OpState::Wanted;
                self.list(index);
                None
            }
            OnWrite::Lost(cause) => self.fail_write(index, cause),
        }
    }

    fn write_again_plainly(&mut self, index: u16) -> Option<Step> {
        self.stats.write_fallbacks += 1;
        let conn = &mut self.conns[usize::from(index)];
        conn.writes
            .youngest()
            .expect("the write that was refused")
            .plain_only = true;
        conn.write = OpState::Wanted;
        self.list(index);
        None
    }

    /// The socket takes no more. What the peer said before is still delivered: after the shutdown
    /// the receive gives what has arrived, then the end, and that end closes the connection.
    fn fail_write(&mut self, index: u16, cause: LostCause) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        if conn.phase != Phase::Open {
            return self.settle(index);
        }
        assert!(
            conn.recv != OpState::Idle,
            "an open connection always receives"
        );
        conn.phase = Phase::Failing(cause);
        socket::shutdown(
            conn.socket
                .as_ref()
                .expect("an open connection has a socket"),
        );
        None
    }
}
