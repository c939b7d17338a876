//! Engines of tests, and what must hold when a test is done with one, whatever it tested.

use std::ops::Deref;
use std::time::Duration;

use ringmain::{BuildError, DriverChoice, Engine, EngineBuilder};

/// An engine that is closed and checked when it is dropped: the account balances, no completion was
/// lost or out of place, every slot and every byte is back.
pub(crate) struct Checked {
    engine: Engine,
    by_reference_bytes: u64,
}

/// [`Engine::builder`] with the driver of the environment variable `RINGMAIN_TEST_DRIVER`, so that
/// every test runs on every driver.
pub(crate) fn builder() -> EngineBuilder {
    match std::env::var("RINGMAIN_TEST_DRIVER") {
        Ok(driver) => Engine::builder().driver(driver.parse().expect("auto, io_uring or epoll")),
        Err(_) => Engine::builder().driver(DriverChoice::Auto),
    }
}

/// Whether this kernel, or the driver under test, has not got what the test asked for.
pub(crate) fn lacks_path(error: &BuildError) -> bool {
    matches!(
        error,
        BuildError::Setup(_)
            | BuildError::Contradiction {
                option: "write_path",
                ..
            }
    )
}

/// [`EngineBuilder::build`], checked at the end.
pub(crate) trait Start {
    /// Starts an engine where nothing stands in the way.
    fn start(self) -> Checked;
}

impl Start for EngineBuilder {
    fn start(self) -> Checked {
        Checked::new(self.build().expect("a server that takes logins"))
    }
}

impl Checked {
    pub(crate) fn new(engine: Engine) -> Self {
        let by_reference_bytes = engine.stats().by_reference_bytes_free;
        Self {
            engine,
            by_reference_bytes,
        }
    }
}

impl Deref for Checked {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // A test that closed it already gets the same report.
        let report = self.engine.close(Duration::ZERO);
        let account = report.account;
        assert!(account.balances() && account.in_flight == 0, "{account}");
        // The shards have ended: these are final.
        let stats = self.engine.stats();
        super::stats::check(&stats);
        assert_eq!(stats.transport.completion_overflows, 0, "overflows");
        assert_eq!(stats.transport.stale_completions, 0, "stale completions");
        assert_eq!(stats.slots_free, stats.slots, "every slot came back");
        assert_eq!(
            stats.by_reference_bytes_free, self.by_reference_bytes,
            "every byte by reference came back"
        );
        assert_eq!(stats.records, account.accepted, "one answer a record");
    }
}
