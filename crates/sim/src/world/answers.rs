//! What the applications learn: which batch a record joined, and the answers that wake them.

use super::World;
use super::app::{BatchOut, RecordOut, Task};
use crate::codec;
use crate::oracle::Kind;
use ringmain::simulation::{place_in_batch, place_of};
use ringmain::{CallError, CallReply, NotSentReason, Outcome, Receipt, SendError};
use ringmain_proto::{Answer, FatalError, LaneKey, NotSent, Receipt as Told};
use ringmain_wire::EvictionReason;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Wake-ups that one step may bring before it counts as going in circles.
const ROUNDS_MAX: usize = 10_000;

impl World {
    /// Notes a record that was accepted; says which batch it joined, and where.
    pub(super) fn register(&mut self, app: usize, out: RecordOut, receipt: &Receipt) -> (u32, u32) {
        let place = place_in_batch(receipt);
        let it = &mut self.apps[app];
        if place > 0 {
            return (self.join(app, out, place), place);
        }
        let now_us = it.clock_us(self.queue.now_us());
        let sender = &it.senders[out.sender];
        let deadline_us = sender.delivery_us.map(|delivery_us| now_us + delivery_us);
        // The engine waits for progress of the server as long as for a delivery.
        let progress_us = sender.delivery_us.unwrap_or_default();
        let lingers_until_us = now_us + sender.linger_us;
        let partition = it.draws.lanes[out.lane].1;
        let (_, conn, key) =
            place_of(&sender.producer, partition).expect("a lane with a record is open");
        it.lanes[out.lane].place = Some((conn, LaneKey(key)));
        let client = it.first_client + conn;
        let batch = self
            .oracle
            .submitted(client, out.lane, 1, deadline_us, progress_us, out.probe);
        self.firsts.insert(out.number, batch);
        let was_busy = std::mem::take(&mut it.lanes[out.lane].was_busy);
        let is_hurried = it.is_hurried || it.sends_open > 0 || was_busy;
        // What was open before is full, or of another producer or form.
        if let Some(before) = it.lanes[out.lane].last.replace(batch)
            && let Some(before) = it.batches.get_mut(&before)
        {
            (before.is_hurried, before.is_sealed) = (true, true);
        }
        it.lanes[out.lane].unsent.push_back(batch);
        it.batches.insert(
            batch,
            BatchOut {
                lane: out.lane,
                records: vec![out.number],
                payload_bytes: out.bytes,
                lingers_until_us,
                is_hurried,
                is_sealed: false,
                is_sent: false,
                is_told: false,
                deadline_us,
                answers: 0,
                receipt: None,
            },
        );
        self.trace.note(self.queue.now_us(), || {
            format!("app {app}: {out:?} opens batch {batch} of client {client}")
        });
        (batch, 0)
    }

    fn join(&mut self, app: usize, out: RecordOut, place: u32) -> u32 {
        let it = &mut self.apps[app];
        let last = it.lanes[out.lane].last;
        let batch = last.and_then(|batch| it.batches.get_mut(&batch));
        let Some(known) = batch.filter(|batch| batch.records.len() as u32 == place) else {
            self.oracle.blame(Kind::Corrupt, || {
                format!("app {app}: {out:?} has place {place} in batch {last:?}")
            });
            return last.unwrap_or_default();
        };
        let batch = last.expect("found above");
        known.records.push(out.number);
        known.payload_bytes += out.bytes;
        let is_open = !known.is_sent && known.receipt.is_none();
        if !is_open {
            self.oracle.blame(Kind::Corrupt, || {
                format!("app {app}: {out:?} joins batch {batch}, which has left")
            });
        }
        self.oracle.joined(batch);
        self.trace.note(self.queue.now_us(), || {
            format!("app {app}: {out:?} joins batch {batch}")
        });
        batch
    }

    /// Polls whatever was woken, until nothing is.
    pub(super) fn see_answers(&mut self, app: usize) {
        for round in 0.. {
            let woken = self.apps[app].take_woken();
            if woken.is_empty() {
                break;
            }
            for task in woken {
                self.poll_task(app, task);
            }
            if round > ROUNDS_MAX {
                return self.oracle.blame(Kind::NotLive, || {
                    format!("app {app} is woken again and again")
                });
            }
        }
        self.see_purges(app);
    }

    /// Polls a task that is still there.
    pub(super) fn poll_task(&mut self, app: usize, name: u64) {
        let it = &mut self.apps[app];
        let Some(mut task) = it.tasks.remove(&name) else {
            return;
        };
        let waker = it.waker(name);
        let cx = &mut Context::from_waker(&waker);
        match &mut task {
            Task::Answer {
                receipt,
                batch,
                place,
            } => {
                if let Poll::Ready(outcome) = Pin::new(receipt).poll(cx) {
                    let (batch, place) = (*batch, *place);
                    return self.answered(app, batch, place, outcome);
                }
            }
            Task::Send { future, out } => {
                if let Poll::Ready(result) = future.as_mut().poll(cx) {
                    let out = *out;
                    it.sends_open -= 1;
                    return self.sent_at_last(app, out, result);
                }
                // It asked for what lingers to go at once.
                it.hurry();
            }
            Task::Call { future, key } => {
                if let Poll::Ready(result) = future.as_mut().poll(cx) {
                    let key = *key;
                    it.calls_open -= 1;
                    return self.call_answered(app, key, result);
                }
            }
        }
        it.tasks.insert(name, task);
    }

    fn sent_at_last(&mut self, app: usize, out: RecordOut, result: Result<Receipt, SendError>) {
        let it = &self.apps[app];
        match result {
            Ok(receipt) => self.accepted(app, out, receipt),
            Err(SendError::Closed) if it.closing => {}
            Err(SendError::EngineFailed) if it.has_ended => {}
            Err(error) => self.oracle.blame(Kind::DriverRefused, || {
                format!("app {app}: a record that waited for memory is refused: {error}")
            }),
        }
    }

    fn answered(&mut self, app: usize, batch: u32, place: u32, outcome: Outcome) {
        let told = told(outcome, place);
        let now_us = self.queue.now_us();
        let it = &mut self.apps[app];
        let clock_us = it.clock_us(now_us);
        let known = it.batches.get_mut(&batch).expect("kept for the whole run");
        known.answers += 1;
        let lane = known.lane;
        if let Some(before) = known.receipt {
            if before != told {
                self.oracle.blame(Kind::ReceiptTwice, || {
                    format!("batch {batch}: {before:?}, and {told:?} for its record {place}")
                });
            }
            return;
        }
        known.receipt = Some(told);
        it.lanes[lane].unsent.retain(|other| *other != batch);
        let writing = it
            .driver(|driver| driver.is_read(batch))
            .unwrap_or_default();
        self.trace
            .note(now_us, || format!("app {app}: batch {batch} {told:?}"));
        self.oracle.resolved(clock_us, batch, told, writing);
    }

    fn call_answered(&mut self, app: usize, key: u64, result: Result<CallReply, CallError>) {
        let now_us = self.queue.now_us();
        let clock_us = self.apps[app].clock_us(now_us);
        self.trace
            .note(now_us, || format!("app {app}: call {key:#x} {result:?}"));
        let mut echoed = None;
        let answer = match result {
            Ok(reply) if reply.body.is_empty() => Answer::AlreadyApplied,
            Ok(reply) => {
                echoed = codec::read_key(&reply.body);
                Answer::Answered
            }
            Err(CallError::Refused { code, .. }) => Answer::Rejected { code },
            Err(CallError::Evicted { .. }) => Answer::Evicted {
                reason: EvictionReason::NoSession,
            },
            Err(CallError::Login(_)) => Answer::NotSent {
                reason: NotSent::Failed(FatalError::LoginFailed),
            },
            Err(CallError::Closed) => Answer::NotSent {
                reason: NotSent::NumbersExhausted,
            },
            Err(CallError::Timeout { .. } | CallError::NoSession { .. }) => Answer::NotSent {
                reason: NotSent::Deadline,
            },
            Err(CallError::Lost { .. }) => Answer::Unknown { request: 0 },
            Err(error) => {
                return self.oracle.blame(Kind::CallWrong, || {
                    format!("app {app}: call {key:#x} ended with {error}")
                });
            }
        };
        self.oracle.call_resolved(clock_us, key, answer, echoed);
    }

    /// Takes what purges hand back: records that were answered as purged.
    fn see_purges(&mut self, app: usize) {
        let purges = std::mem::take(&mut self.apps[app].purges);
        for purge in purges {
            let Some(records) = purge.take_if_over() else {
                self.apps[app].purges.push(purge);
                continue;
            };
            for (partition, record) in records {
                let number = codec::read_payload(&record.payload);
                let is_purged = number.is_some_and(|number| self.is_purged(app, number));
                if !is_purged {
                    self.oracle.blame(Kind::NoReason, || {
                        format!("app {app}: record {number:?} of partition {partition} came back")
                    });
                }
            }
        }
    }

    fn is_purged(&self, app: usize, number: u32) -> bool {
        let mut batches = self.apps[app].batches.values();
        let batch = batches.find(|batch| batch.records.contains(&number));
        let reason = NotSent::Purged;
        batch.is_some_and(|batch| batch.receipt == Some(Told::NotSent { reason }))
    }
}

/// An answer in the words of the oracle, for the whole batch.
fn told(outcome: Outcome, place: u32) -> Told {
    match outcome {
        Outcome::Stored { partition, offset } => Told::Stored {
            partition_id: partition,
            base_offset: offset.wrapping_sub(u64::from(place)),
        },
        Outcome::StoredOffsetUnknown { .. } => Told::StoredOffsetUnknown,
        Outcome::Rejected { code } => Told::Rejected { code },
        Outcome::NotSent { reason } => Told::NotSent {
            reason: match reason {
                NotSentReason::DeadlineOver => NotSent::Deadline,
                NotSentReason::NotAdmitted => NotSent::Refused,
                NotSentReason::Purged => NotSent::Purged,
                NotSentReason::BehindUnstored => NotSent::BehindUnstored,
                NotSentReason::LoginRefused { .. } => NotSent::Failed(FatalError::LoginFailed),
                // Of an engine that closes, or whose numbers are used up.
                _ => NotSent::NumbersExhausted,
            },
        },
        Outcome::Unknown { request } => Told::Unknown { request },
    }
}
