//! What became of a batch or a call, and the account that must balance at every step.
//!
//! An outcome is given exactly once for every accepted key, and only when no write of its frame is
//! in flight: from then on the driver may reuse the memory and the key.

use thiserror::Error;

use ringmain_wire::{ErrorCode, EvictionReason};

use crate::session::FatalError;
use crate::{BatchKey, CallKey, LaneKey};

/// Something ended. Its key is free when this is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A batch ended; the receipt holds for each of its records.
    Batch {
        /// The batch.
        key: BatchKey,
        /// Its lane.
        lane: LaneKey,
        /// Its number of records.
        records: u32,
        /// The answer for each of them.
        receipt: Receipt,
    },
    /// A control call ended.
    Call {
        /// The call.
        key: CallKey,
        /// How.
        answer: Answer,
    },
}

/// The one answer for every record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Stored. Record `i` of the batch has offset `base_offset + i`.
    Stored {
        /// Partition named by the server.
        partition_id: u32,
        /// Offset of the first record.
        base_offset: u64,
    },
    /// Stored, offset not told: the server answered a duplicate, or code 59.
    StoredOffsetUnknown,
    /// Refused for good and not stored: every transmission is accounted for.
    Rejected {
        /// The server's code.
        code: ErrorCode,
    },
    /// Not stored: never left, or every transmission was refused as not admitted.
    NotSent {
        /// Why.
        reason: NotSent,
    },
    /// May or may not be stored, now or later. It is not sent again; sending the records again may
    /// duplicate them.
    Unknown {
        /// The request number it was sent under.
        request: u64,
    },
}

impl Receipt {
    /// Whether it says that the batch is in the log.
    #[must_use]
    pub const fn is_stored(&self) -> bool {
        matches!(self, Self::Stored { .. } | Self::StoredOffsetUnknown)
    }
}

/// Why a batch or a call was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum NotSent {
    /// The deadline passed before it was sent.
    #[error("the delivery deadline passed before it was sent")]
    Deadline,
    /// The server refused every transmission as not admitted until the deadline.
    #[error("the server refused it as not admitted until the delivery deadline")]
    Refused,
    /// The driver purged.
    #[error("purged by the caller")]
    Purged,
    /// A batch ahead of it in a [`crate::Ordering::Strict`] lane is not stored, or may not be.
    #[error("a record ahead of it is not stored, and the order is strict")]
    BehindUnstored,
    /// The client was closed, and the deadline of the close came before its own.
    #[error("the client was closed before it was sent")]
    Closed,
    /// The driver withdrew it: [`crate::Client::withdraw`].
    #[error("withdrawn by the caller before it was sent")]
    Withdrawn,
    /// The client ended first.
    #[error("the client ended: {0}")]
    Failed(FatalError),
    /// No request numbers are left.
    #[error("the client's request numbers are used up; open a new client")]
    NumbersExhausted,
}

/// How a control call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server answered; the body is with the driver, from the reply that matched.
    Answered,
    /// Done earlier, the reply is gone (code 59): success without details.
    AlreadyApplied,
    /// Refused for good.
    Rejected {
        /// The server's code.
        code: ErrorCode,
    },
    /// The server ended the session because of a malformed request, and this call was the only
    /// suspect.
    Evicted {
        /// The server's reason.
        reason: EvictionReason,
    },
    /// Not executed.
    NotSent {
        /// Why.
        reason: NotSent,
    },
    /// May or may not be executed; a read: not answered.
    Unknown {
        /// The request number it was sent under.
        request: u64,
    },
}

/// Records by what became of them. `accepted` is the sum of all others, at every step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Records of every batch that [`crate::Client::submit`] accepted.
    pub accepted: u64,
    /// Records with a [`Receipt::Stored`].
    pub stored: u64,
    /// Records with a [`Receipt::StoredOffsetUnknown`].
    pub stored_offset_unknown: u64,
    /// Records with a [`Receipt::Rejected`].
    pub rejected: u64,
    /// Records with a [`Receipt::NotSent`].
    pub not_sent: u64,
    /// Records with a [`Receipt::Unknown`].
    pub unknown: u64,
    /// Records whose outcome is not given yet.
    pub in_flight: u64,
}

impl Account {
    /// Takes records in.
    pub(crate) fn accept(&mut self, records: u32) {
        self.accepted += u64::from(records);
        self.in_flight += u64::from(records);
    }

    /// Moves records from in flight to what their receipt says.
    pub(crate) fn settle(&mut self, records: u32, receipt: Receipt) {
        let records = u64::from(records);
        assert!(self.in_flight >= records, "a batch is settled once");
        self.in_flight -= records;
        let total = match receipt {
            Receipt::Stored { .. } => &mut self.stored,
            Receipt::StoredOffsetUnknown => &mut self.stored_offset_unknown,
            Receipt::Rejected { .. } => &mut self.rejected,
            Receipt::NotSent { .. } => &mut self.not_sent,
            Receipt::Unknown { .. } => &mut self.unknown,
        };
        *total += records;
    }

    /// Whether `accepted` is the sum of the others.
    #[must_use]
    pub const fn is_balanced(&self) -> bool {
        self.accepted
            == self.stored
                + self.stored_offset_unknown
                + self.rejected
                + self.not_sent
                + self.unknown
                + self.in_flight
    }
}
