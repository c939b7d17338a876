//! Scripts as TOML files. Every complaint names the fault by its place in the file, from 1.

use std::fmt;

use ringmain_wire::code::ErrorCode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::version::ProtocolVersion;
use serde::Deserialize;

use super::{Act, Action, Fault, RequestMatch, RestartState, Script};

/// Why a script file is not a script. The author's fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{kind}", .fault.map_or_else(String::new, |fault| format!("fault {fault}: ")))]
pub struct ScriptError {
    /// Which `[[fault]]`, from 1; `None` when the file is no TOML of faults at all.
    pub fault: Option<usize>,
    /// What is wrong.
    pub kind: ScriptErrorKind,
}

/// What is wrong with a script file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptErrorKind {
    /// Not TOML, an unknown key, or a value of another type: the message says where.
    #[error("{0}")]
    Syntax(String),
    /// `request` is no operation and no command of the protocol.
    #[error("request {0:?} is no operation or command of the protocol, and not \"*\"")]
    UnknownRequest(String),
    /// `action` is none of the known ones.
    #[error("action {0:?} is not one of: {list}", list = ACTIONS.join(", "))]
    UnknownAction(String),
    /// The action needs a key that is not there.
    #[error("action {action:?} needs the key {key}")]
    MissingKey {
        /// The action.
        action: &'static str,
        /// The key.
        key: &'static str,
    },
    /// The action has no use for a key that is there.
    #[error("action {action:?} has no key {key}")]
    SpareKey {
        /// The action.
        action: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A number is outside its range.
    #[error("{key} is {found}, allowed are {allowed}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// The number found.
        found: u64,
        /// The numbers allowed.
        allowed: &'static str,
    },
    /// `state` is neither `kept` nor `lost`.
    #[error("state is {0:?}, allowed are \"kept\" and \"lost\"")]
    UnknownState(String),
}

const ACTIONS: [&str; 15] = [
    "refuse",
    "reject",
    "drop",
    "commit_and_cut",
    "delay",
    "reorder",
    "pieces",
    "stall_reading",
    "evict",
    "restart",
    "lose_client_table",
    "lose_windows",
    "jump_epoch_back",
    "hold_commits",
    "release_commits",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    fault: Vec<RawFault>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFault {
    request: Option<String>,
    connection: Option<u64>,
    at: Option<u64>,
    every: Option<u64>,
    times: Option<u64>,
    action: String,
    // Keys of the actions. Taken out one by one: what is left was not asked for.
    code: Option<u64>,
    us: Option<u64>,
    replies: Option<u64>,
    bytes: Option<u64>,
    reason: Option<u64>,
    state: Option<String>,
    down_us: Option<u64>,
    by: Option<u64>,
}

pub(super) fn parse(text: &str) -> Result<Script, ScriptError> {
    let file: File = toml::from_str(text).map_err(|error| ScriptError {
        fault: None,
        kind: ScriptErrorKind::Syntax(error.to_string()),
    })?;
    let mut script = Script::new();
    for (raw, place) in file.fault.into_iter().zip(1..) {
        let fault = raw.fault().map_err(|kind| ScriptError {
            fault: Some(place),
            kind,
        })?;
        script = script.fault(fault);
    }
    Ok(script)
}

impl RawFault {
    fn fault(mut self) -> Result<Fault, ScriptErrorKind> {
        let action = self.action()?;
        let request = match self.request.as_deref() {
            None | Some("*") => RequestMatch::Any,
            Some(name) => request(name)?,
        };
        let counted = |key, value: Option<u64>| match value.unwrap_or(1) {
            0 => Err(ScriptErrorKind::OutOfRange {
                key,
                found: 0,
                allowed: "1 and more",
            }),
            value => Ok(value),
        };
        if self.connection == Some(0) {
            return Err(ScriptErrorKind::OutOfRange {
                key: "connection",
                found: 0,
                allowed: "1 and more",
            });
        }
        let times = self.times.unwrap_or(1);
        Ok(Fault {
            request,
            connection: self.connection,
            at: counted("at", self.at)?,
            every: counted("every", self.every)?,
            times: (times > 0).then_some(times),
            action,
        })
    }
}

/// The operation or command of a protocol name.
fn request(name: &str) -> Result<RequestMatch, ScriptErrorKind> {
    let operation = Operation::ALL
        .into_iter()
        .find(|operation| format!("{operation:?}") == name);
    if let Some(operation) = operation {
        return Ok(RequestMatch::Operation(operation));
    }
    let code = CommandCode::KNOWN
        .iter()
        .find(|code| code.name() == Some(name));
    code.map(|code| RequestMatch::Code(*code))
        .ok_or_else(|| ScriptErrorKind::UnknownRequest(name.to_owned()))
}

/// The actions and their keys.
impl RawFault {
    fn action(&mut self) -> Result<Action, ScriptErrorKind> {
        let Some(action) = ACTIONS.into_iter().find(|action| *action == self.action) else {
            return Err(ScriptErrorKind::UnknownAction(self.action.clone()));
        };
        let parsed = match action {
            "refuse" => Action::Refuse(self.code(action)?),
            "reject" => Action::Reject(self.code(action)?),
            "drop" => Action::Drop,
            "commit_and_cut" => Action::CommitAndCut,
            "delay" => Action::Delay {
                us: need(action, "us", self.us.take())?,
            },
            "reorder" => Action::Reorder {
                replies: self.replies(action)?,
            },
            "pieces" => Action::Pieces {
                bytes: self.bytes(action)?,
            },
            "stall_reading" => Action::StallReading {
                us: need(action, "us", self.us.take())?,
            },
            "evict" => Action::Evict(self.reason(action)?),
            "restart" => Action::Broker(Act::Restart {
                state: self.state(action)?,
                down_us: self.down_us.take().unwrap_or(0),
            }),
            "lose_client_table" => Action::Broker(Act::LoseClientTable),
            "lose_windows" => Action::Broker(Act::LoseWindows),
            "jump_epoch_back" => Action::Broker(Act::JumpEpochBack {
                by: need(action, "by", self.by.take())?,
            }),
            "hold_commits" => Action::Broker(Act::HoldCommits),
            "release_commits" => Action::Broker(Act::ReleaseCommits),
            _ => unreachable!("every name of ACTIONS has its arm"),
        };
        match self.left() {
            Some(key) => Err(ScriptErrorKind::SpareKey { action, key }),
            None => Ok(parsed),
        }
    }

    /// A key that no action took.
    fn left(&self) -> Option<&'static str> {
        let keys = [
            ("code", self.code.is_some()),
            ("us", self.us.is_some()),
            ("replies", self.replies.is_some()),
            ("bytes", self.bytes.is_some()),
            ("reason", self.reason.is_some()),
            ("state", self.state.is_some()),
            ("down_us", self.down_us.is_some()),
            ("by", self.by.is_some()),
        ];
        keys.into_iter().find(|(_, left)| *left).map(|(key, _)| key)
    }

    fn code(&mut self, action: &'static str) -> Result<ErrorCode, ScriptErrorKind> {
        let found = need(action, "code", self.code.take())?;
        u32::try_from(found)
            .ok()
            .and_then(ErrorCode::new)
            .ok_or(ScriptErrorKind::OutOfRange {
                key: "code",
                found,
                allowed: "1 to 4294967295",
            })
    }

    fn replies(&mut self, action: &'static str) -> Result<u32, ScriptErrorKind> {
        let found = need(action, "replies", self.replies.take())?;
        u32::try_from(found)
            .ok()
            .filter(|replies| *replies > 0)
            .ok_or(ScriptErrorKind::OutOfRange {
                key: "replies",
                found,
                allowed: "1 to 4294967295",
            })
    }

    fn bytes(&mut self, action: &'static str) -> Result<usize, ScriptErrorKind> {
        let found = need(action, "bytes", self.bytes.take())?;
        usize::try_from(found)
            .ok()
            .filter(|bytes| *bytes > 0)
            .ok_or(ScriptErrorKind::OutOfRange {
                key: "bytes",
                found,
                allowed: "1 and more",
            })
    }

    fn reason(&mut self, action: &'static str) -> Result<EvictionReason, ScriptErrorKind> {
        let found = need(action, "reason", self.reason.take())?;
        let window = if found == 14 {
            ProtocolVersion::CURRENT.packed()
        } else {
            0
        };
        let reason = u8::try_from(found)
            .ok()
            .map(|reason| EvictionReason::from_wire(reason, window, window));
        reason
            .and_then(Result::ok)
            .ok_or(ScriptErrorKind::OutOfRange {
                key: "reason",
                found,
                allowed: "1 to 15",
            })
    }

    fn state(&mut self, action: &'static str) -> Result<RestartState, ScriptErrorKind> {
        match need(action, "state", self.state.take())?.as_str() {
            "kept" => Ok(RestartState::Kept),
            "lost" => Ok(RestartState::Lost),
            other => Err(ScriptErrorKind::UnknownState(other.to_owned())),
        }
    }
}

fn need<T: fmt::Debug>(
    action: &'static str,
    key: &'static str,
    value: Option<T>,
) -> Result<T, ScriptErrorKind> {
    value.ok_or(ScriptErrorKind::MissingKey { action, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Fault, ScriptError> {
        let script = Script::from_toml(&format!("[[fault]]\n{text}"))?;
        Ok(script.faults[0].clone())
    }

    #[test]
    fn every_action_reads_from_its_keys() {
        let actions = [
            (
                "action = 'refuse'\ncode = 57",
                Action::Refuse(ErrorCode::TRANSIENT_NOT_COMMITTED),
            ),
            (
                "action = 'reject'\ncode = 58",
                Action::Reject(ErrorCode::TRANSIENT_NOT_ACCEPTED),
            ),
            ("action = 'drop'", Action::Drop),
            ("action = 'commit_and_cut'", Action::CommitAndCut),
            ("action = 'delay'\nus = 5", Action::Delay { us: 5 }),
            (
                "action = 'reorder'\nreplies = 2",
                Action::Reorder { replies: 2 },
            ),
            ("action = 'pieces'\nbytes = 7", Action::Pieces { bytes: 7 }),
            (
                "action = 'stall_reading'\nus = 9",
                Action::StallReading { us: 9 },
            ),
            (
                "action = 'evict'\nreason = 13",
                Action::Evict(EvictionReason::StaleClient),
            ),
            (
                "action = 'lose_client_table'",
                Action::Broker(Act::LoseClientTable),
            ),
            ("action = 'lose_windows'", Action::Broker(Act::LoseWindows)),
            (
                "action = 'jump_epoch_back'\nby = 3",
                Action::Broker(Act::JumpEpochBack { by: 3 }),
            ),
            ("action = 'hold_commits'", Action::Broker(Act::HoldCommits)),
            (
                "action = 'release_commits'",
                Action::Broker(Act::ReleaseCommits),
            ),
            (
                "action = 'restart'\nstate = 'lost'\ndown_us = 4",
                Action::Broker(Act::Restart {
                    state: RestartState::Lost,
                    down_us: 4,
                }),
            ),
        ];
        assert_eq!(actions.len(), ACTIONS.len());
        for (text, action) in actions {
            assert_eq!(one(text).map(|fault| fault.action), Ok(action), "{text}");
        }
        for reason in 1..=15 {
            assert!(
                one(&format!("action = 'evict'\nreason = {reason}")).is_ok(),
                "reason {reason}"
            );
        }
    }

    #[test]
    fn triggers_read_from_their_keys() {
        let fault = one(
            "request = 'PollMessages'\nconnection = 2\nat = 3\nevery = 4\ntimes = 0\naction = 'drop'",
        );
        let expected = Fault::on_code(CommandCode::POLL_MESSAGES)
            .connection(2)
            .at(3)
            .every(4)
            .times(0);
        assert_eq!(fault, Ok(expected));
        assert_eq!(one("action = 'drop'"), Ok(Fault::on_any()));
        assert_eq!(
            one("request = 'Register'\naction = 'drop'"),
            Ok(Fault::on(Operation::Register))
        );
    }

    #[test]
    fn complaints_name_the_fault_and_the_key() {
        let complaint = |text: &str| one(text).expect_err("a mistake").to_string();
        assert!(
            complaint("action = 'explode'")
                .starts_with("fault 1: action \"explode\" is not one of: refuse,")
        );
        assert_eq!(
            complaint("action = 'delay'"),
            "fault 1: action \"delay\" needs the key us"
        );
        assert_eq!(
            complaint("action = 'drop'\nus = 1"),
            "fault 1: action \"drop\" has no key us"
        );
        assert_eq!(
            complaint("at = 0\naction = 'drop'"),
            "fault 1: at is 0, allowed are 1 and more"
        );
        assert_eq!(
            complaint("action = 'evict'\nreason = 16"),
            "fault 1: reason is 16, allowed are 1 to 15"
        );
        assert_eq!(
            complaint("action = 'pieces'\nbytes = 0"),
            "fault 1: bytes is 0, allowed are 1 and more"
        );
        assert!(
            complaint("request = 'Sendmessages'\naction = 'drop'")
                .contains("\"Sendmessages\" is no operation")
        );
        assert!(complaint("action = 'drop'\ncolor = 'red'").contains("color"));
        assert!(complaint("action = 'restart'\nstate = 'new'").contains("\"kept\" and \"lost\""));
        assert!(Script::from_toml("fault = 3").is_err());
        assert_eq!(Script::from_toml(""), Ok(Script::new()));
    }
}
