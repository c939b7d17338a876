//! Making a TCP socket and giving it its options. Plain system calls: a connection is made rarely.
//!
//! The socket stays in blocking mode on purpose: for a descriptor with `O_NONBLOCK` the ring answers `EAGAIN` where
//! it would otherwise wait for the socket by itself. Nothing blocks, because every operation goes through the ring.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{Errno, SocketOptions};

/// An address as the kernel wants it, either family, at a fixed place while a connect is in flight.
#[repr(C)]
pub(super) union SocketAddress {
    any: libc::sockaddr,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl SocketAddress {
    pub(super) fn empty() -> Self {
        // SAFETY: all members are plain C structs of integers; all zeroes is a valid value of each.
        unsafe { mem::zeroed() }
    }

    pub(super) fn of(addr: SocketAddr) -> (Self, libc::socklen_t) {
        match addr {
            SocketAddr::V4(addr) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: addr.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(addr.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                (
                    Self { v4 },
                    mem::size_of::<libc::sockaddr_in>() as libc::socklen_t,
                )
            }
            SocketAddr::V6(addr) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: addr.port().to_be(),
                    sin6_flowinfo: addr.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: addr.ip().octets(),
                    },
                    sin6_scope_id: addr.scope_id(),
                };
                (
                    Self { v6 },
                    mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t,
                )
            }
        }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const *self).cast()
    }
}

/// A TCP socket for `addr` with `options`, not yet connected.
///
/// # Errors
/// The errno of `socket` or of the option the kernel refused.
pub(super) fn open(addr: SocketAddr, options: &SocketOptions) -> Result<OwnedFd, Errno> {
    let family = if addr.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: socket takes no memory of ours.
    let fd = unsafe {
        libc::socket(
            family,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            libc::IPPROTO_TCP,
        )
    };
    if fd < 0 {
        return Err(Errno::of(&io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is new and ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    apply(fd, options)?;
    Ok(socket)
}

fn apply(fd: RawFd, options: &SocketOptions) -> Result<(), Errno> {
    let seconds = |duration: Duration| duration.as_secs().clamp(1, 32_767) as libc::c_int;
    let bytes = |bytes: u32| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    if let Some(timeout) = options.user_timeout {
        let timeout_ms = timeout.as_millis().clamp(1, libc::c_int::MAX as u128) as libc::c_int;
        set(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, timeout_ms)?;
    }
    if let Some(idle) = options.keepalive_idle {
        set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(idle))?;
        set(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_KEEPINTVL,
            seconds(options.keepalive_interval),
        )?;
        let probes = libc::c_int::from(options.keepalive_probes.clamp(1, 127));
        set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, probes)?;
    }
    if let Some(send_bytes) = options.send_buffer_bytes {
        set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes(send_bytes))?;
    }
    if let Some(recv_bytes) = options.recv_buffer_bytes {
        set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes(recv_bytes))?;
    }
    Ok(())
}

/// The last close of `socket` discards what was not sent and resets the connection, so that the kernel lets go of
/// zero-copy memory at once.
pub(super) fn reset_on_close(socket: &OwnedFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: `linger` is readable for the length of the call, and the length given is its own.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            mem::size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    // EBADF, EFAULT, EINVAL and ENOPROTOOPT are the only errors, and each would be a bug of ours.
    assert!(
        result == 0,
        "SO_LINGER on our own socket: {}",
        io::Error::last_os_error()
    );
}

/// Ends both directions: a receive gives what has arrived and then the end of the stream, a send fails.
pub(super) fn shutdown(socket: &OwnedFd) {
    // SAFETY: shutdown takes no memory of ours. ENOTCONN, the only error on a stream socket of ours, means that the
    // connection is gone already and that the receive will end by itself.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// True when a connect to a local port nobody listens on has met itself (TCP's simultaneous open).
pub(super) fn is_connected_to_itself(socket: &OwnedFd) -> bool {
    let own = name_of(socket, libc::getsockname);
    own.is_some() && own == name_of(socket, libc::getpeername)
}

type NameCall =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

fn name_of(socket: &OwnedFd, call: NameCall) -> Option<[u8; mem::size_of::<libc::sockaddr_in6>()]> {
    let mut name = [0; mem::size_of::<libc::sockaddr_in6>()];
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: `call` is getsockname or getpeername; `name` is writable for `len` bytes, and `len` for itself.
    let result = unsafe { call(socket.as_raw_fd(), name.as_mut_ptr().cast(), &mut len) };
    (result == 0).then_some(name)
}

fn set(
    fd: RawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    // SAFETY: `value` is readable for the length of the call, and the length given is its own.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            (&raw const value).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::of(&io::Error::last_os_error()))
    }
}
