//! Faults in action: what a script does to a request, to its connection, and to the broker.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::operation::Plane;
use ringmain_wire::result;

use super::{COMMIT_AT_START, Call, Catalog, ConnectionKey, State};
use crate::config::Now;
use crate::script::{Act, Action, Facts, ReplyFault, RestartState};

impl State {
    /// Lets the script act on a request. True when that was all: the request is not to be executed.
    pub(super) fn meets_fault(&mut self, call: &Call) -> bool {
        let facts = Facts {
            connection: call.connection.0,
            operation: call.operation,
            code: call.header.code(),
        };
        let Some(action) = self.script.action(&facts) else {
            return false;
        };
        self.stats.faults += 1;
        match action {
            Action::Refuse(code) => self.refuse(call, code),
            Action::Reject(code) => self.reject(call, code),
            Action::Drop => {}
            Action::Evict(reason) => {
                let session = self
                    .connections
                    .get_mut(&call.connection)
                    .and_then(|held| held.session.take());
                if let Some(session) = session {
                    self.session_lost(session);
                }
                self.evict(call.connection, call.header.client(), reason);
            }
            Action::Broker(act) => {
                self.act(act, call.now);
                return self.is_closing(call.connection);
            }
            Action::StallReading { us } => {
                self.stall(call.connection, call.now.monotonic_us.saturating_add(us));
                return false;
            }
            Action::CommitAndCut => return self.execute_with(ReplyFault::Cut),
            Action::Delay { us } => return self.execute_with(ReplyFault::Delay { us }),
            Action::Reorder { replies } => {
                return self.execute_with(ReplyFault::Reorder { replies });
            }
            Action::Pieces { bytes } => return self.execute_with(ReplyFault::Pieces { bytes }),
        }
        true
    }

    fn execute_with(&mut self, fault: ReplyFault) -> bool {
        self.reply_fault = Some(fault);
        false
    }

    fn refuse(&mut self, call: &Call, code: ErrorCode) {
        match call.operation.plane() {
            Plane::NonReplicated => self.deny_read(call, code),
            _ => self.deny(call, code),
        }
    }

    fn reject(&mut self, call: &Call, code: ErrorCode) {
        if call.operation.is_result_framed() {
            self.stats.refusals += 1;
            self.reply_uncommitted(call, call.header.client(), &result::rejection(code));
        } else {
            self.refuse(call, code);
        }
    }

    fn stall(&mut self, key: ConnectionKey, until_us: u64) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.stalled_until_us = until_us;
            self.timed.insert(key);
        }
    }

    /// Does something to the whole broker.
    pub(crate) fn act(&mut self, act: Act, now: Now) {
        match act {
            Act::Restart { state, down_us } => {
                self.restart(state, now.monotonic_us.saturating_add(down_us));
            }
            Act::LoseClientTable => self.clients.clear(),
            Act::LoseWindows => {
                for partition in self.catalog.partitions_mut() {
                    partition.window.clear();
                }
                self.window_clients = 0;
            }
            Act::JumpEpochBack { by } => self.commit = self.commit.saturating_sub(by),
            Act::HoldCommits => self.commits_held = true,
            Act::ReleaseCommits => {
                self.commits_held = false;
                self.commit_due(now);
            }
        }
    }

    fn restart(&mut self, state: RestartState, down_until_us: u64) {
        let mut keys: Vec<_> = self.connections.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.session = None;
            }
            self.close(key);
        }
        self.down_until_us = down_until_us;
        self.unsettled.clear();
        self.uncommitted_bytes = 0;
        match state {
            RestartState::Kept => {
                for partition in self.catalog.partitions_mut() {
                    partition.lose_uncommitted();
                }
            }
            RestartState::Lost => {
                self.catalog = Catalog::default();
                self.clients.clear();
                self.commit = COMMIT_AT_START;
                self.charged_bytes = 0;
                self.window_clients = 0;
                self.consumer_offsets = 0;
            }
        }
    }
}
