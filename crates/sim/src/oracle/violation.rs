//! What can be wrong with a run.

use std::fmt;

/// The kinds of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A batch or call was never answered.
    ReceiptMissing,
    /// A batch or call was answered more than once.
    ReceiptTwice,
    /// `Stored`, but not there.
    StoredWrong,
    /// `Rejected` or `NotSent`, but stored.
    StoredAfterAll,
    /// Stored more than once in one log while coverage held.
    StoredTwice,
    /// Sent again after a loss of coverage that the client noticed, against its policy.
    SentUncovered,
    /// Answered with success by the duplicate window, and never stored, while the client counts on
    /// it.
    Swallowed,
    /// Memory was given back while a write of it was in flight.
    FreedWhileWriting,
    /// Bytes arrived that nobody sent, or a log that does not add up.
    Corrupt,
    /// A frame or a call of the client breaks a rule of the protocol.
    Malformed,
    /// More was overtaken than the client counted.
    OrderBroken,
    /// Something behind a batch that is not stored was sent or stored, in strict order.
    StrictBroken,
    /// An answer without the event that it needs.
    NoReason,
    /// An answer after its time.
    Late,
    /// A batch was sent before its linger was over, for no reason.
    LingerBroken,
    /// A sender waits for memory that there is.
    Unserved,
    /// A lane that could send was left out.
    LeftOut,
    /// Memory was not given back.
    MemoryKept,
    /// The client's account is not what its answers add up to.
    AccountWrong,
    /// A call was answered with the reply of another, or executed twice while coverage held.
    CallWrong,
    /// Nothing happens although something should.
    NotLive,
    /// The client refused an event that did happen.
    DriverRefused,
    /// A law of the window was broken on the wire.
    LawBroken,
    /// The client panicked.
    Panicked,
}

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What kind.
    pub kind: Kind,
    /// What happened.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.detail)
    }
}
