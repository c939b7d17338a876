//! A server to test against: an embedded broker of the test's own, or a real one.
//!
//! With `RINGMAIN_TEST_SERVER=host:port` (and, if they are not `iggy`/`iggy`, `RINGMAIN_TEST_USER`
//! and `RINGMAIN_TEST_PASSWORD`) every test that needs no scripted faults runs on that server, in
//! streams with names of their own that are removed afterwards.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use ringmain::{Call, CallError, Engine, EngineBuilder};
use ringmain_broker::{Broker, BrokerBuilder, Script};
use ringmain_wire::codec::Encode;
use ringmain_wire::payload::stream::DeleteStream;
use ringmain_wire::{Identifier, Operation};

use super::PATIENCE;

/// A server, and the streams that a test made on it.
pub(crate) struct Server {
    kind: Kind,
    streams: Mutex<Vec<String>>,
}

enum Kind {
    Embedded(Broker),
    /// At this address.
    Real(String),
}

impl Server {
    /// The server of the environment, or an embedded broker with its defaults.
    pub(crate) fn start() -> Self {
        match std::env::var("RINGMAIN_TEST_SERVER") {
            Ok(address) => Self::of(Kind::Real(address)),
            Err(_) => Self::embedded(Broker::builder()),
        }
    }

    /// An embedded broker, whatever the environment says: for what only it can do.
    pub(crate) fn embedded(builder: BrokerBuilder) -> Self {
        let broker = builder
            .start()
            .expect("a broker on a free port of the loopback");
        Self::of(Kind::Embedded(broker))
    }

    /// An embedded broker with these faults.
    pub(crate) fn faulty(script: Script) -> Self {
        Self::embedded(Broker::builder().script(script))
    }

    /// An embedded broker that answers everything but sends, which it commits in an hour.
    pub(crate) fn stalled() -> Self {
        Self::embedded(Broker::builder().commit_delay_us(3_600_000_000))
    }

    fn of(kind: Kind) -> Self {
        Self {
            kind,
            streams: Mutex::new(Vec::new()),
        }
    }

    /// The embedded broker.
    pub(crate) fn broker(&self) -> &Broker {
        match &self.kind {
            Kind::Embedded(broker) => broker,
            Kind::Real(address) => panic!("the test needs an embedded broker, not {address}"),
        }
    }

    /// Its address, `host:port`.
    pub(crate) fn address(&self) -> String {
        match &self.kind {
            Kind::Embedded(broker) => broker.addr().to_string(),
            Kind::Real(address) => address.clone(),
        }
    }

    /// Its URL, credentials included.
    pub(crate) fn url(&self) -> String {
        let or_iggy = |key: &str| std::env::var(key).unwrap_or_else(|_| "iggy".to_owned());
        let (user, password) = match &self.kind {
            Kind::Embedded(_) => ("iggy".to_owned(), "iggy".to_owned()),
            Kind::Real(_) => (
                or_iggy("RINGMAIN_TEST_USER"),
                or_iggy("RINGMAIN_TEST_PASSWORD"),
            ),
        };
        format!("iggy://{user}:{password}@{}", self.address())
    }

    /// The configuration of an engine for it: little memory, no pinning, so that tests run side by
    /// side. A real server hashes passwords slowly on purpose, so dozens of logins at once need
    /// patience.
    pub(crate) fn engine(&self) -> EngineBuilder {
        let url = match &self.kind {
            Kind::Embedded(_) => self.url(),
            Kind::Real(_) => format!("{}?reconnection_retries=unlimited", self.url()),
        };
        super::builder()
            .server(url)
            .connect_timeout_us(PATIENCE.as_micros() as u64)
            .cores([])
            .memory_bytes_max(16 << 20)
            .slot_bytes(64 << 10)
            .huge_pages(false)
    }

    /// A name for a stream that no other test uses, on this server or before. The stream is removed
    /// with the server.
    pub(crate) fn stream(&self, what: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("a clock after 1970");
        let name = format!(
            "{what}-{}-{}-{}",
            std::process::id(),
            since.as_micros(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let mut streams = self.streams.lock().expect("no panic while it is held");
        streams.push(name.clone());
        name
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let streams = std::mem::take(&mut *self.streams.lock().expect("no panic while it is held"));
        if matches!(self.kind, Kind::Embedded(_)) || streams.is_empty() {
            return;
        }
        let engine = match self.engine().build() {
            Ok(engine) => engine,
            Err(error) => return println!("streams are left behind: {error}"),
        };
        for stream in streams {
            let request = DeleteStream {
                stream_id: Identifier::named(&stream).expect("a name"),
            };
            let call = Call::replicated(Operation::DeleteStream.as_u8(), request.to_vec());
            match engine.call(call, PATIENCE) {
                // Not every test came as far as to make its stream.
                Ok(_) | Err(CallError::Refused { .. }) => {}
                Err(error) => println!("stream {stream} is left behind: {error}"),
            }
        }
    }
}
