//! How bytes reach a socket: the ways there are, and the kinds of writes between which one is
//! chosen.

/// How frames reach the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WritePath {
    /// Whatever the kernel has, decided by measurement while the first writes are carried.
    #[default]
    Auto,
    /// Vectored write from the registered arena: no copy of the page tables' work per write. Linux
    /// 6.15.
    WritevFixed,
    /// `sendmsg`: every kernel.
    SendMsg,
    /// Zero-copy `sendmsg`, from the registered arena where the kernel can (6.15), otherwise from
    /// pinned pages (6.1). Memory is free only after the kernel's notification.
    SendZc,
}

/// Number of concrete write paths, the length of every table indexed by [`CarriedBy`].
pub const WRITE_PATHS: usize = 3;

/// The concrete path a write took. Index of the tables in [`DriverStats`](super::DriverStats).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum CarriedBy {
    /// [`WritePath::WritevFixed`].
    WritevFixed = 0,
    /// [`WritePath::SendMsg`].
    SendMsg = 1,
    /// [`WritePath::SendZc`].
    SendZc = 2,
}

impl CarriedBy {
    /// Every path, in the order of its index.
    pub const ALL: [Self; WRITE_PATHS] = [Self::WritevFixed, Self::SendMsg, Self::SendZc];

    /// The name used in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WritevFixed => "writev_fixed",
            Self::SendMsg => "sendmsg",
            Self::SendZc => "send_zc",
        }
    }
}

/// Number of kinds of writes, the length of every table indexed by [`Traffic`].
pub const TRAFFIC_KINDS: usize = 4;

/// Kinds of writes between which [`WritePath::Auto`] decides separately: large or small (see
/// [`TransportConfig::zero_copy_bytes_min`](crate::transport::TransportConfig)),
/// wholly in the registered arena or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Traffic {
    /// Small, registered.
    SmallRegistered = 0,
    /// Large, registered.
    LargeRegistered = 1,
    /// Small, with pieces outside the registered part of the arena.
    SmallForeign = 2,
    /// Large, with pieces outside the registered part of the arena.
    LargeForeign = 3,
}

impl Traffic {
    /// Every kind, in the order of its index.
    pub const ALL: [Self; TRAFFIC_KINDS] = [
        Self::SmallRegistered,
        Self::LargeRegistered,
        Self::SmallForeign,
        Self::LargeForeign,
    ];

    /// The name used in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SmallRegistered => "small_registered",
            Self::LargeRegistered => "large_registered",
            Self::SmallForeign => "small_foreign",
            Self::LargeForeign => "large_foreign",
        }
    }

    pub(crate) const fn of(is_large: bool, is_registered: bool) -> Self {
        match (is_large, is_registered) {
            (false, true) => Self::SmallRegistered,
            (true, true) => Self::LargeRegistered,
            (false, false) => Self::SmallForeign,
            (true, false) => Self::LargeForeign,
        }
    }

    pub(crate) const fn is_large(self) -> bool {
        matches!(self, Self::LargeRegistered | Self::LargeForeign)
    }

    pub(crate) const fn is_registered(self) -> bool {
        matches!(self, Self::SmallRegistered | Self::LargeRegistered)
    }
}
