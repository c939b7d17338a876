//! Refusals of the caller's requests. None changes anything.

use thiserror::Error;

use crate::session::{FatalError, IllegalEvent};
use crate::{BatchKey, CallKey, ConfigError, Frame, LaneKey};
use ringmain_wire::Operation;

/// Why a client takes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// [`crate::Client::close`] was called.
    #[error("the client is closing")]
    Closing,
    /// A fatal error.
    #[error("the client failed: {0}")]
    Failed(FatalError),
    /// No request numbers are left: open a new client.
    #[error("the client's request numbers are used up; open a new client")]
    NumbersExhausted,
}

/// Why a batch was not accepted. The caller still owns it; it is not part of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// The client takes nothing more.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The key is not below [`crate::Config::requests_max`]. The driver's mistake.
    #[error("{0:?} is out of range")]
    KeyOutOfRange(BatchKey),
    /// The key's last outcome was not polled yet. The driver's mistake.
    #[error("{0:?} is in use")]
    KeyInUse(BatchKey),
    /// The lane is not open. The driver's mistake.
    #[error("{0:?} is not open")]
    LaneNotOpen(LaneKey),
    /// A batch needs a record. The driver's mistake.
    #[error("the batch has no records")]
    Empty,
}

/// Why a call was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The client takes nothing more.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The key is not below [`crate::Config::calls_max`]. The driver's mistake.
    #[error("{0:?} is out of range")]
    KeyOutOfRange(CallKey),
    /// The key's last outcome was not polled yet. The driver's mistake.
    #[error("{0:?} is in use")]
    KeyInUse(CallKey),
    /// Session operations belong to the client itself and partition operations need a lane; only
    /// metadata and non-replicated operations are calls.
    #[error("{0:?} is not a control call")]
    NotACall(Operation),
}

/// Why a lane was not opened or closed. The driver's mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LaneError {
    /// The key is not below [`crate::Config::lanes_max`].
    #[error("{0:?} is out of range")]
    KeyOutOfRange(LaneKey),
    /// The lane is open already.
    #[error("{0:?} is open already")]
    AlreadyOpen(LaneKey),
    /// The lane is not open.
    #[error("{0:?} is not open")]
    NotOpen(LaneKey),
    /// Batches of the lane are waiting or in flight.
    #[error("{0:?} still has batches")]
    Busy(LaneKey),
    /// The settings are out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A report that cannot be true: the driver's mistake. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DriverError {
    /// The connection event is illegal in the session's state.
    #[error(transparent)]
    Session(#[from] IllegalEvent),
    /// No write of the frame is in flight.
    #[error("no write of {0:?} is in flight")]
    NotWriting(Frame),
}
