//! The oracle's view of control calls: one answer each, the right one, and executed as often as it
//! says.

use super::{Kind, Oracle};
use ringmain_proto::{Answer, NotSent};

/// What is known about a call.
#[derive(Clone, Debug)]
pub(super) struct CallRecord {
    pub(super) client: usize,
    /// A read changes nothing and has no number of its own.
    read: bool,
    deadline_us: Option<u64>,
    request: Option<u64>,
    answer: Option<Answer>,
    /// The server forgot what it knew of the client's calls while this one was open.
    pub(super) uncovered: bool,
}

impl CallRecord {
    /// Brings the deadline forward.
    pub(super) fn end_by(&mut self, deadline_us: u64) {
        let own = self.deadline_us.unwrap_or(deadline_us);
        self.deadline_us = Some(own.min(deadline_us));
    }
}

impl Oracle {
    /// A client accepted a call.
    pub(crate) fn called(&mut self, client: usize, key: u64, read: bool, deadline_us: Option<u64>) {
        let uncovered = self.clients[client].forgotten;
        let record = CallRecord {
            client,
            read,
            deadline_us,
            request: None,
            answer: None,
            uncovered,
        };
        let before = self.calls.insert(key, record);
        assert!(before.is_none(), "call keys are unique");
    }

    /// A client handed a call to the connection under this number.
    pub(crate) fn call_sent(&mut self, key: u64, request: u64) {
        let Some(record) = self.calls.get_mut(&key) else {
            return;
        };
        let (client, read) = (record.client, record.read);
        let before = record.request.replace(request);
        match before {
            Some(number) if number != request && !read && self.laws => {
                self.blame(Kind::LawBroken, || {
                    format!("call {key:#x} had number {number} and is sent as {request}")
                });
            }
            None if !read => self.number_taken(client, request),
            _ => {}
        }
    }

    /// The server executed a call.
    pub(crate) fn applied(&mut self, key: u64) {
        *self.applied.entry(key).or_default() += 1;
        let times = self.applied[&key];
        let Some(record) = self.calls.get(&key) else {
            return self.blame(Kind::Corrupt, || {
                format!("call {key:#x} was executed, and nobody made it")
            });
        };
        let (covered, answer) = (!record.uncovered, record.answer);
        if times > 1 && covered {
            self.blame(Kind::CallWrong, || {
                format!("call {key:#x} was executed {times} times")
            });
        }
        if matches!(
            answer,
            Some(Answer::Rejected { .. } | Answer::NotSent { .. })
        ) {
            self.blame(Kind::CallWrong, || {
                format!("call {key:#x} was executed after {answer:?}")
            });
        }
    }

    /// A client answered a call. `echoed` is the key in the body of the reply that the client said
    /// was the answer.
    pub(crate) fn call_resolved(
        &mut self,
        now_us: u64,
        key: u64,
        answer: Answer,
        echoed: Option<u64>,
    ) {
        let executed = self.applied.contains_key(&key);
        let Some(record) = self.calls.get_mut(&key) else {
            return self.blame(Kind::CallWrong, || {
                format!("call {key:#x} was answered and never made")
            });
        };
        if record.answer.is_some() {
            return self.blame(Kind::ReceiptTwice, || {
                format!("call {key:#x} was answered again: {answer:?}")
            });
        }
        record.answer = Some(answer);
        let record = record.clone();
        let client = &self.clients[record.client];
        let overdue = record
            .deadline_us
            .is_some_and(|deadline_us| deadline_us <= now_us);
        let sound = match answer {
            Answer::Answered => echoed == Some(key) && (record.read || executed),
            Answer::AlreadyApplied => executed && !record.read,
            Answer::Rejected { .. } => !executed || record.uncovered,
            Answer::NotSent {
                reason: NotSent::Deadline | NotSent::Refused,
            } => !executed && overdue,
            Answer::NotSent {
                reason: NotSent::Closed,
            } => !executed && client.closes_at_us.is_some_and(|at_us| at_us <= now_us),
            Answer::NotSent {
                reason: NotSent::Purged,
            } => !executed && client.purged,
            Answer::NotSent {
                reason: NotSent::Failed(_),
            } => !executed && client.failed,
            Answer::NotSent {
                reason: NotSent::NumbersExhausted,
            } => !executed && (client.exhausted || client.closes_at_us.is_some()),
            // Calls have no order, and no one withdraws them.
            Answer::NotSent {
                reason: NotSent::BehindUnstored | NotSent::Withdrawn,
            } => false,
            Answer::Evicted { .. } => client.may_fail,
            Answer::Unknown { .. } => {
                overdue || client.failed || client.purged || client.exhausted || record.uncovered
            }
        };
        if !sound {
            self.blame(Kind::CallWrong, || {
                format!("call {key:#x}: {answer:?} at {now_us}, executed {executed}, echoed {echoed:?}, {record:?}")
            });
        }
    }

    /// Every call was answered.
    pub(super) fn judge_calls(&mut self) {
        let open = self
            .calls
            .iter()
            .find(|(_, record)| record.answer.is_none())
            .map(|(&key, _)| key);
        if let Some(key) = open {
            self.blame(Kind::ReceiptMissing, || {
                format!("call {key:#x} was never answered")
            });
        }
    }
}
