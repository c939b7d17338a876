//! Which server the broker imitates, and which kernel interface carries its sockets.

/// The server version whose behaviour is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Server 0.9.0: every partition keeps request watermarks and a 128-id committed window, so a
    /// retried `SendMessages` is answered with an empty success and stored once. A client that
    /// comes back under its id finds its metadata replies still there, and a silent one is evicted.
    /// The default.
    #[default]
    Release,
    /// Server 0.9.0-edge.5, the one that was captured: no duplicate window, a retried
    /// `SendMessages` is appended again. A client is forgotten with its connection. Only members of
    /// consumer groups, which this broker does not have, are evicted for silence.
    Edge5,
}

impl Profile {
    /// The version that the broker reports of itself.
    pub(crate) fn server_version(self) -> &'static str {
        match self {
            Self::Release => "0.9.0",
            Self::Edge5 => "0.9.0-edge.5",
        }
    }
}

/// The kernel interface under the broker's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// io_uring where the kernel allows it, epoll otherwise. The default.
    #[default]
    Auto,
    /// io_uring or a start error.
    IoUring,
    /// epoll, on any Linux.
    Epoll,
}
