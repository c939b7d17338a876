//! What happens at the clients: the driver contract, played in virtual time.
//!
//! Role: feeds a client what its driver would, drains it after each input, and shows the oracle both sides.
//! Invariant: no input reaches a client that is paused; it waits, as for a thread that is not scheduled.

use super::{Event, World};
use crate::codec;
use crate::driver::Socket;
use crate::faults::Fault;
use crate::memory::Write;
use crate::network::Towards;
use crate::oracle::Kind;
use ringmain_proto::{
    BatchKey, ConnectionAction, DriverError, Frame, Outcome, Receipt, Reply, ReplyMatch, Transmit,
    Verdict,
};
use ringmain_wire::frame::{FrameDecoder, Inbound};
use ringmain_wire::{EvictionReason, Operation};

/// Inputs that one drain may need before it counts as going in circles.
const TURNS_MAX: usize = 10_000;

impl World {
    /// Puts an event off if its client is not scheduled now. Gives it back otherwise.
    fn scheduled(&mut self, client: usize, event: Event) -> Option<Event> {
        let paused_us = self.drivers[client].paused_us;
        if paused_us <= self.now_us() {
            return Some(event);
        }
        self.queue.push(paused_us, event);
        None
    }

    pub(super) fn wake(&mut self, client: usize) {
        if self.drivers[client]
            .wake_us
            .is_some_and(|wake_us| wake_us <= self.now_us())
        {
            self.drivers[client].wake_us = None;
        }
        if self.scheduled(client, Event::Wake { client }).is_some() {
            self.drain(client);
        }
    }

    pub(super) fn connected(&mut self, client: usize, attempt: u64, accepted: bool) {
        if self
            .scheduled(
                client,
                Event::Connected {
                    client,
                    attempt,
                    accepted,
                },
            )
            .is_none()
        {
            return;
        }
        if self.drivers[client].socket != (Socket::Connecting { attempt }) {
            return;
        }
        let clock = self.drivers[client].clock(self.now_us());
        let told = if accepted && !self.broker.is_down() {
            let conn = self.network.open(client);
            self.with_broker(|broker, env| broker.accept(env, conn));
            self.trace.note(self.queue.now_us(), || {
                format!("client {client}: connection {conn} is up")
            });
            let driver = &mut self.drivers[client];
            driver.socket = Socket::Up { conn };
            driver.decoder = FrameDecoder::new();
            driver.client.handle_connected(clock)
        } else {
            self.trace.note(self.queue.now_us(), || {
                format!("client {client}: connection refused")
            });
            self.drivers[client].socket = Socket::Idle;
            self.drivers[client].client.handle_disconnected(clock)
        };
        self.told(client, told);
        self.drain(client);
    }

    /// A client must take what did happen.
    fn told(&mut self, client: usize, answer: Result<(), DriverError>) {
        if let Err(error) = answer {
            self.oracle.blame(Kind::DriverRefused, || {
                format!("client {client} says: {error}")
            });
        }
    }

    pub(super) fn client_hangup(&mut self, conn: usize) {
        let client = self.network.client(conn);
        if self
            .scheduled(client, Event::ClientHangup { conn })
            .is_none()
        {
            return;
        }
        self.client_bytes(conn);
        if self.drivers[client].socket == (Socket::Up { conn }) {
            self.trace.note(self.queue.now_us(), || {
                format!("client {client}: connection {conn} is gone")
            });
            self.end_socket(client, Some(conn));
        }
    }

    /// The connection ends; the kernel may take a while to let go of a write.
    fn end_socket(&mut self, client: usize, conn: Option<usize>) {
        let driver = &self.drivers[client];
        let writing = driver.write.is_some() || !driver.held.is_empty();
        self.drivers[client].socket = Socket::Ending { conn };
        let delay_us = if writing {
            self.network.write_us() * 4
        } else {
            0
        };
        self.queue.push_after(delay_us, Event::Torn { client });
    }

    pub(super) fn torn(&mut self, client: usize) {
        if self.scheduled(client, Event::Torn { client }).is_none() {
            return;
        }
        let now_us = self.now_us();
        let driver = &mut self.drivers[client];
        driver.socket = Socket::Idle;
        driver.write = None;
        driver.held.clear();
        let told = driver.client.handle_disconnected(driver.clock(now_us));
        self.told(client, told);
        self.drain(client);
    }

    pub(super) fn client_bytes(&mut self, conn: usize) {
        let client = self.network.client(conn);
        if self
            .scheduled(client, Event::ClientBytes { conn })
            .is_none()
        {
            return;
        }
        while let Some(bytes) = self
            .network
            .receive(self.queue.now_us(), conn, Towards::Client)
        {
            self.decode(client, conn, &bytes);
        }
    }

    fn decode(&mut self, client: usize, conn: usize, mut input: &[u8]) {
        let mut decoder = std::mem::take(&mut self.drivers[client].decoder);
        while self.drivers[client].socket == (Socket::Up { conn }) {
            match decoder.next_inbound(&mut input) {
                Ok(Some(inbound)) => self.inbound(client, &inbound),
                Ok(None) => break,
                Err(error) => {
                    self.oracle
                        .blame(Kind::Corrupt, || format!("a frame of the broker: {error}"));
                    break;
                }
            }
        }
        self.drivers[client].decoder = decoder;
    }

    fn inbound(&mut self, client: usize, inbound: &Inbound<'_>) {
        let now_us = self.now_us();
        let clock = self.drivers[client].clock(now_us);
        match inbound {
            Inbound::Reply(reply) => match Reply::decode(reply) {
                Ok((reply, payload)) => self.reply(client, &reply, payload),
                Err(why) => self
                    .oracle
                    .blame(Kind::Corrupt, || format!("a reply of the broker: {why}")),
            },
            Inbound::Eviction(eviction) => {
                let reason = eviction.reason();
                self.trace
                    .note(now_us, || format!("client {client} <- eviction: {reason}"));
                if reason == EvictionReason::NoSession {
                    self.oracle.told_forgotten(client);
                }
                self.drivers[client].client.handle_eviction(clock, reason);
            }
            Inbound::Foreign { command, .. } => {
                self.oracle.blame(Kind::Corrupt, || {
                    format!("the broker sent command {command}")
                });
            }
        }
        self.drain(client);
    }

    fn reply(&mut self, client: usize, reply: &Reply, payload: &[u8]) {
        let now_us = self.now_us();
        self.trace
            .note(now_us, || format!("client {client} <- {reply:?}"));
        let driver = &mut self.drivers[client];
        let matched = driver.client.handle_reply(driver.clock(now_us), reply);
        if reply.operation == Operation::SendMessages {
            let clock_us = driver.clock(now_us).0;
            let is_stored = matches!(reply.verdict, Verdict::Confirmed { .. } | Verdict::Success);
            let batch = match matched {
                ReplyMatch::Batch(key) if is_stored => driver.slots.batch(key),
                _ => None,
            };
            self.oracle.heard(client, batch, clock_us);
        }
        if let (ReplyMatch::Login, Verdict::LoggedIn { session }) = (matched, reply.verdict) {
            self.oracle.logged_in(client, session);
        }
        if let ReplyMatch::Call {
            key,
            answered: true,
        } = matched
            && let Some(call) = &mut driver.calls[key.0 as usize]
        {
            call.echoed = codec::read_key(payload);
        }
    }

    /// Follows the driver contract: time, then outputs until there are none, then the next deadline.
    pub(super) fn drain(&mut self, client: usize) {
        let now_us = self.now_us();
        for turn in 0.. {
            let driver = &mut self.drivers[client];
            let clock = driver.clock(now_us);
            let due = driver
                .client
                .poll_deadline()
                .is_some_and(|deadline| deadline <= clock);
            if due {
                driver.client.handle_timeout(clock);
            }
            let moved = self.drain_outcomes(client)
                | self.drain_connection(client)
                | self.drain_writes(client);
            if self.oracle.violation().is_some() {
                return;
            }
            if !due && !moved {
                break;
            }
            if turn > TURNS_MAX {
                return self.oracle.blame(Kind::NotLive, || {
                    format!("client {client} is never done at {now_us}")
                });
            }
        }
        self.check(client);
        self.schedule_wake(client);
    }

    fn check(&mut self, client: usize) {
        let driver = &self.drivers[client];
        driver.client.check_invariants();
        self.oracle.check_account(client, driver.client.account());
        let clock = driver.clock(self.queue.now_us());
        self.oracle
            .check_overdue(client, clock.0, |batch| driver.is_batch_read(batch));
        self.show_end(client);
    }

    /// Tells the oracle why the client may answer without having tried.
    fn show_end(&mut self, client: usize) {
        let driver = &self.drivers[client];
        if driver.client.fatal().is_some() {
            self.oracle.failed(client);
        }
        if driver.is_exhausted() {
            self.oracle.exhausted(client);
        }
    }

    fn schedule_wake(&mut self, client: usize) {
        let driver = &mut self.drivers[client];
        let Some(deadline) = driver.client.poll_deadline() else {
            return;
        };
        if deadline == ringmain_proto::Micros::MAX {
            return;
        }
        let at_us = driver.instant_us(deadline).max(self.queue.now_us());
        if driver.wake_us.is_none_or(|wake_us| at_us < wake_us) {
            driver.wake_us = Some(at_us);
            self.queue.push(at_us, Event::Wake { client });
        }
    }

    fn drain_connection(&mut self, client: usize) -> bool {
        let now_us = self.now_us();
        let clock = self.drivers[client].clock(now_us);
        let Some(action) = self.drivers[client].client.poll_connection(clock) else {
            return false;
        };
        self.trace
            .note(now_us, || format!("client {client}: {action:?}"));
        match (action, self.drivers[client].socket) {
            (ConnectionAction::Connect, Socket::Idle) => self.connect(client),
            (ConnectionAction::Disconnect, Socket::Connecting { .. }) => {
                self.end_socket(client, None);
            }
            (ConnectionAction::Disconnect, Socket::Up { conn }) => self.close_socket(client, conn),
            (ConnectionAction::Disconnect, Socket::Ending { .. }) => {}
            (action, socket) => {
                self.oracle.blame(Kind::DriverRefused, || {
                    format!("client {client} wants {action:?} while {socket:?}")
                });
            }
        }
        true
    }

    fn connect(&mut self, client: usize) {
        let driver = &mut self.drivers[client];
        driver.attempts += 1;
        let attempt = driver.attempts;
        driver.socket = Socket::Connecting { attempt };
        if self.faults.fires(Fault::ConnectStalled, None) {
            return;
        }
        let accepted = !self.faults.fires(Fault::ConnectRefused, None);
        let delay_us = self.network.latency_us();
        self.queue.push_after(
            delay_us,
            Event::Connected {
                client,
                attempt,
                accepted,
            },
        );
    }

    /// The client closes. Part of a write in flight may still go out.
    fn close_socket(&mut self, client: usize, conn: usize) {
        if self.drivers[client].write.is_some() && self.faults.fires(Fault::ResetDuringWrite, None)
        {
            self.write_part(client, conn);
        }
        let ending = self
            .network
            .close_by_client(self.queue.now_us(), &mut self.faults, conn);
        self.queue
            .push(ending.server_us, Event::ServerHangup { conn });
        self.end_socket(client, Some(conn));
    }

    /// Starts a write with all frames that are ready, if the socket takes one.
    fn drain_writes(&mut self, client: usize) -> bool {
        let Socket::Up { conn } = self.drivers[client].socket else {
            return false;
        };
        if self.drivers[client].write.is_some() {
            return false;
        }
        let mut write = Write::default();
        for _ in 0..self.network.frames_max() {
            let driver = &mut self.drivers[client];
            let Some(transmit) = driver
                .client
                .poll_transmit(driver.clock(self.queue.now_us()))
            else {
                break;
            };
            write.push(driver.frame(&transmit));
            self.show_transmit(client, conn, &transmit);
        }
        if write.is_done() {
            return false;
        }
        self.drivers[client].write = Some(write);
        self.schedule_write(client, conn);
        true
    }

    fn show_transmit(&mut self, client: usize, conn: usize, transmit: &Transmit) {
        let driver = &self.drivers[client];
        match *transmit {
            Transmit::Batch { key, request, .. } => {
                let batch = driver.slots.batch(key);
                self.trace.note(self.queue.now_us(), || {
                    format!("client {client} -> batch {batch:?} {transmit:?}")
                });
                match batch {
                    Some(batch) => {
                        let clock_us = driver.clock(self.queue.now_us()).0;
                        self.oracle.sent(conn, batch, request, clock_us);
                    }
                    None => self.oracle.blame(Kind::FreedWhileWriting, || {
                        format!("{key:?} is sent after its answer")
                    }),
                }
            }
            Transmit::Call { key, request, .. } => {
                let call = driver.calls[key.0 as usize].map(|call| call.key);
                self.trace.note(self.queue.now_us(), || {
                    format!("client {client} -> call {call:?} {transmit:?}")
                });
                self.oracle.call_sent(call.unwrap_or_default(), request);
            }
            Transmit::Login | Transmit::Ping { .. } | Transmit::Logout { .. } => {
                self.trace.note(self.queue.now_us(), || {
                    format!("client {client} -> {transmit:?}")
                });
            }
        }
    }

    fn schedule_write(&mut self, client: usize, conn: usize) {
        let mut delay_us = self.network.write_us();
        if self.faults.fires(Fault::WriteStalled, None) {
            delay_us += self.faults.rng().scaled(10_000, 8_000_000);
        }
        self.queue
            .push_after(delay_us, Event::Written { client, conn });
    }

    pub(super) fn written(&mut self, client: usize, conn: usize) {
        if self
            .scheduled(client, Event::Written { client, conn })
            .is_none()
        {
            return;
        }
        // A write on a connection that is over never completes: it ends with the connection.
        if self.drivers[client].socket != (Socket::Up { conn }) || !self.network.is_open(conn) {
            return;
        }
        if self.faults.fires(Fault::ResetDuringWrite, None) {
            self.write_part(client, conn);
            return self.reset(conn);
        }
        let Some(write) = &self.drivers[client].write else {
            return;
        };
        let count = self
            .network
            .write_progress(&mut self.faults, write.bytes_left());
        self.write_bytes(client, conn, count);
        self.drain(client);
    }

    /// The kernel sends a part of what is left, and nobody hears of it.
    fn write_part(&mut self, client: usize, conn: usize) {
        let driver = &self.drivers[client];
        let Some(write) = &driver.write else { return };
        let count = self.faults.rng().between(0, write.bytes_left() as u64) as usize;
        let bytes = write.peek(&driver.slots, count);
        self.send_to_server(conn, bytes);
    }

    fn write_bytes(&mut self, client: usize, conn: usize, count: usize) {
        let now_us = self.now_us();
        let driver = &mut self.drivers[client];
        let clock = driver.clock(now_us);
        let Some(write) = &mut driver.write else {
            return;
        };
        let (bytes, finished) = write.take(&driver.slots, count);
        let done = write.is_done();
        driver.client.handle_write_progress(clock);
        if done {
            driver.write = None;
        }
        driver.held.extend(&finished);
        for frame in finished {
            match self.network.hold_us() {
                0 => self.release(client, frame),
                hold_us => {
                    let released = Event::Released {
                        client,
                        conn,
                        frame,
                    };
                    self.queue.push_after(hold_us, released);
                }
            }
        }
        self.send_to_server(conn, bytes);
        if !done {
            self.schedule_write(client, conn);
        }
    }

    pub(super) fn released(&mut self, client: usize, conn: usize, frame: Frame) {
        let released = Event::Released {
            client,
            conn,
            frame,
        };
        if self.scheduled(client, released).is_none() {
            return;
        }
        // What a dead connection still held is released with it.
        if self.drivers[client].socket == (Socket::Up { conn }) {
            self.release(client, frame);
            self.drain(client);
        }
    }

    fn release(&mut self, client: usize, frame: Frame) {
        let now_us = self.now_us();
        self.trace
            .note(now_us, || format!("client {client}: written {frame:?}"));
        let driver = &mut self.drivers[client];
        driver.release(frame);
        let told = driver.client.handle_written(driver.clock(now_us), frame);
        self.told(client, told);
    }

    fn send_to_server(&mut self, conn: usize, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let arrivals = self.network.send(
            self.queue.now_us(),
            &mut self.faults,
            conn,
            Towards::Server,
            bytes,
        );
        for at_us in arrivals {
            self.queue.push(at_us, Event::ServerBytes { conn });
        }
    }

    fn drain_outcomes(&mut self, client: usize) -> bool {
        let mut moved = false;
        self.show_end(client);
        while let Some(outcome) = self.drivers[client].client.poll_outcome() {
            moved = true;
            match outcome {
                Outcome::Batch { key, receipt, .. } => self.batch_resolved(client, key, receipt),
                Outcome::Call { key, answer } => {
                    let clock = self.drivers[client].clock(self.queue.now_us());
                    self.trace.note(self.queue.now_us(), || {
                        format!("client {client}: {key:?} {answer:?}")
                    });
                    match self.drivers[client].calls[key.0 as usize].take() {
                        Some(call) => {
                            self.oracle
                                .call_resolved(clock.0, call.key, answer, call.echoed);
                        }
                        None => self
                            .oracle
                            .blame(Kind::ReceiptTwice, || format!("{key:?} was answered again")),
                    }
                }
            }
        }
        moved
    }

    fn batch_resolved(&mut self, client: usize, key: BatchKey, receipt: Receipt) {
        let driver = &mut self.drivers[client];
        let clock = driver.clock(self.queue.now_us());
        let writing = driver.is_read(key);
        let batch = driver.slots.release(key);
        self.trace.note(self.queue.now_us(), || {
            format!("client {client}: batch {batch:?} {key:?} {receipt:?}")
        });
        match batch {
            Some(batch) => self.oracle.resolved(clock.0, batch, receipt, writing),
            None => self.oracle.blame(Kind::ReceiptTwice, || {
                format!("{key:?} was answered again: {receipt:?}")
            }),
        }
    }
}
