//! Connecting: which address, how long, what came of it, and why a connection was given up.
//!
//! An attempt is a lookup when the target is a name, and a connect. All addresses that are known
//! share the time to connect, so that one that never answers leaves some to the others.

use std::sync::Arc;
use std::time::Duration;

use ringmain_proto::{Micros, SessionState};

use super::Command;
use super::addresses::Attempt;
use super::connection::Connection;
use super::core::Core;
use crate::resolver::{Resolved, Target};
use crate::sessions::Obstacle;
use ringmain_io::driver::{Driver, LostCause};

/// The least time of an attempt, unless half of the time to connect is less.
const ATTEMPT_US_MIN: u64 = 1_000_000;

/// How a TLS server begins its answer to what is no TLS: an alert of two bytes.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];
const TLS_ALERT_BYTES: [u8; 2] = [0x00, 0x02];

/// What the user can do about a port that speaks something else.
const WRONG_PORT: &str = "is it the server's TCP port, without TLS?";

/// How a connection ended.
pub(super) enum Lost {
    /// The driver says so.
    Driver(LostCause),
    /// It was never made: the name has no address.
    Lookup(String),
}

impl Core {
    pub(super) fn begin_attempt(&mut self, now: Micros, index: usize, driver: &mut impl Driver) {
        let conn = &mut self.conns[index];
        conn.is_connected = false;
        conn.given_up = None;
        let attempt = conn.addresses.begin();
        conn.limit_attempt(now);
        match attempt {
            Attempt::Connect => self.connect_when_due(now, index, driver),
            Attempt::LookUp(target, lookup) => {
                let doing = format!("looking up {}", conn.addresses.target());
                let shard = Arc::downgrade(&self.shared);
                let key = (shard.as_ptr() as usize, index);
                let answer = move |resolved| {
                    if let Some(shard) = shard.upgrade() {
                        shard.command(Command::Resolved {
                            conn: index,
                            lookup,
                            resolved,
                        });
                    }
                };
                conn.addresses.targets().ask(target, key, answer);
                self.now_doing(index, doing);
            }
        }
    }

    /// Connects when an address was chosen since the last call.
    pub(super) fn connect_when_due(&mut self, now: Micros, index: usize, driver: &mut impl Driver) {
        let conn = &mut self.conns[index];
        let Some(address) = conn.addresses.take_due() else {
            return;
        };
        conn.limit_attempt(now);
        conn.is_open = true;
        ringmain_io::log!(debug, connection = index, %address, "connecting");
        driver.connect(conn.index, address, &conn.socket_options);
        self.now_doing(index, format!("connecting to {address}"));
    }

    /// The answer to a lookup, unless the attempt it was for is over.
    pub(super) fn take_resolved(
        &mut self,
        now: Micros,
        index: usize,
        lookup: u64,
        resolved: Resolved,
    ) {
        if !self.conns[index].addresses.is_looking_up(lookup) {
            return;
        }
        match resolved {
            Ok(found) => self.conns[index].addresses.choose(found),
            Err(why) => self.handle_lost(now, index, Lost::Lookup(why.to_string())),
        }
    }

    /// Ends the attempts whose time is over.
    pub(super) fn run_attempt_timer(&mut self, now: Micros, index: usize) {
        let conn = &mut self.conns[index];
        if conn.attempt_ends_at > now {
            return;
        }
        conn.attempt_ends_at = Micros::MAX;
        let took = Duration::from_micros(conn.attempt_us());
        if conn.addresses.is_waiting() {
            let why = format!("no answer of the resolver within {took:?}");
            self.handle_lost(now, index, Lost::Lookup(why));
        } else {
            conn.want_close(format!("no answer to the connect within {took:?}"));
        }
    }

    /// The protocol gives the connection up.
    pub(super) fn give_up_connection(
        &mut self,
        now: Micros,
        index: usize,
        driver: &mut impl Driver,
    ) {
        let conn = &mut self.conns[index];
        let why = conn.why_given_up();
        if conn.given_up.is_none() {
            conn.given_up = why;
        }
        if conn.addresses.is_waiting() {
            self.handle_lost(now, index, Lost::Driver(LostCause::Local));
        } else {
            driver.close(conn.index);
        }
    }

    pub(super) fn handle_connected(&mut self, now: Micros, index: usize) {
        let conn = &mut self.conns[index];
        conn.is_connected = true;
        conn.attempt_ends_at = Micros::MAX;
        conn.client
            .handle_connected(now)
            .expect("the driver reports a connection that was asked for");
        let doing = match conn.addresses.present() {
            Some(address) => format!("waiting for {address} to answer the login ({WRONG_PORT})"),
            None => "waiting for the answer to the login".to_owned(),
        };
        self.now_doing(index, doing);
    }

    pub(super) fn handle_lost(&mut self, now: Micros, index: usize, lost: Lost) {
        let conn = &mut self.conns[index];
        // The end of a session that was logged out or shut is nobody's fault.
        let is_end = matches!(
            conn.client.state(),
            SessionState::LoggingOut | SessionState::Ending
        );
        let obstacle = conn.obstacle(lost);
        let is_round_over = !conn.is_logged_in && conn.addresses.fail();
        conn.is_open = false;
        let was_logged_in = std::mem::take(&mut conn.is_logged_in);
        conn.is_connected = false;
        conn.attempt_ends_at = Micros::MAX;
        conn.writing.clear();
        conn.writes.clear();
        conn.reset_decoder();
        conn.client
            .handle_disconnected(now)
            .expect("the end of a connection is told once");
        let cause = obstacle.to_string();
        let mut is_news = was_logged_in;
        self.shared.sessions.update(index, |status| {
            status.is_active = false;
            status.doing = None;
            status.rounds = status.rounds.saturating_add(u32::from(is_round_over));
            if !is_end {
                let before = status.obstacle.replace(obstacle);
                is_news |= before.is_none_or(|before| before.to_string() != cause);
            }
        });
        // Said once for each cause: an outage has an attempt every few moments.
        if is_news && !is_end {
            ringmain_io::log!(warn, connection = index, %cause, "connection lost or not made");
        } else {
            ringmain_io::log!(debug, connection = index, %cause, "connection ended or not made");
        }
        self.note_session(index);
    }

    fn now_doing(&self, index: usize, doing: String) {
        self.shared
            .sessions
            .update(index, |status| status.doing = Some(doing));
    }
}

impl Connection {
    /// What an attempt may take: its share of the time to connect.
    fn attempt_us(&self) -> u64 {
        let least = ATTEMPT_US_MIN.min(self.connect_timeout_us / 2);
        let share = self.connect_timeout_us / self.addresses.count() as u64;
        share.max(least).max(1)
    }

    fn limit_attempt(&mut self, now: Micros) {
        self.attempt_ends_at = now.after(self.attempt_us());
    }

    /// Closes at the next opportunity, because of `why`.
    pub(super) fn want_close(&mut self, why: String) {
        self.close_wanted = true;
        self.given_up.get_or_insert(why);
    }

    /// True for the first bytes of a server that speaks TLS.
    pub(super) fn is_tls_alert(&self, bytes: &[u8]) -> bool {
        !self.is_logged_in
            && self.decoder.pending_bytes() == 0
            && bytes.len() >= 5
            && bytes[..2] == TLS_ALERT
            && bytes[3..5] == TLS_ALERT_BYTES
    }

    /// Why the protocol gives the connection up, by what it counted since it last did.
    fn why_given_up(&mut self) -> Option<String> {
        let stats = self.client.stats();
        let now = [
            stats.session_timeouts,
            stats.heartbeat_timeouts,
            stats.write_stalls,
        ];
        let seen = std::mem::replace(&mut self.given_up_seen, now);
        let is_new = |place: usize| now[place] > seen[place];
        let us = Duration::from_micros;
        if is_new(0) && self.is_connected {
            let took = us(self.login_timeout_us);
            Some(format!(
                "no answer to the login within {took:?}: {WRONG_PORT}"
            ))
        } else if is_new(0) {
            let took = us(self.connect_timeout_us);
            Some(format!("no answer to the connect within {took:?}"))
        } else if is_new(1) {
            Some("the server has gone silent".to_owned())
        } else if is_new(2) {
            let took = us(crate::limits::WRITE_STALL_US);
            Some(format!("the server took no bytes for {took:?}"))
        } else {
            None
        }
    }

    /// What stands in the way, in words for the user.
    fn obstacle(&mut self, lost: Lost) -> Obstacle {
        let what = match lost {
            Lost::Lookup(why) => {
                let host = match self.addresses.target() {
                    Target::Name(address) => address.host().to_owned(),
                    Target::Fixed(address) => address.to_string(),
                };
                return Obstacle::Name { host, why };
            }
            // What was noted first explains what came after it.
            Lost::Driver(_) if self.given_up.is_some() => self.given_up.take().unwrap_or_default(),
            Lost::Driver(LostCause::Local) if self.is_connected && !self.is_logged_in => {
                format!("the answer to the login makes no sense: {WRONG_PORT}")
            }
            Lost::Driver(LostCause::Local) => {
                "the connection was given up, to be made anew".to_owned()
            }
            Lost::Driver(cause @ (LostCause::PeerClosed | LostCause::PeerReset))
                if self.is_connected && !self.is_logged_in =>
            {
                format!("{cause} before it answered the login: {WRONG_PORT}")
            }
            Lost::Driver(cause) => cause.to_string(),
        };
        match self.addresses.present() {
            Some(address) if self.addresses.count() > 1 => {
                Obstacle::Other(format!("{address}: {what}"))
            }
            _ => Obstacle::Other(what),
        }
    }
}
