//! The metadata plane of the model broker: logins and the operations of the metadata log.
//!
//! Role: admits, commits in order and answers. Does not: keep epochs and replies, see `clients`.
//! Semantics: one uncommitted operation for each client: a second is answered 57, a second login is
//! dropped without a word. An operation is a key; executing one key twice is what duplicate
//! protection must prevent.

use super::clients::Standing;
use super::{Bound, Broker, Env, Output, Timer};
use crate::codec;
use crate::faults::Fault;
use ringmain_wire::header::RawRequestHeader;

/// An uncommitted operation.
#[derive(Debug)]
pub(super) struct MetadataPrepare {
    conn: usize,
    client: u128,
    header: Box<RawRequestHeader>,
    /// The key of an operation; `None` for a login.
    key: Option<u64>,
    ready_us: u64,
}

impl Broker {
    pub(super) fn register(
        &mut self,
        env: &mut Env<'_>,
        conn: usize,
        header: &RawRequestHeader,
        body: &[u8],
    ) {
        if !codec::login_is_valid(body) {
            return self.out.push(Output::Malformed {
                conn,
                why: "a login that does not decode",
            });
        }
        if env.faults.fires(Fault::LoginDropped, None) || self.in_flight(header.client()) {
            return;
        }
        self.prepare(env, conn, header, None);
    }

    pub(super) fn metadata(
        &mut self,
        env: &mut Env<'_>,
        conn: usize,
        header: &RawRequestHeader,
        body: &[u8],
    ) {
        let Some(key) = codec::read_key(body) else {
            return self.out.push(Output::Malformed {
                conn,
                why: "a call without a key",
            });
        };
        let Some(bound) = self.connections[conn].bound else {
            return;
        };
        let client = bound.client;
        if env.faults.fires(Fault::Refused58, None) {
            return self.answer(env, conn, header, codec::NOT_ACCEPTED);
        }
        if env.faults.fires(Fault::Refused57, None) || self.in_flight(client) {
            return self.answer(env, conn, header, codec::NOT_COMMITTED);
        }
        match self.table.standing(
            client,
            header.session(),
            header.request(),
            header.request_checksum(),
        ) {
            Standing::New => self.prepare(env, conn, header, Some(key)),
            Standing::Replay(reply) => self.reply(env, conn, reply, None, true),
            Standing::AlreadyApplied => {
                let body = codec::result_body(codec::ALREADY_APPLIED, &[]);
                let reply = codec::reply(header, self.echo(header), 0, self.op, &body);
                self.reply(env, conn, reply, None, true);
            }
            Standing::NoSession => self.evict(env, conn, client, 1),
            Standing::Fenced => self.evict(env, conn, client, 7),
            Standing::Reused => self.out.push(Output::Malformed {
                conn,
                why: "a number used for two operations",
            }),
            Standing::EpochAhead => self.out.push(Output::Malformed {
                conn,
                why: "an epoch nobody handed out",
            }),
        }
    }

    fn in_flight(&self, client: u128) -> bool {
        self.prepares.iter().any(|prepare| prepare.client == client)
    }

    fn prepare(
        &mut self,
        env: &mut Env<'_>,
        conn: usize,
        header: &RawRequestHeader,
        key: Option<u64>,
    ) {
        let takes_us = env
            .rng
            .scaled(self.draws.metadata_us.0, self.draws.metadata_us.1);
        let before_us = self.prepares.back().map_or(0, |last| last.ready_us);
        let ready_us = before_us.max(env.now_us + takes_us);
        let client = header.client();
        self.prepares.push_back(MetadataPrepare {
            conn,
            client,
            header: Box::new(*header),
            key,
            ready_us,
        });
        let timer = Timer::MetadataCommit;
        self.out.push(Output::Timer {
            delay_us: ready_us - env.now_us,
            timer,
        });
    }

    /// A refusal may ride the header or the result section.
    fn answer(&mut self, env: &mut Env<'_>, conn: usize, header: &RawRequestHeader, code: u32) {
        let timestamp = self.echo(header);
        let reply = if env.rng.chance(500_000) {
            codec::reply(header, timestamp, code, self.op, &[])
        } else {
            codec::reply(
                header,
                timestamp,
                0,
                self.op,
                &codec::result_body(code, &[]),
            )
        };
        self.reply(env, conn, reply, None, true);
    }

    pub(super) fn commit_metadata(&mut self, env: &mut Env<'_>) {
        while self
            .prepares
            .front()
            .is_some_and(|head| head.ready_us <= env.now_us)
        {
            let Some(prepare) = self.prepares.pop_front() else {
                break;
            };
            self.apply(env, &prepare);
        }
    }

    /// Commits one operation and answers it.
    pub(super) fn apply(&mut self, env: &mut Env<'_>, prepare: &MetadataPrepare) {
        self.op += 1;
        let time = codec::CALENDAR_US + env.now_us;
        let MetadataPrepare {
            conn,
            client,
            ref header,
            key,
            ..
        } = *prepare;
        let Some(key) = key else {
            self.table.commit_register(client, self.op);
            self.out.push(Output::Registered { client });
            if self.connections[conn].open {
                self.connections[conn].bound = Some(Bound { client });
            }
            let body = codec::login_reply_body(self.op);
            let reply = codec::reply(header, time, 0, self.op, &body);
            return self.reply(env, conn, reply, None, true);
        };
        let result = if self.applied.insert(key) {
            0
        } else {
            codec::ALREADY_EXISTS
        };
        self.out.push(Output::Applied { key });
        let body = codec::result_body(result, &key.to_le_bytes());
        let reply = codec::reply(header, time, 0, self.op, &body);
        self.table.commit_reply(
            client,
            self.op,
            header.request(),
            header.request_checksum(),
            reply.clone(),
        );
        self.reply(env, conn, reply, None, true);
    }
}
