//! The kernel of an application: connections, writes that are taken piece by piece, bytes that
//! arrive.
//!
//! Invariant: a connection's events reach the shard in the order in which they happened, and
//! nothing of a life that is over reaches the next one.

use super::app::Socket;
use super::{Event, Line, World};
use crate::faults::Fault;
use crate::network::Towards;
use crate::oracle::Kind;
use ringmain_wire::frame::FrameDecoder;

impl World {
    fn line(&self, app: usize, conn: usize) -> Line {
        let life = self.apps[app].conns[conn].life;
        Line { app, conn, life }
    }

    /// The socket of a line; `None` when its life is over.
    fn socket(&self, line: Line) -> Option<Socket> {
        let conn = &self.apps[line.app].conns[line.conn];
        (conn.life == line.life).then_some(conn.socket)
    }

    fn set_socket(&mut self, line: Line, socket: Socket) {
        self.apps[line.app].conns[line.conn].socket = socket;
    }

    pub(super) fn connect(&mut self, app: usize, conn: usize) {
        self.trace.note(self.queue.now_us(), || {
            format!("app {app}: connects connection {conn}")
        });
        let it = &mut self.apps[app].conns[conn];
        it.life += 1;
        it.socket = Socket::Connecting;
        it.tap = FrameDecoder::new();
        it.evicted = false;
        if self.faults.fires(Fault::ConnectStalled, None) {
            return;
        }
        let accepted = !self.faults.fires(Fault::ConnectRefused, None);
        let delay_us = self.network.latency_us();
        let line = self.line(app, conn);
        let connected = Event::Connected { line, accepted };
        self.queue.push_after(delay_us, connected);
    }

    pub(super) fn connected(&mut self, line: Line, accepted: bool) {
        if self.socket(line) != Some(Socket::Connecting) {
            return;
        }
        let Line { app, conn, .. } = line;
        let now_us = self.queue.now_us();
        if accepted && !self.broker.is_down() {
            let client = self.apps[app].first_client + conn;
            let net = self.network.open(client);
            self.with_broker(|broker, env| broker.accept(env, net));
            self.trace.note(now_us, || {
                format!("client {client}: connection {net} is up")
            });
            self.set_socket(line, Socket::Up { net });
            self.apps[app].driver(|driver| driver.connected(conn));
        } else {
            self.trace.note(now_us, || {
                format!("app {app}: connection {conn} is refused")
            });
            self.set_socket(line, Socket::Idle);
            self.apps[app].driver(|driver| driver.connect_failed(conn));
        }
        self.look_after(app);
    }

    /// The shard gives a connection up. Part of a write in flight may still go out.
    pub(super) fn close(&mut self, app: usize, conn: usize) {
        self.trace.note(self.queue.now_us(), || {
            format!("app {app}: closes connection {conn}")
        });
        let line = self.line(app, conn);
        match self.apps[app].conns[conn].socket {
            Socket::Up { net } => {
                let is_writing = self.bytes_left(line) > 0;
                if is_writing && self.faults.fires(Fault::ResetDuringWrite, None) {
                    self.write_part(line, net);
                }
                let now_us = self.queue.now_us();
                let ending = self.network.close_by_client(now_us, &mut self.faults, net);
                self.queue
                    .push(ending.server_us, Event::ServerHangup { conn: net });
                self.end_socket(line);
            }
            Socket::Connecting => self.end_socket(line),
            Socket::Idle | Socket::Ending => {}
        }
    }

    /// A connection ends; the kernel may take a while to let go of its writes.
    fn end_socket(&mut self, line: Line) {
        let is_writing = self.apps[line.app].driver(|driver| driver.is_writing(line.conn));
        self.set_socket(line, Socket::Ending);
        let delay_us = if is_writing == Some(true) {
            self.network.write_us() * 4
        } else {
            0
        };
        self.queue.push_after(delay_us, Event::Torn { line });
    }

    pub(super) fn torn(&mut self, line: Line) {
        if self.socket(line) != Some(Socket::Ending) {
            return;
        }
        self.set_socket(line, Socket::Idle);
        self.apps[line.app].driver(|driver| driver.closed(line.conn));
        self.look_after(line.app);
    }

    /// The line of a connection of the network, if it is still up.
    fn line_of(&self, net: usize) -> Option<Line> {
        let client = self.network.client(net);
        let mut apps = self.apps.iter();
        let app = apps.rposition(|app| app.first_client <= client)?;
        let line = self.line(app, client - self.apps[app].first_client);
        (self.socket(line) == Some(Socket::Up { net })).then_some(line)
    }

    pub(super) fn client_bytes(&mut self, net: usize) {
        let now_us = self.queue.now_us();
        while let Some(bytes) = self.network.receive(now_us, net, Towards::Client) {
            if let Some(line) = self.line_of(net) {
                self.apps[line.app].driver(|driver| driver.received(line.conn, bytes));
                self.look_after(line.app);
            }
        }
    }

    pub(super) fn client_hangup(&mut self, net: usize) {
        self.client_bytes(net);
        let Some(line) = self.line_of(net) else {
            return;
        };
        let Line { app, conn, .. } = line;
        self.trace.note(self.queue.now_us(), || {
            format!("app {app}: connection {net} is gone")
        });
        self.apps[app].driver(|driver| driver.ending(conn));
        self.end_socket(line);
    }

    fn bytes_left(&self, line: Line) -> usize {
        let left = self.apps[line.app].driver(|driver| driver.bytes_left(line.conn));
        left.unwrap_or_default()
    }

    /// The kernel will take something of the youngest write.
    pub(super) fn schedule_take(&mut self, app: usize, conn: usize) {
        let mut delay_us = self.network.write_us();
        if self.faults.fires(Fault::WriteStalled, None) {
            delay_us += self.faults.rng().scaled(10_000, 8_000_000);
        }
        let line = self.line(app, conn);
        self.queue.push_after(delay_us, Event::Taken { line });
    }

    pub(super) fn taken(&mut self, line: Line) {
        // A write on a connection that is over never completes: it ends with the connection.
        let Some(Socket::Up { net }) = self.socket(line) else {
            return;
        };
        let left = self.bytes_left(line);
        if left == 0 || !self.network.is_open(net) {
            return;
        }
        if self.faults.fires(Fault::ResetDuringWrite, None) {
            self.write_part(line, net);
            return self.reset(net);
        }
        let count = self.network.write_progress(&mut self.faults, left);
        let Line { app, conn, .. } = line;
        let taken = self.apps[app].driver(|driver| driver.take(conn, count));
        let Some(taken) = taken else { return };
        if taken.is_torn {
            self.oracle.blame(Kind::FreedWhileWriting, || {
                format!("app {app}: the memory of a write on connection {net} has changed")
            });
        }
        if count < left {
            self.schedule_take(app, conn);
        } else {
            match self.network.hold_us() {
                0 => self.freed(line),
                hold_us => self.queue.push_after(hold_us, Event::Freed { line }),
            }
        }
        self.send_to_server(net, taken.bytes);
        self.look_after(app);
    }

    pub(super) fn freed(&mut self, line: Line) {
        // What a dead connection still held is released with it.
        if !matches!(self.socket(line), Some(Socket::Up { .. })) {
            return;
        }
        self.apps[line.app].driver(|driver| {
            if driver.held(line.conn) > 0 {
                driver.free_oldest(line.conn);
            }
        });
        self.look_after(line.app);
    }

    /// The kernel sends a part of what is left, and nobody hears of it.
    fn write_part(&mut self, line: Line, net: usize) {
        let left = self.bytes_left(line);
        let count = self.faults.rng().between(0, left as u64) as usize;
        let bytes = self.apps[line.app].driver(|driver| driver.peek(line.conn, count));
        self.send_to_server(net, bytes.unwrap_or_default());
    }

    fn send_to_server(&mut self, net: usize, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let arrivals = self.network.send(
            self.queue.now_us(),
            &mut self.faults,
            net,
            Towards::Server,
            bytes,
        );
        for at_us in arrivals {
            self.queue.push(at_us, Event::ServerBytes { conn: net });
        }
    }
}
