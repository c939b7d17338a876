//! Consumers and their offsets: reading, storing and deleting them.
//!
//! ```text
//! consumer     kind u8 (1 consumer, 2 consumer group), identifier
//! partition    flag u8 (1 given, 0 not), partition_id u32 (0 when not given)
//!
//! get offset     consumer, stream_id, topic_id, partition
//! store offset   consumer, stream_id, topic_id, partition, offset u64, ack u8
//! delete offset  consumer, stream_id, topic_id, partition, ack u8
//!
//! get offset  ->  partition_id u32, current_offset u64, stored_offset u64 (empty when none is stored)
//! ```

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::identifier::Identifier;
use crate::payload::Empty;
use crate::payload::shape::{command, kind, payload};

const KIND_CONSUMER: u8 = 1;
const KIND_CONSUMER_GROUP: u8 = 2;

/// Who consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consumer<'a> {
    /// One consumer on its own.
    Consumer(Identifier<'a>),
    /// The members of a group together.
    ConsumerGroup(Identifier<'a>),
}

impl Encode for Consumer<'_> {
    const NAME: &'static str = "consumer";

    fn encoded_len(&self) -> usize {
        let (Self::Consumer(id) | Self::ConsumerGroup(id)) = self;
        1 + id.encoded_len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        let (kind, id) = match self {
            Self::Consumer(id) => (KIND_CONSUMER, id),
            Self::ConsumerGroup(id) => (KIND_CONSUMER_GROUP, id),
        };
        out.u8(kind);
        id.write(out);
    }
}

impl<'a> Decode<'a> for Consumer<'a> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let offset = reader.offset();
        match reader.u8(field)? {
            KIND_CONSUMER => Identifier::read_as(reader, field).map(Self::Consumer),
            KIND_CONSUMER_GROUP => Identifier::read_as(reader, field).map(Self::ConsumerGroup),
            found => Err(WireError::UnknownKind {
                field,
                offset,
                found: found.into(),
            }),
        }
    }
}

/// Which partition, if the client says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionChoice {
    /// The server finds it: the first one, or the one assigned to the group's member.
    ByServer,
    /// This one.
    PartitionId(u32),
}

impl Encode for PartitionChoice {
    const NAME: &'static str = "partition";

    fn encoded_len(&self) -> usize {
        1 + 4
    }

    fn write(&self, out: &mut Writer<'_>) {
        let (flag, id) = match self {
            Self::ByServer => (0, 0),
            Self::PartitionId(id) => (1, *id),
        };
        out.u8(flag);
        out.u32(id);
    }
}

impl<'a> Decode<'a> for PartitionChoice {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let given = reader.flag(field)?;
        let offset = reader.offset();
        match (given, reader.u32(field)?) {
            (true, id) => Ok(Self::PartitionId(id)),
            (false, 0) => Ok(Self::ByServer),
            (false, found) => Err(WireError::Mismatch {
                field,
                offset,
                found: found.into(),
                expected: 0,
            }),
        }
    }
}

kind! {
    /// When the write of an offset is answered.
    #[derive(Default)]
    pub enum AckLevel as "ack" {
        /// At once, on a topic with one replica; otherwise as the other.
        NoAck = 0,
        /// When a quorum has it.
        #[default]
        Quorum = 1,
    }
}

payload! {
    /// Asks for a stored offset.
    #[derive(Copy, Eq)]
    pub struct GetConsumerOffset<'a> {
        /// Whose.
        pub consumer: Consumer<'a>,
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// The partition.
        pub partition: PartitionChoice,
    }
}

payload! {
    /// Stores an offset.
    #[derive(Copy, Eq)]
    pub struct StoreConsumerOffset<'a> {
        /// Whose.
        pub consumer: Consumer<'a>,
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// The partition.
        pub partition: PartitionChoice,
        /// The offset of the last message that was dealt with.
        pub offset: u64,
        /// When to answer.
        pub ack: AckLevel,
    }
}

payload! {
    /// Deletes a stored offset.
    #[derive(Copy, Eq)]
    pub struct DeleteConsumerOffset<'a> {
        /// Whose.
        pub consumer: Consumer<'a>,
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// The partition.
        pub partition: PartitionChoice,
        /// When to answer.
        pub ack: AckLevel,
    }
}

payload! {
    /// A stored offset.
    #[derive(Copy, Eq)]
    pub struct ConsumerOffsetInfo {
        /// The partition.
        pub partition_id: u32,
        /// The offset of the partition's last message.
        pub current_offset: u64,
        /// The offset that was stored.
        pub stored_offset: u64,
    }
}

command!(
    GetConsumerOffset<'_>,
    GET_CONSUMER_OFFSET,
    Option<ConsumerOffsetInfo>
);
command!(StoreConsumerOffset<'_>, STORE_CONSUMER_OFFSET, Empty);
command!(DeleteConsumerOffset<'_>, DELETE_CONSUMER_OFFSET, Empty);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_is_not_given_is_zero() {
        assert_eq!(
            PartitionChoice::decode(&[0, 1, 0, 0, 0]),
            Err(WireError::Mismatch {
                field: "partition",
                offset: 1,
                found: 1,
                expected: 0
            })
        );
        assert_eq!(
            PartitionChoice::decode(&[2, 0, 0, 0, 0]),
            Err(WireError::OutOfRange {
                field: "partition",
                offset: 0,
                found: 2,
                min: 0,
                max: 1
            })
        );
    }

    #[test]
    fn kinds_out_of_range_are_refused() {
        for bytes in [&[0, 1, 4, 0, 0, 0, 0][..], &[3, 1, 4, 0, 0, 0, 0]] {
            assert!(matches!(
                Consumer::decode(bytes),
                Err(WireError::UnknownKind {
                    field: "consumer",
                    offset: 0,
                    ..
                })
            ));
        }
        assert!(matches!(
            AckLevel::decode(&[2]),
            Err(WireError::UnknownKind { found: 2, .. })
        ));
    }
}
