//! Control calls, and the watch over partition counts that makes calls of its own.
//!
//! Calls go over the first connection of the first shard, one metadata call and one read at a time: that is the
//! protocol client's rule. Their bodies and replies are owned bytes; this is the only place where a shard allocates
//! after its start.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringmain_proto::{Answer, CallKey, Micros};
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::payload::topic::{GetTopic, TopicDetails};
use ringmain_wire::{CommandCode, Operation};

use super::core::Core;
use crate::call::CallReply;
use crate::deadline;
use crate::error::CallError;
use crate::topic::{Topic, TopicName};

/// How long the shard waits for the answer to a question of its own.
const REFRESH_TIMEOUT_US: u64 = 10_000_000;

/// Pause between two questions about a topic that the server says is not there.
const STALE_PAUSE_US: u64 = 100_000;

/// One call and the place where its reply lands.
pub(crate) struct CallCell {
    operation: Operation,
    code: CommandCode,
    name: &'static str,
    timeout_us: u64,
    body: Bytes,
    /// Whose partition count the reply brings; `None` for an application's call.
    watched: Option<Arc<Topic>>,
    state: Mutex<CallState>,
    changed: Condvar,
}

#[derive(Default)]
struct CallState {
    reply: Option<Bytes>,
    result: Option<Result<CallReply, CallError>>,
    waker: Option<Waker>,
}

impl CallCell {
    pub(crate) fn new(
        operation: Operation,
        code: CommandCode,
        name: &'static str,
        body: Bytes,
        timeout: Duration,
    ) -> Self {
        Self {
            operation,
            code,
            name,
            timeout_us: deadline::micros(timeout),
            body,
            watched: None,
            state: Mutex::new(CallState::default()),
            changed: Condvar::new(),
        }
    }

    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }

    pub(super) fn keep_reply(&self, body: Bytes) {
        self.state().reply = Some(body);
    }

    /// Ends the call. The first end counts.
    pub(crate) fn finish(&self, result: Result<(), CallError>) {
        let mut state = self.state();
        if state.result.is_some() {
            return;
        }
        let reply = state.reply.take().unwrap_or_default();
        state.result = Some(result.map(|()| CallReply { body: reply }));
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Blocks until the call has ended. It ends by its timeout, unless the shard's thread is gone; `patience` is for
    /// that case.
    pub(crate) fn wait(&self, patience: Duration) -> Result<CallReply, CallError> {
        let state = self.state();
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, patience, |state| state.result.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.result.take().unwrap_or(Err(self.timeout_error()))
    }

    /// The result, or registers `waker` to be told.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<CallReply, CallError>> {
        let mut state = self.state();
        if state.result.is_none() {
            state.waker = Some(waker.clone());
        }
        state.result.take()
    }

    fn timeout_error(&self) -> CallError {
        CallError::Timeout {
            operation: self.name,
            waited_us: self.timeout_us,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Topics whose partition count is watched.
pub(super) struct CallTable {
    watches: Vec<Watch>,
}

struct Watch {
    topic: std::sync::Weak<Topic>,
    name: Arc<TopicName>,
    refresh_us: u64,
    due_at: Micros,
    asked_at: Micros,
    is_asking: bool,
}

impl CallTable {
    pub(super) fn new() -> Self {
        Self {
            watches: Vec::new(),
        }
    }

    pub(super) fn watch(&mut self, now: Micros, topic: Arc<Topic>, refresh_us: u64) {
        if let Some(known) = self
            .watches
            .iter_mut()
            .find(|watch| Arc::ptr_eq(&watch.name, &topic.name))
        {
            known.refresh_us = known.refresh_us.min(refresh_us);
            known.due_at = known.due_at.min(now.after(refresh_us));
            known.topic = Arc::downgrade(&topic);
            return;
        }
        self.watches.push(Watch {
            name: Arc::clone(&topic.name),
            topic: Arc::downgrade(&topic),
            refresh_us,
            due_at: now.after(refresh_us),
            asked_at: Micros::ZERO,
            is_asking: false,
        });
    }

    pub(super) fn next_watch_at(&self) -> Micros {
        self.watches
            .iter()
            .filter(|watch| !watch.is_asking)
            .map(|watch| watch.due_at)
            .min()
            .unwrap_or(Micros::MAX)
    }
}

impl Core {
    pub(super) fn start_call(&mut self, now: Micros, cell: Arc<CallCell>) {
        let conn = &mut self.conns[0];
        let Some(key) = conn.calls.iter().position(|slot| slot.cell.is_none()) else {
            cell.finish(Err(CallError::Busy {
                max: conn.calls.len(),
            }));
            return;
        };
        let call_key = CallKey(u32::try_from(key).expect("few calls"));
        match conn.client.call(
            call_key,
            cell.operation,
            cell.code,
            now.after(cell.timeout_us),
        ) {
            Ok(()) => conn.calls[key].cell = Some(cell),
            Err(ringmain_proto::CallError::NotACall(_)) => cell.finish(Err(CallError::Encode {
                operation: cell.name,
                why: "sends, logins and consumer offsets are not control calls".to_owned(),
            })),
            Err(ringmain_proto::CallError::Ended(ringmain_proto::Ended::Failed(fatal))) => {
                cell.finish(Err(CallError::Login(fatal.to_string())));
            }
            Err(_) => cell.finish(Err(CallError::Closed)),
        }
    }

    pub(super) fn finish_call(&mut self, now: Micros, cell: Arc<CallCell>, answer: Answer) {
        let operation = cell.name;
        let result = match answer {
            Answer::Answered | Answer::AlreadyApplied => Ok(()),
            Answer::Rejected { code } => Err(CallError::Refused { operation, code }),
            Answer::Evicted { reason } => Err(CallError::Evicted {
                operation,
                reason: reason.to_string(),
            }),
            Answer::NotSent { reason } => Err(match reason {
                ringmain_proto::NotSent::Failed(fatal) => CallError::Login(fatal.to_string()),
                ringmain_proto::NotSent::Purged | ringmain_proto::NotSent::Closed => {
                    CallError::Closed
                }
                _ => cell.timeout_error(),
            }),
            Answer::Unknown { .. } => Err(CallError::Lost { operation }),
        };
        if let Some(topic) = &cell.watched {
            self.take_refresh(now, topic, &cell, &result);
        }
        cell.finish(result);
    }

    /// Asks for the partition counts that are due.
    pub(super) fn refresh_watched(&mut self, now: Micros) {
        for index in 0..self.calls.watches.len() {
            let watch = &mut self.calls.watches[index];
            if watch.name.is_stale() {
                watch.due_at = watch.due_at.min(watch.asked_at.after(STALE_PAUSE_US));
            }
            if watch.is_asking || watch.due_at > now {
                continue;
            }
            let Some(topic) = watch.topic.upgrade() else {
                continue;
            };
            watch.is_asking = true;
            watch.asked_at = now;
            watch.name.clear_stale();
            let body = GetTopic {
                stream_id: topic.name.stream(),
                topic_id: topic.name.topic(),
            }
            .to_vec();
            let timeout = Duration::from_micros(REFRESH_TIMEOUT_US);
            let mut cell = CallCell::new(
                Operation::NonReplicated,
                CommandCode::GET_TOPIC,
                "GetTopic",
                body.into(),
                timeout,
            );
            cell.watched = Some(topic);
            self.start_call(now, Arc::new(cell));
        }
        self.calls
            .watches
            .retain(|watch| watch.topic.strong_count() > 0);
    }

    fn take_refresh(
        &mut self,
        now: Micros,
        topic: &Arc<Topic>,
        cell: &CallCell,
        result: &Result<(), CallError>,
    ) {
        if let Some(watch) = self
            .calls
            .watches
            .iter_mut()
            .find(|watch| Arc::ptr_eq(&watch.name, &topic.name))
        {
            watch.is_asking = false;
            watch.due_at = now.after(watch.refresh_us);
        }
        let state = cell.state();
        let (Ok(()), Some(body)) = (result, &state.reply) else {
            return;
        };
        match Option::<TopicDetails<'_>>::decode(body) {
            Ok(Some(details)) => {
                let count = details.topic.partitions_count;
                if count != topic.partitions_count() {
                    tracing::info!(topic = %topic.name, before = topic.partitions_count(), count, "partition count changed");
                }
                topic.set_partitions_count(count);
            }
            Ok(None) => tracing::warn!(topic = %topic.name, "the topic does not exist any more"),
            Err(error) => {
                tracing::warn!(topic = %topic.name, %error, "the reply to GetTopic cannot be decoded");
            }
        }
    }
}
