//! What a connection can be told about its socket, whatever the driver.

use std::time::Duration;

/// Options of a connection's socket, set before it connects. `TCP_NODELAY` is always on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// How long sent bytes may stay unacknowledged, and a connect unanswered, before the kernel
    /// gives the connection up (`TCP_USER_TIMEOUT`). `None` leaves the kernel's many minutes.
    /// Default 30 s.
    pub user_timeout: Option<Duration>,
    /// Idle time before the first keepalive probe (`TCP_KEEPIDLE`); `None` sends none. Default 15
    /// s.
    pub keepalive_idle: Option<Duration>,
    /// Time between probes (`TCP_KEEPINTVL`). Default 5 s.
    pub keepalive_interval: Duration,
    /// Unanswered probes until the connection is given up (`TCP_KEEPCNT`). Default 3.
    pub keepalive_probes: u8,
    /// Kernel send buffer (`SO_SNDBUF`; the kernel doubles it). `None`, the default, lets the
    /// kernel tune it.
    pub send_buffer_bytes: Option<u32>,
    /// Kernel receive buffer (`SO_RCVBUF`), likewise.
    pub recv_buffer_bytes: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            user_timeout: Some(Duration::from_secs(30)),
            keepalive_idle: Some(Duration::from_secs(15)),
            keepalive_interval: Duration::from_secs(5),
            keepalive_probes: 3,
            send_buffer_bytes: None,
            recv_buffer_bytes: None,
        }
    }
}
