//! What an application hands to a producer: one record, its key, its headers.
//!
//! Holds no wire bytes and checks nothing: limits are checked where the record is appended, so that
//! building one costs a few moves.

use bytes::Bytes;

/// One record to be stored.
///
/// Only `payload` is required. Cloning is cheap: payload and key are reference-counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The bytes to store: 0 to 64,000,000.
    pub payload: Bytes,
    /// Picks the partition under [`Partitioning::Key`](crate::Partitioning::Key): 1 to 255 bytes.
    /// Not stored with the record; ignored by the other partitionings, except that a custom one may
    /// look at it.
    pub key: Option<Bytes>,
    /// Encoded user headers, at most 100,000 bytes, as `UserHeadersBuilder` of `ringmain-wire`
    /// writes them. `None` stores none.
    pub user_headers: Option<Bytes>,
    /// The message id. `None` takes one that is unique per process start (a random base and a
    /// counter).
    pub id: Option<u128>,
    /// When the record came to be, in microseconds since the Unix epoch. `None` takes the time of
    /// acceptance.
    pub timestamp_us: Option<u64>,
}

impl Record {
    /// A record with this payload and nothing else.
    #[must_use]
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            ..Self::default()
        }
    }

    /// Sets the key that picks the partition.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the encoded user headers.
    #[must_use]
    pub fn user_headers(mut self, encoded: impl Into<Bytes>) -> Self {
        self.user_headers = Some(encoded.into());
        self
    }

    /// Sets the message id.
    #[must_use]
    pub fn id(mut self, id: u128) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the time of origin, in microseconds since the Unix epoch.
    #[must_use]
    pub fn timestamp_us(mut self, timestamp_us: u64) -> Self {
        self.timestamp_us = Some(timestamp_us);
        self
    }
}
