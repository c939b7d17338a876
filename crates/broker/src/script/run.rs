//! A script in progress: counts requests and picks the action for each.

use ringmain_wire::operation::{CommandCode, Operation};

use super::{Action, Fault, RequestMatch, Script};

/// What happens to the reply of a request that is otherwise handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyFault {
    /// It is lost and the connection closed.
    Cut,
    /// It is written in pieces of `bytes`, at least 1.
    Pieces { bytes: usize },
    /// It goes after so many later replies of the connection.
    Reorder { replies: u32 },
    /// It goes so many microseconds later.
    Delay { us: u64 },
}

/// What a fault can match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) connection: u64,
    pub(crate) operation: Operation,
    /// Command code of a non-replicated request.
    pub(crate) code: CommandCode,
}

#[derive(Debug)]
struct Counted {
    fault: Fault,
    matched: u64,
    acted: u64,
}

/// A script and how far it got.
#[derive(Debug, Default)]
pub(crate) struct ScriptRun {
    faults: Vec<Counted>,
}

impl ScriptRun {
    pub(crate) fn new(script: Script) -> Self {
        let mut run = Self::default();
        script.faults.into_iter().for_each(|fault| run.add(fault));
        run
    }

    /// Adds a fault that counts from now on.
    pub(crate) fn add(&mut self, fault: Fault) {
        self.faults.push(Counted {
            fault,
            matched: 0,
            acted: 0,
        });
    }

    /// Counts a request, and picks what to do with it.
    pub(crate) fn action(&mut self, facts: &Facts) -> Option<Action> {
        let mut action = None;
        for counted in &mut self.faults {
            if counted.fault.matches(facts) {
                counted.matched += 1;
                if action.is_none() && counted.is_due() {
                    counted.acted += 1;
                    action = Some(counted.fault.action);
                }
            }
        }
        action
    }
}

impl Fault {
    fn matches(&self, facts: &Facts) -> bool {
        let request = match self.request {
            RequestMatch::Any => true,
            RequestMatch::Operation(operation) => operation == facts.operation,
            RequestMatch::Code(code) => {
                facts.operation == Operation::NonReplicated && code == facts.code
            }
        };
        request
            && self
                .connection
                .is_none_or(|connection| connection == facts.connection)
    }
}

impl Counted {
    fn is_due(&self) -> bool {
        self.matched >= self.fault.at
            && (self.matched - self.fault.at).is_multiple_of(self.fault.every)
            && self.fault.times.is_none_or(|times| self.acted < times)
    }
}

#[cfg(test)]
mod tests {
    use ringmain_wire::code::ErrorCode;

    use super::*;

    const SEND: Facts = Facts {
        connection: 1,
        operation: Operation::SendMessages,
        code: CommandCode(0),
    };
    const PING: Facts = Facts {
        connection: 2,
        operation: Operation::NonReplicated,
        code: CommandCode::PING,
    };

    /// Which of the first `count` sends the fault acts on.
    fn acted_on(fault: Fault, count: u64) -> Vec<u64> {
        let mut run = ScriptRun::new(Script::new().fault(fault));
        (1..=count)
            .filter(|_| run.action(&SEND).is_some())
            .collect()
    }

    #[test]
    fn a_trigger_picks_what_it_says() {
        let fault = || Fault::on(Operation::SendMessages);
        assert_eq!(acted_on(fault(), 9), [1]);
        assert_eq!(acted_on(fault().at(3), 9), [3]);
        assert_eq!(acted_on(fault().at(3).times(3), 9), [3, 4, 5]);
        assert_eq!(acted_on(fault().at(2).every(3).times(2), 9), [2, 5]);
        assert_eq!(acted_on(fault().at(2).every(3).times(0), 9), [2, 5, 8]);
        assert_eq!(acted_on(fault().connection(2), 9), [0; 0]);
        assert_eq!(acted_on(Fault::on_code(CommandCode::PING), 9), [0; 0]);
        assert_eq!(acted_on(Fault::on_any().at(4), 9), [4]);
    }

    #[test]
    fn the_first_fault_that_is_due_acts_and_the_other_keeps_its_turn() {
        let refuse = |code| Action::Refuse(code);
        let script = Script::new()
            .fault(
                Fault::on_any()
                    .at(2)
                    .action(refuse(ErrorCode::TRANSIENT_NOT_COMMITTED)),
            )
            .fault(
                Fault::on_any()
                    .at(2)
                    .action(refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED)),
            );
        let mut run = ScriptRun::new(script);
        assert_eq!(run.action(&PING), None);
        assert_eq!(
            run.action(&SEND),
            Some(refuse(ErrorCode::TRANSIENT_NOT_COMMITTED))
        );
        assert_eq!(
            run.action(&PING),
            Some(refuse(ErrorCode::TRANSIENT_NOT_ACCEPTED))
        );
        assert_eq!(run.action(&PING), None);
    }
}
