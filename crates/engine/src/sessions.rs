//! Where the sessions of a shard stand, for whoever waits for a login or wants to know why there is none.
//!
//! Written by the shard when something changes, read by `build` and by calls that time out. Never on the data path.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::deadline::Deadline;
use crate::error::{BuildError, CallError};

/// One session.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionStatus {
    /// Logged in now.
    pub(crate) is_active: bool,
    /// Logged in at least once.
    pub(crate) was_active: bool,
    /// Connections that failed since the last login.
    pub(crate) failures: u32,
    /// What went wrong last, with its remedy.
    pub(crate) last_error: Option<String>,
    /// The server will never take this login.
    pub(crate) is_fatal: bool,
}

/// All sessions of a shard.
pub(crate) struct Sessions {
    statuses: Mutex<Vec<SessionStatus>>,
    changed: Condvar,
}

impl Sessions {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            statuses: Mutex::new(vec![SessionStatus::default(); count]),
            changed: Condvar::new(),
        }
    }

    /// Changes the status of one session and tells who waits.
    pub(crate) fn update(&self, conn: usize, change: impl FnOnce(&mut SessionStatus)) {
        change(&mut self.statuses()[conn]);
        self.changed.notify_all();
    }

    /// Waits until every session was logged in once.
    ///
    /// # Errors
    /// What stands in the way: a login refused for good, `failures_max` failed connections of one session, or the
    /// deadline.
    pub(crate) fn wait_all_active(
        &self,
        failures_max: u32,
        deadline: Deadline,
    ) -> Result<(), BuildError> {
        let mut statuses = self.statuses();
        loop {
            if statuses.iter().all(|status| status.was_active) {
                return Ok(());
            }
            let stuck = statuses.iter().find(|status| {
                !status.was_active && (status.is_fatal || status.failures >= failures_max)
            });
            if stuck.is_some() || deadline.is_over() {
                let explained =
                    stuck.or_else(|| statuses.iter().find(|status| status.last_error.is_some()));
                let cause = explained
                    .and_then(|status| status.last_error.clone())
                    .unwrap_or_else(|| {
                        "no answer in time: check the address, or raise connect_timeout_us"
                            .to_owned()
                    });
                return Err(match explained {
                    Some(status) if status.is_fatal => BuildError::Call(CallError::Login(cause)),
                    _ => BuildError::Connect(cause),
                });
            }
            statuses = self
                .changed
                .wait_timeout(statuses, deadline.left())
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Why there is no session now, if something is known.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.statuses()
            .iter()
            .filter(|status| !status.is_active)
            .find_map(|status| status.last_error.clone())
    }

    /// Sessions that are logged in now.
    pub(crate) fn active_count(&self) -> usize {
        self.statuses()
            .iter()
            .filter(|status| status.is_active)
            .count()
    }

    fn statuses(&self) -> MutexGuard<'_, Vec<SessionStatus>> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
