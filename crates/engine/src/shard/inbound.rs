//! From the kernel to the protocol's decisions: connection events, received bytes, finished writes.
//!
//! Decodes what a reply says and nothing more of it; the only body kept is that of a control call.
//!
//! Peer bytes that cannot be read end their connection, with a warning; they never panic.

use bytes::Bytes;
use ringmain_proto::{BatchKey, Frame, Micros, Reply, ReplyMatch, SessionState};
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::send::SendMessagesReply;
use ringmain_wire::{EvictionReason, Inbound};

use super::attempt::Lost;
use super::connection::Connection;
use super::core::{Core, InFlight};
use crate::sessions::Obstacle;
use ringmain_io::driver::Event;

impl Core {
    /// Takes one event of the transport over.
    pub(super) fn handle_event(&mut self, now: Micros, event: Event<'_>) {
        match event {
            Event::Connected { conn } => self.handle_connected(now, usize::from(conn.0)),
            Event::ConnectFailed { conn, cause } | Event::Closed { conn, cause, .. } => {
                self.handle_lost(now, usize::from(conn.0), Lost::Driver(cause));
            }
            Event::Received { conn, bytes } => {
                self.handle_received(now, usize::from(conn.0), bytes);
            }
            Event::WriteDone { conn } => self.handle_write_done(now, usize::from(conn.0)),
            // The queues are looked at in every turn.
            Event::Woken => {}
        }
    }

    fn handle_write_done(&mut self, now: Micros, index: usize) {
        let conn = &mut self.conns[index];
        let frames = conn
            .writes
            .pop_front()
            .expect("the transport reports writes that were submitted");
        for frame in conn.writing.drain(..frames) {
            if let Frame::Batch(BatchKey(key)) = frame
                && let Some(in_flight) = &mut self.batches[key as usize]
                && in_flight.written_at == Micros::ZERO
            {
                in_flight.written_at = now;
            }
            conn.client
                .handle_written(now, frame)
                .expect("a write carries the frames that were polled for it");
        }
    }

    fn handle_received(&mut self, now: Micros, index: usize, bytes: &[u8]) {
        let mut input = bytes;
        if self.conns[index].is_tls_alert(bytes) {
            return self.refuse_bytes(index, "a TLS alert: the port speaks TLS, ringmain does not");
        }
        loop {
            let conn = &mut self.conns[index];
            if conn.close_wanted {
                return;
            }
            let handled = match conn.decoder.next_inbound(&mut input) {
                Ok(None) => return,
                Ok(Some(Inbound::Reply(reply))) => {
                    let frame_bytes = ringmain_wire::header::HEADER_BYTES + reply.body().len();
                    let handled = match Reply::decode(&reply) {
                        Ok((reply, payload)) => {
                            let matched = conn.client.handle_reply(now, &reply);
                            keep_call_reply(&conn.calls, matched, payload);
                            note_ids(&mut self.batches, matched, payload);
                            Ok(matched)
                        }
                        Err(error) => Err(error.to_string()),
                    };
                    conn.shrink_decoder(frame_bytes);
                    handled
                }
                Ok(Some(Inbound::Eviction(eviction))) => {
                    let reason = eviction.reason();
                    self.handle_eviction(now, index, reason);
                    continue;
                }
                Ok(Some(Inbound::Foreign { command, .. })) => {
                    Err(format!("a frame with command byte {command}"))
                }
                Err(error) => Err(error.to_string()),
            };
            match handled {
                Ok(matched) => self.note_reply(index, matched),
                Err(what) => self.refuse_bytes(index, &what),
            }
        }
    }

    fn handle_eviction(&mut self, now: Micros, index: usize, reason: EvictionReason) {
        let client = &mut self.conns[index].client;
        if client.state().is_closing_connection() {
            // Requests that were behind the one that got the eviction are answered as without a
            // login. That says nothing new, in particular not that the server forgot the client.
            ringmain_io::log!(debug, connection = index, %reason, "another eviction on a connection that is given up");
            return;
        }
        ringmain_io::log!(warn, connection = index, %reason, "the server ended the session");
        client.handle_eviction(now, reason);
        self.conns[index].given_up = Some(format!("the server ended the session: {reason}"));
        self.note_session(index);
    }

    /// What a reply changes for the lanes and for who waits for a login.
    fn note_reply(&mut self, index: usize, matched: ReplyMatch) {
        match matched {
            ReplyMatch::Batch(BatchKey(key)) => {
                if let Some(in_flight) = &self.batches[key as usize] {
                    self.look_at_lane(in_flight.batch.lane.place.index);
                }
            }
            ReplyMatch::Login | ReplyMatch::Logout => self.note_session(index),
            ReplyMatch::Ping | ReplyMatch::Call { .. } | ReplyMatch::Late | ReplyMatch::Foreign => {
            }
        }
    }

    fn refuse_bytes(&mut self, index: usize, what: &str) {
        ringmain_io::log!(
            warn,
            connection = index,
            what,
            "the server sent bytes that are not a reply; closing the connection"
        );
        self.conns[index].want_close(format!(
            "the server sent bytes that are not a reply ({what}): is it an Iggy TCP port?"
        ));
    }

    /// Brings the session board and the lanes up to date with a session that may have changed.
    pub(super) fn note_session(&mut self, index: usize) {
        let client = &self.conns[index].client;
        let logins = client.stats().logins;
        let is_active = client.state() == SessionState::Active;
        let fatal = client.fatal();
        self.shared.sessions.update(index, |status| {
            status.is_active = is_active;
            if is_active {
                status.was_active = true;
                status.rounds = 0;
                status.doing = None;
                status.obstacle = None;
            }
            if let Some(fatal) = fatal {
                status.is_fatal = true;
                status.obstacle = Some(Obstacle::Other(fatal.to_string()));
            }
        });
        if logins != self.conns[index].logins_seen {
            let conn = &mut self.conns[index];
            conn.logins_seen = logins;
            conn.is_logged_in = true;
            conn.addresses.keep();
            // A warning like that of the loss, so that a log which shows the one shows the other.
            if logins > 1 {
                ringmain_io::log!(warn, connection = index, logins, "logged in again");
            } else {
                ringmain_io::log!(info, connection = index, "logged in");
            }
            self.look_at_lanes_of(index);
        }
        if fatal.is_some() {
            self.look_at_lanes_of(index);
        }
    }
}

/// Looks whether a confirmation names the topic that the batch was meant for.
fn note_ids(batches: &mut [Option<InFlight>], matched: ReplyMatch, payload: &[u8]) {
    if let ReplyMatch::Batch(BatchKey(key)) = matched
        && let Some(in_flight) = &mut batches[key as usize]
        && let Ok(reply) = SendMessagesReply::decode(payload)
        && let [only] = reply.confirmations()
    {
        let ids = (only.stream_id(), only.topic_id());
        in_flight.is_elsewhere |= !in_flight.batch.life.fits(ids);
        in_flight.batch.lane.topic.note_ids(ids);
    }
}

/// Keeps the body of a control call's answer until its outcome comes.
fn keep_call_reply(calls: &[super::connection::CallSlot], matched: ReplyMatch, payload: &[u8]) {
    if let ReplyMatch::Call {
        key,
        answered: true,
    } = matched
        && let Some(cell) = &calls[key.0 as usize].cell
    {
        cell.keep_reply(Bytes::copy_from_slice(payload));
    }
}

impl Connection {
    /// Whether the transport should be told to close it.
    pub(super) fn take_close_wanted(&mut self) -> bool {
        self.is_open && std::mem::take(&mut self.close_wanted)
    }
}
