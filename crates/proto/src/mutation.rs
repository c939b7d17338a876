//! Faults put in on purpose, so that the simulator can prove that its oracle sees them.
//!
//! Without the feature `mutations` no fault can be chosen: [`Faults`] is empty, [`Faults::commits`]
//! is the constant `false`, and the branches that ask for it are gone from the compiled code.

/// One fault.
#[cfg_attr(
    not(feature = "mutations"),
    allow(unreachable_pub, reason = "exported with the feature only")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Law W1 with 128 instead of 127.
    Span128,
    /// A retry takes a new number.
    NewNumberOnRetry,
    /// Every batch outcome is given twice.
    ReceiptTwice,
    /// Retries go out newest first.
    ResumeOutOfOrder,
    /// An outcome is given while a write of its batch is in flight.
    EarlyFree,
    /// A strict lane that has lost a batch ends what waits and sends what comes later.
    HaltForgotten,
    /// A strict lane that has lost a batch refuses what comes later and sends what waits.
    HaltSparesQueue,
    /// A strict lane goes on behind a batch whose fate is unknown.
    UnknownDoesNotHalt,
    /// A deadline that waits for progress does not.
    ProgressIgnored,
}

/// The faults to commit: none, or the one of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    #[cfg(feature = "mutations")]
    chosen: Option<Mutation>,
}

#[cfg(not(feature = "mutations"))]
impl Faults {
    pub(crate) const fn new(_config: &crate::Config) -> Self {
        Self {}
    }

    pub(crate) fn commits(self, _fault: Mutation) -> bool {
        false
    }

    pub(crate) const fn is_none(self) -> bool {
        true
    }
}

#[cfg(feature = "mutations")]
impl Faults {
    pub(crate) const fn new(config: &crate::Config) -> Self {
        Self {
            chosen: config.mutation,
        }
    }

    pub(crate) fn commits(self, fault: Mutation) -> bool {
        self.chosen == Some(fault)
    }

    pub(crate) const fn is_none(self) -> bool {
        self.chosen.is_none()
    }
}
