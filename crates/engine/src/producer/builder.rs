//! Configuration of a producer, checked when it is built.

use std::sync::Arc;
use std::time::Duration;

use ringmain_proto::{LaneConfig, Micros};
use ringmain_wire::Name;

use super::ProducerInner;
use super::route::Router;
use crate::call::TopicInfo;
use crate::engine::Engine;
use crate::error::{BuildError, CallError, in_range};
use crate::ledger::{BatchSettings, Ledger};
use crate::limits;
use crate::partitioner::Partitioning;
use crate::producer::{Ordering, Producer};
use crate::shard::Command;
use crate::topic::{HeldTopic, Met, STREAM_UNTOLD, Sighting, Topic, TopicName};

/// How long a producer waits for each of the server's answers while it is built.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

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

    /// Requests in flight for each partition, 1 to 32. Default 8. Shared by all producers of the
    /// topic.
    pub fn window_requests_max(mut self, requests: u32) -> Self {
        self.window_requests_max = requests;
        self
    }

    /// Whether requests of a partition may overtake each other. Default [`Ordering::Pipelined`].
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = ordering;
        self
    }

    /// Bytes of one request of copied records, from 4 KiB to the engine's slot size. Default: the
    /// slot size.
    pub fn batch_bytes_max(mut self, bytes: u32) -> Self {
        self.batch_bytes_max = Some(bytes);
        self
    }

    /// Records of one request, 1 to 1,048,576. Default: what fits. Producers of one topic share
    /// requests, which keep the limits of each of them.
    pub fn batch_records_max(mut self, records: u32) -> Self {
        self.batch_records_max = records;
        self
    }

    /// Owned payloads up to this size are copied into a slot, larger ones travel by reference; 0 to
    /// the largest that fits a batch. Default 8 KiB, or what fits when a batch is smaller.
    pub fn copy_bytes_max(mut self, bytes: u32) -> Self {
        self.copy_bytes_max = Some(bytes);
        self
    }

    /// How long a batch that is not full waits for more records, 0 to 60 s. Default 0: it goes as
    /// soon as the partition has room for a request. In a batch that producers share, no record
    /// waits longer than its own producer says.
    pub fn linger_us(mut self, linger_us: u64) -> Self {
        self.linger_us = linger_us;
        self
    }

    /// Time without progress of the server by which every record has its answer, 1 ms to a day.
    /// Default 120 s.
    ///
    /// It is counted from the acceptance of the record, and anew from each answer to what is ahead
    /// of it in its partition or on its connection, and from its first transmission. So a server
    /// that answers slowly is waited for, however much is queued, and a record in front of one that
    /// does not answer ends after this time. The answer comes up to some 30 ms later: records that
    /// wait behind a full window are looked through at that interval. Closing ends everything by
    /// the time given there.
    ///
    /// Producers of one topic share requests when this is the same for both.
    pub fn delivery_timeout_us(mut self, timeout_us: u64) -> Self {
        self.delivery_timeout_us = timeout_us;
        self
    }

    /// How often the topic is asked about again, 1 ms to a day: its partition count, and whether it
    /// is the same one. Default 60 s. It is also asked about at once when the server says that a
    /// partition does not exist, or when its answers fit another topic.
    pub fn partitions_refresh_us(mut self, interval_us: u64) -> Self {
        self.partitions_refresh_us = interval_us;
        self
    }

    /// Creates the stream and the topic, with this many partitions (1 to 1000), when they do not
    /// exist.
    pub fn create_if_missing(mut self, partitions: u32) -> Self {
        self.create_partitions = Some(partitions);
        self
    }

    /// Checks the configuration, asks the server for the topic, creates it if that was wanted, and
    /// keeps asking for its partition count.
    ///
    /// # Errors
    /// The caller's fault for every option out of range, [`BuildError::TopicMissing`],
    /// [`BuildError::WindowShared`], [`BuildError::PartitionsMax`], or what the server said.
    pub fn build(self) -> Result<Producer, BuildError> {
        let slot_bytes = self.engine.inner().slot_bytes;
        let settings = self.settings(slot_bytes)?;
        let copy_max = settings.batch_bytes_max - limits::BATCH_OVERHEAD_BYTES_MAX as u32;
        let copy_bytes_max = match self.copy_bytes_max {
            None => limits::COPY_BYTES_DEFAULT.min(copy_max),
            Some(bytes) => {
                in_range("copy_bytes_max", bytes, 0, copy_max)?;
                bytes
            }
        };
        let inner = self.engine.inner();
        let topic = self.find_and_hold_topic()?;
        let ledger = Arc::new(Ledger::new(settings));
        let seed = {
            let mut registry = inner.registry();
            registry.keep_ledger(Arc::clone(&ledger));
            registry.random_u64()
        };
        if inner.is_closed() {
            return Err(BuildError::Call(CallError::Closed));
        }
        inner.shards[0].shared.command(Command::Watch {
            topic: Arc::clone(topic.topic()),
            refresh_us: self.partitions_refresh_us,
        });
        Ok(Producer {
            inner: Arc::new(ProducerInner {
                engine: Arc::clone(inner),
                topic,
                ledger,
                router: Router::new(self.partitioning, (seed >> 32) as u32),
                copy_bytes_max: copy_bytes_max as usize,
            }),
        })
    }

    fn settings(&self, slot_bytes: u32) -> Result<BatchSettings, BuildError> {
        use limits::{
            BATCH_RECORDS_MAX, LINGER_US_MAX, PARTITIONS_CREATE_MAX, SLOT_BYTES_MIN,
            TIMEOUT_US_MAX, TIMEOUT_US_MIN,
        };
        for (what, name) in [("stream", &self.stream), ("topic", &self.topic)] {
            if Name::new(name).is_err() {
                let bytes = name.len();
                return Err(BuildError::NameLength { what, bytes });
            }
        }
        let batch_bytes_max = self.batch_bytes_max.unwrap_or(slot_bytes);
        in_range(
            "window_requests_max",
            self.window_requests_max,
            1,
            limits::WINDOW_REQUESTS_MAX,
        )?;
        in_range(
            "batch_bytes_max",
            batch_bytes_max,
            SLOT_BYTES_MIN,
            slot_bytes,
        )?;
        in_range(
            "batch_records_max",
            self.batch_records_max,
            1,
            BATCH_RECORDS_MAX,
        )?;
        in_range("linger_us", self.linger_us, 0, LINGER_US_MAX)?;
        in_range(
            "delivery_timeout_us",
            self.delivery_timeout_us,
            TIMEOUT_US_MIN,
            TIMEOUT_US_MAX,
        )?;
        in_range(
            "partitions_refresh_us",
            self.partitions_refresh_us,
            TIMEOUT_US_MIN,
            TIMEOUT_US_MAX,
        )?;
        if let Some(partitions) = self.create_partitions {
            in_range("create_if_missing", partitions, 1, PARTITIONS_CREATE_MAX)?;
        }
        if self.linger_us >= self.delivery_timeout_us {
            return Err(BuildError::Contradiction {
                option: "linger_us",
                other: "delivery_timeout_us",
                why: "a record that lingers as long as it may take is never sent: lower the linger",
            });
        }
        Ok(BatchSettings {
            batch_bytes_max,
            batch_records_max: self.batch_records_max,
            linger_us: self.linger_us,
            delivery_timeout_us: self.delivery_timeout_us,
        })
    }

    fn find_topic(&self) -> Result<TopicInfo, BuildError> {
        let (stream, topic) = (&self.stream, &self.topic);
        let find = || {
            self.engine
                .topic_of(STREAM_UNTOLD, stream, topic, CALL_TIMEOUT)
        };
        if let Some(info) = find()? {
            return Ok(info);
        }
        if let Some(partitions) = self.create_partitions {
            self.engine.create_stream(stream, CALL_TIMEOUT)?;
            self.engine
                .create_topic(stream, topic, partitions, CALL_TIMEOUT)?;
            if let Some(info) = find()? {
                return Ok(info);
            }
        }
        Err(BuildError::TopicMissing {
            stream: stream.clone(),
            topic: topic.clone(),
        })
    }

    /// Asks the server for the topic until what it says is newer than what is known here.
    fn find_and_hold_topic(&self) -> Result<HeldTopic, BuildError> {
        loop {
            // Before the question: the answer is at least as new.
            let asked_at = self.engine.inner().shards[0].shared.now();
            let info = self.find_topic()?;
            if let Some(topic) = self.share_topic(asked_at, &info)? {
                return Ok(topic);
            }
        }
    }

    /// Holds the engine's one object for this name. `None` when the answer is older than what is
    /// known.
    fn share_topic(
        &self,
        asked_at: Micros,
        info: &TopicInfo,
    ) -> Result<Option<HeldTopic>, BuildError> {
        let inner = self.engine.inner();
        self.check_partitions(info.partitions_count)?;
        let seen = Sighting {
            asked_at,
            created_at_us: info.created_at_us,
            topic_id: info.topic_id,
            partitions_count: info.partitions_count,
        };
        let lane_config = LaneConfig {
            window_requests_max: u8::try_from(self.window_requests_max)
                .expect("checked to be at most 32"),
            ordering: match self.ordering {
                Ordering::Pipelined => ringmain_proto::Ordering::Pipelined,
                Ordering::Strict => ringmain_proto::Ordering::Strict,
            },
        };
        let mut registry = inner.registry();
        registry.forget_answered();
        let topic = if let Some(topic) = registry.topic(&self.stream, &self.topic) {
            if topic.lane_config != lane_config {
                return Err(window_shared(topic.lane_config));
            }
            if topic.meet(seen) == Met::Outdated {
                return Ok(None);
            }
            Arc::clone(topic)
        } else {
            let names = (self.stream.clone(), self.topic.clone());
            let ids = (info.stream_id, info.topic_id);
            let name = TopicName::new(names, ids, Arc::clone(&inner.news));
            Arc::new(Topic::new(Arc::new(name), lane_config, seen))
        };
        registry.hold_topic(&topic);
        Ok(Some(HeldTopic::new(topic, Arc::clone(inner))))
    }

    /// Refuses a partitioning that is sure to need more partitions than the engine may send to.
    fn check_partitions(&self, count: u32) -> Result<(), BuildError> {
        let max = self.engine.inner().partitions_max;
        match self.partitioning {
            Partitioning::Balanced | Partitioning::Sticky if count > max => {
                Err(BuildError::PartitionsMax {
                    stream: self.stream.clone(),
                    topic: self.topic.clone(),
                    count,
                    max,
                })
            }
            _ => Ok(()),
        }
    }
}

fn window_shared(config: LaneConfig) -> BuildError {
    BuildError::WindowShared {
        window: u32::from(config.window_requests_max),
        ordering: match config.ordering {
            ringmain_proto::Ordering::Pipelined => "pipelined",
            ringmain_proto::Ordering::Strict => "strict",
        },
    }
}
