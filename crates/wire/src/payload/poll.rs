//! Polling messages back, as an audit does.
//!
//! ```text
//! request                                          reply
//!   consumer     see [`Consumer`]                    partition_id    u32
//!   stream_id                                        current_offset  u64  of the partition's last message
//!   topic_id                                         messages_count  u32
//!   partition    see [`PartitionChoice`]             batches as stored, to the end
//!   strategy     kind u8, value u64
//!   count        u32
//!   auto_commit  u8  0 or 1
//! ```
//!
//! Strategies: 1 from an offset, 2 from a time in microseconds, 3 from the first, 4 the last ones,
//! 5 behind the stored offset; the value is 0 for the last three.

use crate::WireError;
use crate::batch::{Integrity, StoredBatches};
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::identifier::Identifier;
use crate::payload::consumer::{Consumer, PartitionChoice};
use crate::payload::shape::{command, payload};

/// Bytes of a poll reply before the batches.
pub const POLL_REPLY_PREFIX_BYTES: usize = 4 + 8 + 4;

/// Where to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollingStrategy {
    /// At this offset.
    Offset(u64),
    /// At the first message that is not older, in microseconds.
    Timestamp(u64),
    /// At the oldest message that is kept.
    First,
    /// So that the last messages come.
    Last,
    /// Behind the consumer's stored offset.
    Next,
}

impl Encode for PollingStrategy {
    const NAME: &'static str = "strategy";

    fn encoded_len(&self) -> usize {
        1 + 8
    }

    fn write(&self, out: &mut Writer<'_>) {
        let (kind, value) = match self {
            Self::Offset(offset) => (1, *offset),
            Self::Timestamp(timestamp) => (2, *timestamp),
            Self::First => (3, 0),
            Self::Last => (4, 0),
            Self::Next => (5, 0),
        };
        out.u8(kind);
        out.u64(value);
    }
}

impl<'a> Decode<'a> for PollingStrategy {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let offset = reader.offset();
        let kind = reader.u8(field)?;
        let value = reader.u64(field)?;
        let strategy = match kind {
            1 => return Ok(Self::Offset(value)),
            2 => return Ok(Self::Timestamp(value)),
            3 => Self::First,
            4 => Self::Last,
            5 => Self::Next,
            found => {
                return Err(WireError::UnknownKind {
                    field,
                    offset,
                    found: found.into(),
                });
            }
        };
        if value != 0 {
            return Err(WireError::Mismatch {
                field,
                offset: offset + 1,
                found: value.into(),
                expected: 0,
            });
        }
        Ok(strategy)
    }
}

payload! {
    /// Asks for messages of one partition.
    #[derive(Copy, Eq)]
    pub struct PollMessages<'a> {
        /// Who asks.
        pub consumer: Consumer<'a>,
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// The partition.
        pub partition: PartitionChoice,
        /// Where to start.
        pub strategy: PollingStrategy,
        /// Most messages to return.
        pub count: u32,
        /// Whether the server stores the offset of the last one returned.
        pub auto_commit: bool,
    }
}

command!(PollMessages<'_>, POLL_MESSAGES, PollReply<'r>);

/// Messages of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollReply<'a> {
    /// The partition.
    pub partition_id: u32,
    /// The offset of the partition's last message.
    pub current_offset: u64,
    /// How many messages follow.
    pub messages_count: u32,
    /// The batches, as stored: [`PollReply::stored_batches`] walks them. No bytes exactly when no
    /// messages.
    pub batches: &'a [u8],
}

impl<'a> PollReply<'a> {
    /// The batches, one by one. Each is checked when its turn comes; the sum of their messages is
    /// for the caller to hold against [`PollReply::messages_count`].
    #[must_use]
    pub const fn stored_batches(&self, integrity: Integrity) -> StoredBatches<'a> {
        StoredBatches::new(self.batches, integrity)
    }
}

impl Encode for PollReply<'_> {
    const NAME: &'static str = "PollReply";

    fn encoded_len(&self) -> usize {
        POLL_REPLY_PREFIX_BYTES + self.batches.len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.partition_id);
        out.u64(self.current_offset);
        out.u32(self.messages_count);
        out.bytes(self.batches);
    }
}

impl<'a> Decode<'a> for PollReply<'a> {
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        let partition_id = reader.u32("partition_id")?;
        let current_offset = reader.u64("current_offset")?;
        let messages_count = reader.u32("messages_count")?;
        let offset = reader.offset();
        let batches = reader.rest();
        match (messages_count, batches.len()) {
            (0, 1..) => Err(WireError::Trailing {
                field: "messages_count of 0",
                offset,
                found: batches.len(),
            }),
            (1.., 0) => Err(WireError::Truncated {
                field: "batches",
                offset,
                needed: 1,
                found: 0,
            }),
            _ => Ok(Self {
                partition_id,
                current_offset,
                messages_count,
                batches,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_without_a_value_have_a_zero() {
        for strategy in [
            PollingStrategy::First,
            PollingStrategy::Last,
            PollingStrategy::Next,
        ] {
            let mut bytes = strategy.to_vec();
            assert_eq!(PollingStrategy::decode(&bytes), Ok(strategy));
            bytes[8] = 1;
            assert!(matches!(
                PollingStrategy::decode(&bytes),
                Err(WireError::Mismatch {
                    field: "strategy",
                    offset: 1,
                    expected: 0,
                    ..
                })
            ));
        }
        assert!(matches!(
            PollingStrategy::decode(&[6; 9]),
            Err(WireError::UnknownKind {
                field: "strategy",
                offset: 0,
                found: 6
            })
        ));
    }

    #[test]
    fn count_and_batches_go_together() {
        let reply = |messages_count, batches| PollReply {
            partition_id: 1,
            current_offset: 2,
            messages_count,
            batches,
        };
        for (reply, ok) in [
            (reply(0, &[][..]), true),
            (reply(1, &[0]), true),
            (reply(0, &[0]), false),
            (reply(1, &[]), false),
        ] {
            let bytes = reply.to_vec();
            assert_eq!(PollReply::decode(&bytes).is_ok(), ok);
        }
    }
}
