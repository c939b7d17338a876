//! The partition plane of the model broker: what becomes of a `SendMessages`.
//!
//! Role: strikes a send with the faults of its way, routes it, and answers what the partition
//! decides. Does not: keep windows and queues, see `partition`. Invariant: a commit is emitted
//! before it is answered, and answered at most once for each copy admitted.

use super::partition::{Admission, Commit, Origin, Pending};
use super::{Broker, Env, Life, Log, LogId, Output, Timer};
use crate::codec::{self, SendView};
use crate::faults::Fault;
use ringmain_wire::header::RawRequestHeader;
use ringmain_wire::payload::send::Confirmation;

impl Broker {
    pub(super) fn send(
        &mut self,
        env: &mut Env<'_>,
        conn: usize,
        header: &RawRequestHeader,
        body: &[u8],
    ) {
        let send = match codec::read_send(body) {
            Ok(send) => send,
            Err(why) => return self.out.push(Output::Malformed { conn, why }),
        };
        let Some(bound) = self.connections[conn].bound else {
            return;
        };
        let origin = Origin {
            conn,
            client: bound.client,
            request: header.request(),
            timestamp: self.echo(header),
        };
        if env.faults.fires(Fault::ResetBeforeCommit, Some(send.batch)) {
            // Neither this request nor what came behind it was read.
            self.closed(conn);
            return self.out.push(Output::Reset { conn });
        }
        if env.faults.fires(Fault::SendDropped, Some(send.batch)) {
            return self.out.push(Output::NotTaken { batch: send.batch });
        }
        if let Some(code) = self.refusal(env, send.batch) {
            return self.answer_send(env, origin, send.batch, code, None);
        }
        let Some(log) = self.route(&send) else {
            let code = self.draws.unknown_code;
            self.out.push(Output::Refused { batch: send.batch });
            return self.answer_send(env, origin, send.batch, code, None);
        };
        self.admit(env, origin, &send, log);
    }

    /// The code of a refusal that strikes before the partition sees the request.
    fn refusal(&mut self, env: &mut Env<'_>, batch: u32) -> Option<u32> {
        if env.faults.fires(Fault::RefusedForGood, Some(batch)) {
            let code = *env
                .faults
                .rng()
                .pick(&[codec::UNAUTHORIZED, self.draws.unknown_code]);
            self.out.push(Output::Refused { batch });
            return Some(code);
        }
        let code = if env.faults.fires(Fault::Refused57, Some(batch)) {
            codec::NOT_COMMITTED
        } else if env.faults.fires(Fault::Refused58, Some(batch)) {
            codec::NOT_ACCEPTED
        } else {
            return None;
        };
        self.out.push(Output::NotTaken { batch });
        Some(code)
    }

    fn route(&self, send: &SendView) -> Option<LogId> {
        let topic = self
            .topics
            .get(send.topic as usize)
            .filter(|topic| topic.exists)?;
        topic.partitions.get(send.partition as usize).copied()
    }

    fn admit(&mut self, env: &mut Env<'_>, origin: Origin, send: &SendView, log: LogId) {
        let batch = send.batch;
        let mut takes_us = env
            .rng
            .scaled(self.draws.commit_us.0, self.draws.commit_us.1);
        let mut answered = true;
        let refused = env.faults.fires(Fault::Parked57, Some(batch));
        if refused || env.faults.fires(Fault::ParkedSilently, Some(batch)) {
            takes_us += env.faults.rng().scaled(10_000, 8_000_000);
            answered = !refused || env.faults.rng().chance(500_000);
        }
        let pending = Pending {
            origin: Some(origin),
            batch,
            records: send.records,
            takes_us,
            answered,
        };
        let Life::Alive(partition) = &mut self.logs[log.0 as usize].life else {
            return;
        };
        match partition.admit(env.now_us, pending) {
            Admission::Prepared | Admission::Queued => {
                self.watch_commits(env.now_us, log);
                if env.faults.fires(Fault::ResetDuringCommit, Some(batch)) {
                    self.out.push(Output::Reset { conn: origin.conn });
                } else if refused {
                    self.answer_send(env, origin, batch, codec::NOT_COMMITTED, None);
                }
            }
            Admission::Duplicate => self.answer_send(env, origin, batch, 0, None),
            Admission::BelowWindow => {
                self.out.push(Output::BelowWindow { batch, log });
                self.answer_send(env, origin, batch, 0, None);
            }
            Admission::InFlight if self.draws.answers_in_flight => {
                self.answer_send(env, origin, batch, codec::NOT_COMMITTED, None);
            }
            Admission::InFlight => {}
            Admission::Dropped => {
                self.out.push(Output::NotTaken { batch });
                env.faults.count(Fault::QueueDropped);
            }
        }
    }

    /// Asks for a wake-up when the head of the prepare queue is due.
    pub(super) fn watch_commits(&mut self, now_us: u64, log: LogId) {
        let Life::Alive(partition) = &self.logs[log.0 as usize].life else {
            return;
        };
        if let Some(at_us) = partition.commits_at_us() {
            self.out.push(Output::Timer {
                delay_us: at_us.saturating_sub(now_us),
                timer: Timer::Commit { log },
            });
        }
    }

    pub(super) fn commit_sends(&mut self, env: &mut Env<'_>, log: LogId) {
        loop {
            let Life::Alive(partition) = &mut self.logs[log.0 as usize].life else {
                return;
            };
            let Some(commit) = partition.commit_head(env.now_us) else {
                break;
            };
            self.committed(env, log, commit);
        }
        self.watch_commits(env.now_us, log);
    }

    pub(super) fn committed(&mut self, env: &mut Env<'_>, log: LogId, commit: Commit) {
        let (pending, confirmed) = match commit {
            Commit::Appended {
                pending,
                base_offset,
            } => (pending, Some(self.confirmation(log, base_offset))),
            Commit::Duplicate { pending } | Commit::BelowWindow { pending } => (pending, None),
        };
        let Some(origin) = pending.origin else { return };
        let batch = pending.batch;
        match commit {
            Commit::Appended { base_offset, .. } => {
                let Log {
                    topic, partition, ..
                } = self.logs[log.0 as usize];
                let home = (topic, partition);
                self.out.push(Output::Stored {
                    batch,
                    log,
                    home,
                    base_offset,
                });
            }
            Commit::BelowWindow { .. } => self.out.push(Output::BelowWindow { batch, log }),
            Commit::Duplicate { .. } => {}
        }
        if !self.connections[origin.conn].open {
            return;
        }
        if env.faults.fires(Fault::ResetAfterCommit, Some(batch)) {
            self.out.push(Output::Reset { conn: origin.conn });
        } else if pending.answered {
            self.answer_send(env, origin, batch, 0, confirmed);
        }
    }

    fn confirmation(&self, log: LogId, base_offset: u64) -> Confirmation {
        let log = &self.logs[log.0 as usize];
        Confirmation::new(1, log.topic, log.partition, base_offset)
    }

    fn answer_send(
        &mut self,
        env: &mut Env<'_>,
        origin: Origin,
        batch: u32,
        status: u32,
        confirmed: Option<Confirmation>,
    ) {
        let body = if status == 0 {
            codec::send_reply_body(confirmed, env.rng)
        } else {
            Vec::new()
        };
        let timestamp = if confirmed.is_some() {
            codec::CALENDAR_US + env.now_us
        } else {
            origin.timestamp
        };
        let fields = codec::send_reply_fields(origin.conn, origin.request, timestamp, status);
        let reply = codec::frame(&fields, &body);
        self.reply(env, origin.conn, reply, Some(batch), true);
    }
}
