//! What strikes the model broker from outside: restarts, full tables, evictions, deleted topics,
//! foreign load.
//!
//! Role: each method carries out one timed fault. Does not: decide when, see `faults`. Invariant:
//! after a restart no connection survives and nothing waits; what was durable is committed first.

use super::partition::Pending;
use super::{Broker, ClientTable, Env, Life, LogId, Output, Timer};

/// Evictions after which a client may come back.
const REASONS_FOR_NOW: [u8; 4] = [1, 7, 12, 13];

/// Evictions that say that trying again is pointless.
const REASONS_FOR_GOOD: [u8; 10] = [2, 3, 4, 5, 6, 8, 9, 10, 11, 15];

impl Broker {
    /// The server stops. With its log it keeps sessions, windows and a prefix of what was
    /// uncommitted; without, it comes back as new. Every connection dies.
    pub(crate) fn stop(&mut self, env: &mut Env<'_>, keeps_log: bool) {
        self.down = true;
        for conn in 0..self.connections.len() {
            if self.connections[conn].open {
                self.out.push(Output::Close { conn });
            }
            self.closed(conn);
        }
        if keeps_log {
            self.commit_durable(env);
        } else {
            self.lose_log(env);
        }
    }

    fn commit_durable(&mut self, env: &mut Env<'_>) {
        let durable = env.faults.rng().between(0, self.prepares.len() as u64) as usize;
        let survivors: Vec<_> = self.prepares.drain(..).take(durable).collect();
        for prepare in &survivors {
            self.apply(env, prepare);
        }
        for index in 0..self.logs.len() {
            let Life::Alive(partition) = &mut self.logs[index].life else {
                continue;
            };
            let durable = env
                .faults
                .rng()
                .between(0, partition.prepares_waiting() as u64) as usize;
            for commit in partition.restart(durable) {
                self.committed(env, LogId(index as u32), commit);
            }
        }
    }

    fn lose_log(&mut self, env: &mut Env<'_>) {
        self.prepares.clear();
        self.table = ClientTable::default();
        self.applied.clear();
        // The log positions of the new life may by chance be above those of the old one.
        self.op = env.faults.rng().scaled(0, 2 * self.op.max(1));
        for topic in 0..self.topics.len() {
            self.delete_topic(topic);
            let delay_us = if env.faults.rng().chance(500_000) {
                0
            } else {
                env.faults.rng().scaled(0, 3_000_000)
            };
            self.out.push(Output::Timer {
                delay_us,
                timer: Timer::TopicCreated { topic },
            });
        }
        self.out.push(Output::LogLost);
    }

    /// The server is back.
    pub(crate) fn start(&mut self) {
        self.down = false;
    }

    /// Faults are over: what was deleted is there again.
    pub(crate) fn heal(&mut self) {
        for topic in 0..self.topics.len() {
            if !self.topics[topic].exists {
                self.create_topic(topic);
            }
        }
    }

    fn delete_topic(&mut self, topic: usize) {
        self.topics[topic].exists = false;
        for log in std::mem::take(&mut self.topics[topic].partitions) {
            let life = &mut self.logs[log.0 as usize].life;
            if let Life::Alive(partition) = std::mem::replace(life, Life::Ended(Vec::new())) {
                self.out
                    .extend(partition.waiting().map(|batch| Output::NotTaken { batch }));
                *life = Life::Ended(partition.into_log());
            }
        }
    }

    /// Somebody deletes a topic and creates it again. What waited to commit is gone without an
    /// answer. Says whether the topic existed.
    pub(crate) fn recreate_some_topic(&mut self, env: &mut Env<'_>, gone_us: u64) -> bool {
        let topic = env.faults.rng().below(self.topics.len() as u64) as usize;
        if !self.topics[topic].exists {
            return false;
        }
        self.delete_topic(topic);
        self.out.push(Output::Timer {
            delay_us: gone_us,
            timer: Timer::TopicCreated { topic },
        });
        true
    }

    /// Other producers fill the queues of one partition. Says whether there was one.
    pub(crate) fn fill_queues(&mut self, env: &mut Env<'_>) -> bool {
        let alive: Vec<usize> = (0..self.logs.len())
            .filter(|&i| matches!(self.logs[i].life, Life::Alive(_)))
            .collect();
        if alive.is_empty() {
            return false;
        }
        let index = *env.faults.rng().pick(&alive);
        let count = env.faults.rng().between(16, 128);
        let Life::Alive(partition) = &mut self.logs[index].life else {
            return false;
        };
        for _ in 0..count {
            let takes_us = env.faults.rng().scaled(100, 200_000);
            partition.admit(
                env.now_us,
                Pending {
                    origin: None,
                    batch: 0,
                    records: 1,
                    takes_us,
                    answered: false,
                },
            );
        }
        self.watch_commits(env.now_us, LogId(index as u32));
        true
    }

    /// The client table is full: the longest idle client loses its session. Says whether there was
    /// one.
    pub(crate) fn fill_client_table(&mut self) -> bool {
        let Some(client) = self.table.evict_idle() else {
            return false;
        };
        self.out.push(Output::SessionForgotten { client });
        true
    }

    /// A window table is full: the longest idle client of a partition loses its window. Says
    /// whether there was one.
    pub(crate) fn fill_window_table(&mut self, env: &mut Env<'_>) -> bool {
        let index = env.faults.rng().below(self.logs.len() as u64) as usize;
        let Life::Alive(partition) = &mut self.logs[index].life else {
            return false;
        };
        let Some(client) = partition.forget_idle_window() else {
            return false;
        };
        self.out.push(Output::WindowForgotten {
            client,
            log: LogId(index as u32),
        });
        true
    }

    /// Evicts the client of one connection, for now or for good. Says whether anybody was
    /// connected.
    pub(crate) fn evict_someone(&mut self, env: &mut Env<'_>, for_good: bool) -> bool {
        let bound: Vec<(usize, u128)> = self
            .connections
            .iter()
            .enumerate()
            .filter_map(|(conn, connection)| {
                Some((conn, connection.bound.filter(|_| connection.open)?.client))
            })
            .collect();
        if bound.is_empty() {
            return false;
        }
        let (conn, client) = *env.faults.rng().pick(&bound);
        let reasons: &[u8] = if for_good {
            &REASONS_FOR_GOOD
        } else {
            &REASONS_FOR_NOW
        };
        let reason = *env.faults.rng().pick(reasons);
        match reason {
            1 => {
                self.table.remove(client);
                self.out.push(Output::SessionForgotten { client });
            }
            // Somebody else registered the same identity.
            7 => {
                self.op += 1;
                self.table.commit_register(client, self.op);
            }
            _ if for_good => self.out.push(Output::EvictedForGood { client }),
            _ => {}
        }
        self.evict(env, conn, client, reason);
        true
    }
}
