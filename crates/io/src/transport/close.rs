//! Closing: cancel, wait until nothing is in flight in either direction, close the socket, wait for
//! notifications, then tell the driver. And the same for everything at the end.

use std::mem;
use std::time::{Duration, Instant};

use super::conn::{OpState, Phase};
use super::{ConnIndex, Driver, Event, LostCause, Step, Transport, registration};
use crate::ring::{Completion, Op, UserData};
use crate::socket;

/// How long a transport that is dropped waits for its operations to come home. Cancellation takes
/// microseconds; this is for a machine that is swapping or stopped.
const TEARDOWN_MAX: Duration = Duration::from_secs(10);
/// One wait of the teardown.
const TEARDOWN_STEP: Duration = Duration::from_millis(100);

impl Transport {
    /// What is in flight is cancelled, then comes [`Event::Closed`]. Bytes written before are still
    /// sent, unless a write is in flight or bytes of the peer lie unread in the kernel.
    pub(super) fn give_up(&mut self, conn: ConnIndex) {
        match self.conns[usize::from(conn.0)].phase {
            Phase::Connecting | Phase::Open | Phase::Failing(_) => {
                self.begin_close(conn.0, LostCause::Local);
                if self.conns[usize::from(conn.0)].is_home() {
                    self.ready.push_back(conn.0);
                }
            }
            Phase::Free | Phase::Closing(_) | Phase::Refused(_) => {}
        }
    }

    /// Withdraws what is not with the kernel yet and asks for the cancellation of what is.
    pub(super) fn begin_close(&mut self, index: u16, cause: LostCause) {
        let conn = &mut self.conns[usize::from(index)];
        conn.phase = Phase::Closing(cause);
        for state in [&mut conn.connect, &mut conn.recv, &mut conn.write] {
            if *state == OpState::Wanted {
                *state = OpState::Idle;
            }
        }
        if !conn.writes.is_empty() {
            socket::reset_on_close(
                conn.socket
                    .as_ref()
                    .expect("a connection that writes has a socket"),
            );
        }
        if !conn.is_home() {
            self.list(index);
        }
    }

    /// A cancellation is home. It says that it found its target (0), found it running (`EALREADY`)
    /// or found it gone (`ENOENT`), or that it is of no use (`EINVAL`, `ENOMEM`): in each case the
    /// target's own completion decides.
    pub(super) fn handle_cancel(&mut self, index: u16, _: Completion) -> Option<Step> {
        self.conns[usize::from(index)].cancels_in_flight -= 1;
        self.settle(index)
    }

    /// Ends a connection that is on its way out as far as it is home: first the socket, then the
    /// connection.
    pub(super) fn settle(&mut self, index: u16) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        let (Phase::Closing(cause) | Phase::Refused(cause)) = conn.phase else {
            return None;
        };
        if !conn.is_home() {
            return None;
        }
        // The last reference: the kernel resets or finishes the connection now, and a reset is what
        // makes it give zero-copy memory back.
        conn.socket = None;
        if conn.notifications_in_flight > 0 {
            return None;
        }
        let has_refused = matches!(conn.phase, Phase::Refused(_));
        let write_progress_bytes = conn.writes.youngest().map(|write| write.queue.done_bytes());
        self.meter.end(conn.writes.abandon(self.arena.mapping()));
        conn.phase = Phase::Free;
        let conn = ConnIndex(index);
        Some(Step::Event(if has_refused {
            self.stats.connect_failures += 1;
            Event::ConnectFailed { conn, cause }
        } else {
            self.stats.closes += 1;
            Event::Closed {
                conn,
                cause,
                write_progress_bytes,
            }
        }))
    }

    /// Brings everything home. False when the kernel did not let go in time, or the ring broke.
    fn tear_down(&mut self) -> bool {
        let deadline = Instant::now() + TEARDOWN_MAX;
        while self.next_event().is_some() {}
        for index in 0..self.conns.len() as u16 {
            self.give_up(ConnIndex(index));
        }
        self.is_tearing_down = true;
        // Ends the read of the eventfd, which is not asked for again.
        self.wake.signal();
        loop {
            while self.next_event().is_some() {}
            let connections_free = self.conns.iter().all(|conn| conn.phase == Phase::Free);
            if connections_free && self.wake_read != OpState::InFlight {
                return true;
            }
            if Instant::now() >= deadline || self.turn(Some(TEARDOWN_STEP)).is_err() {
                return false;
            }
        }
    }
}

impl Drop for Transport {
    /// Nothing is in flight before any memory goes. Should the kernel not let go, the memory is
    /// leaked instead.
    fn drop(&mut self) {
        if self.tear_down() {
            registration::unregister(&self.ring);
            return;
        }
        crate::log!(
            error,
            "operations are still with the kernel at teardown; their memory is leaked on purpose"
        );
        self.arena.mapping().abandon();
        mem::forget(mem::take(&mut self.conns));
        mem::forget(mem::take(&mut self.wake_buffer));
    }
}

/// User data of the read that wakes the shard.
pub(super) const WAKE_USER_DATA: UserData = UserData {
    op: Op::Wake,
    write: 0,
    index: 0,
    generation: 0,
};
