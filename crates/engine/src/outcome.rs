//! The five answers a record can get, and the sums of them.
//!
//! Decides nothing: the protocol crate decides, the shard copies its decision here once per batch.

use std::fmt;

use ringmain_wire::ErrorCode;

/// Why a record never reached the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotSentReason {
    /// The delivery deadline passed before the record could be written to a socket.
    DeadlineOver,
    /// The server refused to admit it (code 58) until the delivery deadline passed.
    NotAdmitted,
    /// [`Producer::purge`](crate::Producer::purge) took it back.
    Purged,
    /// A record ahead of it in its partition is not stored, or may not be, and the order is strict:
    /// nothing behind such a record is sent until [`Producer::resume`](crate::Producer::resume).
    BehindUnstored,
    /// The name came to mean another topic while it waited: the topic was deleted and created anew,
    /// or renamed. It is in neither; sent again it goes to the one that has the name now.
    TopicReplaced,
    /// The engine or the producer was closed or dropped before it was sent.
    Closed,
    /// The engine's thread ended before it was sent: its ring failed, or it panicked.
    EngineFailed,
    /// The server refused the login for good, so nothing can be sent on this connection.
    LoginRefused {
        /// The server's code, `None` when it ended the session without one.
        code: Option<ErrorCode>,
    },
}

impl fmt::Display for NotSentReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeadlineOver => {
                f.write_str("the delivery deadline passed before it could be sent")
            }
            Self::NotAdmitted => f.write_str("the server did not admit it by the deadline"),
            Self::Purged => f.write_str("it was purged"),
            Self::BehindUnstored => f.write_str(
                "a record ahead of it in its partition is not stored, or may not be, and the order is strict",
            ),
            Self::TopicReplaced => {
                f.write_str("another topic has its topic's name now: send it again")
            }
            Self::Closed => f.write_str("the engine or the producer was closed before it was sent"),
            Self::EngineFailed => f.write_str("the engine's thread ended before it was sent"),
            Self::LoginRefused { code: Some(code) } => {
                write!(f, "the server refused the login: {code}")
            }
            Self::LoginRefused { code: None } => f.write_str("the server refused the login"),
        }
    }
}

/// The one answer a record gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// In the log, at this place.
    Stored {
        /// The partition.
        partition: u32,
        /// The record's offset in it.
        offset: u64,
    },
    /// In the log, at an offset the server did not tell: it recognised a retry, or answered code
    /// 59.
    StoredOffsetUnknown {
        /// The partition.
        partition: u32,
    },
    /// Not in the log: the server refused it for good. Resending the same record is refused again.
    Rejected {
        /// The server's code.
        code: ErrorCode,
    },
    /// Not in the log: it never left, or was never admitted. Resending cannot duplicate it.
    NotSent {
        /// Why.
        reason: NotSentReason,
    },
    /// It may or may not be in the log. Resending may duplicate it.
    Unknown {
        /// The request number it travelled under, for a search in the server's logs.
        request: u64,
    },
}

impl Outcome {
    /// True for the two answers that say the record is in the log.
    #[must_use]
    pub const fn is_stored(&self) -> bool {
        matches!(self, Self::Stored { .. } | Self::StoredOffsetUnknown { .. })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored { partition, offset } => {
                write!(f, "stored in partition {partition} at offset {offset}")
            }
            Self::StoredOffsetUnknown { partition } => {
                write!(
                    f,
                    "stored in partition {partition}, the server did not tell the offset"
                )
            }
            Self::Rejected { code } => write!(f, "rejected by the server: {code}"),
            Self::NotSent { reason } => write!(f, "not sent: {reason}"),
            Self::Unknown { request } => {
                write!(f, "unknown: request {request} may or may not be stored")
            }
        }
    }
}

/// How many records got which answer.
///
/// `accepted = stored + stored_offset_unknown + rejected + not_sent + unknown + in_flight`, in
/// every snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Records that `send` and its siblings took.
    pub accepted: u64,
    /// Confirmed with an offset.
    pub stored: u64,
    /// Confirmed without one.
    pub stored_offset_unknown: u64,
    /// Refused for good.
    pub rejected: u64,
    /// Never sent, or never admitted.
    pub not_sent: u64,
    /// May or may not be stored.
    pub unknown: u64,
    /// Not answered yet.
    pub in_flight: u64,
}

impl Account {
    /// Records with a final answer.
    #[must_use]
    pub const fn resolved(&self) -> u64 {
        self.stored + self.stored_offset_unknown + self.rejected + self.not_sent + self.unknown
    }

    /// True when every accepted record is stored.
    #[must_use]
    pub const fn all_stored(&self) -> bool {
        self.accepted == self.stored + self.stored_offset_unknown
    }

    /// True when the sum of the answers and the unanswered is what was accepted.
    #[must_use]
    pub const fn balances(&self) -> bool {
        self.accepted == self.resolved() + self.in_flight
    }
}

impl std::ops::AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.stored += other.stored;
        self.stored_offset_unknown += other.stored_offset_unknown;
        self.rejected += other.rejected;
        self.not_sent += other.not_sent;
        self.unknown += other.unknown;
        self.in_flight += other.in_flight;
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "accepted {} = stored {} + stored, offset unknown {} + rejected {} + not sent {} + unknown {}",
            self.accepted,
            self.stored,
            self.stored_offset_unknown,
            self.rejected,
            self.not_sent,
            self.unknown
        )?;
        if self.in_flight > 0 {
            write!(f, " + in flight {}", self.in_flight)?;
        }
        Ok(())
    }
}

impl Account {
    /// Adds `records` with this answer. Does not touch `accepted` and `in_flight`.
    pub(crate) fn add(&mut self, outcome: Outcome, records: u64) {
        *match outcome {
            Outcome::Stored { .. } => &mut self.stored,
            Outcome::StoredOffsetUnknown { .. } => &mut self.stored_offset_unknown,
            Outcome::Rejected { .. } => &mut self.rejected,
            Outcome::NotSent { .. } => &mut self.not_sent,
            Outcome::Unknown { .. } => &mut self.unknown,
        } += records;
    }
}
