//! The engine's calls: raw ones, and the few typed ones that producers and audits need.
//!
//! All of them go over the first connection of the first shard.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ringmain_wire::batch::Integrity;
use ringmain_wire::codec::Decode;
use ringmain_wire::header::BODY_BYTES_MAX;
use ringmain_wire::payload::Command as WireCommand;
use ringmain_wire::payload::consumer::{Consumer, PartitionChoice};
use ringmain_wire::payload::poll::{PollMessages, PollReply, PollingStrategy};
use ringmain_wire::payload::stream::{CreateStream, GetStream, StreamDetails};
use ringmain_wire::payload::topic::{CreateTopic, GetTopic, TopicDetails};
use ringmain_wire::{CommandCode, ErrorCode, Identifier, Name, Operation, Options, WireError};

use super::Engine;
use crate::call::{Call, CallReply, Polled, PolledRecord, TopicInfo};
use crate::error::CallError;
use crate::shard::{CallCell, Command, OwedCall};
use crate::user_code::{Role, role};

/// How much longer than its timeout a call is waited for, in case the shard is gone.
const CALL_GRACE: Duration = Duration::from_secs(1);

impl Engine {
    /// Makes one call and blocks until its reply, at most `timeout`.
    ///
    /// Everything but sends, logins and consumer offsets can be called; the reply's result section
    /// is taken off.
    ///
    /// # Errors
    /// Every [`CallError`]. After `Timeout` or `Lost` a call that changes something may have been
    /// carried out.
    pub fn call(&self, call: Call, timeout: Duration) -> Result<CallReply, CallError> {
        may_wait()?;
        let cell = self.start_call(call, timeout)?;
        let result = cell.wait(timeout.saturating_add(CALL_GRACE));
        self.explain(result)
    }

    /// Makes one call; the future is ready with its reply, about `timeout` later at the latest.
    /// Dropping it does not take the call back.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub async fn call_async(&self, call: Call, timeout: Duration) -> Result<CallReply, CallError> {
        let cell = self.start_call(call, timeout)?;
        let _waiting = Waiting(&cell);
        let result = std::future::poll_fn(|cx| match cell.poll(cx.waker()) {
            Some(result) => std::task::Poll::Ready(result),
            None => std::task::Poll::Pending,
        })
        .await;
        self.explain(result)
    }

    /// Creates a stream. `Ok(false)` when it exists already.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub fn create_stream(&self, stream: &str, timeout: Duration) -> Result<bool, CallError> {
        let request = CreateStream {
            name: encode("CreateStream", Name::new(stream))?,
            options: Options::EMPTY,
        };
        created(self.command("CreateStream", &request, timeout))
    }

    /// Creates a topic with this many partitions (1 to 1000). `Ok(false)` when it exists already.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub fn create_topic(
        &self,
        stream: &str,
        topic: &str,
        partitions: u32,
        timeout: Duration,
    ) -> Result<bool, CallError> {
        let request = CreateTopic {
            stream_id: encode("CreateTopic", Identifier::named(stream))?,
            partitions_count: partitions,
            name: encode("CreateTopic", Name::new(topic))?,
            options: Options::EMPTY,
        };
        created(self.command("CreateTopic", &request, timeout))
    }

    /// What the server knows of a topic; `None` when the stream or the topic does not exist.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub fn topic(
        &self,
        stream: &str,
        topic: &str,
        timeout: Duration,
    ) -> Result<Option<TopicInfo>, CallError> {
        #[cfg(feature = "simulation")]
        if let Some(told) = crate::simulation::told_topic() {
            return Ok(Some(told));
        }
        let get_stream = GetStream {
            stream_id: encode("GetStream", Identifier::named(stream))?,
        };
        let Some(reply) = absent(self.command("GetStream", &get_stream, timeout))? else {
            return Ok(None);
        };
        let Some(details) = decode::<Option<StreamDetails<'_>>>("GetStream", &reply)? else {
            return Ok(None);
        };
        self.topic_of(details.stream.id, stream, topic, timeout)
    }

    /// [`Engine::topic`] without a question about the stream, whose answer lists every topic in it.
    pub(crate) fn topic_of(
        &self,
        stream_id: u32,
        stream: &str,
        topic: &str,
        timeout: Duration,
    ) -> Result<Option<TopicInfo>, CallError> {
        #[cfg(feature = "simulation")]
        if let Some(told) = crate::simulation::told_topic() {
            return Ok(Some(told));
        }
        let get_topic = GetTopic {
            stream_id: encode("GetTopic", Identifier::named(stream))?,
            topic_id: encode("GetTopic", Identifier::named(topic))?,
        };
        let Some(reply) = absent(self.command("GetTopic", &get_topic, timeout))? else {
            return Ok(None);
        };
        let found = decode::<Option<TopicDetails<'_>>>("GetTopic", &reply)?;
        Ok(found.map(|found| TopicInfo {
            stream_id,
            topic_id: found.topic.id,
            created_at_us: found.topic.created_at,
            partitions_count: found.topic.partitions_count,
            messages_count: found.topic.messages_count,
        }))
    }

    /// Reads up to `count` records of one partition from `offset` on, for audits. Commits no
    /// consumer offset, and verifies every checksum.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub fn poll(
        &self,
        stream: &str,
        topic: &str,
        partition: u32,
        offset: u64,
        count: u32,
        timeout: Duration,
    ) -> Result<Polled, CallError> {
        const NAME: &str = "PollMessages";
        let request = PollMessages {
            consumer: Consumer::Consumer(encode(NAME, Identifier::named("ringmain"))?),
            stream_id: encode(NAME, Identifier::named(stream))?,
            topic_id: encode(NAME, Identifier::named(topic))?,
            partition: PartitionChoice::PartitionId(partition),
            strategy: PollingStrategy::Offset(offset),
            count,
            auto_commit: false,
        };
        let reply = self.command(NAME, &request, timeout)?;
        let polled = decode::<PollReply<'_>>(NAME, &reply)?;
        let mut records = Vec::new();
        for batch in polled.stored_batches(Integrity::Verify) {
            let batch = batch.map_err(|error| undecodable(NAME, &error))?;
            records.extend(batch.messages().map(|message| PolledRecord {
                offset: message.offset(),
                id: message.id(),
                origin_timestamp_us: message.timestamp_us(),
                payload: reply.slice_ref(message.payload()),
                user_headers: reply.slice_ref(message.user_headers_bytes()),
            }));
        }
        // A server returns whole batches; what is before the offset or beyond the count was not
        // asked for.
        records.retain(|record| record.offset >= offset);
        records.truncate(count as usize);
        Ok(Polled {
            partition: polled.partition_id,
            current_offset: polled.current_offset,
            records,
        })
    }

    fn command<C: WireCommand>(
        &self,
        name: &'static str,
        command: &C,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        may_wait()?;
        let call = Call {
            operation: C::CODE.operation().as_u8(),
            code: C::CODE.0,
            body: command.to_vec().into(),
        };
        let cell = self.start_named(call, name, timeout)?;
        self.explain(cell.wait(timeout.saturating_add(CALL_GRACE)))
            .map(|reply| reply.body)
    }

    fn start_call(&self, call: Call, timeout: Duration) -> Result<Arc<CallCell>, CallError> {
        let name = if call.operation == Operation::NonReplicated.as_u8() {
            CommandCode(call.code)
                .name()
                .unwrap_or("a read of unknown code")
        } else {
            "the call"
        };
        self.start_named(call, name, timeout)
    }

    fn start_named(
        &self,
        call: Call,
        name: &'static str,
        timeout: Duration,
    ) -> Result<Arc<CallCell>, CallError> {
        let Some(operation) = Operation::from_u8(call.operation) else {
            return Err(CallError::Encode {
                operation: name,
                why: format!("there is no operation {}", call.operation),
            });
        };
        let bytes = call.body.len();
        if bytes > BODY_BYTES_MAX {
            return Err(CallError::BodyTooLarge {
                bytes,
                max: BODY_BYTES_MAX,
            });
        }
        if !self.inner.process.is_this() {
            return Err(CallError::Forked);
        }
        let shard = &self.inner.shards[0].shared;
        if let Some(cause) = shard.sessions.failure() {
            return Err(CallError::EngineFailed { cause });
        }
        if self.inner.is_closed() || shard.has_ended() {
            return Err(CallError::Closed);
        }
        let code = CommandCode(call.code);
        if operation == Operation::NonReplicated && code.operation() != operation {
            return Err(CallError::Encode {
                operation: name,
                why: format!("code {} belongs to a replicated operation", call.code),
            });
        }
        let cell = Arc::new(CallCell::new(operation, code, name, call.body, timeout));
        shard.command(Command::Call(OwedCall::new(Arc::clone(&cell))));
        Ok(cell)
    }

    /// A call that timed out while there is no session has a better explanation.
    fn explain(&self, result: Result<CallReply, CallError>) -> Result<CallReply, CallError> {
        match result {
            Err(CallError::Timeout {
                operation,
                waited_us,
            }) => match self.inner.shards[0].shared.sessions.last_error() {
                Some(cause) => Err(CallError::NoSession { operation, cause }),
                None => Err(CallError::Timeout {
                    operation,
                    waited_us,
                }),
            },
            other => other,
        }
    }
}

/// A task that waits for a call. When it goes away its waker does, too.
struct Waiting<'c>(&'c CallCell);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.forget_waker();
    }
}

/// A shard that waited for a call would wait for itself.
fn may_wait() -> Result<(), CallError> {
    match role() {
        Role::Shard => Err(CallError::OnShardThread),
        Role::Application | Role::Callbacks => Ok(()),
    }
}

fn encode<T>(operation: &'static str, encoded: Result<T, WireError>) -> Result<T, CallError> {
    encoded.map_err(|error| CallError::Encode {
        operation,
        why: error.to_string(),
    })
}

fn decode<'a, T: Decode<'a>>(operation: &'static str, body: &'a [u8]) -> Result<T, CallError> {
    T::decode(body).map_err(|error| undecodable(operation, &error))
}

fn undecodable(operation: &'static str, error: &WireError) -> CallError {
    CallError::Decode {
        operation,
        why: error.to_string(),
    }
}

/// Whether something was created, or was there before.
fn created(reply: Result<Bytes, CallError>) -> Result<bool, CallError> {
    match reply {
        Ok(_) => Ok(true),
        Err(CallError::Refused { code, .. })
            if code == ErrorCode::STREAM_NAME_ALREADY_EXISTS
                || code == ErrorCode::TOPIC_NAME_ALREADY_EXISTS =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// `None` for a refusal that says that there is no such thing.
fn absent(reply: Result<Bytes, CallError>) -> Result<Option<Bytes>, CallError> {
    match reply {
        Ok(body) => Ok(Some(body)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}
