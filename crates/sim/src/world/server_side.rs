//! What happens at the server: bytes in, bytes out, and what the oracle learns of it.

use super::{Event, World};
use crate::broker::{Output, Timer};
use crate::network::Towards;
use crate::oracle::Kind;

impl World {
    /// Puts an event off if the server is not working now. Gives it back otherwise.
    fn serving(&mut self, event: Event) -> Option<Event> {
        if self.server_paused_us <= self.now_us() {
            return Some(event);
        }
        self.queue.push(self.server_paused_us, event);
        None
    }

    pub(super) fn server_bytes(&mut self, conn: usize) {
        let now_us = self.now_us();
        let stalled_us = self.network.stalled_us(conn);
        if stalled_us > now_us {
            return self.queue.push(stalled_us, Event::ServerBytes { conn });
        }
        if self.serving(Event::ServerBytes { conn }).is_none() {
            return;
        }
        while let Some(bytes) = self.network.receive(now_us, conn, Towards::Server) {
            self.with_broker(|broker, env| broker.received(env, conn, &bytes));
        }
    }

    pub(super) fn server_hangup(&mut self, conn: usize) {
        if self.serving(Event::ServerHangup { conn }).is_none() {
            return;
        }
        self.server_bytes(conn);
        self.trace.note(self.queue.now_us(), || {
            format!("server: connection {conn} is gone")
        });
        self.with_broker(|broker, _| broker.closed(conn));
    }

    pub(super) fn broker_timer(&mut self, timer: Timer) {
        if self.server_paused_us > self.now_us() {
            return self.queue.push(self.server_paused_us, Event::Broker(timer));
        }
        self.with_broker(|broker, env| broker.timer(env, timer));
    }

    /// Carries out what the broker wants.
    pub(super) fn server_outputs(&mut self) {
        for output in self.broker.take_outputs() {
            self.server_output(output);
        }
    }

    fn server_output(&mut self, output: Output) {
        let now_us = self.now_us();
        match &output {
            Output::Send { .. } | Output::Timer { .. } => {}
            other => self.trace.note(now_us, || format!("server: {other:?}")),
        }
        match output {
            Output::Send { conn, bytes } => self.send_to_client(conn, bytes),
            Output::Close { conn } => {
                if self.network.is_open(conn) {
                    let ending = self.network.close_by_server(now_us, conn);
                    self.queue
                        .push(ending.client_us, Event::ClientHangup { conn });
                }
            }
            Output::Reset { conn } => self.reset(conn),
            Output::Timer { delay_us, timer } => {
                self.queue.push_after(delay_us, Event::Broker(timer));
            }
            Output::Stored {
                batch: record,
                log,
                home,
                base_offset,
            } => {
                if let Some(batch) = self.batch_of(record) {
                    self.oracle.stored(batch, log, home, base_offset);
                }
            }
            Output::BelowWindow { batch: record, log } => {
                if let Some(batch) = self.batch_of(record) {
                    self.oracle.below_window(batch, log);
                }
            }
            Output::NotTaken { batch: record } => {
                if let Some(batch) = self.batch_of(record) {
                    self.oracle.not_taken(batch);
                }
            }
            Output::Refused { batch: record } => {
                if let Some(batch) = self.batch_of(record) {
                    self.oracle.refused(batch);
                }
            }
            Output::WindowForgotten { client, log } => self.oracle.window_forgotten(client, log),
            Output::SessionForgotten { client } => self.oracle.coverage_lost(Some(client)),
            Output::LogLost => self.oracle.coverage_lost(None),
            Output::EvictedForGood { client } => self.oracle.evicted_for_good(client),
            Output::Registered { client } => self.oracle.registered(client),
            Output::Applied { key } => self.oracle.applied(key),
            Output::Malformed { conn, why } => {
                self.oracle.blame(Kind::Malformed, || {
                    format!("connection {conn} carried {why}")
                });
            }
        }
    }

    /// The batch that begins with a record.
    fn batch_of(&mut self, record: u32) -> Option<u32> {
        let batch = self.firsts.get(&record).copied();
        if batch.is_none() {
            self.oracle.blame(Kind::Corrupt, || {
                format!(
                    "the server has a batch that begins with record {record}, and nobody sent it"
                )
            });
        }
        batch
    }

    fn send_to_client(&mut self, conn: usize, bytes: Vec<u8>) {
        let arrivals = self.network.send(
            self.queue.now_us(),
            &mut self.faults,
            conn,
            Towards::Client,
            bytes,
        );
        for at_us in arrivals {
            self.queue.push(at_us, Event::ClientBytes { conn });
        }
    }

    /// The network resets a connection.
    pub(super) fn reset(&mut self, conn: usize) {
        if !self.network.is_open(conn) {
            return;
        }
        let now_us = self.now_us();
        self.trace
            .note(now_us, || format!("network: connection {conn} is reset"));
        let ending = self.network.reset(now_us, &mut self.faults, conn);
        self.queue
            .push(ending.client_us, Event::ClientHangup { conn });
        self.queue
            .push(ending.server_us, Event::ServerHangup { conn });
    }
}
