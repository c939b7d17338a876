//! Scripted faults: which frame triggers what.
//!
//! A script is a list of faults. Each fault counts the requests that match its trigger, and acts on
//! the ones that the trigger picks. Counting starts with the broker and nothing else feeds it, no
//! clock and no chance: the same script and the same bytes in give the same behaviour. Only
//! [`Action::Delay`], [`Action::StallReading`] and the down time of a restart use the clock,
//! because time is what they are about.
//!
//! All faults count every request. The first of the list that is due acts, alone; another one that
//! is due with the same request does nothing, and that does not use it up.
//!
//! ```
//! use ringmain_broker::{Action, Broker, Fault, Script};
//! use ringmain_wire::{ErrorCode, Operation};
//!
//! let script = Script::new()
//!     .fault(Fault::on(Operation::SendMessages).at(3).action(Action::Refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED)))
//!     .fault(Fault::on(Operation::SendMessages).at(10).action(Action::CommitAndCut));
//! let broker = Broker::builder().script(script).start()?;
//! # Ok::<(), ringmain_broker::StartError>(())
//! ```
//!
//! The same as a file, see [`Script::from_toml`]:
//!
//! ```toml
//! [[fault]]
//! request = "SendMessages"
//! at = 3
//! action = "refuse"
//! code = 58
//!
//! [[fault]]
//! request = "SendMessages"
//! at = 10
//! action = "commit_and_cut"
//! ```

mod file;
mod run;

use ringmain_wire::code::ErrorCode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::operation::{CommandCode, Operation};

pub use self::file::{ScriptError, ScriptErrorKind};
pub(crate) use self::run::{Facts, ReplyFault, ScriptRun};

/// The faults a broker commits on purpose. The default commits none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    pub(crate) faults: Vec<Fault>,
}

impl Script {
    /// A script without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Reads a script file: a list of `[[fault]]` tables.
    ///
    /// | key | value | default |
    /// |---|---|---|
    /// | `request` | an operation or command by its protocol name, `SendMessages`, `Ping`; `*` for any | `*` |
    /// | `connection` | only requests of the k-th accepted connection, from 1 | any |
    /// | `at` | the k-th matching request is the first to act on, from 1 | 1 |
    /// | `every` | after that every k-th | 1 |
    /// | `times` | how often to act, 0 for without end | 1 |
    /// | `action` | see below | required |
    ///
    /// | `action` | keys | what happens |
    /// |---|---|---|
    /// | `refuse` | `code` | [`Action::Refuse`] |
    /// | `reject` | `code` | [`Action::Reject`] |
    /// | `drop` | | [`Action::Drop`] |
    /// | `commit_and_cut` | | [`Action::CommitAndCut`] |
    /// | `delay` | `us` | [`Action::Delay`] |
    /// | `reorder` | `replies` | [`Action::Reorder`] |
    /// | `pieces` | `bytes` | [`Action::Pieces`] |
    /// | `stall_reading` | `us` | [`Action::StallReading`] |
    /// | `evict` | `reason`, 1 to 15 | [`Action::Evict`] |
    /// | `restart` | `state`, `kept` or `lost`; `down_us`, default 0 | [`Act::Restart`] |
    /// | `lose_client_table` | | [`Act::LoseClientTable`] |
    /// | `lose_windows` | | [`Act::LoseWindows`] |
    /// | `jump_epoch_back` | `by` | [`Act::JumpEpochBack`] |
    /// | `hold_commits` | | [`Act::HoldCommits`] |
    /// | `release_commits` | | [`Act::ReleaseCommits`] |
    ///
    /// # Errors
    ///
    /// [`ScriptError`] names the fault, the key and what is wrong with it: the author's fault.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        file::parse(text)
    }
}

/// One fault: when, and what.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub(crate) request: RequestMatch,
    /// Only requests of this connection, numbered from 1 in the order of acceptance.
    pub(crate) connection: Option<u64>,
    /// The first matching request to act on, from 1.
    pub(crate) at: u64,
    /// After that every so many, at least 1.
    pub(crate) every: u64,
    /// How often to act; `None` without end.
    pub(crate) times: Option<u64>,
    pub(crate) action: Action,
}

/// Which requests a fault counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestMatch {
    Any,
    Operation(Operation),
    Code(CommandCode),
}

impl Fault {
    /// A fault that counts requests of one operation, and drops the first of them once unless told
    /// otherwise.
    #[must_use]
    pub fn on(operation: Operation) -> Self {
        Self::matching(RequestMatch::Operation(operation))
    }

    /// A fault that counts reads or pings of one command code.
    #[must_use]
    pub fn on_code(code: CommandCode) -> Self {
        Self::matching(RequestMatch::Code(code))
    }

    /// A fault that counts requests of any kind.
    #[must_use]
    pub fn on_any() -> Self {
        Self::matching(RequestMatch::Any)
    }

    fn matching(request: RequestMatch) -> Self {
        Self {
            request,
            connection: None,
            at: 1,
            every: 1,
            times: Some(1),
            action: Action::Drop,
        }
    }

    /// Counts only requests of the k-th accepted connection, from 1.
    #[must_use]
    pub fn connection(mut self, connection: u64) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Acts first on the k-th request it counts, from 1 (0 is taken as 1). Default 1.
    #[must_use]
    pub fn at(mut self, at: u64) -> Self {
        self.at = at.max(1);
        self
    }

    /// Acts on every k-th request after the first one it acted on (0 is taken as 1). Default 1.
    #[must_use]
    pub fn every(mut self, every: u64) -> Self {
        self.every = every.max(1);
        self
    }

    /// Acts so often, 0 for without end. Default 1.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = (times > 0).then_some(times);
        self
    }

    /// What it does. Default [`Action::Drop`].
    #[must_use]
    pub fn action(mut self, action: Action) -> Self {
        self.action = action;
        self
    }
}

/// What a fault does to the request it acts on.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Answers with this status and does not execute it. Logins too, although a real server would
    /// evict.
    Refuse(ErrorCode),
    /// Answers a result-framed operation with this code in its result section and does not execute
    /// it. Operations without a result section get the status.
    Reject(ErrorCode),
    /// Ignores it: no execution, no reply.
    Drop,
    /// Executes it, loses the reply, and closes the connection behind what was already answered.
    CommitAndCut,
    /// Executes it and sends the reply so much later.
    Delay {
        /// Microseconds.
        us: u64,
    },
    /// Executes it and sends the reply behind so many later replies of the same connection.
    Reorder {
        /// Replies that go first, at least 1.
        replies: u32,
    },
    /// Executes it and writes the reply in pieces, one write each.
    Pieces {
        /// Bytes of a piece, at least 1.
        bytes: usize,
    },
    /// Executes it and then reads nothing from the connection for so long.
    StallReading {
        /// Microseconds.
        us: u64,
    },
    /// Ends the session of its connection with this reason instead of executing it. The connection
    /// stays open, and what still comes on it is answered as without a login.
    Evict(EvictionReason),
    /// Does something to the whole broker first, and then executes it, unless its connection is
    /// gone.
    Broker(Act),
}

/// Something that happens to the whole broker: by a script, or at once with
/// [`Broker::act`](crate::Broker::act).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Closes every connection and loses every send that is not committed.
    Restart {
        /// What comes up again.
        state: RestartState,
        /// New connections are closed at once for so long, in microseconds.
        down_us: u64,
    },
    /// Forgets every registered client: metadata operations get an eviction until the next login.
    LoseClientTable,
    /// Forgets the duplicate windows of all partitions: a retry is stored again.
    LoseWindows,
    /// Moves the metadata log back, so that the next logins get epochs that are not above earlier
    /// ones.
    JumpEpochBack {
        /// Positions to go back.
        by: u64,
    },
    /// Commits nothing from now on: partitions fill up, and past 96 sends each drop the next
    /// without a reply.
    HoldCommits,
    /// Commits what was held, and goes on.
    ReleaseCommits,
}

/// What a restarted broker still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartState {
    /// Streams, records, offsets, windows and registered clients.
    Kept,
    /// Nothing: no stream, and epochs start again.
    Lost,
}
