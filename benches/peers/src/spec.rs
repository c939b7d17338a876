//! What the director tells its children and what they answer. Plain data; travels as JSON.

use std::net::SocketAddr;

use ringmain::WritePath;
use serde::{Deserialize, Serialize};

/// Name of the stream and of the topic of every run.
pub(crate) const STREAM: &str = "bench";
/// See [`STREAM`].
pub(crate) const TOPIC: &str = "records";

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The broker.
    pub(crate) addr: SocketAddr,
    /// What is sent.
    pub(crate) load: Load,
    /// Who sends it.
    pub(crate) peer: Peer,
    /// Time before counting begins.
    pub(crate) warm_seconds: f64,
    /// Time in which records are handed over; what is in flight then is waited for, and counts.
    pub(crate) seconds: f64,
}

/// What is sent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Bytes of one payload.
    pub(crate) record_bytes: usize,
    /// How records are handed over.
    pub(crate) shape: Shape,
    /// Partitions of the topic.
    pub(crate) partitions: u32,
}

/// How the application hands records over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shape {
    /// One call a record.
    OneByOne,
    /// One call for so many records, which make one request.
    Batches(u32),
    /// One call a record, and the next only after the answer: the round trip.
    RoundTrip,
    /// One call a record; every so many small ones a large one of 64 KiB, by reference and freshly
    /// allocated.
    Mixed {
        /// Small ones before each large one.
        small: u32,
    },
}

/// Who sends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Peer {
    /// This project.
    Ringmain(RingmainSetup),
    /// `iggy` 0.11.0, a producer in direct mode.
    SdkDirect(SdkDirectSetup),
    /// `iggy` 0.11.0, a producer in background mode.
    SdkBackground(SdkBackgroundSetup),
    /// A loop over prebuilt frames.
    Raw(RawSetup),
}

/// Deviations from the engine's defaults.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RingmainSetup {
    /// Connections, and so sessions.
    pub(crate) connections: u16,
    /// Requests in flight of each partition; `None` is the default.
    pub(crate) window: Option<u32>,
    /// Records of a request at most; `None` is the default.
    pub(crate) batch_records_max: Option<u32>,
    /// Records up to this size are copied, larger ones travel by reference; `None` is the default.
    pub(crate) copy_bytes_max: Option<u32>,
    /// Payload bytes of a record instead of the case's, of ringmain alone; `None` leaves the case
    /// as it is.
    pub(crate) record_bytes: Option<usize>,
    /// The memory cap; `None` is the default.
    pub(crate) memory_bytes_max: Option<u64>,
    /// How long a batch that is not full waits for more records; 0 is the default.
    pub(crate) linger_us: u64,
    /// How long the shard looks before it sleeps; 0 is the default.
    pub(crate) busy_poll_us: u32,
    /// How frames reach the socket; `None` leaves it to the engine's calibration.
    pub(crate) write_path: Option<RawPath>,
    /// What moves the bytes; `None` leaves it to the engine.
    pub(crate) driver: Option<Driver>,
}

/// The engine's drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Driver {
    IoUring,
    Epoll,
}

/// The SDK's client below either mode.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SdkClientSetup {
    /// `TCP_NODELAY`; off by default.
    pub(crate) nodelay: bool,
    /// A current-thread runtime instead of the multi-threaded one that `#[tokio::main]` makes.
    pub(crate) current_thread: bool,
    /// Clients, each with a connection, a producer and a task of its own.
    pub(crate) clients: u32,
}

/// A direct producer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SdkDirectSetup {
    /// The client.
    pub(crate) client: SdkClientSetup,
    /// Messages of a request at most.
    pub(crate) batch_length: u32,
}

/// A background producer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SdkBackgroundSetup {
    /// The client.
    pub(crate) client: SdkClientSetup,
    /// Sends that a worker gathers before it flushes, 0 for no limit.
    pub(crate) batch_length: usize,
    /// Bytes that a worker gathers before it flushes.
    pub(crate) batch_size: usize,
    /// How long a worker gathers, in microseconds.
    pub(crate) linger_us: u64,
    /// Workers; more than one with balanced sharding.
    pub(crate) num_shards: usize,
    /// Requests written at the same time.
    pub(crate) max_in_flight: usize,
    /// Bytes that the producer may hold.
    pub(crate) max_buffer_size: u64,
}

/// A raw loop.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RawSetup {
    /// How frames reach the socket.
    pub(crate) path: RawPath,
    /// Frames without an answer at most.
    pub(crate) window: usize,
    /// Bytes of a frame at most.
    pub(crate) frame_bytes: usize,
}

/// How a raw loop writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RawPath {
    /// `write` on a blocking socket.
    Write,
    /// `IORING_OP_SENDMSG`.
    SendMsg,
    /// `IORING_OP_WRITEV_FIXED` on registered buffers.
    WritevFixed,
    /// `IORING_OP_SENDMSG_ZC` on registered buffers.
    SendZc,
}

impl RawPath {
    /// The transport's name for it; a ring has no plain `write`.
    pub(crate) fn on_ring(self) -> WritePath {
        match self {
            Self::WritevFixed => WritePath::WritevFixed,
            Self::SendZc => WritePath::SendZc,
            Self::SendMsg | Self::Write => WritePath::SendMsg,
        }
    }
}

/// What a client found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Records confirmed in the measured time.
    pub(crate) records: u64,
    /// Records confirmed in the whole run, warm-up included.
    pub(crate) records_total: u64,
    /// Payload bytes of `records`.
    pub(crate) payload_bytes: u64,
    /// From the first record handed over to the last answer.
    pub(crate) elapsed_s: f64,
    /// User and system time of the process in that time.
    pub(crate) cpu_s: f64,
    /// The same since the process began.
    pub(crate) cpu_total_s: f64,
    /// Round trips, nanoseconds; of a round-trip load only.
    pub(crate) p50_ns: Option<u64>,
    /// See `p50_ns`.
    pub(crate) p99_ns: Option<u64>,
    /// Most memory that was ever resident, huge pages included.
    pub(crate) rss_peak_bytes: u64,
    /// What was resident before the peer did anything.
    pub(crate) rss_idle_bytes: u64,
    /// What the peer says about itself, for the log.
    pub(crate) note: String,
}

/// What a broker counted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BrokerReport {
    /// Records taken, those that retention removed later included.
    pub(crate) records: u64,
    /// Requests that made them.
    pub(crate) batches: u64,
    /// Sends refused, repeated, dropped or malformed: nothing of these belongs into a measurement.
    pub(crate) irregular: u64,
    /// Bytes that came in.
    pub(crate) bytes_in: u64,
    /// User and system time of the process.
    pub(crate) cpu_s: f64,
    /// The counters as text.
    pub(crate) text: String,
}
