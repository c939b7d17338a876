//! Choosing a broker's address, limits and behaviour before it starts.

use crate::broker::{Broker, Plan};
use crate::profile::{Driver, Profile};
use crate::script::Script;
use crate::start_error::StartError;

/// Everything that is fixed when a broker starts. Made by [`Broker::builder`].
#[derive(Debug, Clone, Default)]
pub struct BrokerBuilder {
    plan: Plan,
}

impl Broker {
    /// Chooses address, limits and behaviour; finish with [`BrokerBuilder::start`].
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder::default()
    }
}

impl BrokerBuilder {
    /// Address to listen on, `host:port`. Port 0 (the default, on 127.0.0.1) takes a free one; see
    /// [`Broker::addr`].
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.plan.listen = address.into();
        self
    }

    /// Server version to imitate. Default [`Profile::Release`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.plan.config.profile = profile;
        self
    }

    /// Kernel interface. Default [`Driver::Auto`].
    #[must_use]
    pub fn driver(mut self, driver: Driver) -> Self {
        self.plan.driver = driver;
        self
    }

    /// Faults to commit. Default none.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.plan.script = script;
        self
    }

    /// Sink mode: read frame lengths, answer, store and verify nothing. For measuring a sender.
    /// Default false.
    #[must_use]
    pub fn sink(mut self, sink: bool) -> Self {
        self.plan.config.sink = sink;
        self
    }

    /// The one user. Default `iggy` with password `iggy`.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.plan.config.username = name.into();
        self.plan.config.password = password.into();
        self
    }

    /// One more personal access token that the user can log in with. Default none.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.plan.config.tokens.push(token.into());
        self
    }

    /// Memory for the records of one topic, in bytes: past it its oldest batches are evicted, and
    /// counted. A batch that alone would pass it is refused, with code 4022 when it is one record
    /// and 4023 when it is several. Default 512 MiB. A topic's own `max_topic_size` can only lower
    /// it.
    #[must_use]
    pub fn topic_bytes_max(mut self, bytes: u64) -> Self {
        self.plan.config.topic_bytes_max = bytes;
        self
    }

    /// Memory for the records of all topics, in bytes: past it the oldest batches of all are
    /// evicted, whatever their topic, and counted. A batch that alone would pass it is refused, as
    /// above. Default 1 GiB.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.plan.config.memory_bytes_max = bytes;
        self
    }

    /// Memory for frames that have not fully arrived, of all connections together, in bytes: the
    /// connection that passes it is closed. Default 256 MiB.
    #[must_use]
    pub fn inbound_bytes_max(mut self, bytes: usize) -> Self {
        self.plan.config.inbound_bytes_max = bytes;
        self
    }

    /// Memory for replies that wait to be written or are being written, of all connections
    /// together, in bytes: past it all but logins, pings and sends is refused as not admitted (58),
    /// and a connection with replies waiting is not read. One connection alone is not read past 1
    /// MiB. Default 256 MiB; never more than `memory_bytes_max`, 1 MiB at least.
    #[must_use]
    pub fn outbound_bytes_max(mut self, bytes: u64) -> Self {
        self.plan.config.outbound_bytes_max = bytes;
        self
    }

    /// Connections at the same time; more are closed at once. Default 16384.
    #[must_use]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.plan.config.connections_max = connections;
        self
    }

    /// Heartbeat interval in microseconds. A client that sent nothing for 1.2 intervals is evicted
    /// as stale. 0 never evicts, and neither does [`Profile::Edge5`]. Default 30 s.
    #[must_use]
    pub fn heartbeat_us(mut self, us: u64) -> Self {
        self.plan.config.heartbeat_us = us;
        self
    }

    /// Time from the arrival of a send to its commit, in microseconds. Default 0, at once. With a
    /// delay a partition can fill up: it takes 32 uncommitted sends and queues 64, and drops the
    /// next without a reply.
    #[must_use]
    pub fn commit_delay_us(mut self, us: u64) -> Self {
        self.plan.config.commit_delay_us = us;
        self
    }

    /// Starts the broker's thread and returns once the address is bound.
    ///
    /// # Errors
    ///
    /// [`StartError`] says what could not be had: the address, the thread or the kernel interface.
    pub fn start(self) -> Result<Broker, StartError> {
        Broker::start(self.plan)
    }
}
