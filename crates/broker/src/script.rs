//! Scripted faults: which frame triggers what. Empty by default.

/// The faults a broker commits on purpose. `Script::default()` commits none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {}

/// What happens to the reply of a frame that is otherwise handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyFault {
    /// It is lost and the connection closed.
    Cut,
    /// It is written in pieces of `bytes`, at least 1.
    Pieces {
        /// Bytes of one write.
        bytes: usize,
    },
    /// It goes after so many later replies of the connection.
    Reorder {
        /// Replies that go first.
        replies: u32,
    },
    /// It goes so much later.
    Delay {
        /// Microseconds.
        us: u64,
    },
}
