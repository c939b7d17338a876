//! Where the sessions of a shard stand, for whoever waits for a login or wants to know why there is
//! none.
//!
//! Written by the shard when something changes, read by `build` and by calls that time out. Never
//! on the data path.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{BuildError, CallError};

/// What stands in the way of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A name has no address.
    Name {
        /// As the URL has it.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// Everything else, with what helps.
    Other(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { host, why } => write!(f, "cannot resolve {host}: {why}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// One session.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionStatus {
    /// Logged in now.
    pub(crate) is_active: bool,
    /// Logged in at least once.
    pub(crate) was_active: bool,
    /// Rounds over all addresses that failed since the last login.
    pub(crate) rounds: u32,
    /// What is being waited for, as `connecting to 10.0.0.1:8090`.
    pub(crate) doing: Option<String>,
    /// What went wrong last.
    pub(crate) obstacle: Option<Obstacle>,
    /// The server will never take this login.
    pub(crate) is_fatal: bool,
}

/// All sessions of a shard.
pub(crate) struct Sessions {
    board: Mutex<Board>,
    changed: Condvar,
}

struct Board {
    statuses: Vec<SessionStatus>,
    /// Why the shard ended before its time.
    failure: Option<String>,
}

impl Sessions {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            board: Mutex::new(Board {
                statuses: vec![SessionStatus::default(); count],
                failure: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Changes the status of one session and tells who waits.
    pub(crate) fn update(&self, conn: usize, change: impl FnOnce(&mut SessionStatus)) {
        change(&mut self.board().statuses[conn]);
        self.changed.notify_all();
    }

    /// The shard ended because of `why`: there will be no session any more.
    pub(crate) fn fail(&self, why: String) {
        self.board().failure.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Why the shard ended before its time, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.board().failure.clone()
    }

    /// Waits until every session was logged in once, at most `within`, which ends at `deadline`.
    ///
    /// # Errors
    /// What stands in the way: the end of the shard, a login refused for good, `rounds_max` failed
    /// rounds of one session over all addresses, or the deadline.
    pub(crate) fn wait_all_active(
        &self,
        rounds_max: u32,
        within: Duration,
        deadline: Deadline,
    ) -> Result<(), BuildError> {
        let mut board = self.board();
        loop {
            if let Some(why) = &board.failure {
                return Err(BuildError::Setup(why.clone()));
            }
            let mut waiting = board.statuses.iter().filter(|status| !status.was_active);
            let Some(first) = waiting.clone().next() else {
                return Ok(());
            };
            if let Some(stuck) =
                waiting.find(|status| status.is_fatal || status.rounds >= rounds_max)
            {
                return Err(stuck.why_none());
            }
            if deadline.is_over() {
                return Err(first.why_not_yet(within));
            }
            board = self
                .changed
                .wait_timeout(board, deadline.left())
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Why there is no session now, if something is known.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.board()
            .statuses
            .iter()
            .filter(|status| !status.is_active)
            .find_map(|status| Some(status.obstacle.as_ref()?.to_string()))
    }

    /// Sessions that are logged in now.
    pub(crate) fn active_count(&self) -> usize {
        self.board()
            .statuses
            .iter()
            .filter(|status| status.is_active)
            .count()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStatus {
    /// The error of a session that will not be.
    fn why_none(&self) -> BuildError {
        match &self.obstacle {
            Some(cause) if self.is_fatal => BuildError::Call(CallError::Login(cause.to_string())),
            Some(Obstacle::Name { host, why }) => BuildError::Resolve {
                host: host.clone(),
                why: why.clone(),
            },
            Some(cause) => BuildError::Connect(cause.to_string()),
            None => BuildError::Connect("no connection could be made".to_owned()),
        }
    }

    /// The error of a session that took too long.
    fn why_not_yet(&self, within: Duration) -> BuildError {
        match (&self.doing, &self.obstacle) {
            (None, Some(_)) => self.why_none(),
            (None, None) => BuildError::Connect(format!("nothing came of it within {within:?}")),
            (Some(doing), None) => BuildError::Connect(format!("still {doing} after {within:?}")),
            (Some(doing), Some(cause)) => BuildError::Connect(format!(
                "still {doing} after {within:?}; before that: {cause}"
            )),
        }
    }
}
