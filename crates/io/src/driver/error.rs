//! How a driver fails for good, in words that fit any driver.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A driver stopped working. Its shard cannot go on, and its connections are lost.
///
/// The kind says whose fault it is; the source, which is also the text, says what the driver met.
#[derive(Clone, Debug)]
pub struct DriverError {
    kind: DriverErrorKind,
    source: Arc<dyn Error + Send + Sync>,
}

/// Whose fault it is that a driver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverErrorKind {
    /// The shard called the driver from another thread: a defect of ringmain.
    WrongThread,
    /// The environment forbids a system call that it allowed before.
    Forbidden,
    /// The host ran out of something for longer than the driver waits.
    Exhausted,
    /// The kernel rejects what the driver passed, or another part of the process closed a
    /// descriptor of the driver.
    Broken,
}

impl DriverError {
    /// An error of this kind, with what the driver met as its source and its text.
    pub fn new(kind: DriverErrorKind, source: impl Error + Send + Sync + 'static) -> Self {
        Self {
            kind,
            source: Arc::new(source),
        }
    }

    /// Whose fault it is.
    pub fn kind(&self) -> DriverErrorKind {
        self.kind
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The text of the source is the text of this error, so the chain goes on behind it.
        self.source.source()
    }
}
