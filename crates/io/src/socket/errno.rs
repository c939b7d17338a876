//! The reaction to every errno of connect, receive and send. Pure tables, so that answers this host
//! never gives are tested like those it does.

use crate::driver::{CarriedBy, Errno, LostCause};

/// Refusals in a row after which a write for which the kernel has no memory, or no reason, is given
/// up.
pub(crate) const REFUSALS_MAX: u32 = 64;

/// What a negative answer to a connect means for the connection: it is never made.
pub(crate) fn on_connect(errno: i32) -> LostCause {
    match errno {
        // No ephemeral port, or no room in a routing table: of this host, not of the peer.
        libc::EAGAIN => LostCause::Exhausted(Errno(errno)),
        _ => lost(errno),
    }
}

/// What a negative answer to a receive leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnRecv {
    /// Ask again.
    Again,
    /// Every provided buffer is with us: ask again, they go back before that.
    NoBuffer,
    /// The stream is over.
    Lost(LostCause),
}

/// Reaction to an errno of a receive.
pub(crate) fn on_recv(errno: i32) -> OnRecv {
    match errno {
        libc::ENOBUFS => OnRecv::NoBuffer,
        // Nothing yet, or a signal in the middle.
        libc::EAGAIN | libc::EINTR => OnRecv::Again,
        // The socket is shut: after a failed write that is our own doing, otherwise it is gone.
        _ => OnRecv::Lost(lost(errno)),
    }
}

/// What a negative answer to a send leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnWrite {
    /// The kernel does not do this operation on this socket or buffer after all: by `sendmsg`, from
    /// now on.
    LeavePath,
    /// It has no memory for this operation's own needs (pinned pages, a notification): by
    /// `sendmsg`, this time.
    Plainly,
    /// A bounded number of further tries; then this cause.
    Again(LostCause),
    /// The socket takes no more.
    Lost(LostCause),
}

/// Reaction to an errno of a send on `path`.
pub(crate) fn on_write(errno: i32, path: CarriedBy) -> OnWrite {
    let is_plain = matches!(path, CarriedBy::SendMsg);
    match errno {
        libc::EINVAL | libc::EOPNOTSUPP | libc::EFAULT | libc::ENOSYS if !is_plain => {
            OnWrite::LeavePath
        }
        libc::ENOMEM | libc::ENOBUFS if !is_plain => OnWrite::Plainly,
        libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN | libc::EINTR => {
            OnWrite::Again(LostCause::Exhausted(Errno(errno)))
        }
        // EINVAL, EFAULT and so on of a plain send would be a bug of ours; it is reported as
        // unexpected.
        _ => OnWrite::Lost(lost(errno)),
    }
}

/// Class of an errno that ends a connection. Every errno that connect, send and receive document
/// has its arm.
pub(crate) fn lost(errno: i32) -> LostCause {
    match errno {
        libc::ECONNREFUSED => LostCause::Refused,
        libc::ECONNRESET | libc::ECONNABORTED => LostCause::PeerReset,
        // The socket had ended before, and its error went to another operation.
        libc::EPIPE | libc::ENOTCONN | libc::ESHUTDOWN => LostCause::Broken,
        libc::ETIMEDOUT => LostCause::TimedOut,
        // Also EAFNOSUPPORT: an IPv6 address on a host without IPv6.
        libc::EHOSTUNREACH
        | libc::ENETUNREACH
        | libc::EHOSTDOWN
        | libc::ENETDOWN
        | libc::ENONET
        | libc::ENETRESET
        | libc::EAFNOSUPPORT
        | libc::EPROTO => LostCause::Unreachable(Errno(errno)),
        libc::EACCES | libc::EPERM => LostCause::Forbidden(Errno(errno)),
        libc::EADDRNOTAVAIL
        | libc::EADDRINUSE
        | libc::ENOMEM
        | libc::ENOBUFS
        | libc::EMFILE
        | libc::ENFILE => LostCause::Exhausted(Errno(errno)),
        // EBADF, ENOTSOCK, EFAULT, EINVAL, EISCONN, EALREADY, EINPROGRESS, EDESTADDRREQ, EMSGSIZE,
        // ECANCELED, EIO: nothing a correct driver on a correct kernel meets.
        _ => LostCause::Unexpected(Errno(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peer_did_is_told_from_what_the_host_lacks() {
        let cases = [
            (libc::ECONNREFUSED, LostCause::Refused),
            (libc::ECONNRESET, LostCause::PeerReset),
            (libc::EPIPE, LostCause::Broken),
            (libc::ETIMEDOUT, LostCause::TimedOut),
            (
                libc::EHOSTUNREACH,
                LostCause::Unreachable(Errno(libc::EHOSTUNREACH)),
            ),
            (libc::EACCES, LostCause::Forbidden(Errno(libc::EACCES))),
            (
                libc::EADDRNOTAVAIL,
                LostCause::Exhausted(Errno(libc::EADDRNOTAVAIL)),
            ),
            (libc::EMFILE, LostCause::Exhausted(Errno(libc::EMFILE))),
            (libc::EBADF, LostCause::Unexpected(Errno(libc::EBADF))),
        ];
        for (errno, cause) in cases {
            assert_eq!(on_connect(errno), cause);
            assert_eq!(lost(errno), cause);
        }
        assert_eq!(
            on_connect(libc::EAGAIN),
            LostCause::Exhausted(Errno(libc::EAGAIN))
        );
    }

    #[test]
    fn a_receive_is_repeated_only_for_what_passes() {
        for errno in 1..=133 {
            let expected = match errno {
                libc::EAGAIN | libc::EINTR => OnRecv::Again,
                libc::ENOBUFS => OnRecv::NoBuffer,
                _ => OnRecv::Lost(lost(errno)),
            };
            assert_eq!(on_recv(errno), expected, "errno {errno}");
        }
    }

    #[test]
    fn only_the_plain_path_ends_a_connection_for_an_operation_the_kernel_lacks() {
        for path in [CarriedBy::WritevFixed, CarriedBy::SendZc] {
            for errno in [libc::EINVAL, libc::EOPNOTSUPP, libc::EFAULT, libc::ENOSYS] {
                assert_eq!(on_write(errno, path), OnWrite::LeavePath);
                assert!(matches!(
                    on_write(errno, CarriedBy::SendMsg),
                    OnWrite::Lost(LostCause::Unexpected(_))
                ));
            }
            for errno in [libc::ENOMEM, libc::ENOBUFS] {
                assert_eq!(on_write(errno, path), OnWrite::Plainly);
                assert!(matches!(
                    on_write(errno, CarriedBy::SendMsg),
                    OnWrite::Again(LostCause::Exhausted(_))
                ));
            }
        }
    }

    #[test]
    fn a_peer_that_is_gone_ends_a_write_on_every_path() {
        for path in CarriedBy::ALL {
            for errno in [
                libc::EPIPE,
                libc::ECONNRESET,
                libc::ETIMEDOUT,
                libc::EHOSTUNREACH,
                libc::EPERM,
            ] {
                assert_eq!(on_write(errno, path), OnWrite::Lost(lost(errno)));
            }
        }
    }

    #[test]
    fn every_cause_is_a_sentence_without_numbers_alone() {
        for errno in 1..=133 {
            let text = lost(errno).to_string();
            assert!(text.len() > 20 && text.contains(' '), "{text}");
        }
    }
}
