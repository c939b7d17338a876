//! The kernel features a driver may use, each with the release that brought it.

/// Kernel features that may be used. All are on by default; one that the kernel lacks is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Ring with a single submitter. Linux 6.0. Without it the kernel locks on every submission.
    pub single_issuer: bool,
    /// Completion work runs only when we ask for completions, never in between. Linux 6.1; needs
    /// `single_issuer`. Without it the kernel interrupts the shard for each completion.
    pub defer_taskrun: bool,
    /// The arena is registered as a fixed buffer. Linux 5.1; bounded by the locked-memory limit for
    /// unprivileged users. Without it every write pins or copies through user addresses.
    pub registered_arena: bool,
    /// One receive request delivers many completions, into a ring of provided buffers. Linux 6.0
    /// (the buffer ring 5.19). Without it each receive is submitted anew into the connection's own
    /// buffer.
    pub multishot_recv: bool,
    /// Vectored operations on registered buffers. Linux 6.15. Without it `WritevFixed` is not
    /// available and `SendZc` pins pages for each write.
    pub vectored_fixed: bool,
    /// Zero-copy `sendmsg`. Linux 6.1.
    pub send_zc: bool,
    /// The kernel continues a short zero-copy send by itself (`MSG_WAITALL`, Linux 6.1), so that a
    /// write has one notification. Without it each short send comes back and is resumed, as on the
    /// other paths.
    pub send_zc_wait_all: bool,
}

impl Features {
    /// No feature at all: of a driver without a ring.
    pub const NONE: Self = Self {
        single_issuer: false,
        defer_taskrun: false,
        registered_arena: false,
        multishot_recv: false,
        vectored_fixed: false,
        send_zc: false,
        send_zc_wait_all: false,
    };
}

impl Default for Features {
    fn default() -> Self {
        Self {
            single_issuer: true,
            defer_taskrun: true,
            registered_arena: true,
            multishot_recv: true,
            vectored_fixed: true,
            send_zc: true,
            send_zc_wait_all: true,
        }
    }
}
