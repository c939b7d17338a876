//! Why a broker did not start, and what to do about it.

use std::io;
use std::net::SocketAddr;

use crate::profile::Driver;

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address does not parse, does not resolve, or is taken: choose another, or port 0.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address as given.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a thread or a socket pair: a resource limit of this process.
    #[error("cannot start the broker's thread: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
    /// io_uring was asked for and a try of it was refused. [`Driver::Auto`] falls back to epoll by
    /// itself.
    #[error(
        "cannot use io_uring for the broker on {address}: {call}: {source}; {}",
        ring_remedy(source)
    )]
    Ring {
        /// The system call that was refused: `io_uring_setup`, `io_uring_register` or
        /// `io_uring_enter`.
        call: &'static str,
        /// The bound address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The runtime or its sockets could not be had: a resource limit of this process.
    #[error("cannot set up {driver:?} for the broker on {address}: {source}")]
    Driver {
        /// The interface asked for.
        driver: Driver,
        /// The bound address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// What to do about a ring that is refused.
fn ring_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "allow the io_uring calls in the seccomp profile and set the sysctl \
             kernel.io_uring_disabled to 0, or use epoll"
        }
        io::ErrorKind::OutOfMemory => "raise the limit of locked memory (ulimit -l), or use epoll",
        io::ErrorKind::Unsupported => {
            "use a kernel with io_uring and a seccomp profile that allows it, or epoll"
        }
        _ => "use epoll",
    }
}
