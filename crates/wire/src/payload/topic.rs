//! Topics, partitions and segments: create, update, delete, purge, and what the server knows about
//! them.
//!
//! ```text
//! create                     stream_id, partitions_count u32, name, options to the end
//! update                     stream_id, topic_id, name, options to the end
//! get one, delete, purge     stream_id, topic_id
//! get all                    stream_id
//! create, delete partitions  stream_id, topic_id, partitions_count u32
//! delete segments            stream_id, topic_id, partition_id u32, segments_count u32
//!
//! create, get one  ->  topic, partitions_count partitions     partition
//!                      (get: empty when there is no such        id              u32
//!                      topic)                                   created_at      u64
//! get all          ->  count u32, topics                        segments_count  u32
//!                                                               current_offset  u64
//!                                                               size_bytes      u64
//!                                                               messages_count  u64
//! ```

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::identifier::Identifier;
use crate::name::Name;
use crate::options::Options;
use crate::payload::shape::{command, count_of, encoded_len_of, payload, read_items, write_items};
use crate::payload::stream::TopicInfo;
use crate::payload::{Counted, Empty};

/// Most partitions that one request may create or delete.
pub const PARTITIONS_PER_REQUEST_MAX: u32 = 1000;

payload! {
    /// Creates a topic.
    #[derive(Copy, Eq)]
    pub struct CreateTopic<'a> {
        /// The stream it goes into.
        pub stream_id: Identifier<'a>,
        /// How many partitions it starts with.
        pub partitions_count: u32,
        /// Its name, not in use in the stream yet.
        pub name: Name<'a>,
        /// Its settings; the server fills in the others.
        pub options: Options<'a>,
    }
}

payload! {
    /// Renames a topic and changes the settings that are given; others stay.
    #[derive(Copy, Eq)]
    pub struct UpdateTopic<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// Its name from now on.
        pub name: Name<'a>,
        /// The settings to change.
        pub options: Options<'a>,
    }
}

payload! {
    /// Deletes a topic with all its messages.
    #[derive(Copy, Eq)]
    pub struct DeleteTopic<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
    }
}

payload! {
    /// Drops all messages of a topic.
    #[derive(Copy, Eq)]
    pub struct PurgeTopic<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
    }
}

payload! {
    /// Asks for a topic and its partitions.
    #[derive(Copy, Eq)]
    pub struct GetTopic<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
    }
}

payload! {
    /// Asks for all topics of a stream.
    #[derive(Copy, Eq)]
    pub struct GetTopics<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
    }
}

payload! {
    /// Adds partitions to a topic.
    #[derive(Copy, Eq)]
    pub struct CreatePartitions<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// How many: servers take 1 to [`PARTITIONS_PER_REQUEST_MAX`].
        pub partitions_count: u32,
    }
}

payload! {
    /// Removes the last partitions of a topic, with their messages.
    #[derive(Copy, Eq)]
    pub struct DeletePartitions<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// How many: servers take 1 to [`PARTITIONS_PER_REQUEST_MAX`].
        pub partitions_count: u32,
    }
}

payload! {
    /// Drops the oldest closed segments of a partition.
    #[derive(Copy, Eq)]
    pub struct DeleteSegments<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// The topic.
        pub topic_id: Identifier<'a>,
        /// The partition.
        pub partition_id: u32,
        /// How many segments.
        pub segments_count: u32,
    }
}

command!(CreateTopic<'_>, CREATE_TOPIC, TopicDetails<'r>);
command!(UpdateTopic<'_>, UPDATE_TOPIC, Empty);
command!(DeleteTopic<'_>, DELETE_TOPIC, Empty);
command!(PurgeTopic<'_>, PURGE_TOPIC, Empty);
command!(GetTopic<'_>, GET_TOPIC, Option<TopicDetails<'r>>);
command!(GetTopics<'_>, GET_TOPICS, Option<Counted<TopicInfo<'r>>>);
command!(CreatePartitions<'_>, CREATE_PARTITIONS, Empty);
command!(DeletePartitions<'_>, DELETE_PARTITIONS, Empty);
command!(DeleteSegments<'_>, DELETE_SEGMENTS, Empty);

payload! {
    /// A partition.
    #[derive(Copy, Eq)]
    pub struct PartitionInfo {
        /// Its number within the topic.
        pub id: u32,
        /// When it was created, in microseconds.
        pub created_at: u64,
        /// How many segments it has.
        pub segments_count: u32,
        /// The offset of its last message, 0 when it is empty.
        pub current_offset: u64,
        /// Bytes of all its messages.
        pub size_bytes: u64,
        /// How many messages it has.
        pub messages_count: u64,
    }
}

/// A topic and its partitions.
///
/// `topic.partitions_count` is not looked at when this is encoded: the number of partitions is
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDetails<'a> {
    /// The topic.
    pub topic: TopicInfo<'a>,
    /// Its partitions.
    pub partitions: Vec<PartitionInfo>,
}

impl Encode for TopicDetails<'_> {
    const NAME: &'static str = "TopicDetails";

    fn encoded_len(&self) -> usize {
        self.topic.encoded_len() + encoded_len_of(&self.partitions)
    }

    fn write(&self, out: &mut Writer<'_>) {
        let partitions_count = count_of(&self.partitions);
        TopicInfo {
            partitions_count,
            ..self.topic
        }
        .write(out);
        write_items(&self.partitions, out);
    }
}

impl<'a> Decode<'a> for TopicDetails<'a> {
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        let topic = TopicInfo::read(reader)?;
        let partitions = read_items(reader, topic.partitions_count)?;
        Ok(Self { topic, partitions })
    }
}
