//! One record from the application into a lane: checks, partition, memory, append; blocking and as
//! a future.
//!
//! Nothing here allocates for a record that is copied, and nothing waits for memory while it holds
//! a lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use ringmain_wire::UserHeaders;

use super::ProducerInner;
use crate::error::SendError;
use crate::gate::{Gate, Stock, Take, Units};
use crate::lane::{Appended, Held, Incoming, Lane, Payload, Time};
use crate::limits;
use crate::receipt::{Backlog, Receipt, Receipts};
use crate::record::Record;
use crate::shard::Slots;
use crate::user_code::{Role, role};

/// How long a send waits for memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    None,
    Until(Instant),
    Unlimited,
}

/// What a record waits for.
enum Lacking {
    Slot,
    Credit(u64),
}

impl ProducerInner {
    pub(super) fn send_record(
        &self,
        record: &mut Record,
        patience: Patience,
    ) -> Result<Receipt, SendError> {
        let key = record.key.take();
        let result = self.send_blocking(
            Payload::Owned(&mut record.payload),
            key.as_deref(),
            record.user_headers.as_deref(),
            (record.id, record.timestamp_us),
            patience,
        );
        record.key = key;
        result
    }

    pub(super) fn send_slice(
        &self,
        payload: &[u8],
        key: Option<&[u8]>,
        patience: Patience,
    ) -> Result<Receipt, SendError> {
        if payload.len() <= self.copied_frame_bytes_max() {
            return self.send_blocking(Payload::Slice(payload), key, None, (None, None), patience);
        }
        self.check_payload(payload.len())?;
        let mut owned = Bytes::copy_from_slice(payload);
        self.send_blocking(
            Payload::Owned(&mut owned),
            key,
            None,
            (None, None),
            patience,
        )
    }

    fn send_blocking(
        &self,
        payload: Payload<'_>,
        key: Option<&[u8]>,
        user_headers: Option<&[u8]>,
        (id, timestamp_us): (Option<u128>, Option<u64>),
        patience: Patience,
    ) -> Result<Receipt, SendError> {
        let time = Time::new(timestamp_us);
        let mut record = self.incoming(payload, user_headers, id, time)?;
        let lane = self.lane_for(record.payload.as_slice(), key)?;
        self.send_to(lane, &mut record, patience)
    }

    fn send_to(
        &self,
        lane: &Arc<Lane>,
        record: &mut Incoming<'_>,
        patience: Patience,
    ) -> Result<Receipt, SendError> {
        self.wait_for_callbacks(lane, patience)?;
        let mut held = Held::default();
        let result = loop {
            match self.attempt(lane, record, &mut held) {
                Ok(Ok(receipt)) => break Ok(receipt),
                Ok(Err(lacking)) => {
                    if let Err(error) = self.wait_for(lane, &lacking, &mut held, patience) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        held.put_back(lane.shard.slots(), &self.engine.credit);
        result
    }

    fn incoming<'a>(
        &'a self,
        payload: Payload<'a>,
        user_headers: Option<&'a [u8]>,
        id: Option<u128>,
        time: Time,
    ) -> Result<Incoming<'a>, SendError> {
        let bytes = payload.as_slice().len();
        self.check_payload(bytes)?;
        let user_headers = match user_headers {
            None => UserHeaders::EMPTY,
            Some(encoded) => UserHeaders::decode(encoded).map_err(|_| SendError::UserHeaders {
                bytes: encoded.len(),
            })?,
        };
        let headers_bytes = user_headers.as_bytes().len();
        let is_owned = matches!(payload, Payload::Owned(_));
        Ok(Incoming {
            by_reference: (is_owned && bytes > self.copy_bytes_max)
                || bytes + headers_bytes > self.copied_frame_bytes_max(),
            payload,
            user_headers,
            id,
            time,
            clock: &self.engine.clock,
        })
    }

    fn check_payload(&self, bytes: usize) -> Result<(), SendError> {
        let credit_max = usize::try_from(self.engine.credit.stock().total()).unwrap_or(usize::MAX);
        let max = limits::PAYLOAD_BYTES_MAX.min(credit_max.max(self.copy_bytes_max));
        if bytes > max {
            return Err(SendError::PayloadTooLarge { bytes, max });
        }
        Ok(())
    }

    /// Payload and user headers that surely fit an empty batch of copied records.
    fn copied_frame_bytes_max(&self) -> usize {
        (self.ledger.settings.batch_bytes_max as usize)
            .saturating_sub(limits::BATCH_OVERHEAD_BYTES_MAX)
    }

    fn lane_for(&self, payload: &[u8], key: Option<&[u8]>) -> Result<&Arc<Lane>, SendError> {
        let partition = self.router.route(&self.topic, payload, key)?;
        self.engine.lane(&self.topic, partition)
    }

    /// Accepts all records of a chunk in order, those that follow each other into one lane under
    /// one lock.
    ///
    /// # Errors
    /// The place of the first record that was not accepted, and why. Those before it have their
    /// receipts.
    pub(super) fn send_chunk(
        &self,
        chunk: &mut [Record],
        receipts: &mut Receipts,
    ) -> Result<(), (usize, SendError)> {
        let route = |record: &Record| self.lane_for(&record.payload, record.key.as_deref());
        let mut now_us = self.engine.clock.calendar_us();
        let mut at = 0;
        // A partitioning that moves on with each record is asked once for each.
        let mut routed = None;
        while at < chunk.len() {
            let lane = match routed.take() {
                Some(lane) => lane,
                None => route(&chunk[at]).map_err(|error| (at, error))?,
            };
            self.wait_for_callbacks(lane, Patience::Unlimited)
                .map_err(|error| (at, error))?;
            let mut run = lane.run(&self.ledger);
            let mut unroutable = None;
            let mut goes_alone = false;
            while at < chunk.len() && unroutable.is_none() && routed.is_none() {
                goes_alone = !self
                    .incoming_of(&mut chunk[at], Time::AcceptedAfter(now_us))
                    .is_ok_and(|mut record| run.join(&mut record));
                if goes_alone {
                    break;
                }
                at += 1;
                if run.is_over() {
                    break;
                }
                match chunk.get(at).map(&route) {
                    Some(Ok(next)) if Arc::ptr_eq(next, lane) => {}
                    Some(Ok(next)) => routed = Some(next),
                    Some(Err(error)) => unroutable = Some(error),
                    None => {}
                }
            }
            run.end(receipts);
            if let Some(error) = unroutable {
                return Err((at, error));
            }
            if goes_alone {
                let receipt = self
                    .incoming_of(&mut chunk[at], Time::Accepted)
                    .and_then(|mut record| self.send_to(lane, &mut record, Patience::Unlimited))
                    .map_err(|error| (at, error))?;
                receipts.push(receipt);
                at += 1;
                // It may have waited, and a batch that it opened begins later than the time known
                // here.
                now_us = self.engine.clock.calendar_us();
            }
        }
        Ok(())
    }

    /// A record of its owner; `time` is its time unless it has one.
    fn incoming_of<'a>(
        &'a self,
        record: &'a mut Record,
        time: Time,
    ) -> Result<Incoming<'a>, SendError> {
        self.incoming(
            Payload::Owned(&mut record.payload),
            record.user_headers.as_deref(),
            record.id,
            record.timestamp_us.map_or(time, Time::Given),
        )
    }

    /// One attempt to append; says what is lacking when there is not enough memory.
    fn attempt(
        &self,
        lane: &Arc<Lane>,
        record: &mut Incoming<'_>,
        held: &mut Held,
    ) -> Result<Result<Receipt, Lacking>, SendError> {
        if record.by_reference && held.credit_bytes == 0 {
            let bytes = record.payload.as_slice().len().max(1) as u64;
            match self.engine.credit.try_take(bytes) {
                Some(credit) => held.credit_bytes = credit,
                None => return Ok(Err(Lacking::Credit(bytes))),
            }
        }
        Ok(match lane.append(&self.ledger, record, held)? {
            Appended::Accepted(receipt) => Ok(receipt),
            Appended::NeedsSlot => Err(Lacking::Slot),
        })
    }

    /// Waits until callbacks that have not run leave room for another record.
    fn wait_for_callbacks(&self, lane: &Lane, patience: Patience) -> Result<(), SendError> {
        let callbacks = &self.engine.callbacks;
        while !callbacks.has_room() {
            if self
                .wait_at(callbacks.room(), (), lane, patience)?
                .is_some()
            {
                break;
            }
        }
        Ok(())
    }

    fn wait_for(
        &self,
        lane: &Lane,
        lacking: &Lacking,
        held: &mut Held,
        patience: Patience,
    ) -> Result<(), SendError> {
        match *lacking {
            Lacking::Slot => held.slot = self.wait_at(lane.shard.slots(), (), lane, patience)?,
            Lacking::Credit(bytes) => {
                let credit = self.wait_at(&self.engine.credit, bytes, lane, patience)?;
                held.credit_bytes = credit.unwrap_or(0);
            }
        }
        Ok(())
    }

    /// Waits at a gate. `None` when nothing came of it but another attempt may bring something.
    fn wait_at<S: Stock>(
        &self,
        gate: &Gate<S>,
        want: S::Want,
        lane: &Lane,
        patience: Patience,
    ) -> Result<Option<S::Grant>, SendError> {
        self.engine.hurry();
        let deadline = match patience {
            Patience::None => return Err(SendError::Full),
            Patience::Until(deadline) => Some(deadline),
            Patience::Unlimited => None,
        };
        if role() == Role::Shard {
            return Err(SendError::OnShardThread);
        }
        let granted = gate.take_blocking(want, deadline, || lane.shard.has_ended());
        if granted.is_none() {
            if let Some(error) = self.why_refused(lane) {
                return Err(error);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(SendError::DeadlineOver);
            }
            // Neither: another shard ended, and had everybody look again.
        }
        Ok(granted)
    }

    /// Why a wait for memory can bring none; `None` when it may.
    fn why_refused(&self, lane: &Lane) -> Option<SendError> {
        if self.engine.is_closed() || self.ledger.is_closed() {
            Some(SendError::Closed)
        } else if lane.shard.has_ended() {
            Some(SendError::EngineFailed)
        } else {
            None
        }
    }
}

/// A send that waits for memory as a future.
pub(crate) struct SendFuture {
    producer: Arc<ProducerInner>,
    /// `None` once the future was ready.
    record: Option<Record>,
    /// The lane, once it was picked.
    partition: Option<u32>,
    held: Held,
    wait: Wait,
    /// Callbacks left room for it once.
    is_past_callbacks: bool,
}

enum Wait {
    /// For nothing that is known yet.
    None,
    Callbacks(Take<Backlog>),
    Slot(Take<Slots>),
    Credit(Take<Units>),
}

impl Wait {
    /// Ready when it is worth another attempt; what was granted is in `held` then.
    fn poll(&mut self, cx: &mut Context<'_>, held: &mut Held) -> Poll<()> {
        match self {
            Self::None => {}
            Self::Callbacks(take) => drop(ready!(Pin::new(take).poll(cx))),
            Self::Slot(take) => held.slot = ready!(Pin::new(take).poll(cx)),
            Self::Credit(take) => {
                held.credit_bytes = ready!(Pin::new(take).poll(cx)).unwrap_or(0);
            }
        }
        Poll::Ready(())
    }
}

impl SendFuture {
    pub(super) fn new(producer: Arc<ProducerInner>, record: Record) -> Self {
        Self {
            producer,
            record: Some(record),
            partition: None,
            held: Held::default(),
            wait: Wait::None,
            is_past_callbacks: false,
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Receipt, SendError>> {
        let producer = Arc::clone(&self.producer);
        let record = self
            .record
            .as_mut()
            .expect("a send is polled until it is ready, and not after");
        let key = record.key.as_deref();
        let mut incoming = producer.incoming(
            Payload::Owned(&mut record.payload),
            record.user_headers.as_deref(),
            record.id,
            Time::new(record.timestamp_us),
        )?;
        let lane = match self.partition {
            Some(partition) => producer.engine.lane(&producer.topic, partition)?,
            None => producer.lane_for(incoming.payload.as_slice(), key)?,
        };
        self.partition = Some(lane.partition);
        if !std::mem::replace(&mut self.is_past_callbacks, true)
            && !producer.engine.callbacks.has_room()
        {
            let room = Arc::clone(producer.engine.callbacks.room());
            self.wait = Wait::Callbacks(Take::new(room, ()));
        }
        loop {
            let is_pending = self.wait.poll(cx, &mut self.held).is_pending();
            // After the waker is in place: a shard that ends from now on wakes it.
            if let Some(error) = producer.why_refused(lane) {
                self.wait = Wait::None;
                return Poll::Ready(Err(error));
            }
            if is_pending {
                return Poll::Pending;
            }
            self.wait = Wait::None;
            match producer.attempt(lane, &mut incoming, &mut self.held)? {
                Ok(receipt) => return Poll::Ready(Ok(receipt)),
                Err(lacking) => {
                    producer.engine.hurry();
                    self.wait = match lacking {
                        Lacking::Slot => Wait::Slot(Take::new(Arc::clone(lane.shard.slots()), ())),
                        Lacking::Credit(bytes) => {
                            Wait::Credit(Take::new(Arc::clone(&producer.engine.credit), bytes))
                        }
                    };
                }
            }
        }
    }

    fn put_back(&mut self) {
        if let Some(lane) = self
            .partition
            .and_then(|partition| self.producer.topic.lane(partition))
        {
            self.held
                .put_back(lane.shard.slots(), &self.producer.engine.credit);
        }
    }
}

impl Future for SendFuture {
    type Output = Result<Receipt, SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ready = ready!(self.poll_send(cx));
        self.record = None;
        self.put_back();
        Poll::Ready(ready)
    }
}

impl Drop for SendFuture {
    fn drop(&mut self) {
        self.put_back();
    }
}
