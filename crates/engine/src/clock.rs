//! The clock of an engine: the time since its start, and the calendar that stamps records.
//!
//! One clock an engine, shared by its shards and its appenders. A simulation sets the time itself
//! (feature `simulation`); without the feature there is one kind of clock, and reading it asks no
//! question.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ringmain_proto::Micros;

/// See the module. Copies show the same time.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The monotonic clock of the system, counted from this moment.
    System(Instant),
    /// A clock that a simulation sets.
    #[cfg(feature = "simulation")]
    Virtual(crate::simulation::VirtualClock),
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn system() -> Self {
        Self::System(Instant::now())
    }

    /// Microseconds since the engine started.
    pub(crate) fn now(&self) -> Micros {
        match self {
            Self::System(start) => {
                Micros(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX))
            }
            #[cfg(feature = "simulation")]
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Microseconds since the Unix epoch; 0 when the clock is set before it.
    pub(crate) fn calendar_us(&self) -> u64 {
        match self {
            Self::System(_) => system_calendar_us(),
            #[cfg(feature = "simulation")]
            Self::Virtual(clock) => clock.calendar_us(),
        }
    }
}

fn system_calendar_us() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            // Not `as_micros`: a division of 128 bits for each record.
            since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
        })
}
