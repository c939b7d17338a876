//! What each eviction reason means for the client.

use ringmain_wire::EvictionReason;

/// What to do after an eviction. The connection is given up in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// Log in again under the same client id and go on: the server still remembers what it stored.
    Resume,
    /// Log in again, but the server has forgotten this client: duplicate coverage is lost.
    ResumeUncovered,
    /// The server calls a request malformed. A control call in flight is blamed, fails alone, and
    /// the client resumes; without one the client's own frames are wrong and it fails.
    BlameCall,
    /// Nothing that is repeated can succeed.
    Fatal,
}

/// The reaction to each reason.
#[must_use]
pub const fn reaction(reason: EvictionReason) -> Reaction {
    match reason {
        // The client table lost this client: capacity, or a restart without its log.
        EvictionReason::NoSession => Reaction::ResumeUncovered,
        // Fenced. Client ids are never shared, so the newer login is an earlier one of our own that
        // arrived late.
        EvictionReason::SessionTooLow => Reaction::Resume,
        // The binding goes away with the session; a new login makes a new one.
        EvictionReason::SessionReleaseMismatch => Reaction::Resume,
        // The server's own trouble, or heartbeats that came too late.
        EvictionReason::SessionError | EvictionReason::StaleClient => Reaction::Resume,
        EvictionReason::InvalidRequestOperation
        | EvictionReason::InvalidRequestBody
        | EvictionReason::InvalidRequestBodySize => Reaction::BlameCall,
        EvictionReason::ClientReleaseTooLow
        | EvictionReason::ClientReleaseTooHigh
        | EvictionReason::InvalidCredentials
        | EvictionReason::InvalidToken
        | EvictionReason::UserInactive
        | EvictionReason::IncompatibleProtocol { .. }
        | EvictionReason::MalformedLogin => Reaction::Fatal,
    }
}
