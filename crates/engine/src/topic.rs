//! A topic as the engine sees it: its name, which life of that name it is in, its partition count,
//! the lanes opened so far.
//!
//! A topic is its name and its life. Requests carry names, so the name decides which log takes a
//! record, and two names never share a lane, whatever numbers the server gives them. Names can come
//! to mean another topic: deleted and created anew, or renamed. The engine tells lives apart by the
//! time of creation and the number that `GetTopic` gives; what was accepted for one life is never
//! transmitted after the engine has learned of the next.
//!
//! Between the change at the server and the engine's learning of it, a request that is out, waits
//! or is sent again may be stored in whichever topic has the name: the protocol has no field for a
//! life. What the engine learns of, and when:
//!
//! | sign | asked |
//! |---|---|
//! | a producer is built | by its builder |
//! | a confirmation names other numbers, or an offset below the last one | at once |
//! | the server says that there is no such stream, topic or partition | at once |
//! | none of these | after `partitions_refresh_us` |
//!
//! One object a name for the whole engine, shared by its producers: two lanes for one partition
//! would break the laws of its window. Asking the server is the shard's job; the answer lands here.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringmain_proto::{LaneConfig, Micros};
use ringmain_wire::Identifier;

use crate::engine::EngineInner;
use crate::growing::Growing;
use crate::lane::Lane;
use ringmain_io::driver::WakeHandle;

/// In place of a stream's number that no confirmation has told. No server gives this one: its
/// numbers are dense.
pub(crate) const STREAM_UNTOLD: u32 = u32::MAX;

/// What a shard is to look at about topics. Cold: rung when something is wrong or has changed.
pub(crate) struct TopicNews {
    /// Names about which the server is to be asked now. Only the first shard asks.
    stale: Mutex<Vec<Arc<TopicName>>>,
    is_any_stale: AtomicBool,
    /// Some name means another topic than before.
    is_any_replaced: AtomicBool,
    wake: WakeHandle,
}

impl TopicNews {
    pub(crate) fn new(wake: WakeHandle) -> Self {
        Self {
            stale: Mutex::default(),
            is_any_stale: AtomicBool::new(false),
            is_any_replaced: AtomicBool::new(false),
            wake,
        }
    }

    /// The next name to ask about.
    pub(crate) fn next_stale(&self) -> Option<Arc<TopicName>> {
        if !self.is_any_stale.load(Ordering::Acquire) {
            return None;
        }
        let mut stale = self.stale.lock().unwrap_or_else(PoisonError::into_inner);
        let name = stale.pop();
        if name.is_none() {
            self.is_any_stale.store(false, Ordering::Release);
        }
        name
    }

    /// Whether a life ended since the last call.
    pub(crate) fn take_replaced(&self) -> bool {
        self.is_any_replaced.load(Ordering::Relaxed)
            && self.is_any_replaced.swap(false, Ordering::Acquire)
    }
}

/// The names under which a topic is addressed, and the life that they are in.
///
/// Lanes hold this part alone; the whole topic holds its lanes.
pub(crate) struct TopicName {
    stream: String,
    topic: String,
    /// Lives seen so far.
    life: AtomicU32,
    /// The server's numbers of stream and topic as confirmations last named them.
    ids: AtomicU64,
    /// It is among the stale ones of the first shard.
    is_stale: AtomicBool,
    /// Of every shard; the first one asks the server.
    news: Arc<[Arc<TopicNews>]>,
}

/// The life of a topic that a batch was opened in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) number: u32,
    /// Confirmations of that life name these, as far as they have told.
    pub(crate) ids: (u32, u32),
}

impl Life {
    /// Whether a confirmation that names these numbers may be of this life.
    pub(crate) fn fits(&self, ids: (u32, u32)) -> bool {
        fits(self.ids, ids)
    }
}

impl TopicName {
    /// Names of 1 to 255 bytes; the builder checks. `ids` are the server's numbers of stream and
    /// topic.
    pub(crate) fn new(
        (stream, topic): (String, String),
        ids: (u32, u32),
        news: Arc<[Arc<TopicNews>]>,
    ) -> Self {
        assert!(
            Identifier::named(&stream).is_ok() && Identifier::named(&topic).is_ok(),
            "names are checked before"
        );
        Self {
            stream,
            topic,
            life: AtomicU32::new(0),
            ids: AtomicU64::new(pack(ids)),
            is_stale: AtomicBool::new(false),
            news,
        }
    }

    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.stream, &self.topic)
    }

    /// The life that a record accepted now is meant for.
    pub(crate) fn life(&self) -> Life {
        // The number first: who reads an old one may find new ids, which are only a hint; never the
        // other way round.
        let number = self.life.load(Ordering::Acquire);
        let ids = self.ids();
        Life { number, ids }
    }

    /// Whether the name still means what it meant in that life.
    pub(crate) fn is_in(&self, life: Life) -> bool {
        self.life.load(Ordering::Acquire) == life.number
    }

    fn ids(&self) -> (u32, u32) {
        let ids = self.ids.load(Ordering::Relaxed).to_le_bytes();
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| ids[at + index]));
        (half(0), half(4))
    }

    /// A confirmation named these numbers. Others than before: the name may mean another topic.
    pub(crate) fn note_ids(self: &Arc<Self>, ids: (u32, u32)) {
        let before = self.ids();
        if before != ids {
            self.ids.store(pack(ids), Ordering::Relaxed);
            if !fits(before, ids) {
                self.mark_stale();
            }
        }
    }

    /// Ends the life: from now on nothing that was accepted before is transmitted.
    fn end_life(&self) {
        self.life.fetch_add(1, Ordering::Release);
        for news in self.news.iter() {
            news.is_any_replaced.store(true, Ordering::Release);
            news.wake.wake();
        }
    }

    /// Something of the topic is missing on the server, or is not what it was: ask now.
    pub(crate) fn mark_stale(self: &Arc<Self>) {
        if self.is_stale.swap(true, Ordering::Relaxed) {
            return;
        }
        let control = &self.news[0];
        let mut stale = control.stale.lock().unwrap_or_else(PoisonError::into_inner);
        stale.push(Arc::clone(self));
        control.is_any_stale.store(true, Ordering::Release);
        drop(stale);
        control.wake.wake();
    }

    /// The question is about to be asked.
    pub(crate) fn clear_stale(&self) {
        self.is_stale.store(false, Ordering::Relaxed);
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

/// What the server said of a topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    /// When the question was asked, not before.
    pub(crate) asked_at: Micros,
    pub(crate) created_at_us: u64,
    pub(crate) topic_id: u32,
    pub(crate) partitions_count: u32,
}

/// What a sighting means to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    /// The life that was known.
    Same,
    /// Another topic has the name now.
    Another,
    /// Nothing: a later question was answered before.
    Outdated,
}

/// A topic in use.
pub(crate) struct Topic {
    pub(crate) name: Arc<TopicName>,
    pub(crate) lane_config: LaneConfig,
    /// What the server said last.
    seen: Mutex<Sighting>,
    /// At least 1.
    partitions_count: AtomicU32,
    lanes: Growing<Arc<Lane>>,
}

impl Topic {
    pub(crate) fn new(name: Arc<TopicName>, lane_config: LaneConfig, seen: Sighting) -> Self {
        Self {
            name,
            lane_config,
            seen: Mutex::new(seen),
            partitions_count: AtomicU32::new(seen.partitions_count.max(1)),
            lanes: Growing::new(),
        }
    }

    pub(crate) fn partitions_count(&self) -> u32 {
        self.partitions_count.load(Ordering::Relaxed)
    }

    /// Takes the server's answer over. A topic without partitions keeps its last count: sending to
    /// it is refused by the server, and says so.
    pub(crate) fn meet(&self, sighting: Sighting) -> Met {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *seen;
        let is_same =
            (before.created_at_us, before.topic_id) == (sighting.created_at_us, sighting.topic_id);
        if sighting.asked_at < before.asked_at {
            return if is_same { Met::Same } else { Met::Outdated };
        }
        *seen = sighting;
        if sighting.partitions_count > 0 {
            self.partitions_count
                .store(sighting.partitions_count, Ordering::Relaxed);
        }
        if is_same {
            return Met::Same;
        }
        // It may be another stream too: the first confirmation tells.
        let ids = pack((STREAM_UNTOLD, sighting.topic_id));
        self.name.ids.store(ids, Ordering::Relaxed);
        self.name.end_life();
        Met::Another
    }

    /// The lane of a partition, once it is open.
    pub(crate) fn lane(&self, partition: u32) -> Option<&Arc<Lane>> {
        self.lanes.get(partition)
    }

    /// Has the records of all open batches counted as accepted.
    pub(crate) fn count_open(&self) {
        self.lanes().for_each(|lane| lane.count_open());
    }

    /// Every open lane.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.iter()
    }

    /// Whether everything is answered, for a topic that no producer holds; also true for what is
    /// just being appended.
    pub(crate) fn is_answered(&self) -> bool {
        self.lanes().all(|lane| lane.is_answered())
    }

    /// Gives all lanes up if everything of them is answered and their shards do not look at them.
    /// The caller holds the engine's registry, and no producer holds the topic: nothing can be
    /// appended.
    pub(crate) fn give_up_lanes(&self) -> bool {
        if !self.lanes().all(|lane| lane.is_idle()) {
            return false;
        }
        self.lanes().for_each(|lane| lane.give_up());
        true
    }

    /// Keeps a new lane. The caller holds the engine's registry, so there is one opener at a time.
    pub(crate) fn keep_lane(&self, lane: Arc<Lane>) {
        let kept = self.lanes.set(lane.partition, lane).is_ok();
        assert!(kept, "a partition has one lane");
    }
}

/// A producer's hold on a topic: what nobody holds is forgotten, once all of it is answered.
pub(crate) struct HeldTopic {
    topic: Arc<Topic>,
    engine: Arc<EngineInner>,
}

impl HeldTopic {
    /// The caller has counted it in the engine's registry.
    pub(crate) fn new(topic: Arc<Topic>, engine: Arc<EngineInner>) -> Self {
        Self { topic, engine }
    }

    pub(crate) fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }
}

impl Deref for HeldTopic {
    type Target = Topic;

    fn deref(&self) -> &Topic {
        &self.topic
    }
}

impl Drop for HeldTopic {
    fn drop(&mut self) {
        self.engine.let_go(&self.topic);
    }
}

/// Whether numbers that a confirmation names are those known so far.
fn fits((stream_id, topic_id): (u32, u32), told: (u32, u32)) -> bool {
    topic_id == told.1 && (stream_id == told.0 || stream_id == STREAM_UNTOLD)
}

fn pack((stream_id, topic_id): (u32, u32)) -> u64 {
    u64::from(topic_id) << 32 | u64::from(stream_id)
}
