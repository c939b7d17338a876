//! Counters of what a client went through. They only rise.

use crate::request::{RefusalKind, ResendCause};

/// Counters since construction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Batches transmitted for the first time.
    pub batches_sent: u64,
    /// Batches transmitted again, for whatever reason: for one of the next three, or because a
    /// connection was lost.
    pub batches_resent: u64,
    /// Of those: because no answer came for the request timeout.
    pub batches_resent_after_silence: u64,
    /// Of those: after a refusal with code 58.
    pub batches_resent_not_admitted: u64,
    /// Of those: after a refusal with code 57.
    pub batches_resent_unknown_outcome: u64,
    /// Calls transmitted, repetitions included.
    pub calls_sent: u64,
    /// Heartbeats sent.
    pub pings_sent: u64,
    /// Requests, of batches and calls, that stayed unanswered for the request timeout.
    pub silences: u64,
    /// Refusals with code 58.
    pub refusals_not_admitted: u64,
    /// Refusals with code 57.
    pub refusals_unknown_outcome: u64,
    /// Confirmed batches that a later confirmed batch of their lane may have overtaken: it was
    /// confirmed first, or it may have been stored first, and offsets do not show that the order
    /// held. An upper bound of what was really overtaken, as a lost reply can look the same. Always
    /// 0 in a `Strict` lane. Batches that end `Unknown` are not counted; they may be stored
    /// anywhere.
    pub overtaken: u64,
    /// Times a batch had to wait because its lane's window was full (law W2).
    pub window_waits: u64,
    /// Times a batch had to wait because its lane's oldest unresolved request is 127 numbers behind
    /// (law W1).
    pub span_waits: u64,
    /// Replies to numbers that were settled before: late or duplicate.
    pub replies_late: u64,
    /// Replies to numbers or operations that were never sent.
    pub replies_foreign: u64,
    /// Logins accepted.
    pub logins: u64,
    /// Logins refused for now.
    pub logins_postponed: u64,
    /// Times the duplicate coverage of a session was lost.
    pub coverage_losses: u64,
    /// Evictions received.
    pub evictions: u64,
    /// Connections lost or not established.
    pub disconnects: u64,
    /// Connections given up because a connect, a login or a logout took too long.
    pub session_timeouts: u64,
    /// Connections given up because nothing at all was heard after a heartbeat.
    pub heartbeat_timeouts: u64,
    /// Connections given up because a write made no progress.
    pub write_stalls: u64,
}

impl Stats {
    /// Counts a batch that is transmitted again, in all and by what caused it.
    pub(crate) const fn resent(&mut self, cause: Option<ResendCause>) {
        self.batches_resent += 1;
        match cause {
            None => {}
            Some(ResendCause::Silence) => self.batches_resent_after_silence += 1,
            Some(ResendCause::Refused(RefusalKind::NotAdmitted)) => {
                self.batches_resent_not_admitted += 1;
            }
            Some(ResendCause::Refused(RefusalKind::UnknownOutcome)) => {
                self.batches_resent_unknown_outcome += 1;
            }
        }
    }
}
