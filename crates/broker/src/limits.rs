//! Every bound of the broker's memory, with what it costs. Nothing in the broker grows past the sum
//! of these.
//!
//! ```text
//! records            memory_bytes_max + FRAME_BYTES_MAX   builder, default 1 GiB + 64 MiB;
//!                                                         bookkeeping included
//! evicted buffers    32 MiB, 1/8 of memory_bytes_max      kept for the next frames
//! uncommitted sends  256 MiB, or memory_bytes_max         with a commit delay or held commits
//! partial frames     inbound_bytes_max                    builder, default 256 MiB
//! replies            outbound_bytes_max + FRAME_BYTES_MAX builder, default 256 MiB and
//!                                                         memory_bytes_max at most; until written
//! small replies      300 bytes * connections_max          to a login, ping or send, past the above
//! the reply at hand  3 * FRAME_BYTES_MAX                  while it is put together
//! cached replies     REPLIES_CACHED_BYTES_MAX             32 MiB
//! windows            WINDOW_CLIENTS_TOTAL_MAX * 128 bytes 128 MiB
//! consumer offsets   CONSUMER_OFFSETS_TOTAL_MAX * 48      48 MiB
//! catalog            PARTITIONS_MAX * 400 bytes,          43 MiB, with the longest names and
//!                    TOPICS_MAX * 2 KiB,                  options 140 MiB
//!                    STREAMS_MAX * 1 KiB
//! connections        connections_max * 8 KiB              idle; * 72 KiB if all were busy before,
//!                                                         * 1 MiB so in sink mode (builder,
//!                                                         default 16384: 128 MiB, 1152 MiB, 16 GiB)
//! ```

/// Requests a partition takes before one of them is committed.
pub(crate) const PARTITION_UNCOMMITTED_MAX: usize = 32;

/// Requests a partition queues behind the uncommitted ones. The next is dropped without a reply.
pub(crate) const PARTITION_QUEUED_MAX: usize = 64;

/// Request ids a partition remembers below a client's highest: one `u128` of bits.
pub(crate) const WINDOW_IDS: u64 = 128;

/// Clients a partition remembers; the longest idle leaves first.
pub(crate) const WINDOW_CLIENTS_MAX: usize = 4096;

/// Clients that all partitions together remember. At this bound a partition makes room among its
/// own.
pub(crate) const WINDOW_CLIENTS_TOTAL_MAX: usize = 1 << 20;

/// Slots of the client table; the longest idle is evicted.
pub(crate) const CLIENTS_MAX: usize = 8192;

/// Replies the client table keeps for one client.
pub(crate) const REPLIES_CACHED_MAX: usize = 5;

/// Bytes of all cached replies. Past it a reply is not kept, and a retry is answered "already
/// applied".
pub(crate) const REPLIES_CACHED_BYTES_MAX: usize = 32 << 20;

/// Streams of the broker. The real server has 4096 stream keys as well.
pub(crate) const STREAMS_MAX: usize = 4096;

/// Topics of the broker, with names and options some kilobytes each at most.
pub(crate) const TOPICS_MAX: usize = 16_384;

/// Topics of one stream.
pub(crate) const TOPICS_PER_STREAM_MAX: usize = 4096;

/// Partitions of the broker. Each costs about 400 bytes before its first record.
pub(crate) const PARTITIONS_MAX: usize = 16_384;

/// Consumer offsets one partition keeps, up to 48 bytes each.
pub(crate) const CONSUMER_OFFSETS_MAX: usize = 4096;

/// Consumer offsets that all partitions together keep.
pub(crate) const CONSUMER_OFFSETS_TOTAL_MAX: usize = 1 << 20;

/// Bytes of replies that wait for one slow reader before the broker stops reading from that
/// connection.
pub(crate) const OUTBOX_BYTES_MAX: usize = 1 << 20;

/// Replies a script may hold back on one connection, of `OUTBOX_BYTES_MAX` bytes together. With one
/// more, all go.
pub(crate) const REPLIES_HELD_MAX: usize = 1024;

const _: () = {
    assert!(WINDOW_IDS == u128::BITS as u64, "the window is one u128");
    assert!(
        WINDOW_CLIENTS_MAX <= WINDOW_CLIENTS_TOTAL_MAX,
        "one partition fits the total"
    );
};
