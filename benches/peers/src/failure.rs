//! What can keep a measurement from being one.

use std::io;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// One core cannot show what a broker core and a client core do.
    #[error(
        "this process may use {found} core: a broker and a client that share one measure each other"
    )]
    Cores {
        /// Cores of the process's mask.
        found: usize,
    },
    /// The kernel did not take the process to its core.
    #[error("the kernel refuses core {core}")]
    Pin {
        /// The core.
        core: usize,
    },
    /// No case is called so.
    #[error("no case is called `{name}`: there are {known}")]
    UnknownCase {
        /// As given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Not an option of ringmain's setup.
    #[error("`{given}` is no option of ringmain's setup with a value of it in JSON")]
    Setting {
        /// As given.
        given: String,
    },
    /// A process, a pipe or a socket.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A child process ended, or said something else than it should.
    #[error("the {who} process said {found:?} instead of {expected}")]
    Child {
        /// Broker or client.
        who: &'static str,
        /// What came.
        found: String,
        /// What should have.
        expected: &'static str,
    },
    /// The peer could not do it.
    #[error("{peer}: {why}")]
    Peer {
        /// Who.
        peer: &'static str,
        /// What its library said.
        why: String,
    },
    /// The broker counted other records than the client claims.
    #[error(
        "{label}: the client claims {claimed} records, the broker counted {counted} ({broker})"
    )]
    NotStored {
        /// The contender.
        label: String,
        /// Records that the client says are confirmed.
        claimed: u64,
        /// Records that the broker has taken.
        counted: u64,
        /// Everything the broker counted.
        broker: String,
    },
}

impl Failure {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    pub(crate) fn peer<E: std::fmt::Display>(peer: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Peer {
            peer,
            why: error.to_string(),
        }
    }
}
