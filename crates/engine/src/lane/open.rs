//! The batch that a lane is filling, and what one record brings along.
//!
//! Used under the lane's lock only. A batch holds records of one producer: copied into the slot, or
//! by reference with only their headers in the slot, in any order.

use std::sync::Arc;

use bytes::Bytes;
use ringmain_proto::Micros;
use ringmain_wire::batch::{AppendError, MESSAGE_HEADER_BYTES, Referenced};
use ringmain_wire::{BatchWriter, MessageIdGenerator, RecordParts, UserHeaders};

use super::Lane;
use crate::batch::{Body, PayloadList, SealedBatch};
use crate::clock::Clock;
use crate::error::SendError;
use crate::gate::{Gate, Units};
use crate::ledger::Ledger;
use crate::limits;
use crate::owed::Owed;
use crate::receipt::{BatchCell, CellPool};
use crate::shard::Slots;
use crate::topic::Life;
use ringmain_io::memory::SlotToken;

/// A record on its way into a lane.
pub(crate) struct Incoming<'a> {
    pub(crate) payload: Payload<'a>,
    pub(crate) user_headers: UserHeaders<'a>,
    pub(crate) id: Option<u128>,
    pub(crate) time: Time,
    /// Travels by reference. Its payload is `Owned` then.
    pub(crate) by_reference: bool,
    /// Stamps the record if it has no time of its own.
    pub(crate) clock: &'a Clock,
}

/// When a record happened, in microseconds since the Unix epoch.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    /// The application says so. Kept as it is.
    Given(u64),
    /// When it is accepted, which is not earlier than this.
    AcceptedAfter(u64),
    /// When it is accepted.
    Accepted,
}

impl Time {
    pub(crate) fn new(given_us: Option<u64>) -> Self {
        given_us.map_or(Self::Accepted, Self::Given)
    }

    /// The record's time in a batch whose earliest record is of `origin_us`. One that is accepted
    /// now was accepted after that one, even if the clock was set back or looked at before it.
    fn resolve(self, clock: &Clock, origin_us: u64) -> u64 {
        match self {
            Self::Given(us) => us,
            Self::AcceptedAfter(us) => us.max(origin_us),
            Self::Accepted => clock.calendar_us().max(origin_us),
        }
    }
}

/// Where a payload is.
pub(crate) enum Payload<'a> {
    Slice(&'a [u8]),
    /// Emptied when the record is accepted by reference.
    Owned(&'a mut Bytes),
}

impl Payload<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Slice(slice) => slice,
            Self::Owned(bytes) => bytes,
        }
    }

    fn take(&mut self) -> Bytes {
        match self {
            Self::Slice(slice) => Bytes::copy_from_slice(slice),
            Self::Owned(bytes) => std::mem::take(bytes),
        }
    }
}

/// What a record was granted and has not used yet. Must be put back.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) slot: Option<SlotToken>,
    pub(crate) credit_bytes: u64,
}

impl Held {
    /// Puts back what is left.
    pub(crate) fn put_back(&mut self, slots: &Gate<Slots>, credit: &Gate<Units>) {
        if let Some(slot) = self.slot.take() {
            slots.put(slot);
        }
        if self.credit_bytes > 0 {
            credit.put(std::mem::take(&mut self.credit_bytes));
        }
    }
}

/// The batch that is being filled.
pub(crate) struct OpenBatch {
    form: Form,
    owed: Owed,
    /// What its records are meant for.
    life: Life,
    opened_at: Micros,
    /// The least of its producers' limits.
    records_max: u32,
}

/// The bytes of an open batch.
pub(crate) struct Form {
    writer: BatchWriter<SlotToken>,
    /// The payloads by reference, in order. Without memory until there is one.
    payloads: PayloadList,
    credit_bytes: u64,
    /// Sum of all payloads.
    payload_bytes: u64,
    /// Bytes of the slot that records may fill which join the first.
    own_bytes_max: usize,
}

impl OpenBatch {
    /// Starts a batch with `record` in it.
    ///
    /// # Errors
    /// The record fits no batch; the slot comes back.
    pub(super) fn start(
        slot: SlotToken,
        lane: &Lane,
        ledger: &Ledger,
        record: &mut Incoming<'_>,
        ids: &mut MessageIdGenerator,
        held: &mut Held,
    ) -> Result<Form, (SlotToken, SendError)> {
        let bytes = slot.len();
        let too_small = |slot: SlotToken| (slot, SendError::SlotTooSmall { bytes });
        let writer =
            BatchWriter::new(slot, &lane.target()).map_err(|small| too_small(small.buf))?;
        let mut form = Form {
            writer,
            payloads: PayloadList::new(),
            credit_bytes: 0,
            payload_bytes: 0,
            own_bytes_max: bytes.min(ledger.settings.batch_bytes_max as usize),
        };
        match form.append(lane, ids, record, held) {
            Ok(true) => Ok(form),
            Ok(false) => Err(too_small(form.writer.into_buf())),
            Err(error) => Err((form.writer.into_buf(), error)),
        }
    }

    pub(super) fn new(form: Form, cell: Arc<BatchCell>, lane: &Lane, ledger: &Arc<Ledger>) -> Self {
        let now = lane.shard.now();
        Self {
            form,
            owed: {
                let mut owed = Owed::new(ledger, cell);
                owed.add_record();
                owed
            },
            life: lane.topic.life(),
            opened_at: now,
            records_max: ledger.settings.batch_records_max,
        }
    }

    /// Tells the ledgers of the records that they do not know of.
    pub(super) fn count_accepted(&mut self) {
        self.owed.count_accepted();
    }

    /// The cell of the record that came last.
    pub(super) fn cell(&self) -> &Arc<BatchCell> {
        self.owed.cell()
    }

    pub(super) fn count(&self) -> u32 {
        self.form.count()
    }

    /// Adds the record of this producer and takes its credit. `Ok(false)` when it does not fit here
    /// and belongs into a batch of its own.
    ///
    /// # Errors
    /// The record fits no batch.
    pub(super) fn join(
        &mut self,
        lane: &Lane,
        ledger: &Arc<Ledger>,
        (ids, cells): (&mut MessageIdGenerator, &mut CellPool),
        record: &mut Incoming<'_>,
        held: &mut Held,
    ) -> Result<bool, SendError> {
        // What the topic's name means may have changed.
        if !lane.topic.is_in(self.life) || !self.form.takes(record) {
            return Ok(false);
        }
        let is_known = self.owed.turn_to(ledger);
        if !is_known && !self.takes_producer(lane, ledger, record) {
            return Ok(false);
        }
        if !self.form.append(lane, ids, record, held)? {
            return Ok(false);
        }
        if !is_known {
            let settings = &ledger.settings;
            self.owed
                .add(ledger, cells.take(), || lane.shard.take_others());
            self.records_max = self.records_max.min(settings.batch_records_max);
            self.form.own_bytes_max = self
                .form
                .own_bytes_max
                .min(settings.batch_bytes_max as usize);
        }
        self.owed.add_record();
        Ok(true)
    }

    /// Whether a producer that has no record here may share the batch. It must not wait longer, nor
    /// be given up earlier, nor travel in a larger request than the producer wants.
    fn takes_producer(&self, lane: &Lane, ledger: &Ledger, record: &Incoming<'_>) -> bool {
        let wanted = &ledger.settings;
        let common = &self.owed.ledger().settings;
        wanted.delivery_timeout_us == common.delivery_timeout_us
            && self.count() < wanted.batch_records_max
            && self.form.own_bytes_with(record) <= wanted.batch_bytes_max as usize
            && self.owed.has_room()
            && self.linger_until() <= lane.shard.now().after(wanted.linger_us)
    }

    /// Whether the smallest record would not fit any more.
    pub(super) fn is_full(&self) -> bool {
        self.count() >= self.records_max || self.form.is_full()
    }

    /// When its linger is over.
    pub(super) fn linger_until(&self) -> Micros {
        self.opened_at.after(self.owed.ledger().settings.linger_us)
    }

    /// When its first record must have its answer.
    pub(super) fn deadline(&self) -> Micros {
        self.opened_at
            .after(self.owed.ledger().settings.delivery_timeout_us)
    }

    /// Writes the batch header and closes the batch.
    pub(super) fn seal(mut self, lane: Arc<Lane>, resumed_losses: u32, now: Micros) -> SealedBatch {
        self.count_accepted();
        SealedBatch {
            lane,
            deadline: self.deadline(),
            resumed_losses,
            turn: 0,
            records: self.count(),
            payload_bytes: self.form.payload_bytes,
            body: self.form.seal(),
            owed: self.owed,
            life: self.life,
            opened_at: self.opened_at,
            sealed_at: now,
        }
    }
}

impl Form {
    fn count(&self) -> u32 {
        self.writer.count()
    }

    /// Whether the record may join those that are here. That it fits is for the append to find out.
    fn takes(&self, record: &Incoming<'_>) -> bool {
        self.own_bytes_with(record) <= self.own_bytes_max
            && (!record.by_reference
                || self.writer.referenced_count() < limits::GATHER_RECORDS_MAX
                    && self.writer.body_len() + record.payload.as_slice().len()
                        <= limits::GATHER_BYTES_MAX)
    }

    /// Bytes of the slot that are taken when the record has joined.
    fn own_bytes_with(&self, record: &Incoming<'_>) -> usize {
        let copied = match record.by_reference {
            true => 0,
            false => record.payload.as_slice().len(),
        };
        self.writer.own_len() + MESSAGE_HEADER_BYTES + record.user_headers.as_bytes().len() + copied
    }

    fn append(
        &mut self,
        lane: &Lane,
        ids: &mut MessageIdGenerator,
        record: &mut Incoming<'_>,
        held: &mut Held,
    ) -> Result<bool, SendError> {
        let origin_us = self.writer.origin_timestamp_us().unwrap_or(0);
        let parts = RecordParts {
            id: record.id.unwrap_or_else(|| ids.next_id()),
            timestamp_us: record.time.resolve(record.clock, origin_us),
            payload: record.payload.as_slice(),
            user_headers: record.user_headers,
        };
        let payload_bytes = parts.payload.len();
        let appended = if record.by_reference {
            self.writer.append_referenced(&parts).map(Some)
        } else {
            self.writer.append(&parts).map(|()| None)
        };
        match appended {
            Ok(None) => {}
            Ok(Some(at)) => {
                if self.payloads.is_empty() {
                    self.payloads = lane.shard.take_payload_list();
                }
                let payload = record.payload.take();
                self.payloads.push(Referenced { at, payload });
                self.credit_bytes += std::mem::take(&mut held.credit_bytes);
            }
            Err(AppendError::PayloadTooLarge { found_bytes }) => {
                return Err(SendError::PayloadTooLarge {
                    bytes: found_bytes,
                    max: limits::PAYLOAD_BYTES_MAX,
                });
            }
            Err(AppendError::Full { .. } | AppendError::SpanExceeded { .. }) => return Ok(false),
        }
        self.payload_bytes += payload_bytes as u64;
        Ok(true)
    }

    /// Whether the smallest record would not fit any more, or large ones would make too large a
    /// request.
    fn is_full(&self) -> bool {
        self.writer.own_len() + MESSAGE_HEADER_BYTES >= self.own_bytes_max
            || self.writer.referenced_count() > 0
                && (self.writer.referenced_count() >= limits::GATHER_RECORDS_MAX
                    || self.writer.body_len() >= limits::GATHER_BYTES_MAX)
    }

    fn seal(self) -> Body {
        let sealed = self.writer.seal_referenced(&self.payloads);
        Body {
            slot: sealed.buf,
            own_bytes: sealed.own_len,
            body_bytes: sealed.body_len,
            payloads: self.payloads,
            credit_bytes: self.credit_bytes,
        }
    }
}
