//! What a reply says, as far as decisions need it: the match key and a verdict. No bytes are kept.

use ringmain_wire::codec::Decode;
use ringmain_wire::payload::login::LoginReply;
use ringmain_wire::payload::send::SendMessagesReply;
use ringmain_wire::{ErrorCode, Operation, ReplyOutcome, WireError};

/// A decoded reply. Its key is `(operation, request)`; the header's `client` is not part of it,
/// because replies to partition operations carry a transport id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The operation of the header. The server's rewrites are mapped back here, so either form may
    /// be given.
    pub operation: Operation,
    /// The request number of the header.
    pub request: u64,
    /// Which transmission it answers, as far as the header's timestamp tells.
    pub echo: Echo,
    /// What it says.
    pub verdict: Verdict,
}

/// What a reply's timestamp tells about the transmission that it answers.
///
/// Requests carry the number of their transmission in the timestamp field
/// ([`crate::Transmit::timestamp`]). Direct replies, which refusals are, echo the field; committed
/// ones carry the server's time instead. Without the echo a refusal of a request that was sent more
/// than once proves nothing, because it may be a copy of one that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Echo {
    /// Nothing: the field is 0.
    Absent,
    /// This transmission, counted from 1.
    Attempt(u32),
    /// The server's time, so the reply is that of a commit. Any number too large to be a
    /// transmission.
    ServerTime,
}

impl Echo {
    /// What the timestamp of a reply header tells.
    #[must_use]
    pub const fn of_timestamp(timestamp: u64) -> Self {
        match timestamp {
            0 => Self::Absent,
            1..=ATTEMPT_MAX => Self::Attempt(timestamp as u32),
            _ => Self::ServerTime,
        }
    }
}

/// Above every number of a transmission, and as microseconds of a calendar 71 minutes after its
/// start.
const ATTEMPT_MAX: u64 = u32::MAX as u64;

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Success with nothing that decides anything: an empty send reply, a ping, the answer to a
    /// call.
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
    /// Reads a reply off the wire. Returns the payload of a success beside it (empty otherwise),
    /// for the driver to keep when the reply turns out to answer a call.
    ///
    /// A send is one batch for one partition, so a success with exactly one confirmation tells its
    /// offset; with none, or with several, it is a success whose offset is not known.
    ///
    /// # Errors
    /// The wire's error when result section, login or confirmations are malformed. The connection
    /// is then of no use: what was in flight stays unresolved and is sent again on the next one.
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
        let decoded = Self {
            operation: reply.operation(),
            request: reply.request(),
            echo: Echo::of_timestamp(reply.header().timestamp()),
            verdict,
        };
        Ok((decoded, payload))
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
    /// A control call that was still open. When `answered`, this reply is the call's answer: keep
    /// its payload until the outcome was polled.
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
