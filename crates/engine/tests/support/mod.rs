//! What the integration tests share: a server, unique names, reading back.
//!
//! The server is an embedded broker of the test's own. With `RINGMAIN_TEST_SERVER=host:port` (and, if they are not
//! `iggy`/`iggy`, `RINGMAIN_TEST_USER` and `RINGMAIN_TEST_PASSWORD`) tests that need no faults run on that server.
#![allow(dead_code)] // Each test file uses a part of it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ringmain::{Engine, EngineBuilder, PolledRecord};
use ringmain_broker::{Broker, BrokerBuilder};

/// Long enough for a debug build on a busy machine; tests that succeed never wait for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server to test against.
pub(crate) enum Server {
    /// An embedded broker.
    Embedded(Broker),
    /// A real server at this address.
    Real(String),
}

impl Server {
    /// The server of the environment, or an embedded broker with its defaults.
    pub(crate) fn start() -> Self {
        match std::env::var("RINGMAIN_TEST_SERVER") {
            Ok(address) => Self::Real(address),
            Err(_) => Self::embedded(Broker::builder()),
        }
    }

    /// An embedded broker, whatever the environment says.
    pub(crate) fn embedded(builder: BrokerBuilder) -> Self {
        Self::Embedded(
            builder
                .start()
                .expect("a broker on a free port of the loopback"),
        )
    }

    /// Its URL, credentials included.
    pub(crate) fn url(&self) -> String {
        let name = |key: &str| std::env::var(key).unwrap_or_else(|_| "iggy".to_owned());
        match self {
            Self::Embedded(broker) => format!("iggy://iggy:iggy@{}", broker.addr()),
            Self::Real(address) => {
                format!(
                    "iggy://{}:{}@{address}",
                    name("RINGMAIN_TEST_USER"),
                    name("RINGMAIN_TEST_PASSWORD")
                )
            }
        }
    }

    /// The configuration of an engine for it: little memory, no pinning, so that tests run side by side.
    pub(crate) fn engine(&self) -> EngineBuilder {
        Engine::builder()
            .server(self.url())
            .cores([])
            .memory_bytes_max(16 << 20)
            .slot_bytes(64 << 10)
            .huge_pages(false)
    }
}

/// A name no other test uses, on this server or before.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a clock after 1970");
    format!(
        "{what}-{}-{}-{}",
        std::process::id(),
        since.as_micros(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Every record of a partition, in order, with its offsets checked to be without gaps.
pub(crate) fn read_back(
    engine: &Engine,
    stream: &str,
    topic: &str,
    partition: u32,
) -> Vec<PolledRecord> {
    let mut records: Vec<PolledRecord> = Vec::new();
    loop {
        let next = records.last().map_or(0, |record| record.offset + 1);
        let polled = engine
            .poll(stream, topic, partition, next, 1000, PATIENCE)
            .expect("a poll of what was stored");
        if polled.records.is_empty() {
            return records;
        }
        for record in polled.records {
            let expected = records.last().map_or(0, |last| last.offset + 1);
            assert_eq!(record.offset, expected, "offsets without gaps");
            records.push(record);
        }
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
