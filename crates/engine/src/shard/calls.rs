//! Control calls: the application's, and the shard's own questions about topics.
//!
//! Calls go over the first connection of the first shard, one metadata call and one read at a time:
//! that is the protocol client's rule. Their bodies and replies are owned bytes; this is the only
//! place where a shard allocates after its start.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringmain_io::foreign::contained;
use ringmain_proto::{Answer, CallKey, Micros};
use ringmain_wire::{CommandCode, Operation};

use super::PANICKED;
use super::core::Core;
use super::watch::Question;
use crate::call::CallReply;
use crate::deadline;
use crate::error::CallError;
use crate::limits::CALLS_MAX;

/// One call and the place where its reply lands.
pub(crate) struct CallCell {
    operation: Operation,
    code: CommandCode,
    name: &'static str,
    timeout_us: u64,
    body: Bytes,
    /// The shard's own question; `None` for an application's call.
    question: Option<Question>,
    state: Mutex<CallState>,
    changed: Condvar,
}

#[derive(Default)]
struct CallState {
    reply: Option<Bytes>,
    result: Option<Result<CallReply, CallError>>,
    waker: Option<Waker>,
    is_over: bool,
}

/// The shard's side of a call. Dropping it ends the call, if nothing else has: only a panic does
/// so, on its way out of the loop.
pub(crate) struct OwedCall(Option<Arc<CallCell>>);

impl OwedCall {
    pub(crate) fn new(cell: Arc<CallCell>) -> Self {
        Self(Some(cell))
    }

    /// Ends the call here and now.
    pub(super) fn end(self, error: CallError) {
        if let Some(waker) = self.finish(Err(error)) {
            contained("a waker", || waker.wake());
        }
    }
}

impl Deref for OwedCall {
    type Target = CallCell;

    fn deref(&self) -> &CallCell {
        self.0.as_ref().expect("there until the drop")
    }
}

impl Drop for OwedCall {
    fn drop(&mut self) {
        let cause = PANICKED.to_owned();
        if let Some(waker) = self.finish(Err(CallError::EngineFailed { cause })) {
            contained("a waker", || waker.wake());
        }
        // The last one to hold a body drops its owner, which is the application's.
        let cell = self.0.take();
        contained("the owner of a call's body", || drop(cell));
    }
}

impl CallCell {
    pub(crate) fn new(
        operation: Operation,
        code: CommandCode,
        name: &'static str,
        body: Bytes,
        timeout: Duration,
    ) -> Self {
        Self {
            operation,
            code,
            name,
            timeout_us: deadline::micros(timeout),
            body,
            question: None,
            state: Mutex::new(CallState::default()),
            changed: Condvar::new(),
        }
    }

    /// Makes it a question of the shard.
    pub(super) fn asking(self, question: Question) -> Self {
        Self {
            question: Some(question),
            ..self
        }
    }

    /// The body that was kept; empty for a success without one.
    fn reply(&self) -> Bytes {
        self.state().reply.clone().unwrap_or_default()
    }

    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }

    pub(super) fn keep_reply(&self, body: Bytes) {
        self.state().reply = Some(body);
    }

    /// Ends the call, releases threads that wait for it and gives out the waker of the task that
    /// does. The first end counts.
    #[must_use = "a task that is not woken waits for ever"]
    fn finish(&self, result: Result<(), CallError>) -> Option<Waker> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        state.is_over = true;
        let reply = state.reply.take().unwrap_or_default();
        state.result = Some(result.map(|()| CallReply { body: reply }));
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        waker
    }

    /// Blocks until the call has ended. It ends by its timeout, unless the shard's thread is gone;
    /// `patience` is for that case.
    pub(crate) fn wait(&self, patience: Duration) -> Result<CallReply, CallError> {
        let state = self.state();
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, patience, |state| state.result.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.result.take().unwrap_or(Err(self.timeout_error()))
    }

    /// The result, or registers `waker` to be told.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<CallReply, CallError>> {
        // Cloned and dropped outside of the lock, which the shard takes: this is code of the
        // application.
        let waker = waker.clone();
        let mut state = self.state();
        let result = state.result.take();
        let replaced = match &result {
            None => state.waker.replace(waker),
            Some(_) => Some(waker),
        };
        drop(state);
        drop(replaced);
        result
    }

    /// Nobody waits for the reply any more.
    pub(crate) fn forget_waker(&self) {
        let waker = self.state().waker.take();
        drop(waker);
    }

    fn timeout_error(&self) -> CallError {
        CallError::Timeout {
            operation: self.name,
            waited_us: self.timeout_us,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    pub(super) fn start_call(&mut self, now: Micros, cell: OwedCall) {
        let conn = &mut self.conns[0];
        // The last places are for the engine's own questions, and those take no other.
        let places = match cell.question {
            None => 0..CALLS_MAX as usize,
            Some(_) => CALLS_MAX as usize..conn.calls.len(),
        };
        let max = places.len();
        let mut places = places.filter(|place| conn.calls[*place].cell.is_none());
        let Some(key) = places.next() else {
            return self.end_call(now, &cell, Err(CallError::Busy { max }));
        };
        let call_key = CallKey(u32::try_from(key).expect("few calls"));
        match conn.client.call(
            call_key,
            cell.operation,
            cell.code,
            now.after(cell.timeout_us),
        ) {
            Ok(()) => conn.calls[key].cell = Some(cell),
            Err(error) => {
                let error = refusal(&cell, error);
                self.end_call(now, &cell, Err(error));
            }
        }
    }

    pub(super) fn finish_call(&mut self, now: Micros, cell: OwedCall, answer: Answer) {
        let operation = cell.name;
        let result = match answer {
            Answer::Answered | Answer::AlreadyApplied => Ok(()),
            Answer::Rejected { code } => Err(CallError::Refused { operation, code }),
            Answer::Evicted { reason } => Err(CallError::Evicted {
                operation,
                reason: reason.to_string(),
            }),
            Answer::NotSent { reason } => Err(match reason {
                ringmain_proto::NotSent::Failed(fatal) => CallError::Login(fatal.to_string()),
                ringmain_proto::NotSent::Purged
                | ringmain_proto::NotSent::Closed
                | ringmain_proto::NotSent::NumbersExhausted => CallError::Closed,
                _ => cell.timeout_error(),
            }),
            Answer::Unknown { .. } => Err(CallError::Lost { operation }),
        };
        self.end_call(now, &cell, result);
    }

    /// The only end of a call that the shard took on.
    fn end_call(&mut self, now: Micros, cell: &CallCell, result: Result<(), CallError>) {
        if let Some(question) = &cell.question {
            let reply = result.as_ref().map(|()| cell.reply());
            self.end_question(now, question, reply);
        }
        self.deferred.wakers.extend(cell.finish(result));
    }
}

/// Why the protocol client does not take a call.
fn refusal(cell: &CallCell, error: ringmain_proto::CallError) -> CallError {
    match error {
        ringmain_proto::CallError::NotACall(_) => CallError::Encode {
            operation: cell.name,
            why: "sends, logins and consumer offsets are not control calls".to_owned(),
        },
        ringmain_proto::CallError::Ended(ringmain_proto::Ended::Failed(fatal)) => {
            CallError::Login(fatal.to_string())
        }
        _ => CallError::Closed,
    }
}
