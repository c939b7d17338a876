//! Every limit and default of the engine's application side: what it costs and why this value.
//!
//! Relations between them are proved at compile time, so a change that breaks one does not build.

/// Shards of one engine. A shard is a thread that wants a core of its own; more than this is a
/// mistake.
pub const SHARDS_MAX: u16 = 64;

/// Connections of one engine, all shards together. Each is a session on the server (of 8192) and
/// holds two header-slab entries of 256 bytes.
pub const CONNECTIONS_MAX: u16 = 256;

/// The window of a partition: its default, and the ceiling above which the server drops requests in
/// silence.
pub const WINDOW_REQUESTS_DEFAULT: u32 = 8;
/// See [`WINDOW_REQUESTS_DEFAULT`].
pub const WINDOW_REQUESTS_MAX: u32 = 32;

/// Bytes of a slot by default: the body of one request of copied records. 256 KiB amortises a
/// request's fixed cost over 250 records of 1000 bytes, and fits the second-level cache, so that
/// the kernel's copy reads what was just written.
pub const SLOT_BYTES_DEFAULT: u32 = 256 * 1024;
/// The smallest slot: request metadata (up to 784 bytes with the longest names), a batch header and
/// a small record.
pub const SLOT_BYTES_MIN: u32 = 4 * 1024;
/// The largest slot. Larger records travel by reference, so a larger slot would only waste memory.
pub const SLOT_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// Memory an engine may hold from accept to receipt, by default: half in slots, half for records by
/// reference, so that the largest record of the protocol (64,000,000 bytes) is possible without
/// configuration.
pub const MEMORY_BYTES_DEFAULT: u64 = 128 * 1024 * 1024;
/// One part in so many of the memory is for callbacks that have not run, which may also take what
/// records by reference leave free. Small, so that the default still takes the largest record;
/// large enough that callbacks are not held back while records by reference fill the rest.
pub const CALLBACKS_SHARE: u64 = 64;
/// The least memory: eight of the smallest slots a shard and as much by reference.
pub const MEMORY_BYTES_MIN: u64 = 64 * 1024;
/// The most memory: past this a number is a mistake of units.
pub const MEMORY_BYTES_MAX: u64 = 1 << 40;

/// Slots a shard needs to make progress: one filling, one on the wire, and the same for a second
/// lane.
pub const SHARD_SLOTS_MIN: u64 = 4;

/// Slots of one shard at most: the protocol client keeps 176 to 208 bytes for each on every
/// connection, because any of them may get all batches. `Stats::tables_bytes` has the sum.
pub const SHARD_SLOTS_MAX: u32 = 65_536;

/// Owned payloads up to this size are copied into a slot, larger ones travel by reference. Measured
/// into a broker that only answers (`benches/README.md`): by reference is even at 2000 bytes and 4
/// to 33 percent ahead from 4000 on, with payloads that are in the cache; the threshold lies above
/// that, since a payload by reference keeps its owner's memory.
pub const COPY_BYTES_DEFAULT: u32 = 8 * 1024;

/// Bytes of a batch that are not records, and the header of one record: an address with the longest
/// names (779 bytes), a batch header (256) and a message header (48), rounded up.
pub const BATCH_OVERHEAD_BYTES_MAX: usize = 1_088;

/// A batch of records by reference is closed at this size. Larger requests gain nothing and delay
/// others.
pub const GATHER_BYTES_MAX: usize = 1024 * 1024;
/// Records of one batch by reference. Each is two pieces of a vectored write.
pub const GATHER_RECORDS_MAX: u32 = 64;
/// Pieces of the largest frame: its header, and two for each record and one more.
pub const FRAME_PIECES_MAX: usize = 2 * GATHER_RECORDS_MAX as usize + 2;

/// Frames are added to one vectored write until it has this many bytes; a larger frame goes alone.
/// Bounds how long a heartbeat or a control call waits behind data.
pub const WRITE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Frames of one vectored write. Half of the largest window of one partition: a server that gets
/// all requests at once answers all at once, and then each side waits while the other works.
pub const WRITE_FRAMES_MAX: usize = WINDOW_REQUESTS_MAX as usize / 2;
/// Pieces of one vectored write: the kernel's own limit for one operation.
pub const WRITE_PIECES_MAX: u32 = 1024;

/// The largest payload of the protocol.
pub const PAYLOAD_BYTES_MAX: usize = 64_000_000;
/// The longest user headers of the protocol.
pub const USER_HEADERS_BYTES_MAX: usize = 100_000;

/// Bytes of one receive buffer: 58 replies to sends, of 280 bytes each.
pub const RECV_BUFFER_BYTES: u32 = 16 * 1024;
/// Receive buffers of a shard at least; two a connection when that is more.
pub const RECV_BUFFERS_MIN: u32 = 16;

/// Silence after which a request is resent.
pub const REQUEST_TIMEOUT_US_DEFAULT: u64 = 5_000_000;
/// Time without progress of the server after which a record gets its answer.
pub const DELIVERY_TIMEOUT_US_DEFAULT: u64 = 120_000_000;
/// Time without a finished write after which a connection is given up. The largest frame (64 MiB)
/// finishes in it at 1.1 MB/s. Records do not wait for it: one whose deadline passes in the middle
/// of a write ends the connection.
pub const WRITE_STALL_US: u64 = 60_000_000;
/// The shortest timeout: below this every request would be resent before a healthy server answers.
pub const TIMEOUT_US_MIN: u64 = 1_000;
/// The longest timeout or interval: a day.
pub const TIMEOUT_US_MAX: u64 = 86_400_000_000;

/// The longest wait for the answer to a login: what takes longer does not come.
pub const LOGIN_TIMEOUT_US_MAX: u64 = 600_000_000;

/// The longest linger. A batch spans at most 71 minutes by the protocol; a minute is already a
/// mistake.
pub const LINGER_US_MAX: u64 = 60_000_000;

/// How often the partition count of a topic is asked for again.
pub const PARTITIONS_REFRESH_US_DEFAULT: u64 = 60_000_000;

/// Records of one batch by default and at most: the protocol's count is a `u32`, a slot of the
/// smallest records holds fewer than this.
pub const BATCH_RECORDS_MAX: u32 = 1 << 20;

/// Control calls one engine may have waiting at once. Each holds its body.
pub const CALLS_MAX: u32 = 64;
/// Places for the engine's own questions about topics, beside those. Reads go one at a time: one is
/// out, the next one ready; an application's read waits behind these two at most.
pub const REFRESH_CALLS_MAX: u32 = 2;

/// Partitions one engine may send to at the same time, of all topics together, by default.
pub const PARTITIONS_ENGINE_DEFAULT: u32 = 1024;
/// The most partitions of one engine: the protocol crate's ceiling of lanes of one connection.
pub const PARTITIONS_ENGINE_MAX: u32 = 65_536;

/// Partitions of a new topic: the server's limit.
pub const PARTITIONS_CREATE_MAX: u32 = 1_000;

/// The longest spin before a shard sleeps.
pub const BUSY_POLL_US_MAX: u32 = 1_000_000;

/// How long `build` waits for the logins.
pub const CONNECT_TIMEOUT_US_DEFAULT: u64 = 10_000_000;

const _: () = {
    assert!(WINDOW_REQUESTS_DEFAULT <= WINDOW_REQUESTS_MAX);
    assert!(WINDOW_REQUESTS_MAX == ringmain_proto::limits::WINDOW_REQUESTS_MAX as u32);
    assert!(WINDOW_REQUESTS_DEFAULT == ringmain_proto::limits::WINDOW_REQUESTS_DEFAULT as u32);
    assert!(SHARD_SLOTS_MAX <= ringmain_proto::limits::REQUESTS_MAX_CEILING);
    assert!(PARTITIONS_ENGINE_MAX <= ringmain_proto::limits::LANES_MAX_CEILING);
    assert!(CALLS_MAX + REFRESH_CALLS_MAX <= ringmain_proto::limits::CALLS_MAX_CEILING);
    assert!(SLOT_BYTES_MIN <= SLOT_BYTES_DEFAULT && SLOT_BYTES_DEFAULT <= SLOT_BYTES_MAX);
    assert!(
        COPY_BYTES_DEFAULT < SLOT_BYTES_DEFAULT,
        "a copied record fits a slot"
    );
    assert!(
        MEMORY_BYTES_DEFAULT / 2 - MEMORY_BYTES_DEFAULT / CALLBACKS_SHARE
            >= PAYLOAD_BYTES_MAX as u64 + USER_HEADERS_BYTES_MAX as u64
    );
    assert!(MEMORY_BYTES_MIN / 2 >= SHARD_SLOTS_MIN * SLOT_BYTES_MIN as u64);
    assert!(
        FRAME_PIECES_MAX <= WRITE_PIECES_MAX as usize,
        "the largest frame fits one write"
    );
    assert!(REQUEST_TIMEOUT_US_DEFAULT < DELIVERY_TIMEOUT_US_DEFAULT);
};
