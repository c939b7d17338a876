//! Questions about topics, asked again and again: does it exist, is it the same one, how many
//! partitions has it.
//!
//! ```text
//!   due --> asked --> answered, refused or timed out --> due again
//!    ^        at most `REFRESH_CALLS_MAX` at a time
//!    '-- at once when somebody finds the name stale
//! ```
//!
//! Invariant: a topic that a producer holds is due or asked, whatever became of the question; one
//! that no producer holds is neither. A question leaves through `Core::end_call` alone, which makes
//! its topic due again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ringmain_proto::Micros;
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::payload::topic::{GetTopic, TopicDetails};
use ringmain_wire::{CommandCode, Operation};

use super::calls::{CallCell, OwedCall};
use super::core::Core;
use crate::error::CallError;
use crate::limits::REFRESH_CALLS_MAX;
use crate::topic::{Met, Sighting, Topic, TopicName};

/// How long the shard waits for the answer to a question of its own.
const ASK_TIMEOUT_US: u64 = 10_000_000;

/// Pause between two questions about one topic, however often its name is found stale.
const STALE_PAUSE_US: u64 = 100_000;

/// Pause after a question that was not answered, unless the topic is asked about more often anyway.
const FAILED_PAUSE_US: u64 = 1_000_000;

/// The topics that producers hold.
pub(super) struct Watches {
    by_name: HashMap<WatchKey, Watch>,
    /// Those that are not being asked about.
    due: BTreeSet<(Micros, WatchKey)>,
    /// Questions that are out.
    asked: u32,
}

/// The address of its [`TopicName`], which the watch keeps alive: unique, and cheap to find.
type WatchKey = usize;

struct Watch {
    topic: Arc<Topic>,
    refresh_us: u64,
    /// `None` while a question is out.
    due_at: Option<Micros>,
    asked_at: Micros,
    /// The name was found stale while a question was out, which may have been answered before.
    is_stale_again: bool,
    /// The last answer was that there is no such topic.
    is_missing: bool,
}

/// A question that is out.
pub(super) struct Question {
    topic: Arc<Topic>,
    asked_at: Micros,
}

impl Watches {
    pub(super) fn new() -> Self {
        Self {
            by_name: HashMap::new(),
            due: BTreeSet::new(),
            asked: 0,
        }
    }

    /// A producer holds the topic and wants it asked about this often; the shortest interval of its
    /// producers holds.
    pub(super) fn watch(&mut self, now: Micros, topic: Arc<Topic>, refresh_us: u64) {
        let key = key_of(&topic.name);
        let due_at = now.after(refresh_us);
        if let Some(known) = self.by_name.get_mut(&key) {
            known.refresh_us = known.refresh_us.min(refresh_us);
            if known.due_at.is_some_and(|known| due_at < known) {
                self.set_due(key, due_at);
            }
            return;
        }
        let watch = Watch {
            topic,
            refresh_us,
            due_at: None,
            asked_at: now,
            is_stale_again: false,
            is_missing: false,
        };
        self.by_name.insert(key, watch);
        self.set_due(key, due_at);
    }

    /// No producer holds the topic any more.
    pub(super) fn unwatch(&mut self, topic: &Arc<Topic>) {
        let key = key_of(&topic.name);
        if let Some(watch) = self.by_name.remove(&key)
            && let Some(due_at) = watch.due_at
        {
            self.due.remove(&(due_at, key));
        }
    }

    /// When the next question is to be asked.
    pub(super) fn next_at(&self) -> Micros {
        match self.due.first() {
            Some(&(at, _)) if self.asked < REFRESH_CALLS_MAX => at,
            _ => Micros::MAX,
        }
    }

    fn set_due(&mut self, key: WatchKey, at: Micros) {
        let watch = self.by_name.get_mut(&key).expect("a topic that is watched");
        if let Some(before) = watch.due_at.replace(at) {
            self.due.remove(&(before, key));
        }
        self.due.insert((at, key));
    }

    fn note_stale(&mut self, name: &Arc<TopicName>) {
        let key = key_of(name);
        match self.by_name.get_mut(&key) {
            // No producer wants to know.
            None => name.clear_stale(),
            Some(watch) => match watch.due_at {
                None => watch.is_stale_again = true,
                Some(due_at) => {
                    let soon = watch.asked_at.after(STALE_PAUSE_US);
                    self.set_due(key, due_at.min(soon));
                }
            },
        }
    }

    /// The next question to ask.
    fn take_due(&mut self, now: Micros) -> Option<Question> {
        let &(at, key) = self.due.first()?;
        if at > now || self.asked >= REFRESH_CALLS_MAX {
            return None;
        }
        self.due.pop_first();
        self.asked += 1;
        let watch = self.by_name.get_mut(&key).expect("what is due is watched");
        watch.due_at = None;
        watch.asked_at = now;
        watch.topic.name.clear_stale();
        Some(Question {
            topic: Arc::clone(&watch.topic),
            asked_at: now,
        })
    }

    /// A question has ended. Returns the watch, unless the last producer let go meanwhile.
    fn end_question(
        &mut self,
        now: Micros,
        topic: &Arc<Topic>,
        is_answered: bool,
    ) -> Option<&mut Watch> {
        self.asked -= 1;
        let key = key_of(&topic.name);
        let watch = self.by_name.get_mut(&key)?;
        let mut pause_us = watch.refresh_us;
        if std::mem::take(&mut watch.is_stale_again) {
            pause_us = pause_us.min(STALE_PAUSE_US);
        }
        if !is_answered {
            pause_us = pause_us.min(FAILED_PAUSE_US);
        }
        // It is due already when a producer let go and another one came.
        if watch.due_at.is_none() {
            self.set_due(key, now.after(pause_us));
        }
        self.by_name.get_mut(&key)
    }
}

impl Core {
    /// Asks about the topics that are due, a few at a time.
    pub(super) fn ask_about_topics(&mut self, now: Micros) {
        while let Some(name) = self.shared.news.next_stale() {
            self.watches.note_stale(&name);
        }
        while let Some(question) = self.watches.take_due(now) {
            let body = GetTopic {
                stream_id: question.topic.name.stream(),
                topic_id: question.topic.name.topic(),
            }
            .to_vec();
            let cell = CallCell::new(
                Operation::NonReplicated,
                CommandCode::GET_TOPIC,
                "GetTopic",
                body.into(),
                Duration::from_micros(ASK_TIMEOUT_US),
            );
            self.start_call(now, OwedCall::new(Arc::new(cell.asking(question))));
        }
    }

    /// Takes the answer to a question over.
    pub(super) fn end_question(
        &mut self,
        now: Micros,
        question: &Question,
        reply: Result<Bytes, &CallError>,
    ) {
        let Question { topic, asked_at } = question;
        let watch = self.watches.end_question(now, topic, reply.is_ok());
        let found = match &reply {
            Ok(body) => Option::<TopicDetails<'_>>::decode(body).map_err(|error| error.to_string()),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        let was_missing = match watch {
            None => false,
            Some(watch) => std::mem::replace(&mut watch.is_missing, matches!(found, Ok(None))),
        };
        match found {
            Ok(Some(found)) => take_sighting(topic, *asked_at, &found),
            Ok(None) if was_missing => {}
            Ok(None) => {
                ringmain_io::log!(warn, topic = %topic.name, "the topic does not exist any more");
            }
            Err(error) => {
                ringmain_io::log!(warn, topic = %topic.name, error, "no answer to GetTopic; asking again");
            }
        }
    }
}

fn take_sighting(topic: &Topic, asked_at: Micros, found: &TopicDetails<'_>) {
    let before = topic.partitions_count();
    let met = topic.meet(Sighting {
        asked_at,
        created_at_us: found.topic.created_at,
        topic_id: found.topic.id,
        partitions_count: found.topic.partitions_count,
    });
    let count = topic.partitions_count();
    match met {
        Met::Another => ringmain_io::log!(warn, topic = %topic.name,
            count,
            "another topic has this name now; what was accepted before is not sent any more"
        ),
        Met::Same if count != before => {
            ringmain_io::log!(info, topic = %topic.name, before, count, "partition count changed");
        }
        Met::Same | Met::Outdated => {}
    }
}

fn key_of(name: &Arc<TopicName>) -> WatchKey {
    Arc::as_ptr(name).addr()
}
