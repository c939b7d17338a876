//! A topic as the engine sees it: its names, its partition count, the lanes opened so far.
//!
//! One object a topic for the whole engine, shared by its producers: two lanes for one partition would break the laws
//! of its window. Asking the server for the partition count is the shard's job; the answer lands here.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ringmain_proto::LaneConfig;
use ringmain_wire::Identifier;

use crate::lane::Lane;
use ringmain_io::driver::WakeHandle;

/// The names under which a topic is addressed. Names rather than numbers: they survive deleting and creating anew.
///
/// Lanes hold this part alone; the whole topic holds its lanes.
pub(crate) struct TopicName {
    stream: String,
    topic: String,
    /// The server said that something of the topic does not exist: ask again now.
    stale: AtomicBool,
    /// Wakes the shard that asks.
    control: WakeHandle,
}

impl TopicName {
    /// Names of 1 to 255 bytes; the builder checks.
    pub(crate) fn new(stream: String, topic: String, control: WakeHandle) -> Self {
        assert!(
            Identifier::named(&stream).is_ok() && Identifier::named(&topic).is_ok(),
            "names are checked before"
        );
        Self {
            stream,
            topic,
            stale: AtomicBool::new(false),
            control,
        }
    }

    pub(crate) fn is(&self, stream: &str, topic: &str) -> bool {
        self.stream == stream && self.topic == topic
    }

    /// Something of the topic is missing on the server.
    pub(crate) fn mark_stale(&self) {
        if !self.stale.swap(true, Ordering::Relaxed) {
            self.control.wake();
        }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    pub(crate) fn clear_stale(&self) {
        self.stale.store(false, Ordering::Relaxed);
    }

    pub(crate) fn stream(&self) -> Identifier<'_> {
        Identifier::named(&self.stream).expect("checked when made")
    }

    pub(crate) fn topic(&self) -> Identifier<'_> {
        Identifier::named(&self.topic).expect("checked when made")
    }
}

impl std::fmt::Display for TopicName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.stream, self.topic)
    }
}

/// A topic in use.
pub(crate) struct Topic {
    pub(crate) name: Arc<TopicName>,
    /// The server's numbers of stream and topic when last asked, one in each half.
    ids: AtomicU64,
    pub(crate) lane_config: LaneConfig,
    /// At least 1.
    partitions_count: AtomicU32,
    lanes: Box<[OnceLock<Arc<Lane>>]>,
}

impl Topic {
    pub(crate) fn new(
        name: Arc<TopicName>,
        ids: (u32, u32),
        lane_config: LaneConfig,
        partitions_count: u32,
        lanes_max: u32,
    ) -> Self {
        Self {
            name,
            ids: AtomicU64::new(pack(ids)),
            lane_config,
            partitions_count: AtomicU32::new(partitions_count.max(1)),
            lanes: (0..lanes_max).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(crate) fn partitions_count(&self) -> u32 {
        self.partitions_count.load(Ordering::Relaxed)
    }

    pub(crate) fn ids(&self) -> (u32, u32) {
        let ids = self.ids.load(Ordering::Relaxed).to_le_bytes();
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| ids[at + index]));
        (half(0), half(4))
    }

    pub(crate) fn set_ids(&self, ids: (u32, u32)) {
        self.ids.store(pack(ids), Ordering::Relaxed);
    }

    /// Takes the server's answer over. A topic without partitions keeps its last count: sending to it is refused by
    /// the server, and says so.
    pub(crate) fn set_partitions_count(&self, count: u32) {
        if count > 0 {
            self.partitions_count.store(count, Ordering::Relaxed);
        }
    }

    /// The lane of a partition, once it is open.
    pub(crate) fn lane(&self, partition: u32) -> Option<&Arc<Lane>> {
        self.lanes.get(partition as usize)?.get()
    }

    /// Has the records of all open batches counted as accepted.
    pub(crate) fn count_open(&self) {
        self.lanes().for_each(|lane| lane.count_open());
    }

    /// Every open lane.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.iter().filter_map(OnceLock::get)
    }

    /// Keeps a new lane. The caller holds the engine's registry, so there is one opener at a time.
    pub(crate) fn keep_lane(&self, lane: Arc<Lane>) {
        let kept = self.lanes[lane.partition as usize].set(lane).is_ok();
        assert!(kept, "a partition has one lane");
    }

    /// Partitions that can have a lane.
    pub(crate) fn lanes_max(&self) -> u32 {
        u32::try_from(self.lanes.len()).expect("made from a u32")
    }
}

fn pack((stream_id, topic_id): (u32, u32)) -> u64 {
    u64::from(topic_id) << 32 | u64::from(stream_id)
}
