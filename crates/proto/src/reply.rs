//! What a reply says, as far as decisions need it: the match key and a verdict. No bytes.

use ringmain_wire::{ErrorCode, Operation};

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
    /// A control call that was still open. When `answered`, this reply is the call's answer: keep its body until
    /// the outcome was polled.
    Call {
        /// The call.
        key: crate::CallKey,
        /// Whether this is the answer, rather than a refusal that is retried.
        answered: bool,
    },
    /// Nobody: a late or duplicate reply to a number that was used and settled. Counted.
    Late,
    /// Nobody: a number or operation that was never sent. The peer's mistake; counted.
    Foreign,
}
