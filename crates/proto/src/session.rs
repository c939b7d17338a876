//! The session's lifecycle as a table of event, source states and target. No side effects: the
//! client acts on it.
//!
//! ```text
//!  Disconnected -> Connecting -> Connected -> LoggingIn -> Active -> LoggingOut -> Ending -> Closed
//!        ^             |             |            |          |
//!        +--------- Recycling <------+------------+----------+          anything fatal: Failing -> Failed
//! ```

use core::fmt;

use thiserror::Error;

use ringmain_wire::{ErrorCode, EvictionReason};

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// No connection; a pause may be running.
    Disconnected,
    /// The driver was told to connect.
    Connecting,
    /// The connection is up, the login is due (or pausing after a transient refusal).
    Connected,
    /// The login was handed to the driver.
    LoggingIn,
    /// Logged in: requests flow.
    Active,
    /// The logout was handed to the driver.
    LoggingOut,
    /// The connection is given up; a new one follows.
    Recycling,
    /// The connection is given up; nothing follows.
    Ending,
    /// The connection is given up because of a fatal error.
    Failing,
    /// Ended as asked. Final.
    Closed,
    /// Ended by a fatal error. Final.
    Failed,
}

/// What can happen to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEvent {
    /// The driver was told to connect.
    Connect,
    /// The connection is up.
    Connected,
    /// The connection is down and nothing of it is in flight.
    Disconnected,
    /// The login was handed to the driver.
    LoginSent,
    /// The login was accepted.
    LoginAccepted,
    /// The login was refused for now.
    LoginPostponed,
    /// The connection or the session is no good: get a new one.
    Recycle,
    /// The logout was handed to the driver.
    LogoutSent,
    /// End without waiting for anything more.
    Shut,
    /// A fatal error.
    Fail,
}

impl SessionState {
    /// Every state.
    pub const ALL: [Self; 11] = [
        Self::Disconnected,
        Self::Connecting,
        Self::Connected,
        Self::LoggingIn,
        Self::Active,
        Self::LoggingOut,
        Self::Recycling,
        Self::Ending,
        Self::Failing,
        Self::Closed,
        Self::Failed,
    ];

    /// Whether nothing can happen any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Closed | Self::Failed)
    }

    /// Whether the driver is to close the connection, or is closing it.
    #[must_use]
    pub const fn is_closing_connection(self) -> bool {
        matches!(self, Self::Recycling | Self::Ending | Self::Failing)
    }

    /// Whether there is a connection, or one in the making, that may be followed by another.
    const fn has_connection_in_use(self) -> bool {
        matches!(
            self,
            Self::Connecting
                | Self::Connected
                | Self::LoggingIn
                | Self::Active
                | Self::LoggingOut
                | Self::Recycling
        )
    }

    /// The table: where `event` leads from here.
    ///
    /// # Errors
    /// [`IllegalEvent`] naming both when the event has no meaning here.
    pub const fn on(self, event: SessionEvent) -> Result<Self, IllegalEvent> {
        use SessionEvent as E;
        use SessionState as S;
        Ok(match (event, self) {
            (E::Connect, S::Disconnected) => S::Connecting,
            (E::Connected, S::Connecting) => S::Connected,
            // The connect that was given up came through after all: it is closed just the same.
            (E::Connected, S::Recycling | S::Ending | S::Failing) => self,
            (E::LoginSent, S::Connected) => S::LoggingIn,
            (E::LoginPostponed, S::LoggingIn) => S::Connected,
            (E::LoginAccepted, S::LoggingIn) => S::Active,
            (E::LogoutSent, S::Active) => S::LoggingOut,
            (E::Recycle, S::Connecting | S::Connected | S::LoggingIn | S::Active) => S::Recycling,
            (
                E::Disconnected,
                S::Connecting | S::Connected | S::LoggingIn | S::Active | S::Recycling,
            ) => S::Disconnected,
            (E::Disconnected, S::LoggingOut | S::Ending) => S::Closed,
            (E::Disconnected, S::Failing) => S::Failed,
            (E::Shut, S::Disconnected) => S::Closed,
            (E::Shut, state) if state.has_connection_in_use() => S::Ending,
            (E::Fail, S::Disconnected) => S::Failed,
            (E::Fail, state) if state.has_connection_in_use() => S::Failing,
            _ => return Err(IllegalEvent { state: self, event }),
        })
    }
}

impl SessionEvent {
    /// Every event.
    pub const ALL: [Self; 10] = [
        Self::Connect,
        Self::Connected,
        Self::Disconnected,
        Self::LoginSent,
        Self::LoginAccepted,
        Self::LoginPostponed,
        Self::Recycle,
        Self::LogoutSent,
        Self::Shut,
        Self::Fail,
    ];
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An event that the table does not know in this state. From a driver's call it is the driver's
/// mistake, and nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("event {event} is illegal in session state {state}")]
pub struct IllegalEvent {
    /// Where the session was.
    pub state: SessionState,
    /// What was said to happen.
    pub event: SessionEvent,
}

/// Why a client cannot go on. Final: a new client with other settings is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum FatalError {
    /// The server ended the session for something that would happen again: the user (fix name,
    /// password or token), the protocol version or the release (use a matching one), or a request
    /// that it calls malformed.
    #[error("the server ended the session for good: {0}")]
    Evicted(EvictionReason),
    /// The server refused the login with a code that no retry changes.
    #[error("the server refused the login: {0}")]
    LoginRejected(ErrorCode),
    /// The server answered the login with an empty body, which the protocol calls a terminal
    /// failure.
    #[error("the server answered the login without a session")]
    LoginFailed,
}

#[cfg(test)]
mod tests;
