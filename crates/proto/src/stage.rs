//! The lifecycle that batches and calls share, as a table of event, source stages and target. No
//! side effects.
//!
//! ```text
//!  Free -> Queued -> Awaiting <-> Retry        a call pauses between refusal and retry;
//!    ^        |         |           |          the batches of a lane pause together, see the lane
//!    |        +---------+-> Held <--+
//!    +-- Resolved <----------+
//! ```
//!
//! Every event comes from this crate's own decisions, so an illegal one is a mistake in here and
//! panics.

use core::fmt::Debug;

/// Where a batch or a call is. `R` is what it ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage<R> {
    /// The key is free.
    Free,
    /// Waits, never transmitted.
    Queued,
    /// Transmitted on this connection; an answer may come.
    Awaiting,
    /// Refused; pauses before it is sent again. Calls only.
    Pausing,
    /// To be transmitted again, in its turn.
    Retry,
    /// Decided; the outcome waits until no write of it is in flight.
    Held(R),
    /// The outcome waits to be polled.
    Resolved,
}

/// What can happen to a batch or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageEvent<R> {
    /// Accepted.
    Submit,
    /// Handed to the driver.
    Transmit,
    /// Has to be sent again: refused, silent, or its connection is down.
    Resend,
    /// Refused for now.
    Pause,
    /// Refused for good, while another transmission may still be answered.
    AwaitOthers,
    /// Decided, or decided better.
    Decide(R),
    /// Nothing of it is in flight any more.
    Release,
    /// The outcome was polled.
    Tell,
}

impl<R: Copy + Debug> Stage<R> {
    /// The table: where `event` leads from here, `None` when it is illegal.
    pub(crate) const fn on(self, event: StageEvent<R>) -> Option<Self> {
        use StageEvent as E;
        Some(match (event, self) {
            (E::Submit, Self::Free) => Self::Queued,
            (E::Transmit, Self::Queued | Self::Retry) => Self::Awaiting,
            (E::Resend, Self::Awaiting | Self::Pausing | Self::Retry) => Self::Retry,
            (E::Pause, Self::Awaiting | Self::Pausing | Self::Retry) => Self::Pausing,
            (E::AwaitOthers, Self::Awaiting | Self::Pausing | Self::Retry) => Self::Awaiting,
            (
                E::Decide(result),
                Self::Queued | Self::Awaiting | Self::Pausing | Self::Retry | Self::Held(_),
            ) => Self::Held(result),
            (E::Release, Self::Held(_)) => Self::Resolved,
            (E::Tell, Self::Resolved) => Self::Free,
            _ => return None,
        })
    }

    /// Moves on.
    pub(crate) fn apply(&mut self, event: StageEvent<R>) {
        match self.on(event) {
            Some(stage) => *self = stage,
            None => panic!("{event:?} is illegal in {self:?}"),
        }
    }

    /// Whether it was accepted and not decided.
    pub(crate) const fn is_undecided(&self) -> bool {
        matches!(
            self,
            Self::Queued | Self::Awaiting | Self::Pausing | Self::Retry
        )
    }

    /// Whether it was accepted and its outcome is not given.
    pub(crate) const fn is_unresolved(&self) -> bool {
        self.is_undecided() || matches!(self, Self::Held(_))
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;

    use super::*;
    use crate::snapshot::check_snapshot;

    #[test]
    fn matrix_of_stages_and_events() {
        let stages = [
            Stage::Free,
            Stage::Queued,
            Stage::Awaiting,
            Stage::Pausing,
            Stage::Retry,
            Stage::Held(()),
            Stage::Resolved,
        ];
        let events = [
            StageEvent::Submit,
            StageEvent::Transmit,
            StageEvent::Resend,
            StageEvent::Pause,
            StageEvent::AwaitOthers,
            StageEvent::Decide(()),
            StageEvent::Release,
            StageEvent::Tell,
        ];
        let name = |stage| String::from(format!("{stage:?}").trim_end_matches("(())"));
        let mut matrix = format!("{:<14}", "");
        for stage in stages {
            matrix += &format!("{:<11}", name(stage));
        }
        for event in events {
            let event_name = format!("{event:?}");
            matrix = String::from(matrix.trim_end());
            matrix += &format!("\n{:<14}", event_name.trim_end_matches("(())"));
            for stage in stages {
                matrix += &format!("{:<11}", stage.on(event).map_or(String::from("-"), name));
            }
        }
        check_snapshot("stages.txt", &(String::from(matrix.trim_end()) + "\n"));
    }

    #[test]
    #[should_panic(expected = "Tell is illegal in Awaiting")]
    fn an_illegal_step_is_a_mistake_of_this_crate() {
        Stage::<()>::Awaiting.apply(StageEvent::Tell);
    }
}
