//! Control calls: any operation of the protocol with a raw body, its reply as received.
//!
//! Describes calls; sending them is the shard's job. A call's body and reply are owned bytes,
//! outside the registered memory and the memory cap: calls are rare.

use std::fmt;

use bytes::Bytes;

/// One call to the server. The typed calls of [`Engine`](crate::Engine) build these.
///
/// `Debug` shows how long the body is and not what is in it: it may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// The operation byte of the header, 1..=162 as the protocol lists them.
    pub operation: u8,
    /// The command code: needed for operation 2 (non-replicated), ignored otherwise.
    pub code: u32,
    /// The request body, at most 64 MiB less the header.
    pub body: Bytes,
}

impl Call {
    /// A non-replicated call (a read) with this command code.
    #[must_use]
    pub fn read(code: u32, body: impl Into<Bytes>) -> Self {
        Self {
            operation: 2,
            code,
            body: body.into(),
        }
    }

    /// A replicated call: its operation alone says what it is.
    #[must_use]
    pub fn replicated(operation: u8, body: impl Into<Bytes>) -> Self {
        Self {
            operation,
            code: 0,
            body: body.into(),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("operation", &self.operation)
            .field("code", &self.code)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// The reply to a [`Call`] that the server did not refuse.
///
/// `Debug` shows how long the body is and not what is in it: it may hold a new token.
#[derive(Clone, PartialEq, Eq)]
pub struct CallReply {
    /// The body after the result section, where the operation has one.
    pub body: Bytes,
}

impl fmt::Debug for CallReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallReply")
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// What the server knows of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInfo {
    /// The server's number of the stream.
    pub stream_id: u32,
    /// The server's number of the topic. Servers give the number of a topic that was deleted to
    /// another one.
    pub topic_id: u32,
    /// When it was created, in microseconds since the Unix epoch: tells it from others that had its
    /// name.
    pub created_at_us: u64,
    /// How many partitions it has, numbered from 0.
    pub partitions_count: u32,
    /// How many records are in it.
    pub messages_count: u64,
}

/// Records read back from one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polled {
    /// The partition.
    pub partition: u32,
    /// The partition's latest offset.
    pub current_offset: u64,
    /// The records, by rising offset.
    pub records: Vec<PolledRecord>,
}

/// One record as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolledRecord {
    /// Its offset.
    pub offset: u64,
    /// Its id.
    pub id: u128,
    /// When the producer says it came to be, in microseconds since the Unix epoch.
    pub origin_timestamp_us: u64,
    /// The payload.
    pub payload: Bytes,
    /// The encoded user headers, empty when there are none.
    pub user_headers: Bytes,
}
