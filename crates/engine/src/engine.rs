//! The engine: shards, their connections, and the calls that are not sends.
//!
//! A handle and nothing more: the data path is in the producer's lanes and on the shard threads.

mod builder;

use std::sync::Arc;
use std::time::Duration;

pub use builder::{EngineBuilder, IntoServerUrl};

use crate::call::{Call, CallReply, Polled, TopicInfo};
use crate::error::CallError;
use crate::outcome::Account;
use crate::producer::ProducerBuilder;
use crate::stats::Stats;

/// How frames reach the socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WritePath {
    /// What a probe and a short calibration at start find fastest.
    #[default]
    Auto,
    /// Vectored write from registered memory (kernel 6.15).
    WritevFixed,
    /// `sendmsg` from plain memory.
    SendMsg,
    /// Zero-copy send (kernel 6.1).
    SendZc,
}

/// What is left when an engine or a producer closed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// The final account. It balances, and `in_flight` is 0.
    pub account: Account,
    /// True when everything was resolved by the server's answers before the deadline.
    pub drained: bool,
}

/// A running engine. Cloning gives another handle to the same one.
///
/// When the last handle and the last producer go, the shards stop: what was not answered by then resolves as `NotSent`
/// or `Unknown`. Call [`Engine::close`] to drain first.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineInner>,
}

pub(crate) struct EngineInner {}

impl Engine {
    /// Starts the configuration of an engine.
    #[must_use]
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Starts the configuration of a producer to `topic` of `stream`.
    #[must_use]
    pub fn producer(&self, stream: impl Into<String>, topic: impl Into<String>) -> ProducerBuilder {
        ProducerBuilder::new(self.clone(), stream.into(), topic.into())
    }

    /// Makes one call and blocks until its reply, at most `timeout`.
    ///
    /// # Errors
    /// Every [`CallError`]. After `Timeout` or `Lost` a call that changes something may have been carried out.
    pub fn call(&self, call: Call, timeout: Duration) -> Result<CallReply, CallError> {
        let _ = (call, timeout, &self.inner);
        Err(CallError::Closed)
    }

    /// Creates a stream. `Ok(false)` when it exists already.
    ///
    /// # Errors
    /// Those of [`Engine::call`].
    pub fn create_stream(&self, stream: &str, timeout: Duration) -> Result<bool, CallError> {
        let _ = (stream, timeout);
        Err(CallError::Closed)
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
        let _ = (stream, topic, partitions, timeout);
        Err(CallError::Closed)
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
        let _ = (stream, topic, timeout);
        Err(CallError::Closed)
    }

    /// Reads up to `count` records of one partition from `offset` on, for audits. Commits no consumer offset.
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
        let _ = (stream, topic, partition, offset, count, timeout);
        Err(CallError::Closed)
    }

    /// What the engine did so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Closes every producer, waits at most `within` for what is out, logs out and stops the shards. What is not
    /// answered by then resolves as `NotSent` or `Unknown`. Never takes noticeably longer than `within`. A second close
    /// returns the same report.
    pub fn close(&self, within: Duration) -> CloseReport {
        let _ = within;
        CloseReport::default()
    }
}
