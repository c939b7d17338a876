//! What a reply says, as far as decisions need it: the match key and a verdict. No bytes are kept.

use ringmain_wire::codec::Decode;
use ringmain_wire::payload::login::LoginReply;
use ringmain_wire::payload::send::SendMessagesReply;
use ringmain_wire::{ErrorCode, Operation, ReplyOutcome, WireError};

/// A decoded reply. Its key is `(operation, request)`; the header's `client` is not part of it, because replies to
/// partition operations carry a transport id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The operation of the header. The server's rewrites are mapped back here, so either form may be given.
    pub operation: Operation,
    /// The request number of the header.
    pub request: u64,
    /// What it says.
    pub verdict: Verdict,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Success with nothing that decides anything: an empty send reply, a ping, the answer to a call.
    Success,
    /// A send was stored and where: the reply's only confirmation.
    Confirmed {
        /// Partition named by the server.
        partition_id: u32,
        /// Offset of the batch's first record.
        base_offset: u64,
    },
    /// A login was accepted.
    LoggedIn {
        /// Epoch of the new session. Zero is refused as malformed.
        session: u64,
    },
    /// A login was answered with an empty body, the protocol's terminal failure.
    LoginFailed,
    /// A nonzero status in the header, or a code in the result section.
    Refused(ErrorCode),
}

impl Reply {
    /// Reads a reply off the wire. Returns the payload of a success beside it (empty otherwise), for the driver to
    /// keep when the reply turns out to answer a call.
    ///
    /// A send is one batch for one partition, so a success with exactly one confirmation tells its offset; with
    /// none, or with several, it is a success whose offset is not known.
    ///
    /// # Errors
    /// The wire's error when result section, login or confirmations are malformed. The connection is then of no use:
    /// what was in flight stays unresolved and is sent again on the next one.
    pub fn decode<'a>(reply: &ringmain_wire::Reply<'a>) -> Result<(Self, &'a [u8]), WireError> {
        let (verdict, payload) = match reply.outcome()? {
            ReplyOutcome::Success(payload) => {
                (Verdict::of_success(reply.operation(), payload)?, payload)
            }
            ReplyOutcome::Status(code) | ReplyOutcome::Result(code) => {
                (Verdict::Refused(code), &[][..])
            }
            ReplyOutcome::LoginFailed => (Verdict::LoginFailed, &[][..]),
        };
        let (operation, request) = (reply.operation(), reply.request());
        Ok((
            Self {
                operation,
                request,
                verdict,
            },
            payload,
        ))
    }
}

impl Verdict {
    fn of_success(operation: Operation, payload: &[u8]) -> Result<Self, WireError> {
        match operation {
            Operation::Register => Ok(Self::LoggedIn {
                session: LoginReply::decode(payload)?.session.get(),
            }),
            Operation::SendMessages => {
                let reply = SendMessagesReply::decode(payload)?;
                Ok(match reply.confirmations() {
                    [only] => Self::Confirmed {
                        partition_id: only.partition_id(),
                        base_offset: only.base_offset(),
                    },
                    _ => Self::Success,
                })
            }
            _ => Ok(Self::Success),
        }
    }
}

/// Whom a reply was for, as [`crate::Client::handle_reply`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMatch {
    /// The login.
    Login,
    /// The logout.
    Logout,
    /// A heartbeat.
    Ping,
    /// A batch that was still open.
    Batch(crate::BatchKey),
    /// A control call that was still open. When `answered`, this reply is the call's answer: keep its payload until
    /// the outcome was polled.
    Call {
        /// The call.
        key: crate::CallKey,
        /// Whether this is the answer, rather than a refusal.
        answered: bool,
    },
    /// Nobody: a late or duplicate reply to a number that was used and settled. Counted.
    Late,
    /// Nobody: a number or operation that was never sent. The peer's mistake; counted.
    Foreign,
}
