//! Streams: create, update, delete, purge, and what the server knows about them.
//!
//! ```text
//! create         name, options to the end          stream            topic (in stream and topic replies)
//! update         stream_id, name, options            id              u32   id                     u32
//! delete, purge  stream_id                           created_at      u64   created_at             u64
//! get one        stream_id                           topics_count    u32   partitions_count       u32
//! get all        empty                               size_bytes      u64   message_expiry         u64
//!                                                    messages_count  u64   compression_algorithm  u8
//! get one  ->  stream, topics_count topics           name            name  max_topic_size         u64
//!              (empty when there is no such stream)  options length  u32   size_bytes             u64
//! get all  ->  streams to the end                    options               messages_count         u64
//! create   ->  stream                                                      name                   name
//!                                                                          options length         u32
//!                                                                          options
//!                                                                          derived length         u32
//!                                                                          derived options
//! ```
//!
//! Times are microseconds since 1970.

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::identifier::Identifier;
use crate::name::Name;
use crate::options::Options;
use crate::payload::shape::{
    command, count_of, empty_command, encoded_len_of, payload, read_items, write_items,
};
use crate::payload::{Empty, LengthPrefixed, ToEnd};

payload! {
    /// Creates a stream.
    #[derive(Copy, Eq)]
    pub struct CreateStream<'a> {
        /// Its name, not in use yet.
        pub name: Name<'a>,
        /// Its settings.
        pub options: Options<'a>,
    }
}

payload! {
    /// Renames a stream and changes the settings that are given; others stay.
    #[derive(Copy, Eq)]
    pub struct UpdateStream<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
        /// Its name from now on.
        pub name: Name<'a>,
        /// The settings to change.
        pub options: Options<'a>,
    }
}

payload! {
    /// Deletes a stream with all its topics.
    #[derive(Copy, Eq)]
    pub struct DeleteStream<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
    }
}

payload! {
    /// Drops all messages of a stream.
    #[derive(Copy, Eq)]
    pub struct PurgeStream<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
    }
}

payload! {
    /// Asks for a stream and its topics.
    #[derive(Copy, Eq)]
    pub struct GetStream<'a> {
        /// The stream.
        pub stream_id: Identifier<'a>,
    }
}

empty_command! {
    /// Asks for all streams.
    pub struct GetStreams = GET_STREAMS -> ToEnd<StreamInfo<'r>>;
}

command!(CreateStream<'_>, CREATE_STREAM, StreamInfo<'r>);
command!(UpdateStream<'_>, UPDATE_STREAM, Empty);
command!(DeleteStream<'_>, DELETE_STREAM, Empty);
command!(PurgeStream<'_>, PURGE_STREAM, Empty);
command!(GetStream<'_>, GET_STREAM, Option<StreamDetails<'r>>);

payload! {
    /// A stream.
    #[derive(Copy, Eq)]
    pub struct StreamInfo<'a> {
        /// Its number.
        pub id: u32,
        /// When it was created, in microseconds.
        pub created_at: u64,
        /// How many topics it has.
        pub topics_count: u32,
        /// Bytes of all its messages.
        pub size_bytes: u64,
        /// How many messages it has.
        pub messages_count: u64,
        /// Its name.
        pub name: Name<'a>,
        /// Its settings.
        pub options: LengthPrefixed<Options<'a>>,
    }
}

payload! {
    /// A topic, without its partitions.
    #[derive(Copy, Eq)]
    pub struct TopicInfo<'a> {
        /// Its number within the stream.
        pub id: u32,
        /// When it was created, in microseconds.
        pub created_at: u64,
        /// How many partitions it has.
        pub partitions_count: u32,
        /// How long messages are kept, in microseconds.
        pub message_expiry: u64,
        /// How messages are compressed: 1 is not at all.
        pub compression_algorithm: u8,
        /// Most bytes of all its messages.
        pub max_topic_size: u64,
        /// Bytes of all its messages.
        pub size_bytes: u64,
        /// How many messages it has.
        pub messages_count: u64,
        /// Its name.
        pub name: Name<'a>,
        /// The settings that were given when it was created.
        pub options: LengthPrefixed<Options<'a>>,
        /// The settings that the server filled in.
        pub derived_options: LengthPrefixed<Options<'a>>,
    }
}

/// A stream and its topics.
///
/// `stream.topics_count` is not looked at when this is encoded: the number of topics is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDetails<'a> {
    /// The stream.
    pub stream: StreamInfo<'a>,
    /// Its topics.
    pub topics: Vec<TopicInfo<'a>>,
}

impl Encode for StreamDetails<'_> {
    const NAME: &'static str = "StreamDetails";

    fn encoded_len(&self) -> usize {
        self.stream.encoded_len() + encoded_len_of(&self.topics)
    }

    fn write(&self, out: &mut Writer<'_>) {
        let topics_count = count_of(&self.topics);
        StreamInfo {
            topics_count,
            ..self.stream
        }
        .write(out);
        write_items(&self.topics, out);
    }
}

impl<'a> Decode<'a> for StreamDetails<'a> {
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        let stream = StreamInfo::read(reader)?;
        let topics = read_items(reader, stream.topics_count)?;
        Ok(Self { stream, topics })
    }
}
