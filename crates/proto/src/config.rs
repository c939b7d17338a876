//! Settings of a client, checked once at construction. Tables are allocated from them and never
//! grow.

use thiserror::Error;

use crate::limits::{
    CALLS_MAX_CEILING, DURATION_US_MAX, LANES_MAX_CEILING, REQUEST_FIRST, REQUEST_LAST,
    REQUESTS_MAX_CEILING, WINDOW_REQUESTS_DEFAULT, WINDOW_REQUESTS_MAX,
};

/// What happens to requests that may have been admitted when the server's memory of them is known
/// to be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnLostCoverage {
    /// Their receipt is `Unknown` and nothing is sent again: at most once, and said so.
    #[default]
    Report,
    /// They are sent again: at least once, duplicates possible.
    Resend,
}

/// How a lane trades order against speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ordering {
    /// Many requests in flight. Requests go out in order; a refusal or a silent drop in the middle
    /// lets later ones overtake, which [`crate::Stats::overtaken`] counts.
    #[default]
    Pipelined,
    /// One request in flight: whatever is confirmed was stored in submission order. The window
    /// setting is ignored.
    ///
    /// The lane halts at the first batch that ends otherwise than stored: what waits behind it, and
    /// what is submitted later, ends [`crate::NotSent::BehindUnstored`] and is never sent, until
    /// [`crate::Client::resume_lane`]. A request that ends `Unknown` may still be stored; while the
    /// lane is halted nothing of it can be behind that.
    Strict,
}

/// Settings of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// Requests in flight at most, 1 to [`WINDOW_REQUESTS_MAX`], default
    /// [`WINDOW_REQUESTS_DEFAULT`].
    pub window_requests_max: u8,
    /// Order against speed, default [`Ordering::Pipelined`].
    pub ordering: Ordering,
}

impl Default for LaneConfig {
    fn default() -> Self {
        Self {
            window_requests_max: WINDOW_REQUESTS_DEFAULT,
            ordering: Ordering::Pipelined,
        }
    }
}

/// Settings of a client. Start from [`Config::new`] and change fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Client id for life: random, not zero, never used by another client.
    pub client: u128,
    /// Seed of the jitter. The same seed and the same inputs give the same outputs.
    pub seed: u64,
    /// First request number, 1 to [`REQUEST_LAST`], default 1. Other values are for tests of the
    /// range's end.
    pub request_first: u64,
    /// Batches known at once, waiting ones included, 1 to [`REQUESTS_MAX_CEILING`], default 1024.
    pub requests_max: u32,
    /// Lanes, 1 to [`LANES_MAX_CEILING`], default 64.
    pub lanes_max: u32,
    /// Control calls known at once, 1 to [`CALLS_MAX_CEILING`], default 16.
    pub calls_max: u32,
    /// Time allowed from telling the driver to connect until the connection is up, default 10 s.
    pub connect_timeout_us: u64,
    /// Time allowed for the answer to a login or a logout, default 10 s.
    pub login_timeout_us: u64,
    /// Silence after which a written request is sent again in any case, default 5 s; it doubles
    /// with each silence in a row, up to 10 s or itself. Silence is counted from the write, or from
    /// the last answer to what is ahead. What is known to be lost is sent again earlier: see the
    /// crate's documentation.
    pub request_timeout_us: u64,
    /// Batches that are out at first when those of a lost connection are sent again, at least 1,
    /// default 1: one probes the path. Each answer lets one more out, so that they double with each
    /// round trip.
    pub resume_requests_max: u32,
    /// Time without any write progress, while a write is in flight, until the connection is given
    /// up, default 10 s.
    pub write_stall_us: u64,
    /// Idle time until a heartbeat, default 10 s: a third of the 30 s after which servers evict. A
    /// server that says nothing at all for as long again, or for the request timeout if that is
    /// longer, costs the connection.
    pub heartbeat_interval_us: u64,
    /// First pause before a new connection, default 10 ms. Doubles each time, with jitter.
    pub reconnect_backoff_us_min: u64,
    /// Longest pause before a new connection, default 5 s.
    pub reconnect_backoff_us_max: u64,
    /// First pause before a refused request is sent again, default 2 ms. Doubles each time, with
    /// jitter.
    pub refusal_backoff_us_min: u64,
    /// Longest pause before a refused request is sent again, default 500 ms.
    pub refusal_backoff_us_max: u64,
    /// Policy for requests whose duplicate protection is lost, default [`OnLostCoverage::Report`].
    pub on_lost_coverage: OnLostCoverage,
    /// The fault to commit, none by default. Test only.
    #[cfg(feature = "mutations")]
    pub mutation: Option<crate::Mutation>,
}

/// What is wrong with a [`Config`]. Always the caller's mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The client id is zero, which the protocol reserves.
    #[error("the client id is zero; draw a random one")]
    ClientZero,
    /// A setting is out of range.
    #[error("{field} is {value}; it must be {min} to {max}")]
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// What it was.
        value: u64,
        /// Lowest value allowed.
        min: u64,
        /// Highest value allowed.
        max: u64,
    },
    /// A shortest pause is longer than the longest.
    #[error("{field}_min is {min}, above {field}_max, which is {max}")]
    BackoffInverted {
        /// Name of the pair.
        field: &'static str,
        /// The shortest pause.
        min: u64,
        /// The longest pause.
        max: u64,
    },
}

impl Config {
    /// The defaults, for a client id and a seed that the driver drew.
    #[must_use]
    pub const fn new(client: u128, seed: u64) -> Self {
        Self {
            client,
            seed,
            request_first: REQUEST_FIRST,
            requests_max: 1024,
            lanes_max: 64,
            calls_max: 16,
            connect_timeout_us: 10_000_000,
            login_timeout_us: 10_000_000,
            request_timeout_us: 5_000_000,
            resume_requests_max: 1,
            write_stall_us: 10_000_000,
            heartbeat_interval_us: 10_000_000,
            reconnect_backoff_us_min: 10_000,
            reconnect_backoff_us_max: 5_000_000,
            refusal_backoff_us_min: 2_000,
            refusal_backoff_us_max: 500_000,
            on_lost_coverage: OnLostCoverage::Report,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that is out of range; see [`ConfigError`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.client == 0 {
            return Err(ConfigError::ClientZero);
        }
        in_range(
            "request_first",
            self.request_first,
            REQUEST_FIRST,
            REQUEST_LAST,
        )?;
        in_range(
            "requests_max",
            self.requests_max.into(),
            1,
            REQUESTS_MAX_CEILING.into(),
        )?;
        in_range(
            "resume_requests_max",
            self.resume_requests_max.into(),
            1,
            u32::MAX.into(),
        )?;
        in_range(
            "lanes_max",
            self.lanes_max.into(),
            1,
            LANES_MAX_CEILING.into(),
        )?;
        in_range(
            "calls_max",
            self.calls_max.into(),
            1,
            CALLS_MAX_CEILING.into(),
        )?;
        for (field, value) in [
            ("connect_timeout_us", self.connect_timeout_us),
            ("login_timeout_us", self.login_timeout_us),
            ("request_timeout_us", self.request_timeout_us),
            ("write_stall_us", self.write_stall_us),
            ("heartbeat_interval_us", self.heartbeat_interval_us),
            ("reconnect_backoff_us_min", self.reconnect_backoff_us_min),
            ("reconnect_backoff_us_max", self.reconnect_backoff_us_max),
            ("refusal_backoff_us_min", self.refusal_backoff_us_min),
            ("refusal_backoff_us_max", self.refusal_backoff_us_max),
        ] {
            in_range(field, value, 1, DURATION_US_MAX)?;
        }
        ordered(
            "reconnect_backoff_us",
            self.reconnect_backoff_us_min,
            self.reconnect_backoff_us_max,
        )?;
        ordered(
            "refusal_backoff_us",
            self.refusal_backoff_us_min,
            self.refusal_backoff_us_max,
        )
    }
}

impl LaneConfig {
    /// Checks the window.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for a window outside 1 to [`WINDOW_REQUESTS_MAX`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        in_range(
            "window_requests_max",
            self.window_requests_max.into(),
            1,
            WINDOW_REQUESTS_MAX.into(),
        )
    }

    /// The window in effect.
    pub(crate) const fn window(&self) -> u8 {
        match self.ordering {
            Ordering::Strict => 1,
            Ordering::Pipelined => self.window_requests_max,
        }
    }
}

fn in_range(field: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::OutOfRange {
            field,
            value,
            min,
            max,
        })
    }
}

fn ordered(field: &'static str, min: u64, max: u64) -> Result<(), ConfigError> {
    if min <= max {
        Ok(())
    } else {
        Err(ConfigError::BackoffInverted { field, min, max })
    }
}
