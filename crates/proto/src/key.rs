//! Names of things: batches, lanes and calls are dense indexes that the driver chooses.
//!
//! Dense means below the matching `*_max` of [`crate::Config`], so tables are arrays and nothing is
//! hashed. A key is free again once its outcome was polled.

/// A batch of records of one lane, as the driver names it: below [`crate::Config::requests_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchKey(pub u32);

/// A lane: one partition as seen from this connection, below [`crate::Config::lanes_max`].
///
/// Two open lanes of a client must never name the same partition: the window laws hold for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey(pub u32);

/// A control call, below [`crate::Config::calls_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey(pub u32);

/// A frame that the driver was told to write, as it names it in [`crate::Client::handle_written`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// A login.
    Login,
    /// A batch.
    Batch(BatchKey),
    /// A control call.
    Call(CallKey),
    /// A heartbeat.
    Ping,
    /// A logout.
    Logout,
}

/// What indexes a [`crate::table::Table`].
pub(crate) trait Key: Copy {
    /// The place of the key's entry.
    fn index(self) -> usize;

    /// The key of a place.
    fn at(index: u32) -> Self;
}

/// Makes a key of a newtype of `u32`.
macro_rules! keys {
    ($($key:ident)+) => {
        $(impl Key for $key {
            fn index(self) -> usize {
                self.0 as usize
            }

            fn at(index: u32) -> Self {
                Self(index)
            }
        })+
    };
}

keys! { BatchKey LaneKey CallKey }
