//! The model broker: what a server does with the bytes of its connections, in virtual time.
//!
//! Role: sessions, the metadata plane, the partitions and the faults that strike inside the server.
//! Does not: move bytes, keep time or judge the client; it emits [`Output`]s, which the world
//! carries out and the oracle reads. Simplified: one node, no consensus traffic; metadata
//! operations and reads carry an 8-byte key as their body and are answered with it, because what
//! they do is no concern of the client under test, only how often they are done. Invariants:
//! requests of one connection are taken in order; a partition commits in order; a commit is emitted
//! before its reply.

mod clients;
mod metadata;
mod partition;
mod sends;
mod upheaval;

pub use clients::REPLIES_CACHED;
pub(crate) use partition::LogEntry;
pub use partition::{PREPARES_MAX, QUEUE_MAX, WINDOW_IDS};

use crate::codec;
use crate::draws::BrokerDraws;
use crate::faults::{Fault, Faults};
use crate::rng::Rng;
use clients::ClientTable;
use metadata::MetadataPrepare;
use partition::Partition;
use ringmain_wire::frame::{FrameDecoder, InboundRequest};
use ringmain_wire::header::RawRequestHeader;
use ringmain_wire::{CommandCode, Operation, Plane};
use std::collections::{BTreeSet, VecDeque};

/// A log: one life of one partition. A partition that is deleted, or loses its log, ends; its
/// successor has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogId(pub(crate) u32);

/// What the broker wants of the world, and what the oracle learns from it.
#[derive(Debug)]
pub(crate) enum Output {
    /// Bytes for a connection.
    Send { conn: usize, bytes: Vec<u8> },
    /// The server closes a connection, after the bytes sent so far.
    Close { conn: usize },
    /// A fault: the network resets a connection.
    Reset { conn: usize },
    /// Call [`Broker::timer`] after so long.
    Timer { delay_us: u64, timer: Timer },
    /// A batch was appended to a log, which is that of this topic and partition.
    Stored {
        batch: u32,
        log: LogId,
        home: (u32, u32),
        base_offset: u64,
    },
    /// A batch below the window was answered with success. Harmless only when it is stored already,
    /// or given up.
    BelowWindow { batch: u32, log: LogId },
    /// A copy of a send was refused for now, dropped, or gone with its topic: later ones may
    /// overtake it.
    NotTaken { batch: u32 },
    /// A send was answered with a permanent error.
    Refused { batch: u32 },
    /// The duplicate window of a client on a log is gone.
    WindowForgotten { client: u128, log: LogId },
    /// A client was told to go for good.
    EvictedForGood { client: u128 },
    /// A client has a new session.
    Registered { client: u128 },
    /// The session of a client, and with it the memory of its metadata requests, is gone.
    SessionForgotten { client: u128 },
    /// The server came back without its log: every session, window and record is gone.
    LogLost,
    /// A metadata operation was executed.
    Applied { key: u64 },
    /// A frame was no valid request.
    Malformed { conn: usize, why: &'static str },
}

/// A wake-up that the broker asked for.
#[derive(Clone, Debug)]
pub(crate) enum Timer {
    /// A partition may have something to commit.
    Commit { log: LogId },
    /// The metadata log may have something to commit.
    MetadataCommit,
    /// A reply that was held back leaves.
    LateReply { conn: usize, bytes: Vec<u8> },
    /// The heartbeat of a connection may be overdue.
    Heartbeat { conn: usize },
    /// A deleted topic is created again.
    TopicCreated { topic: usize },
}

/// What a call into the broker may use.
pub(crate) struct Env<'a> {
    pub(crate) now_us: u64,
    pub(crate) faults: &'a mut Faults,
    pub(crate) rng: &'a mut Rng,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    client: u128,
}

#[derive(Debug, Default)]
struct Connection {
    /// Neither closed by the peer nor by the server: replies can be sent.
    open: bool,
    /// The server still reads from it; a peer that reset may leave bytes to drain.
    reading: bool,
    decoder: FrameDecoder,
    bound: Option<Bound>,
    heard_us: u64,
}

#[derive(Debug)]
struct Topic {
    exists: bool,
    partitions: Vec<LogId>,
}

#[derive(Debug)]
enum Life {
    Alive(Partition),
    Ended(Vec<LogEntry>),
}

#[derive(Debug)]
struct Log {
    topic: u32,
    partition: u32,
    life: Life,
}

/// The broker.
pub(crate) struct Broker {
    draws: BrokerDraws,
    connections: Vec<Connection>,
    table: ClientTable,
    prepares: VecDeque<MetadataPrepare>,
    /// Position of the metadata log.
    op: u64,
    applied: BTreeSet<u64>,
    topics: Vec<Topic>,
    logs: Vec<Log>,
    down: bool,
    out: Vec<Output>,
}

impl Broker {
    /// A broker with its topics created and nobody connected.
    pub(crate) fn new(draws: BrokerDraws) -> Self {
        let op = draws.op_start;
        let topics = draws.topics;
        let mut broker = Self {
            draws,
            connections: Vec::new(),
            table: ClientTable::default(),
            prepares: VecDeque::new(),
            op,
            applied: BTreeSet::new(),
            topics: Vec::new(),
            logs: Vec::new(),
            down: false,
            out: Vec::new(),
        };
        for topic in 0..topics as usize {
            broker.topics.push(Topic {
                exists: false,
                partitions: Vec::new(),
            });
            broker.create_topic(topic);
        }
        broker
    }

    fn create_topic(&mut self, topic: usize) {
        assert!(!self.topics[topic].exists, "a topic is created once");
        let first = self.logs.len() as u32;
        for partition in 0..self.draws.partitions {
            let life = Life::Alive(Partition::default());
            self.logs.push(Log {
                topic: topic as u32,
                partition,
                life,
            });
        }
        self.topics[topic] = Topic {
            exists: true,
            partitions: (first..self.logs.len() as u32).map(LogId).collect(),
        };
    }

    /// Takes what the broker wants done since the last call.
    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// Whether connections are refused: the server is down.
    pub(crate) const fn is_down(&self) -> bool {
        self.down
    }

    /// The entries of every log that ever was, dead ones included.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (LogId, &[LogEntry])> {
        self.logs.iter().enumerate().map(|(index, log)| {
            let entries = match &log.life {
                Life::Alive(partition) => partition.log(),
                Life::Ended(entries) => entries,
            };
            (LogId(index as u32), entries)
        })
    }

    /// A connection was accepted. Numbers of connections are dense and never used again.
    pub(crate) fn accept(&mut self, env: &Env<'_>, conn: usize) {
        assert_eq!(
            conn,
            self.connections.len(),
            "connections are accepted in order"
        );
        let heard_us = env.now_us;
        self.connections.push(Connection {
            open: true,
            reading: true,
            heard_us,
            ..Connection::default()
        });
        self.watch_heartbeat(conn);
    }

    /// The peer is gone: nothing more comes, and nothing that is sent arrives.
    pub(crate) fn closed(&mut self, conn: usize) {
        let connection = &mut self.connections[conn];
        connection.open = false;
        connection.reading = false;
        connection.bound = None;
        connection.decoder = FrameDecoder::new();
    }

    /// Bytes arrived on a connection, in order, cut anywhere.
    pub(crate) fn received(&mut self, env: &mut Env<'_>, conn: usize, bytes: &[u8]) {
        if !self.connections[conn].reading {
            return;
        }
        self.connections[conn].heard_us = env.now_us;
        let mut decoder = std::mem::take(&mut self.connections[conn].decoder);
        let mut input = bytes;
        while self.connections[conn].reading {
            match decoder.next_request(&mut input) {
                Ok(Some(InboundRequest::Request(request))) => {
                    self.request(env, conn, request.header, request.body);
                }
                Ok(None) => break,
                Ok(Some(InboundRequest::Foreign { .. })) | Err(_) => {
                    self.out.push(Output::Malformed {
                        conn,
                        why: "a frame that is no request",
                    });
                    self.close(conn);
                }
            }
        }
        self.connections[conn].decoder = decoder;
    }

    fn request(&mut self, env: &mut Env<'_>, conn: usize, header: &RawRequestHeader, body: &[u8]) {
        let operation = match header
            .check()
            .and_then(|operation| header.check_reserved().map(|()| operation))
        {
            Ok(operation) => operation,
            Err(_) => {
                return self.out.push(Output::Malformed {
                    conn,
                    why: "a header that breaks a rule",
                });
            }
        };
        if header.check_stamp(body).is_err() {
            return self.out.push(Output::Malformed {
                conn,
                why: "a stamp that does not match its body",
            });
        }
        match operation.plane() {
            Plane::NonReplicated => self.read(env, conn, header, body),
            Plane::Session if operation == Operation::Register => {
                self.register(env, conn, header, body);
            }
            _ if self.connections[conn].bound.is_none() => {
                self.evict(env, conn, header.client(), 1);
            }
            Plane::Session => self.logout(env, conn, header),
            Plane::Metadata => self.metadata(env, conn, header, body),
            Plane::Partition if operation == Operation::SendMessages => {
                self.send(env, conn, header, body);
            }
            Plane::Partition => self.out.push(Output::Malformed {
                conn,
                why: "an operation nobody asked for",
            }),
        }
    }

    fn read(&mut self, env: &mut Env<'_>, conn: usize, header: &RawRequestHeader, body: &[u8]) {
        let logged_in = self.connections[conn].bound.is_some();
        let status = if logged_in || header.code() == CommandCode::PING {
            0
        } else {
            codec::UNAUTHENTICATED
        };
        let body = if status == 0 { body } else { &[] };
        let reply = codec::reply(header, self.echo(header), status, self.op, body);
        self.reply(env, conn, reply, None, false);
    }

    fn logout(&mut self, env: &mut Env<'_>, conn: usize, header: &RawRequestHeader) {
        if let Some(bound) = self.connections[conn].bound.take() {
            self.table.remove(bound.client);
            self.out.push(Output::SessionForgotten {
                client: bound.client,
            });
        }
        let reply = codec::reply(header, self.echo(header), 0, self.op, &[]);
        self.reply(env, conn, reply, None, true);
    }

    /// The timestamp of a direct reply: servers may echo the request's.
    fn echo(&self, header: &RawRequestHeader) -> u64 {
        if self.draws.echoes {
            header.timestamp()
        } else {
            0
        }
    }

    /// Sends a reply, unless something happens to it. `replicated` says that its number is unique,
    /// so that a second copy cannot be taken for the answer to something else.
    fn reply(
        &mut self,
        env: &mut Env<'_>,
        conn: usize,
        bytes: Vec<u8>,
        batch: Option<u32>,
        replicated: bool,
    ) {
        if !self.connections[conn].open {
            return;
        }
        if env.faults.fires(Fault::ReplyStray, batch) {
            let bytes = codec::stray_reply(env.faults.rng());
            self.out.push(Output::Send { conn, bytes });
        }
        if env.faults.fires(Fault::ReplyLost, batch) {
            return;
        }
        if replicated && env.faults.fires(Fault::ReplyDuplicated, batch) {
            let delay_us = env.faults.rng().scaled(0, 3_000_000);
            let timer = Timer::LateReply {
                conn,
                bytes: bytes.clone(),
            };
            self.out.push(Output::Timer { delay_us, timer });
        }
        if env.faults.fires(Fault::ReplyDelayed, batch) {
            let delay_us = env.faults.rng().scaled(1_000, 5_000_000);
            let timer = Timer::LateReply { conn, bytes };
            self.out.push(Output::Timer { delay_us, timer });
            return;
        }
        self.out.push(Output::Send { conn, bytes });
    }

    /// Ends the session of a connection. The server may close the connection with it or leave that
    /// to the client.
    fn evict(&mut self, env: &mut Env<'_>, conn: usize, client: u128, reason: u8) {
        if !self.connections[conn].open {
            return;
        }
        self.out.push(Output::Send {
            conn,
            bytes: codec::eviction(client, reason),
        });
        self.connections[conn].bound = None;
        if env.rng.chance(500_000) {
            self.close(conn);
        }
    }

    fn close(&mut self, conn: usize) {
        self.closed(conn);
        self.out.push(Output::Close { conn });
    }

    fn watch_heartbeat(&mut self, conn: usize) {
        let timer = Timer::Heartbeat { conn };
        self.out.push(Output::Timer {
            delay_us: self.draws.heartbeat_us,
            timer,
        });
    }

    fn heartbeat(&mut self, env: &mut Env<'_>, conn: usize) {
        let connection = &self.connections[conn];
        if !connection.open {
            return;
        }
        let silent_us = env.now_us - connection.heard_us;
        if silent_us < self.draws.heartbeat_us {
            let timer = Timer::Heartbeat { conn };
            self.out.push(Output::Timer {
                delay_us: self.draws.heartbeat_us - silent_us,
                timer,
            });
            return;
        }
        if let Some(bound) = connection.bound {
            env.faults.count(Fault::EvictedStale);
            self.out.push(Output::Send {
                conn,
                bytes: codec::eviction(bound.client, 13),
            });
        }
        self.close(conn);
    }

    /// A wake-up that was asked for.
    pub(crate) fn timer(&mut self, env: &mut Env<'_>, timer: Timer) {
        match timer {
            Timer::Commit { log } => self.commit_sends(env, log),
            Timer::MetadataCommit => self.commit_metadata(env),
            Timer::LateReply { conn, bytes } => {
                if self.connections[conn].open {
                    self.out.push(Output::Send { conn, bytes });
                }
            }
            Timer::Heartbeat { conn } => self.heartbeat(env, conn),
            Timer::TopicCreated { topic } => {
                if !self.topics[topic].exists {
                    self.create_topic(topic);
                }
            }
        }
    }
}
