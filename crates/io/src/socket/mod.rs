//! TCP sockets as every driver uses them: made with their options, ended, written to.
//!
//! ```text
//!  errno        what each errno of connect, receive and send leads to
//!  write_queue  the pieces of one write, who keeps them alive, and how far it has come
//! ```
//!
//! A socket starts in blocking mode. The ring needs that: for a descriptor with `O_NONBLOCK` it
//! answers `EAGAIN` where it would otherwise wait for the socket by itself. The driver on epoll
//! changes the mode.

pub(crate) mod errno;
pub(crate) mod write_queue;

use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::driver::{Errno, SocketOptions};

/// Most connections of one driver.
pub const CONNECTIONS_MAX: u16 = 1024;
/// Most pieces one write may gather, and therefore the size of each connection's preallocated
/// table. At 52 bytes a piece, the default of 1024 costs 52 KiB a connection.
pub const WRITE_PIECES_MAX: u32 = 65_536;

/// A TCP socket for `addr` with `options`, not yet connected.
///
/// # Errors
/// The errno of `socket` or of the option the kernel refused.
pub(crate) fn open(addr: SocketAddr, options: &SocketOptions) -> Result<Socket, Errno> {
    let made = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP));
    let socket = made.map_err(|error| Errno::of(&error))?;
    apply(&socket, options).map_err(|error| Errno::of(&error))?;
    Ok(socket)
}

fn apply(socket: &Socket, options: &SocketOptions) -> std::io::Result<()> {
    // The kernel takes 1 to 32,767 seconds, and counts in whole ones.
    let seconds = |time: Duration| Duration::from_secs(time.as_secs().clamp(1, 32_767));
    let bytes = |bytes: u32| bytes.min(i32::MAX as u32) as usize;
    socket.set_tcp_nodelay(true)?;
    if let Some(timeout) = options.user_timeout {
        let timeout_ms = timeout.as_millis().clamp(1, i32::MAX as u128) as u64;
        socket.set_tcp_user_timeout(Some(Duration::from_millis(timeout_ms)))?;
    }
    if let Some(idle) = options.keepalive_idle {
        let keepalive = TcpKeepalive::new()
            .with_time(seconds(idle))
            .with_interval(seconds(options.keepalive_interval))
            .with_retries(u32::from(options.keepalive_probes.clamp(1, 127)));
        socket.set_tcp_keepalive(&keepalive)?;
    }
    if let Some(send_bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes(send_bytes))?;
    }
    if let Some(recv_bytes) = options.recv_buffer_bytes {
        socket.set_recv_buffer_size(bytes(recv_bytes))?;
    }
    Ok(())
}

/// The last close of `socket` discards what was not sent and resets the connection, so that the
/// kernel lets go of zero-copy memory at once.
pub(crate) fn reset_on_close(socket: &Socket) {
    // EBADF, EFAULT, EINVAL and ENOPROTOOPT are the only errors, and each would be a bug of ours.
    socket
        .set_linger(Some(Duration::ZERO))
        .unwrap_or_else(|error| panic!("SO_LINGER on our own socket: {error}"));
}

/// Ends both directions: a receive gives what has arrived and then the end of the stream, a send
/// fails.
pub(crate) fn shutdown(socket: &Socket) {
    // ENOTCONN, the only error on a stream socket of ours, means that the connection is gone
    // already and that the receive will end by itself.
    drop(socket.shutdown(Shutdown::Both));
}

/// True when a connect to a local port nobody listens on has met itself (TCP's simultaneous open).
pub(crate) fn is_connected_to_itself(socket: &Socket) -> bool {
    match (socket.local_addr(), socket.peer_addr()) {
        (Ok(own), Ok(peer)) => own == peer,
        _ => false,
    }
}
