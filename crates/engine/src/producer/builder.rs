//! Configuration of a producer, checked when it is built.

use crate::engine::Engine;
use crate::error::BuildError;
use crate::limits;
use crate::partitioner::Partitioning;
use crate::producer::{Ordering, Producer};

/// Configures a [`Producer`].
#[must_use = "a builder does nothing until build() is called"]
pub struct ProducerBuilder {
    engine: Engine,
    stream: String,
    topic: String,
    partitioning: Partitioning,
    window_requests_max: u32,
    ordering: Ordering,
    batch_bytes_max: Option<u32>,
    batch_records_max: u32,
    copy_bytes_max: Option<u32>,
    linger_us: u64,
    delivery_timeout_us: u64,
    partitions_refresh_us: u64,
    create_partitions: Option<u32>,
}

impl ProducerBuilder {
    pub(crate) fn new(engine: Engine, stream: String, topic: String) -> Self {
        Self {
            engine,
            stream,
            topic,
            partitioning: Partitioning::Balanced,
            window_requests_max: limits::WINDOW_REQUESTS_DEFAULT,
            ordering: Ordering::Pipelined,
            batch_bytes_max: None,
            batch_records_max: limits::BATCH_RECORDS_MAX,
            copy_bytes_max: None,
            linger_us: 0,
            delivery_timeout_us: limits::DELIVERY_TIMEOUT_US_DEFAULT,
            partitions_refresh_us: limits::PARTITIONS_REFRESH_US_DEFAULT,
            create_partitions: None,
        }
    }

    /// How the partition of a record is picked. Default [`Partitioning::Balanced`].
    pub fn partitioning(mut self, partitioning: Partitioning) -> Self {
        self.partitioning = partitioning;
        self
    }

    /// Requests in flight for each partition, 1 to 32. Default 8. Shared by all producers of the topic.
    pub fn window_requests_max(mut self, requests: u32) -> Self {
        self.window_requests_max = requests;
        self
    }

    /// Whether requests of a partition may overtake each other. Default [`Ordering::Pipelined`].
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = ordering;
        self
    }

    /// Bytes of one request of copied records, from 4 KiB to the engine's slot size. Default: the slot size.
    pub fn batch_bytes_max(mut self, bytes: u32) -> Self {
        self.batch_bytes_max = Some(bytes);
        self
    }

    /// Records of one request, 1 to 1,048,576. Default: what fits.
    pub fn batch_records_max(mut self, records: u32) -> Self {
        self.batch_records_max = records;
        self
    }

    /// Payloads up to this size are copied into a slot, larger ones travel by reference; 0 to the largest that fits a
    /// batch. Default 32 KiB, or what fits when a batch is smaller.
    pub fn copy_bytes_max(mut self, bytes: u32) -> Self {
        self.copy_bytes_max = Some(bytes);
        self
    }

    /// How long a batch that is not full waits for more records, 0 to 60 s. Default 0: it goes as soon as the partition
    /// has room for a request.
    pub fn linger_us(mut self, linger_us: u64) -> Self {
        self.linger_us = linger_us;
        self
    }

    /// Time from acceptance by which every record has its answer, 1 ms to a day. Default 120 s.
    pub fn delivery_timeout_us(mut self, timeout_us: u64) -> Self {
        self.delivery_timeout_us = timeout_us;
        self
    }

    /// How often the partition count is asked for again, 1 ms to a day. Default 60 s. It is also asked for at once when
    /// the server says that a partition does not exist.
    pub fn partitions_refresh_us(mut self, interval_us: u64) -> Self {
        self.partitions_refresh_us = interval_us;
        self
    }

    /// Creates the stream and the topic, with this many partitions (1 to 1000), when they do not exist.
    pub fn create_if_missing(mut self, partitions: u32) -> Self {
        self.create_partitions = Some(partitions);
        self
    }

    /// Checks the configuration, asks the server for the topic and opens the lanes.
    ///
    /// # Errors
    /// The caller's fault for every option out of range, [`BuildError::TopicMissing`], or what the server said.
    pub fn build(self) -> Result<Producer, BuildError> {
        let _ = (
            &self.engine,
            &self.partitioning,
            self.window_requests_max,
            self.ordering,
            self.batch_bytes_max,
            self.batch_records_max,
            self.copy_bytes_max,
            self.linger_us,
            self.delivery_timeout_us,
            self.partitions_refresh_us,
            self.create_partitions,
        );
        Err(BuildError::TopicMissing {
            stream: self.stream,
            topic: self.topic,
        })
    }
}
