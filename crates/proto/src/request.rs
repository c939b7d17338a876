//! One request over all its transmissions: what is known about them, and what each reply means.
//!
//! A request may be transmitted many times under one number. As long as every transmission was
//! answered with a refusal, nothing of it can be stored. One transmission without an answer is
//! enough for "may be stored": it can be parked at the server and commit at any later time. These
//! facts separate `NotSent` and `Rejected` from `Unknown`, for batches and for calls alike.
//!
//! Refusals may be delivered late, and more than once. So a refusal answers the transmission that
//! it echoes, if that is unanswered, and nothing otherwise. One that echoes nothing is trusted only
//! if there is just one transmission.

use ringmain_wire::{CodeClass, ErrorCode};

use crate::outcome::NotSent;
use crate::reply::{Echo, Verdict};
use crate::{Deadline, Micros};

/// A request that was accepted and is not resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// When it is given up, unless progress ahead of it moves that.
    pub(crate) deadline: Micros,
    /// Time without progress ahead of it that it has in any case, 0 when nothing moves its
    /// deadline.
    pub(crate) progress_us: u64,
    /// Request number, 0 until the first transmission.
    pub(crate) number: u64,
    /// Transmissions so far.
    transmissions: u32,
    /// Whether it was transmitted on the present connection.
    sent_here: bool,
    /// Transmissions on the present connection without an answer.
    open: Open,
    /// Whether the fate of one transmission can never be learned: its connection went down, or its
    /// answer was "outcome unknown".
    lost: bool,
    /// A permanent refusal, while other transmissions are still unanswered.
    refused: Option<ErrorCode>,
    /// Whether the driver wants it transmitted no more.
    is_withdrawn: bool,
    /// Whether a refusal as "not logged in" already led to a new login for this request.
    login_renewed: bool,
    /// Whether a write of the request is in the driver's hands. At most one is.
    write_in_flight: bool,
    /// When it was handed to the driver last.
    pub(crate) handed_at: Micros,
    /// When the driver had written it last.
    pub(crate) written_at: Micros,
    /// Silences in a row on this connection: each makes the next last longer.
    pub(crate) silences: u8,
    /// Requests of its lane that were sent after its last transmission and answered before it.
    pub(crate) passed_by: u8,
    /// Whether it was sent twice on one connection or its outcome was called unknown: then the
    /// server need not have taken it in its turn.
    out_of_turn: bool,
    /// What made it a batch to be sent again, until it is. `None` when its connection was lost.
    pub(crate) resend_cause: Option<ResendCause>,
}

/// Which of the last 64 transmissions are unanswered: bit `i` stands for the one `i` before the
/// last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open(u64);

impl Open {
    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a transmission. Returns whether one fell off the far end unanswered.
    const fn push(&mut self) -> bool {
        let falls_off = self.0 >> 63 == 1;
        self.0 = self.0 << 1 | 1;
        falls_off
    }

    /// Closes the transmission `age` before the last. Returns whether it was open.
    const fn close(&mut self, age: u32) -> bool {
        let was_open = age < u64::BITS && self.0 >> age & 1 == 1;
        if was_open {
            self.0 &= !(1 << age);
        }
        was_open
    }

    /// Closes the oldest, if there is one.
    const fn close_oldest(&mut self) -> bool {
        if self.is_empty() {
            false
        } else {
            self.close(self.0.ilog2())
        }
    }
}

/// What a reply means for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// A refusal beyond those that were due: a duplicate, means nothing.
    Late,
    /// Done.
    Done(Success),
    /// Refused for good, and no transmission can have been stored.
    Rejected(ErrorCode),
    /// Refused for good, but an earlier transmission may have been done.
    Unknown(ErrorCode),
    /// Refused for good, but another transmission is still unanswered: wait for it, do not send
    /// again.
    Wait(ErrorCode),
    /// Refused for now: send again after a pause.
    Refused(RefusalKind),
    /// The session is gone: log in, then send again.
    SessionLost,
}

/// What a success told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Success {
    /// Partition and base offset of a send.
    Confirmed { partition_id: u32, base_offset: u64 },
    /// Nothing more.
    Plain,
    /// Done by an earlier transmission, details gone.
    AlreadyApplied,
}

/// The two refusals that lead to a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// Code 58.
    NotAdmitted,
    /// Code 57.
    UnknownOutcome,
}

/// Why a batch is sent again on a connection that is still up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResendCause {
    /// No answer for the request timeout.
    Silence,
    /// A refusal for now.
    Refused(RefusalKind),
}

/// How a request ends that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// Not stored, and it never will be.
    NotSent(NotSent),
    /// May be stored.
    Unknown,
}

impl Request {
    pub(crate) const fn new(deadline: Deadline) -> Self {
        Self {
            deadline: deadline.at,
            progress_us: deadline.progress_us,
            number: 0,
            transmissions: 0,
            sent_here: false,
            open: Open(0),
            lost: false,
            refused: None,
            is_withdrawn: false,
            login_renewed: false,
            write_in_flight: false,
            handed_at: Micros::ZERO,
            written_at: Micros::ZERO,
            silences: 0,
            passed_by: 0,
            out_of_turn: false,
            resend_cause: None,
        }
    }

    /// Whether a write of it is in the driver's hands.
    pub(crate) const fn write_in_flight(&self) -> bool {
        self.write_in_flight
    }

    /// Whether it was transmitted at least once.
    pub(crate) const fn was_sent(&self) -> bool {
        self.transmissions > 0
    }

    /// Whether there was one transmission, so that it is known when what is answered was sent.
    pub(crate) const fn was_sent_once(&self) -> bool {
        self.transmissions == 1
    }

    /// Whether a transmission on this connection is unanswered.
    pub(crate) const fn may_be_answered(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a success of it leaves open that a later request, sent before this success, was
    /// stored first.
    ///
    /// The server takes the requests of a connection in order, so the only transmission of a
    /// request, or the first of two on different connections, was taken before whatever followed
    /// it. With an offset told, only a single transmission is above doubt: an earlier one may have
    /// been dropped in silence, while what followed it was not. Without one the success is a
    /// duplicate's: the request was stored by a transmission before the last.
    pub(crate) const fn is_order_in_doubt(&self, has_offset: bool) -> bool {
        if has_offset {
            self.transmissions > 1
        } else {
            self.out_of_turn || self.transmissions > 2
        }
    }

    /// Whether it is not transmitted again, and only waits for the answers of the transmissions
    /// there were: it was refused for good, or withdrawn.
    pub(crate) const fn awaits_nothing_new(&self) -> bool {
        self.refused.is_some() || self.is_withdrawn
    }

    /// It is not transmitted again.
    pub(crate) const fn withdraw(&mut self) {
        self.is_withdrawn = true;
    }

    /// Whether [`Request::withdraw`] was called.
    pub(crate) const fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// Whether nothing of it can be stored: never transmitted, or every transmission was refused.
    pub(crate) const fn is_certainly_not_stored(&self) -> bool {
        self.open.is_empty() && !self.lost
    }

    /// It goes to the driver. Returns which transmission this is, from 1.
    pub(crate) fn hand_over(&mut self, now: Micros) -> u32 {
        assert!(!self.write_in_flight, "one write of a request at a time");
        assert!(self.number != 0, "numbered before the first transmission");
        self.write_in_flight = true;
        self.handed_at = now;
        self.passed_by = 0;
        if self.transmissions == 0 && self.progress_us > 0 {
            // Its wait in the queue is not held against it.
            self.deadline = self.deadline.max(now.after(self.progress_us));
        }
        self.lost |= self.open.push();
        self.out_of_turn |= core::mem::replace(&mut self.sent_here, true);
        self.transmissions = self.transmissions.saturating_add(1);
        self.transmissions
    }

    /// The driver is done with its memory. Returns `false` when no write was in flight.
    pub(crate) const fn written(&mut self, now: Micros) -> bool {
        self.written_at = now;
        core::mem::replace(&mut self.write_in_flight, false)
    }

    /// The connection is down: nothing is in flight, and what was not answered never will be.
    pub(crate) const fn lose_connection(&mut self) {
        self.write_in_flight = false;
        self.lost |= !self.open.is_empty();
        self.open = Open(0);
        self.sent_here = false;
        self.silences = 0;
    }

    /// Takes a reply into account.
    ///
    /// A success holds whichever transmission it answers, even one that was counted as lost. A
    /// refusal answers one open transmission and says nothing about the others.
    pub(crate) fn judge(&mut self, verdict: Verdict, echo: Echo) -> Judgement {
        let code = match verdict {
            Verdict::Confirmed {
                partition_id,
                base_offset,
            } => {
                return Judgement::Done(Success::Confirmed {
                    partition_id,
                    base_offset,
                });
            }
            Verdict::Success | Verdict::LoggedIn { .. } | Verdict::LoginFailed => {
                return Judgement::Done(Success::Plain);
            }
            Verdict::Refused(code) => code,
        };
        match code.class() {
            CodeClass::AlreadyApplied => Judgement::Done(Success::AlreadyApplied),
            _ if !self.answer(echo) => Judgement::Late,
            class if let Some(first) = self.refused => {
                self.lost |= class == CodeClass::UnknownOutcome;
                self.refuse(first)
            }
            CodeClass::NotAdmitted => Judgement::Refused(RefusalKind::NotAdmitted),
            CodeClass::UnknownOutcome => {
                self.lost = true;
                self.out_of_turn = true;
                Judgement::Refused(RefusalKind::UnknownOutcome)
            }
            CodeClass::SessionDead if code != ErrorCode::UNAUTHENTICATED || !self.login_renewed => {
                self.login_renewed |= code == ErrorCode::UNAUTHENTICATED;
                Judgement::SessionLost
            }
            CodeClass::SessionDead | CodeClass::Permanent => self.refuse(code),
        }
    }

    /// A refusal answers a transmission. Returns `false` when it answers none that is open.
    const fn answer(&mut self, echo: Echo) -> bool {
        match echo {
            Echo::Attempt(attempt) if attempt <= self.transmissions => {
                self.open.close(self.transmissions - attempt)
            }
            _ => {
                let answers_open = self.open.close_oldest();
                self.lost |= answers_open && self.transmissions > 1;
                answers_open
            }
        }
    }

    fn refuse(&mut self, code: ErrorCode) -> Judgement {
        if !self.open.is_empty() {
            self.refused = Some(code);
            Judgement::Wait(code)
        } else if self.lost {
            Judgement::Unknown(code)
        } else {
            Judgement::Rejected(code)
        }
    }

    /// How it ends if it is given up now, for `reason`.
    pub(crate) const fn give_up(&self, reason: NotSent) -> GivenUp {
        if !self.is_certainly_not_stored() {
            return GivenUp::Unknown;
        }
        GivenUp::NotSent(match reason {
            NotSent::Deadline if self.was_sent() => NotSent::Refused,
            reason => reason,
        })
    }
}
