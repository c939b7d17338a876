//! Connecting: a socket with its options, the connect in the ring, and what comes of it.

use std::net::SocketAddr;

use socket2::SockAddr;

use super::conn::{OpState, Phase};
use super::{ConnIndex, Event, LostCause, SocketOptions, Step, Transport};
use crate::ring::Completion;
use crate::socket::{self, errno};

impl Transport {
    /// Makes the socket, and notes the connect for the next turn.
    pub(super) fn begin_connect(
        &mut self,
        conn: ConnIndex,
        addr: SocketAddr,
        options: &SocketOptions,
    ) {
        let this = &mut self.conns[usize::from(conn.0)];
        assert!(this.phase == Phase::Free, "connection {conn} is in use");
        this.generation = this.generation.wrapping_add(1);
        match socket::open(addr, options) {
            Ok(socket) => {
                this.phase = Phase::Connecting;
                this.socket = Some(socket);
                this.address = Some(SockAddr::from(addr));
                this.connect = OpState::Wanted;
                self.list(conn.0);
            }
            Err(errno) => {
                this.phase = Phase::Refused(errno::on_connect(errno.0));
                self.ready.push_back(conn.0);
            }
        }
    }

    /// The connect is home.
    pub(super) fn handle_connect(&mut self, index: u16, completion: Completion) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        conn.connect = OpState::Idle;
        if conn.phase != Phase::Connecting {
            return self.settle(index);
        }
        let socket = conn.socket.as_ref().expect("a connecting socket is open");
        let cause = match -completion.result {
            // A connect the kernel repeated by itself may find that it has succeeded.
            ..=0 | libc::EISCONN if socket::is_connected_to_itself(socket) => LostCause::Refused,
            ..=0 | libc::EISCONN => {
                conn.phase = Phase::Open;
                conn.recv = OpState::Wanted;
                self.stats.connects += 1;
                self.list(index);
                return Some(Step::Event(Event::Connected {
                    conn: ConnIndex(index),
                }));
            }
            errno => errno::on_connect(errno),
        };
        conn.phase = Phase::Refused(cause);
        self.settle(index)
    }
}
