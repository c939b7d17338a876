//! Every error the public API returns: what happened, whose fault it is, what to do.
//!
//! Holds no logic. Errors about a record's fate are not here: those are
//! [`Outcome`](crate::Outcome)s.

use ringmain_wire::ErrorCode;

use crate::process::FORKED;
use crate::record::Record;
use crate::server_url::ServerUrlError;

/// Why an engine or a producer could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The caller's fault: an option is out of its range.
    #[error("{option} is {found}, allowed is {min} to {max}: correct the configuration")]
    OutOfRange {
        /// The builder method.
        option: &'static str,
        /// The value given.
        found: u64,
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// The caller's fault: an option is not a multiple of its unit.
    #[error("{option} is {found}, which is not a multiple of {unit}: round it")]
    NotMultiple {
        /// The builder method.
        option: &'static str,
        /// The value given.
        found: u64,
        /// What it must be a multiple of.
        unit: u64,
    },
    /// The caller's fault: two options contradict each other.
    #[error("{option} contradicts {other}: {why}")]
    Contradiction {
        /// One builder method.
        option: &'static str,
        /// The other.
        other: &'static str,
        /// What they would have to be.
        why: &'static str,
    },
    /// The caller's fault: no server was named.
    #[error("no server was given: call server(\"iggy://user:password@host:port\")")]
    ServerMissing,
    /// The caller's fault: the server URL cannot be read.
    #[error(transparent)]
    ServerUrl(#[from] ServerUrlError),
    /// The caller's fault: a stream or topic name must be 1 to 255 bytes.
    #[error("the {what} name has {bytes} bytes, the protocol allows 1 to 255: use another name")]
    NameLength {
        /// `stream` or `topic`.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// The environment's fault: a host name could not be resolved, and no other address took the
    /// login.
    #[error("cannot resolve {host}: {why}; check the name and the resolver")]
    Resolve {
        /// The host as given.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// The environment's fault: the kernel refused the ring, the memory or the thread.
    #[error("{0}")]
    Setup(String),
    /// No login was possible within the time given.
    #[error("cannot reach the server: {0}")]
    Connect(String),
    /// The caller's fault: the stream or topic does not exist and `create_if_missing` was not asked
    /// for.
    #[error("{stream}/{topic} does not exist: create it, or call create_if_missing(partitions)")]
    TopicMissing {
        /// The stream as given.
        stream: String,
        /// The topic as given.
        topic: String,
    },
    /// Another producer of this engine sends to the same topic with another window or ordering, or
    /// did and has records without an answer.
    #[error(
        "another producer of this engine sends to the same topic with window {window} and {ordering} ordering: \
         a partition has one window, use the same settings or another engine"
    )]
    WindowShared {
        /// The window in force, in requests.
        window: u32,
        /// The ordering in force.
        ordering: &'static str,
    },
    /// The caller's fault: the partitioning sends to every partition of the topic, and there are
    /// more than the engine may send to.
    #[error(
        "{stream}/{topic} has {count} partitions and the engine may send to {max}: raise partitions_max, or send to \
         some of them by key or partition"
    )]
    PartitionsMax {
        /// The stream as given.
        stream: String,
        /// The topic as given.
        topic: String,
        /// Partitions of the topic.
        count: u32,
        /// The limit of the engine.
        max: u32,
    },
    /// A call to the server failed while building.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Why a record was not accepted. It is not in the account; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// `try_send` found no memory free, or receipt callbacks that wait to run hold too much of it.
    /// Try again, or use `send`.
    #[error("the engine's memory is full: wait with send, or raise memory_bytes_max")]
    Full,
    /// The deadline given to `send_deadline` passed while waiting for memory.
    #[error(
        "no memory became free by the deadline: the server, or a receipt callback, is slower than the application"
    )]
    DeadlineOver,
    /// The caller's fault: the producer or its engine is closed.
    #[error("the producer is closed: build a new one")]
    Closed,
    /// The caller's fault: the engine was built by the process that this one was forked from.
    #[error("{FORKED}")]
    Forked,
    /// The engine's thread ended; nothing can be sent any more.
    #[error("the engine's thread has ended, its last words are in the log: build a new engine")]
    EngineFailed,
    /// The caller's fault: there is no memory free, and this is a shard's own thread, which would
    /// wait for itself.
    #[error(
        "no memory is free and this is a shard's own thread, where wakers and the owners of payloads run: \
         send from a thread or task of the application, or use try_send"
    )]
    OnShardThread,
    /// The caller's fault: the payload is larger than the protocol or the memory cap allows.
    #[error(
        "the payload has {bytes} bytes, the largest possible is {max}: split it, or raise memory_bytes_max"
    )]
    PayloadTooLarge {
        /// Its size.
        bytes: usize,
        /// The largest this engine takes.
        max: usize,
    },
    /// The caller's fault: the user headers are longer than the protocol allows, or are not encoded
    /// user headers.
    #[error(
        "the user headers ({bytes} bytes) are not valid or longer than 100000 bytes: encode them anew"
    )]
    UserHeaders {
        /// Their size.
        bytes: usize,
    },
    /// The caller's fault: the user headers travel in a slot, and these do not fit one.
    #[error("the record's user headers do not fit a slot of {bytes} bytes: raise slot_bytes")]
    SlotTooSmall {
        /// Bytes of a slot.
        bytes: usize,
    },
    /// The caller's fault: partitioning by key needs a key of 1 to 255 bytes.
    #[error("the key has {bytes} bytes, partitioning by key needs 1 to 255")]
    Key {
        /// Its size, 0 when there is none.
        bytes: usize,
    },
    /// The caller's fault: the partition does not exist.
    #[error("partition {partition} does not exist, the topic has {count}")]
    Partition {
        /// The partition asked for.
        partition: u32,
        /// How many there are, from 0.
        count: u32,
    },
    /// The caller's fault: the engine sends to as many partitions as it was configured for.
    #[error("the engine already sends to {max} partitions: raise partitions_max")]
    PartitionsMax {
        /// The limit.
        max: u32,
    },
}

/// A record that was not accepted, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    pub error: SendError,
    /// The record, as it was given.
    pub record: Record,
}

/// A batch of which only a part was accepted.
#[derive(Debug, thiserror::Error)]
#[error("{error}; {} records were accepted before it", accepted.len())]
pub struct RefusedBatch {
    /// Why the first refused record was refused.
    pub error: SendError,
    /// The first refused record.
    pub record: Record,
    /// Records after it that had been taken from the iterator, in order. They were not looked at.
    pub rest: Vec<Record>,
    /// Receipts of the records before it.
    pub accepted: crate::receipt::Receipts,
}

/// Why a call to the server has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No reply within the time given. A call that changes something may have been carried out.
    #[error(
        "no reply to {operation} within {waited_us} us: the server is down, unreachable or stalled"
    )]
    Timeout {
        /// The protocol's name of the operation.
        operation: &'static str,
        /// How long it was waited for.
        waited_us: u64,
    },
    /// No reply, and there is no session with the server either.
    #[error("{operation} could not be sent, there is no session with the server: {cause}")]
    NoSession {
        /// The protocol's name of the operation.
        operation: &'static str,
        /// Why there is no session.
        cause: String,
    },
    /// The server refused.
    #[error("the server refused {operation}: {code}")]
    Refused {
        /// The protocol's name of the operation.
        operation: &'static str,
        /// The server's code.
        code: ErrorCode,
    },
    /// The caller's fault: the server ended the session because of this call.
    #[error(
        "the server ended the session because of {operation}: {reason}; its body is not what this server expects"
    )]
    Evicted {
        /// The protocol's name of the operation.
        operation: &'static str,
        /// The server's reason.
        reason: String,
    },
    /// The login was refused, so no call can be made.
    #[error("the login was refused: {0}")]
    Login(String),
    /// The call was sent and not answered, in time or before its connection was lost, and must not
    /// be repeated blindly.
    #[error("{operation} was sent and not answered: it may have been carried out")]
    Lost {
        /// The protocol's name of the operation.
        operation: &'static str,
    },
    /// The caller's fault: the engine is closed.
    #[error("the engine is closed: build a new one")]
    Closed,
    /// The caller's fault: the engine was built by the process that this one was forked from.
    #[error("{FORKED}")]
    Forked,
    /// The engine's thread ended; no call can be made any more.
    #[error("the engine's thread has ended ({cause}): build a new engine")]
    EngineFailed {
        /// Its last words.
        cause: String,
    },
    /// The caller's fault: this is a shard's own thread, which would wait for itself.
    #[error(
        "a call cannot be waited for on a shard's own thread, where wakers and the owners of payloads run: \
         make it on a thread of the application"
    )]
    OnShardThread,
    /// The caller's fault: the body is larger than a frame may be.
    #[error("the body has {bytes} bytes, the largest possible is {max}")]
    BodyTooLarge {
        /// Its size.
        bytes: usize,
        /// The largest possible.
        max: usize,
    },
    /// Too many calls are waiting.
    #[error("{max} calls are already waiting: wait for one to end")]
    Busy {
        /// The limit.
        max: usize,
    },
    /// The caller's fault: a name, an identifier or a parameter cannot be encoded.
    #[error("{operation} cannot be encoded: {why}")]
    Encode {
        /// The protocol's name of the operation.
        operation: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The server's fault: the reply cannot be decoded.
    #[error("the reply to {operation} cannot be decoded: {why}")]
    Decode {
        /// The protocol's name of the operation.
        operation: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl CallError {
    /// Whether the server said that there is no such stream, topic or partition.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if is_missing(*code))
    }
}

/// Codes that say that a stream, a topic or a partition does not exist.
pub(crate) fn is_missing(code: ErrorCode) -> bool {
    matches!(code.get(), 20 | 1009 | 1010 | 2010 | 2011 | 3007)
}

/// Checks an option against its range.
pub(crate) fn in_range<T: Copy + PartialOrd + Into<u64>>(
    option: &'static str,
    found: T,
    min: T,
    max: T,
) -> Result<(), BuildError> {
    if min <= found && found <= max {
        return Ok(());
    }
    Err(BuildError::OutOfRange {
        option,
        found: found.into(),
        min: min.into(),
        max: max.into(),
    })
}
