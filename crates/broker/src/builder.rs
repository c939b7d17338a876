//! Choosing a broker's address, limits and behaviour before it starts.

use std::io;
use std::net::SocketAddr;

use crate::broker::Broker;
use crate::profile::{Driver, Profile};
use crate::script::Script;

/// Everything that is fixed when a broker starts. Made by [`Broker::builder`].
#[derive(Debug, Clone)]
pub struct BrokerBuilder {
    pub(crate) listen: String,
    pub(crate) profile: Profile,
    pub(crate) driver: Driver,
    pub(crate) script: Script,
    pub(crate) sink: bool,
}

impl Default for BrokerBuilder {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            profile: Profile::default(),
            driver: Driver::default(),
            script: Script::default(),
            sink: false,
        }
    }
}

impl BrokerBuilder {
    /// Address to listen on, `host:port`. Port 0 (the default, on 127.0.0.1) takes a free one; see
    /// [`Broker::addr`].
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = address.into();
        self
    }

    /// Server version to imitate. Default [`Profile::Release`].
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Kernel interface. Default [`Driver::Auto`].
    #[must_use]
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Faults to commit. Default none.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    /// Sink mode: read frame lengths, answer, store and verify nothing. For measuring a sender. Default false.
    #[must_use]
    pub fn sink(mut self, sink: bool) -> Self {
        self.sink = sink;
        self
    }

    /// Starts the broker's thread and returns once the address is bound.
    ///
    /// # Errors
    ///
    /// [`StartError`] says what could not be had: the address, the thread or the kernel interface.
    pub fn start(self) -> Result<Broker, StartError> {
        Broker::start(self)
    }
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address does not parse, does not resolve, or is taken: choose another, or port 0.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address as given.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a thread or a socket pair: a resource limit of this process.
    #[error("cannot start the broker's thread: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
    /// The kernel interface asked for is refused here: [`Driver::Auto`] falls back by itself.
    #[error("cannot set up {driver:?} for the broker on {address}: {source}")]
    Driver {
        /// The interface asked for.
        driver: Driver,
        /// The bound address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}
