//! The applications: what they ask of their engines, and when.

use super::app::{RecordOut, Task};
use super::shard_side::Turned;
use super::{Event, World};
use crate::codec;
use crate::oracle::Kind;
use ringmain::simulation::{Flush, Point, Purge, begin_close, interleave};
use ringmain::{Call, Receipt, Record, Refused, SendError};
use ringmain_wire::{CommandCode, Operation};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// What an application waits at least when it has no memory left, in microseconds.
const BLOCKED_US: u64 = 2_000;

/// Records that wait for memory at once.
const WAITING_MAX: u32 = 6;

/// Chances in a million that an application goes on behind what it lost in strict order, in one
/// step.
const RESUME_PPM: u32 = 100_000;

/// Chances in a million that a step flushes.
const FLUSH_PPM: u32 = 20_000;

/// Chances in a million that a record that waits for memory is given up in one step.
const DROP_PPM: u32 = 30_000;

/// How long a call without a deadline may take.
const CALL_PATIENCE_US: u64 = 86_400_000_000;

/// Metadata operations that applications call. To the model broker they are all alike.
const METADATA: [Operation; 4] = [
    Operation::CreateStream,
    Operation::CreateTopic,
    Operation::CreatePartitions,
    Operation::DeleteTopic,
];

/// What came of an attempt to hand a record over.
enum Sent {
    Accepted,
    Waits,
    Refused,
}

impl World {
    /// One step of an application.
    pub(super) fn work(&mut self, app: usize) {
        let it = &mut self.apps[app];
        it.work_done |=
            it.is_over() || it.records_sent >= it.draws.batches || self.faults.stopped();
        if it.work_done {
            return self.close_early(app);
        }
        self.resume_some(app);
        self.drop_some(app);
        let it = &mut self.apps[app];
        let (calls_ppm, purge_ppm) = (it.draws.calls_ppm, it.draws.purge_ppm);
        if it.rng.chance(calls_ppm) {
            let deadline_us = self.draw_call_us(app);
            let read = self.apps[app].rng.chance(400_000);
            self.call(app, deadline_us, read);
        } else {
            self.burst(app);
        }
        if self.apps[app].rng.chance(purge_ppm) {
            self.purge(app);
        }
        if self.apps[app].rng.chance(FLUSH_PPM) {
            self.flush(app);
        }
        self.see_answers(app);
        self.look_after(app);
        let it = &mut self.apps[app];
        let mut pause_us = it.rng.scaled(0, it.draws.pause_us_max);
        if it.sends_open > 0 {
            pause_us += BLOCKED_US;
        }
        self.queue.push_after(pause_us, Event::Work { app });
    }

    /// Sooner or later an application goes on behind what it lost in strict order.
    fn resume_some(&mut self, app: usize) {
        let it = &mut self.apps[app];
        if it.draws.strict && it.rng.chance(RESUME_PPM) {
            self.resume(app);
        }
    }

    fn resume(&mut self, app: usize) {
        self.trace
            .note(self.queue.now_us(), || format!("app {app}: resume"));
        let it = &mut self.apps[app];
        it.senders
            .iter()
            .for_each(|sender| sender.producer.resume());
        // It seals what is open in lanes that were halted.
        it.hurry();
        for (lane, out) in it.lanes.iter().enumerate() {
            if let Some((conn, _)) = out.place {
                self.oracle.resumed(it.first_client + conn, lane);
            }
        }
    }

    /// An application may give a record up that waits for memory.
    fn drop_some(&mut self, app: usize) {
        let it = &mut self.apps[app];
        if !it.rng.chance(DROP_PPM) {
            return;
        }
        let mut tasks = it.tasks.iter();
        let waiting = tasks.find(|(_, task)| matches!(task, Task::Send { .. }));
        if let Some(task) = waiting.map(|(task, _)| *task) {
            it.tasks.remove(&task);
            it.sends_open -= 1;
            self.trace.note(self.queue.now_us(), || {
                format!("app {app}: gave up a record that waited")
            });
        }
    }

    fn draw_call_us(&mut self, app: usize) -> u64 {
        let it = &mut self.apps[app];
        if it.rng.chance(it.draws.patient_ppm) {
            return CALL_PATIENCE_US;
        }
        let (low, high) = it.draws.delivery_us;
        it.rng.scaled(low, high)
    }

    /// A producer for a topic, of drawn patience.
    pub(super) fn draw_sender(&mut self, app: usize, topic: u32) -> usize {
        let it = &mut self.apps[app];
        let patient = it.rng.chance(it.draws.patient_ppm);
        let hasty = it.rng.chance(500_000);
        // Two are alike, and share requests. A purge of one would take those of the other apart.
        let second = usize::from(hasty && it.draws.purge_ppm == 0);
        let place = if patient {
            2 + second
        } else {
            usize::from(!hasty)
        };
        let mut of_topic = it.senders.iter().enumerate();
        of_topic
            .by_ref()
            .filter(|(_, sender)| sender.topic == topic)
            .nth(place)
            .expect("a topic has four producers")
            .0
    }

    fn burst(&mut self, app: usize) {
        let it = &mut self.apps[app];
        let count = it.rng.between(1, u64::from(it.draws.burst));
        let lanes = it.draws.lanes.len() as u64;
        for _ in 0..count {
            let it = &mut self.apps[app];
            if it.records_sent >= it.draws.batches {
                break;
            }
            let lane = it.rng.below(lanes) as usize;
            let topic = it.draws.lanes[lane].0;
            let sender = self.draw_sender(app, topic);
            match self.send(app, lane, sender, false) {
                Sent::Accepted | Sent::Waits => self.apps[app].records_sent += 1,
                Sent::Refused => break,
            }
        }
    }

    /// A record with its number.
    pub(super) fn make_record(
        &mut self,
        app: usize,
        lane: usize,
        sender: usize,
        probe: bool,
    ) -> (RecordOut, Record) {
        let number = self.record_next;
        self.record_next += 1;
        let it = &mut self.apps[app];
        let bytes = it.rng.scaled(0, it.draws.payload_bytes_max) as usize;
        let partition = it.draws.lanes[lane].1;
        let payload = codec::payload(number, bytes);
        let out = RecordOut {
            number,
            lane,
            sender,
            bytes: payload.len(),
            probe,
        };
        let record = Record::new(payload).key(partition.to_le_bytes().to_vec());
        (out, record)
    }

    /// Hands a record over, if there is memory for it, or has it wait.
    fn send(&mut self, app: usize, lane: usize, sender: usize, probe: bool) -> Sent {
        let (out, record) = self.make_record(app, lane, sender, probe);
        let (result, turned) = self.try_send(app, out, record);
        self.apps[app].lanes[lane].was_busy |= turned.is_some();
        // The turn came before a refusal, and may have sent what was accepted.
        let refused = match result {
            Ok(receipt) => {
                self.accepted(app, out, receipt);
                None
            }
            Err(refused) => {
                // The attempt may have sealed what was open, to make room for its record.
                let it = &mut self.apps[app];
                if let Some(last) = it.lanes[lane].last {
                    let batch = it.batches.get_mut(&last);
                    batch.expect("kept for the whole run").is_hurried = true;
                }
                Some(refused)
            }
        };
        if let Some(turned) = turned {
            self.turned(app, turned);
        }
        match refused {
            Some(refused) => self.refused(app, out, *refused),
            None => Sent::Accepted,
        }
    }

    fn refused(&mut self, app: usize, out: RecordOut, refused: Refused) -> Sent {
        let Refused { error, record, .. } = refused;
        let it = &mut self.apps[app];
        match error {
            SendError::Full => {
                // It asked for what lingers to go at once.
                it.hurry();
                if !out.probe && (it.sends_open >= WAITING_MAX || it.rng.chance(300_000)) {
                    return Sent::Refused;
                }
                let future = it.senders[out.sender].producer.send_async(record);
                let (task, _) = it.task_name();
                let future = Box::pin(future);
                it.tasks.insert(task, Task::Send { future, out });
                it.sends_open += 1;
                self.poll_task(app, task);
                Sent::Waits
            }
            SendError::Closed if it.closing => Sent::Refused,
            SendError::EngineFailed if it.has_ended => Sent::Refused,
            error => {
                self.oracle.blame(Kind::DriverRefused, || {
                    format!("app {app}: a record is refused: {error}")
                });
                Sent::Refused
            }
        }
    }

    /// One attempt. The shard may turn while the appender holds the lane.
    fn try_send(
        &mut self,
        app: usize,
        out: RecordOut,
        record: Record,
    ) -> (Result<Receipt, Box<Refused>>, Option<Turned>) {
        let it = &mut self.apps[app];
        let interrupted =
            it.rng.chance(it.draws.interleave_ppm) && it.paused_us <= self.queue.now_us();
        let producer = it.senders[out.sender].producer.clone();
        if !interrupted || it.has_ended {
            return (producer.try_send(record), None);
        }
        // Every answer has its waker before a turn may give it.
        self.see_answers(app);
        let it = &mut self.apps[app];
        let shard = Rc::clone(&it.shard);
        let turned = Rc::new(RefCell::new(None));
        let outcome = Rc::clone(&turned);
        let other = move |point| {
            if point == Point::Queued && outcome.borrow().is_none() {
                let mut shard = shard.borrow_mut();
                if let Some(driver) = shard.driver() {
                    driver.wake_up();
                    *outcome.borrow_mut() = Some(shard.turn());
                }
            }
        };
        let result = interleave(other, || producer.try_send(record));
        let turned = turned.borrow_mut().take();
        (result, turned)
    }

    /// Registers a record and waits for its answer.
    pub(super) fn accepted(&mut self, app: usize, out: RecordOut, receipt: Receipt) {
        let (batch, place) = self.register(app, out, &receipt);
        let (task, waker) = self.apps[app].task_name();
        let answer = Task::Answer {
            receipt,
            batch,
            place,
        };
        self.apps[app].tasks.insert(task, answer);
        // Polled behind those that were woken before.
        waker.wake();
    }

    fn call(&mut self, app: usize, timeout_us: u64, read: bool) {
        let it = &mut self.apps[app];
        if it.calls_open >= super::app::CALLS_MAX - 1 {
            return;
        }
        let unique = (app as u64 + 1) << 32 | u64::from(it.calls_made);
        let body = unique.to_le_bytes().to_vec();
        let call = if read {
            Call::read(CommandCode::GET_TOPIC.0, body)
        } else {
            let operation = *it.rng.pick(&METADATA);
            Call::replicated(operation.as_u8(), body)
        };
        it.calls_made += 1;
        it.calls_open += 1;
        let now_us = self.queue.now_us();
        let client = it.first_client;
        let deadline_us =
            (timeout_us != CALL_PATIENCE_US).then_some(it.clock_us(now_us) + timeout_us);
        self.trace
            .note(now_us, || format!("app {app}: called {unique:#x}"));
        self.oracle.called(client, unique, read, deadline_us);
        let engine = it.engine.clone();
        let timeout = Duration::from_micros(timeout_us);
        let future = Box::pin(async move { engine.call_async(call, timeout).await });
        let (task, _) = it.task_name();
        let call = Task::Call {
            future,
            key: unique,
        };
        it.tasks.insert(task, call);
        self.poll_task(app, task);
    }

    fn purge(&mut self, app: usize) {
        self.trace
            .note(self.queue.now_us(), || format!("app {app}: purge"));
        let it = &mut self.apps[app];
        for conn in 0..it.conns.len() {
            self.oracle.purged(it.first_client + conn);
        }
        let sender = it.rng.below(it.senders.len() as u64) as usize;
        it.seal(Some(it.senders[sender].topic));
        let purge = Purge::begin(&it.senders[sender].producer);
        it.purges.push(purge);
    }

    fn flush(&mut self, app: usize) {
        let it = &mut self.apps[app];
        let sender = it.rng.below(it.senders.len() as u64) as usize;
        let topic = it.senders[sender].topic;
        it.seal(Some(topic));
        let flush = Flush::begin(&it.senders[sender].producer);
        let is_open = it
            .batches
            .values()
            .any(|batch| batch.receipt.is_none() && it.draws.lanes[batch.lane].0 == topic);
        if flush.is_over() == is_open {
            self.oracle.blame(Kind::NoReason, || {
                format!(
                    "app {app}: a flush is over: {}, and it waits: {is_open}",
                    flush.is_over()
                )
            });
        }
    }

    /// Sends a record on every lane of every application, and makes a metadata call. In the first
    /// round a client may find out that it lost its session; in the last round everything must be
    /// stored.
    pub(super) fn probe(&mut self, last: bool) {
        for app in 0..self.apps.len() {
            if self.apps[app].is_over() {
                continue;
            }
            self.call(app, CALL_PATIENCE_US, false);
            if self.apps[app].draws.strict {
                self.resume(app);
            }
            for lane in 0..self.apps[app].draws.lanes.len() {
                let topic = self.apps[app].draws.lanes[lane].0;
                let mut senders = self.apps[app].senders.iter();
                let patient = senders
                    .position(|sender| sender.topic == topic && sender.delivery_us.is_none());
                let patient = patient.expect("one of each topic's producers");
                self.send(app, lane, patient, last);
            }
            self.see_answers(app);
            self.look_after(app);
        }
    }

    /// Closes an application whose work is done, if it is one that does not wait for answers.
    pub(super) fn close_early(&mut self, app: usize) {
        let it = &mut self.apps[app];
        it.work_done = true;
        if it.draws.closes_early && !it.closing {
            let patience_us = it.rng.scaled(0, 10_000_000);
            self.close_app(app, patience_us);
        }
    }

    /// Closes an application; it may take so long to answer for what is open.
    pub(super) fn close_app(&mut self, app: usize, patience_us: u64) {
        let now_us = self.now_us();
        self.trace.note(now_us, || {
            format!("app {app}: close within {patience_us} us")
        });
        let it = &mut self.apps[app];
        if it.closing {
            return;
        }
        it.closing = true;
        it.work_done = true;
        let deadline_us = it.clock_us(now_us) + patience_us;
        it.seal(None);
        begin_close(&it.engine, Duration::from_micros(patience_us));
        for conn in 0..it.conns.len() {
            self.oracle.closing(it.first_client + conn, deadline_us);
        }
        self.see_answers(app);
        self.look_after(app);
    }
}
