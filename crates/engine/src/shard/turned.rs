//! A shard without a thread, for simulations: the same tables, the same turn, the same end.

use std::time::Duration;

use ringmain_io::driver::{Driver, DriverError};
use ringmain_proto::Client;

use super::core::Core;
use super::run::Running;
use crate::simulation::ClientView;

/// See the module. Dropping it is the end of a shard whose thread panicked.
pub(crate) struct Turned<D: Driver> {
    /// `None` when the shard has ended.
    running: Option<Running<D>>,
    /// The protocol clients at its end.
    ended: Vec<ClientView>,
}

impl<D: Driver> Turned<D> {
    pub(super) fn new(core: Core, driver: D) -> Self {
        Self {
            running: Some(Running::new(core, driver)),
            ended: Vec::new(),
        }
    }

    /// One turn and one call of the driver's `wait`, which must not sleep. Says how long that call
    /// was allowed to; `None` when the shard has ended.
    pub(crate) fn turn(&mut self) -> Result<Option<Duration>, DriverError> {
        let Some(running) = &mut self.running else {
            return Ok(None);
        };
        let Some(timeout) = running.turn() else {
            self.end(None);
            return Ok(None);
        };
        if let Err(error) = running.driver().wait(Some(timeout)) {
            self.end(Some(error.to_string()));
            return Err(error);
        }
        Ok(Some(timeout))
    }

    pub(crate) fn driver(&mut self) -> Option<&mut D> {
        self.running.as_mut().map(Running::driver)
    }

    /// The protocol client of a connection; `None` when the shard has ended.
    pub(crate) fn client(&self, conn: usize) -> Option<&Client> {
        let running = self.running.as_ref()?;
        running.core.conns.get(conn).map(|conn| &conn.client)
    }

    /// What there is to see of the protocol client of a connection.
    pub(crate) fn view(&self, conn: usize) -> ClientView {
        match self.client(conn) {
            Some(client) => ClientView::of(client),
            None => self.ended[conn],
        }
    }

    /// Panics when a table of the shard contradicts another.
    pub(crate) fn check_invariants(&self) {
        if let Some(running) = &self.running {
            running.core.check_invariants();
        }
    }

    fn end(&mut self, failure: Option<String>) {
        if let Some(mut running) = self.running.take() {
            let clients = running.core.conns.iter().map(|conn| &conn.client);
            self.ended = clients.map(ClientView::of).collect();
            if let Some(why) = failure {
                running.fail(why);
            }
        }
    }
}

impl Core {
    /// What must hold between two turns.
    fn check_invariants(&self) {
        for conn in &self.conns {
            conn.client.check_invariants();
            let in_writes: usize = conn.writes.iter().sum();
            assert_eq!(
                in_writes,
                conn.writing.len(),
                "writes carry what is being written"
            );
        }
        let in_flight = self.batches.iter().flatten().count();
        assert_eq!(
            in_flight, self.batches_in_flight as usize,
            "batches in flight"
        );
        let entries = || self.lanes.iter().flatten();
        let pending = entries().filter(|entry| entry.is_pending).count();
        assert_eq!(pending, self.lanes_pending as usize, "pending lanes");
        let full = entries().filter(|entry| entry.is_full).count();
        assert_eq!(full, self.lanes_full.len(), "lanes without room, each once");
        let lingering = entries().filter(|entry| entry.lingers_until.is_some());
        assert_eq!(
            lingering.count(),
            self.lingering.len(),
            "lingering lanes, each once"
        );
        assert!(
            self.lanes_due.is_empty(),
            "every lane that was due was looked at"
        );
        assert!(self.deferred.is_empty(), "every task was woken");
    }
}
