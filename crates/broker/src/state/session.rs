//! Sessions: who is bound to which connection under which epoch, and the commits of the metadata
//! log.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::header::ReplyHeader;
use ringmain_wire::result;

use super::{Call, ConnectionKey, Refused, RequestStatus, Session, State};
use crate::config::Now;
use crate::profile::Profile;

/// Server-side patience over the heartbeat interval: 6/5.
const HEARTBEAT_PATIENCE: (u64, u64) = (6, 5);

impl State {
    /// Binds `client` to the connection of `call` and returns its epoch. A connection that is bound
    /// already keeps what it has.
    pub(crate) fn register(&mut self, call: &Call, client: u128) -> u64 {
        self.stats.logins += 1;
        if let Some(session) = self.session(call.connection) {
            return session.epoch;
        }
        self.commit += 1;
        let epoch = self.commit;
        if self.clients.register(client, epoch).is_some() {
            self.stats.clients_evicted += 1;
        }
        if let Some(connection) = self.connections.get_mut(&call.connection) {
            connection.session = Some(Session { client, epoch });
        }
        epoch
    }

    /// Ends the session of a connection for good. The session it had, `None` when it had none.
    pub(crate) fn logout(&mut self, key: ConnectionKey) -> Option<Session> {
        let session = self.connections.get_mut(&key)?.session.take()?;
        self.commit_logout(session);
        Some(session)
    }

    /// A session ended without a logout. The captured server logs it out; a release keeps its
    /// history, so that the client can resume.
    pub(super) fn session_lost(&mut self, session: Session) {
        if self.config.profile == Profile::Edge5 {
            self.commit_logout(session);
        }
    }

    /// A logout of an epoch that is no longer the client's does nothing.
    fn commit_logout(&mut self, session: Session) {
        if self.clients.epoch(session.client) == Some(session.epoch) {
            self.commit += 1;
            self.clients.remove(session.client);
        }
    }

    /// Evicts clients that were silent for too long. The captured server evicts members of consumer
    /// groups only, and there are none here.
    pub(super) fn evict_silent(&mut self, now: Now) {
        if self.config.profile == Profile::Edge5 {
            return;
        }
        let (numerator, denominator) = HEARTBEAT_PATIENCE;
        let patience_us = self.config.heartbeat_us.saturating_mul(numerator) / denominator;
        let silent = self.connections.iter().filter(|(_, connection)| {
            connection.session.is_some()
                && now.monotonic_us.saturating_sub(connection.heard_us) > patience_us
        });
        let mut silent: Vec<_> = silent.map(|(key, _)| *key).collect();
        silent.sort_unstable();
        for key in silent {
            let session = self
                .connections
                .get_mut(&key)
                .and_then(|connection| connection.session.take());
            if let Some(session) = session {
                self.session_lost(session);
            }
            self.stats.heartbeats_missed += 1;
            self.evict(key, key.transport_id(), EvictionReason::StaleClient);
        }
    }

    /// Runs a metadata request through the client table: executes a new one, repeats the reply of
    /// an old one, fences the holder of an older epoch. `execute` returns the payload behind the
    /// result section.
    pub(crate) fn metadata(
        &mut self,
        call: &Call,
        execute: impl FnOnce(&mut Self) -> Result<Vec<u8>, Refused>,
    ) {
        let Some(session) = self.session(call.connection) else {
            return;
        };
        let (request, checksum) = (call.header.request(), call.header.request_checksum());
        match self
            .clients
            .check(session.client, session.epoch, request, checksum)
        {
            RequestStatus::New => self.commit_metadata(call, session, execute),
            RequestStatus::Duplicate(frame) => {
                let frame = frame.to_vec();
                self.stats.replies_repeated += 1;
                self.reply_again(call, &frame);
            }
            RequestStatus::AlreadyApplied => {
                self.stats.replies_repeated += 1;
                let body = result::rejection(ErrorCode::REQUEST_ALREADY_APPLIED);
                self.reply_uncommitted(call, session.client, &body);
            }
            RequestStatus::NoSession => {
                self.evict(call.connection, session.client, EvictionReason::NoSession);
            }
            RequestStatus::Fenced => self.evict(
                call.connection,
                session.client,
                EvictionReason::SessionTooLow,
            ),
            RequestStatus::ChecksumMismatch | RequestStatus::EpochAhead => {
                self.stats.requests_invalid += 1;
            }
        }
    }

    fn commit_metadata(
        &mut self,
        call: &Call,
        session: Session,
        execute: impl FnOnce(&mut Self) -> Result<Vec<u8>, Refused>,
    ) {
        self.commit += 1;
        let commit = self.commit;
        let body = match execute(self) {
            Ok(payload) => [&result::SUCCESS[..], &payload].concat(),
            Err(Refused(code)) => {
                let code = ErrorCode::new(code).expect("a refusal has a code");
                result::rejection(code).to_vec()
            }
        };
        let fields = Self::committed(
            &call.header,
            call.operation,
            session.client,
            commit,
            call.now,
        );
        let header =
            ReplyHeader::new(&fields, body.len()).expect("metadata replies are far below a frame");
        let frame = [&header.as_bytes()[..], &body].concat();
        let (request, checksum) = (call.header.request(), call.header.request_checksum());
        self.clients
            .commit(session.client, request, checksum, commit, &frame);
        self.reply_again(call, &frame);
    }

    /// Counts what a removal gave back.
    pub(crate) fn give_back(&mut self, freed: super::Freed) {
        self.charged_bytes -= freed.charged_bytes;
        self.uncommitted_bytes -= freed.uncommitted_bytes;
        self.window_clients -= freed.window_clients;
        self.consumer_offsets -= freed.consumer_offsets;
    }
}
