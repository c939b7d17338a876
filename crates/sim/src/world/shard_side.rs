//! The shards: when they turn, and what the oracle sees of a turn.

use super::app::Socket;
use super::{Event, World};
use crate::codec;
use crate::kernel::Order;
use crate::oracle::Kind;
use ringmain::simulation::{Point, interleave};
use ringmain_io::driver::DriverError;
use ringmain_proto::{Reply, SessionState, Verdict};
use ringmain_wire::frame::{FrameDecoder, Inbound, InboundRequest};
use ringmain_wire::{EvictionReason, Operation, Plane};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Where an appender may come between two steps of a shard.
const POINTS: [Point; 4] = [
    Point::Reopened,
    Point::FoundFull,
    Point::TookQueues,
    Point::FreedMemory,
];

/// What a turn came to.
pub(super) type Turned = Result<Option<Duration>, DriverError>;

impl World {
    /// Has a shard turn at `at_us`, if it does not before.
    pub(super) fn turn_at(&mut self, app: usize, at_us: u64) {
        let it = &mut self.apps[app];
        let at_us = at_us.max(it.paused_us);
        if it.has_ended || it.turn_at_us.is_some_and(|known_us| known_us <= at_us) {
            return;
        }
        it.turn_at_us = Some(at_us);
        it.ticket += 1;
        let ticket = it.ticket;
        self.queue.push(at_us, Event::Turn { app, ticket });
    }

    /// Has a shard turn soon if something ends its sleep.
    pub(super) fn look_after(&mut self, app: usize) {
        let is_called =
            self.apps[app].driver(|driver| driver.is_asleep().then(|| driver.is_called()));
        let is_called = is_called.flatten();
        match is_called {
            Some(true) => self.turn_soon(app),
            // It turns at this instant anyway, or as soon as it is scheduled.
            Some(false) if self.apps[app].turn_at_us == Some(self.queue.now_us()) => {}
            Some(false) if self.apps[app].paused_us > self.queue.now_us() => {}
            Some(false) => self.check_asleep(app, false),
            None => {}
        }
    }

    fn turn_soon(&mut self, app: usize) {
        let it = &mut self.apps[app];
        let delay_us = it.rng.scaled(0, it.draws.turn_us_max);
        self.turn_at(app, self.queue.now_us() + delay_us);
    }

    pub(super) fn turn(&mut self, app: usize) {
        let now_us = self.now_us();
        let it = &mut self.apps[app];
        it.turn_at_us = None;
        if it.paused_us > now_us {
            return self.turn_at(app, now_us);
        }
        it.driver(|driver| driver.wake_up());
        let is_working = !it.work_done && !it.closing;
        if is_working && it.rng.chance(it.draws.interleave_ppm) {
            return self.turn_beside_an_appender(app);
        }
        let turned = it.shard.borrow_mut().turn();
        self.turned(app, turned);
    }

    /// A turn with an append between two of its steps.
    fn turn_beside_an_appender(&mut self, app: usize) {
        let it = &mut self.apps[app];
        let lanes = it.draws.lanes.len() as u64;
        let lane = it.rng.below(lanes) as usize;
        let point = *it.rng.pick(&POINTS);
        let topic = it.draws.lanes[lane].0;
        let sender = self.draw_sender(app, topic);
        let (out, record) = self.make_record(app, lane, sender, false);
        let it = &mut self.apps[app];
        let producer = it.senders[sender].producer.clone();
        let result = Rc::new(RefCell::new(None));
        let accepted = Rc::clone(&result);
        let mut record = Some(record);
        let other = move |passed| {
            if passed == point
                && let Some(record) = record.take()
            {
                *accepted.borrow_mut() = Some(producer.try_send(record));
            }
        };
        let shard = Rc::clone(&it.shard);
        let turned = interleave(other, || shard.borrow_mut().turn());
        let result = result.borrow_mut().take();
        let is_refused = matches!(result, Some(Err(_)));
        if is_refused {
            // It asked for what lingers to go at once: in this turn, or in the next.
            self.apps[app].hurry();
        }
        if let Some(Ok(receipt)) = result {
            self.apps[app].records_sent += 1;
            self.accepted(app, out, receipt);
        }
        self.turned(app, turned);
        if is_refused {
            self.apps[app].hurry();
        }
    }

    /// A shard has turned: first what it learnt, then its answers, then what it ordered.
    pub(super) fn turned(&mut self, app: usize, turned: Turned) {
        self.apps[app].is_hurried = false;
        self.trace.note(self.queue.now_us(), || {
            format!("app {app}: its shard turned, {turned:?}")
        });
        self.see_handed(app);
        self.see_clients(app);
        let timeout = match turned {
            Ok(Some(timeout)) => timeout,
            Ok(None) => {
                self.apps[app].has_ended = true;
                self.trace.note(self.queue.now_us(), || {
                    format!("app {app}: its shard ended")
                });
                return self.see_answers(app);
            }
            Err(error) => {
                return self.oracle.blame(Kind::DriverRefused, || {
                    format!("app {app}: a driver that never fails failed: {error}")
                });
            }
        };
        self.see_answers(app);
        let orders = self.apps[app].driver(|driver| driver.take_orders());
        for order in orders.into_iter().flatten() {
            match order {
                Order::Connect { conn } => self.connect(app, conn),
                Order::Close { conn } => self.close(app, conn),
                Order::Write { conn, bytes } => self.see_write(app, conn, &bytes),
            }
        }
        self.check(app);
        let is_asleep = self.apps[app].driver(|driver| driver.is_asleep() && !driver.is_called());
        if is_asleep == Some(true) {
            let timeout_us = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
            self.turn_at(app, self.queue.now_us().saturating_add(timeout_us));
        } else {
            self.turn_soon(app);
        }
    }

    /// Reads along what the shard was handed: evictions, and the trace.
    fn see_handed(&mut self, app: usize) {
        let handed = self.apps[app].driver(|driver| driver.take_handed());
        for (conn, bytes) in handed.into_iter().flatten() {
            let it = &mut self.apps[app].conns[conn];
            let mut tap = std::mem::take(&mut it.tap);
            let mut input = &bytes[..];
            loop {
                match tap.next_inbound(&mut input) {
                    Ok(Some(inbound)) => self.see_inbound(app, conn, &inbound),
                    Ok(None) => break,
                    Err(error) => {
                        self.oracle
                            .blame(Kind::Corrupt, || format!("a frame of the broker: {error}"));
                        break;
                    }
                }
            }
            self.apps[app].conns[conn].tap = tap;
        }
    }

    fn see_inbound(&mut self, app: usize, conn: usize, inbound: &Inbound<'_>) {
        let now_us = self.queue.now_us();
        let client = self.apps[app].first_client + conn;
        match inbound {
            Inbound::Reply(reply) => {
                let reply = Reply::decode(reply).map(|(reply, _)| reply);
                self.trace
                    .note(now_us, || format!("client {client} <- {reply:?}"));
                if let Ok(reply) = reply
                    && reply.operation == Operation::SendMessages
                {
                    self.see_reply(app, conn, &reply);
                }
            }
            Inbound::Eviction(eviction) => {
                let reason = eviction.reason();
                self.trace
                    .note(now_us, || format!("client {client} <- eviction: {reason}"));
                // What follows on the same connection says nothing new.
                let is_first = !std::mem::replace(&mut self.apps[app].conns[conn].evicted, true);
                if is_first && reason == EvictionReason::NoSession {
                    self.oracle.told_forgotten(client);
                }
            }
            Inbound::Foreign { command, .. } => {
                self.oracle.blame(Kind::Corrupt, || {
                    format!("the broker sent command {command}")
                });
            }
        }
    }

    /// An answer to a send is progress of the server.
    fn see_reply(&mut self, app: usize, conn: usize, reply: &Reply) {
        let it = &mut self.apps[app];
        let clock_us = it.clock_us(self.queue.now_us());
        let is_stored = matches!(reply.verdict, Verdict::Confirmed { .. } | Verdict::Success);
        let batch = it.requests.get(&(conn, reply.request)).copied();
        // Its first answer: what decided it is not told before the kernel has let go of its memory.
        let batch = batch.filter(|batch| {
            let known = it.batches.get_mut(batch).expect("kept for the whole run");
            is_stored && known.receipt.is_none() && !std::mem::replace(&mut known.is_told, true)
        });
        self.oracle.heard(it.first_client + conn, batch, clock_us);
    }

    /// Tells the oracle why a client may answer without having tried, and of new sessions.
    fn see_clients(&mut self, app: usize) {
        for conn in 0..self.apps[app].conns.len() {
            let view = self.apps[app].view(conn);
            let client = self.apps[app].first_client + conn;
            if view.fatal.is_some() {
                self.oracle.failed(client);
            }
            if view.is_exhausted() {
                self.oracle.exhausted(client);
            }
            let known = &mut self.apps[app].conns[conn].logins;
            if view.stats.logins != *known {
                *known = view.stats.logins;
                // Lost again within the same turn: then nothing was sent under it.
                if let (SessionState::Active, Some(epoch)) = (view.state, view.session) {
                    self.oracle.logged_in(client, epoch);
                }
            }
        }
    }

    /// Looks into a write, and has the kernel take it.
    fn see_write(&mut self, app: usize, conn: usize, bytes: &[u8]) {
        let Socket::Up { net } = self.apps[app].conns[conn].socket else {
            return self.oracle.blame(Kind::DriverRefused, || {
                format!("app {app}: a write on connection {conn}, which is not up")
            });
        };
        let mut decoder = FrameDecoder::new();
        let mut input = bytes;
        let mut batches = Vec::new();
        loop {
            match decoder.next_request(&mut input) {
                Ok(Some(InboundRequest::Request(request))) => {
                    let (header, body) = (request.header, request.body);
                    let operation = Operation::from_u8(header.operation_byte());
                    let request = header.request();
                    match operation {
                        Some(Operation::SendMessages) => {
                            batches.extend(self.see_batch(app, (conn, net), request, body));
                        }
                        Some(operation) => self.see_other(app, conn, operation, request, body),
                        None => {}
                    }
                }
                Ok(None) => break,
                Ok(Some(InboundRequest::Foreign { .. })) | Err(_) => {
                    self.oracle.blame(Kind::Malformed, || {
                        format!("app {app}: a write that is no sequence of frames")
                    });
                    break;
                }
            }
        }
        self.apps[app].driver(|driver| driver.tag(conn, batches));
        self.schedule_take(app, conn);
    }

    fn see_batch(
        &mut self,
        app: usize,
        (conn, net): (usize, usize),
        request: u64,
        body: &[u8],
    ) -> Option<u32> {
        let (view, numbers) = match codec::read_records(body) {
            Ok(read) => read,
            Err(why) => {
                self.oracle
                    .blame(Kind::Malformed, || format!("app {app} sends {why}"));
                return None;
            }
        };
        let now_us = self.queue.now_us();
        let Some(&batch) = self.firsts.get(&view.batch) else {
            self.oracle.blame(Kind::Corrupt, || {
                format!(
                    "app {app} sends a batch that begins with record {}",
                    view.batch
                )
            });
            return None;
        };
        self.trace.note(now_us, || {
            format!("app {app} -> batch {batch}, request {request}, records {numbers:?}")
        });
        let it = &mut self.apps[app];
        let clock_us = it.clock_us(now_us);
        let Some(known) = it.batches.get_mut(&batch) else {
            self.oracle.blame(Kind::Corrupt, || {
                format!("app {app} sends batch {batch} of another")
            });
            return None;
        };
        if known.records != numbers {
            let records = known.records.clone();
            self.oracle.blame(Kind::Corrupt, || {
                format!("batch {batch} has records {records:?} and is sent with {numbers:?}")
            });
        }
        if !std::mem::replace(&mut known.is_sent, true) {
            let early = is_early(known, it.draws.batch_records_max, clock_us);
            let until_us = known.lingers_until_us;
            it.lanes[known.lane].unsent.retain(|other| *other != batch);
            if early {
                self.oracle.blame(Kind::LingerBroken, || {
                    format!("batch {batch} lingers until {until_us} and is sent at {clock_us}")
                });
            }
        }
        it.requests.insert((conn, request), batch);
        self.oracle.sent(net, batch, request, clock_us);
        Some(batch)
    }

    fn see_other(
        &mut self,
        app: usize,
        conn: usize,
        operation: Operation,
        request: u64,
        body: &[u8],
    ) {
        let now_us = self.queue.now_us();
        self.trace.note(now_us, || {
            format!("app {app}, connection {conn} -> {operation}, request {request}")
        });
        let is_call = matches!(operation.plane(), Plane::Metadata | Plane::NonReplicated);
        // Questions about topics that the engine asks for itself have another body.
        if let (true, Some(key)) = (is_call, codec::read_key(body)) {
            self.oracle.call_sent(key, request);
        }
    }
}

/// How long before its deadline a batch may be taken out of its linger.
const EXPIRING_US: u64 = 60_000;

/// Bytes of payloads and their headers from which a batch may be full.
const FULL_BYTES: usize = 2_000;

/// Bytes of a message's header, at most.
const MESSAGE_BYTES: usize = 64;

/// Whether a batch is sent before its linger is over, for no reason that is known.
fn is_early(batch: &super::app::BatchOut, records_max: u32, clock_us: u64) -> bool {
    let bytes = batch.payload_bytes + batch.records.len() * MESSAGE_BYTES;
    let is_full = batch.records.len() as u32 >= records_max || bytes >= FULL_BYTES;
    let is_expiring = batch
        .deadline_us
        .is_some_and(|deadline_us| deadline_us <= clock_us + EXPIRING_US);
    clock_us < batch.lingers_until_us && !is_full && !is_expiring && !batch.is_hurried
}
