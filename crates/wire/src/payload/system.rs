//! What a server tells about itself: the clients connected to it, its statistics, the options it
//! knows.
//!
//! ```text
//! get me -> client                       describe options  scope u8: 1 topic, 2 stream, 3 user
//!   client_id              u32
//!   user_id                u32             -> count u32, descriptors    descriptor
//!   transport              u8                                             key            name
//!   address                text                                           kind           u8
//!   consumer_groups_count  u32                                            default_value  u32 length, bytes
//!   groups: stream_id u32,                                                description    text
//!     topic_id u32, group_id u32
//!
//! get stats -> see [`Stats`], in the order of its fields
//! ```

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::name::Name;
use crate::payload::shape::{
    command, count_of, empty_command, encoded_len_of, kind, payload, read_items, write_items,
};
use crate::payload::{Counted, LengthPrefixed, Raw};
use crate::text::Text;

empty_command! {
    /// Asks how the server sees this connection.
    pub struct GetMe = GET_ME -> ClientDetails<'r>;
}

empty_command! {
    /// Asks for the server's statistics.
    pub struct GetStats = GET_STATS -> Stats<'r>;
}

payload! {
    /// A client as a server sees it.
    #[derive(Copy, Eq)]
    pub struct ClientInfo<'a> {
        /// The server's number for the connection, not the identity in headers.
        pub client_id: u32,
        /// The user who is logged in.
        pub user_id: u32,
        /// 1 TCP, 2 QUIC, 3 HTTP, 4 WebSocket.
        pub transport: u8,
        /// Where the connection comes from.
        pub address: Text<'a>,
        /// How many groups it is a member of.
        pub consumer_groups_count: u32,
    }
}

payload! {
    /// A consumer group that a client is a member of.
    #[derive(Copy, Eq)]
    pub struct ConsumerGroupMembership {
        /// The stream.
        pub stream_id: u32,
        /// The topic.
        pub topic_id: u32,
        /// The group.
        pub group_id: u32,
    }
}

/// A client and its groups.
///
/// `client.consumer_groups_count` is not looked at when this is encoded: the number of groups is
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDetails<'a> {
    /// The client.
    pub client: ClientInfo<'a>,
    /// Its groups.
    pub consumer_groups: Vec<ConsumerGroupMembership>,
}

impl Encode for ClientDetails<'_> {
    const NAME: &'static str = "ClientDetails";

    fn encoded_len(&self) -> usize {
        self.client.encoded_len() + encoded_len_of(&self.consumer_groups)
    }

    fn write(&self, out: &mut Writer<'_>) {
        let consumer_groups_count = count_of(&self.consumer_groups);
        ClientInfo {
            consumer_groups_count,
            ..self.client
        }
        .write(out);
        write_items(&self.consumer_groups, out);
    }
}

impl<'a> Decode<'a> for ClientDetails<'a> {
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        let client = ClientInfo::read(reader)?;
        let consumer_groups = read_items(reader, client.consumer_groups_count)?;
        Ok(Self {
            client,
            consumer_groups,
        })
    }
}

payload! {
    /// How well the cache of one partition works.
    #[derive(Copy)]
    pub struct CacheMetric {
        /// The stream.
        pub stream_id: u32,
        /// The topic.
        pub topic_id: u32,
        /// The partition.
        pub partition_id: u32,
        /// Reads that the cache answered.
        pub hits: u64,
        /// Reads that it did not.
        pub misses: u64,
        /// The share of the former.
        pub hit_ratio: f32,
    }
}

payload! {
    /// A server's statistics. Sizes are in bytes, times in microseconds.
    pub struct Stats<'a> {
        /// Process id.
        pub process_id: u32,
        /// Processor use of the process, in percent of one core.
        pub cpu_usage: f32,
        /// Processor use of the host, in percent.
        pub total_cpu_usage: f32,
        /// Memory of the process.
        pub memory_usage: u64,
        /// Memory of the host.
        pub total_memory: u64,
        /// Memory of the host that is free.
        pub available_memory: u64,
        /// How long the process runs.
        pub run_time: u64,
        /// When it started.
        pub start_time: u64,
        /// Bytes read from disk.
        pub read_bytes: u64,
        /// Bytes written to disk.
        pub written_bytes: u64,
        /// Bytes of all messages.
        pub messages_size_bytes: u64,
        /// How many streams there are.
        pub streams_count: u32,
        /// How many topics there are.
        pub topics_count: u32,
        /// How many partitions there are.
        pub partitions_count: u32,
        /// How many segments there are.
        pub segments_count: u32,
        /// How many messages there are.
        pub messages_count: u64,
        /// How many clients are connected.
        pub clients_count: u32,
        /// How many consumer groups there are.
        pub consumer_groups_count: u32,
        /// Host name.
        pub hostname: Text<'a>,
        /// Operating system.
        pub os_name: Text<'a>,
        /// Its version.
        pub os_version: Text<'a>,
        /// The kernel's version.
        pub kernel_version: Text<'a>,
        /// The server's version.
        pub iggy_server_version: Text<'a>,
        /// The same as a number, 0 when it has none.
        pub iggy_server_semver: u32,
        /// The caches of partitions.
        pub cache_metrics: Counted<CacheMetric>,
        /// Threads of the process.
        pub threads_count: u32,
        /// Free space of the disk that holds the messages.
        pub free_disk_space: u64,
        /// Size of that disk.
        pub total_disk_space: u64,
    }
}

kind! {
    /// Whose options are described.
    pub enum OptionsScope as "scope" {
        /// Options of topics.
        Topic = 1,
        /// Options of streams.
        Stream = 2,
        /// Options of users.
        User = 3,
    }
}

payload! {
    /// Asks which options the server knows.
    #[derive(Copy, Eq)]
    pub struct DescribeOptions {
        /// Of what.
        pub scope: OptionsScope,
    }
}

payload! {
    /// An option that a server knows.
    #[derive(Copy, Eq)]
    pub struct OptionDescriptor<'a> {
        /// Its key.
        pub key: Name<'a>,
        /// The kind its value is stored as, see [`crate::user_headers::HeaderKind`].
        pub kind: u8,
        /// Its default in that kind's encoding, no bytes when it has none.
        pub default_value: LengthPrefixed<Raw<'a>>,
        /// What it does.
        pub description: Text<'a>,
    }
}

command!(
    DescribeOptions,
    DESCRIBE_OPTIONS,
    Counted<OptionDescriptor<'r>>
);
