//! The batch that a lane is filling, in one of its two forms, and what one record brings along.
//!
//! Used under the lane's lock only. A batch holds records of one producer and of one form: copied into the slot, or by
//! reference with only their headers in the slot.

use std::sync::Arc;

use bytes::Bytes;
use ringmain_proto::Micros;
use ringmain_wire::batch::{AppendError, GatherBatch, MESSAGE_HEADER_BYTES};
use ringmain_wire::{BatchWriter, MessageIdGenerator, RecordParts, UserHeaders};

use super::Lane;
use crate::batch::{Body, Clipped, Owed, SealedBatch};
use crate::clock::Clock;
use crate::error::SendError;
use crate::gate::{Gate, Units};
use crate::ledger::Ledger;
use crate::limits;
use crate::receipt::BatchCell;
use crate::shard::Slots;
use crate::topic::Life;
use ringmain_io::memory::SlotToken;

/// A record on its way into a lane.
pub(crate) struct Incoming<'a> {
    pub(crate) payload: Payload<'a>,
    pub(crate) user_headers: UserHeaders<'a>,
    pub(crate) id: Option<u128>,
    pub(crate) timestamp_us: Option<u64>,
    /// Travels by reference. Its payload is `Owned` then.
    pub(crate) by_reference: bool,
    /// Stamps the record if it has no time of its own.
    pub(crate) clock: &'a Clock,
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
    /// Its records are those that the ledger knows of.
    owed: Owed,
    /// What its records are meant for.
    life: Life,
    opened_at: Micros,
}

/// The bytes of an open batch.
pub(crate) struct Form {
    kind: FormKind,
    payload_bytes: u64,
    /// The first record's time, 0 before it.
    origin_us: u64,
}

enum FormKind {
    Copied(BatchWriter<Clipped>),
    Gathered {
        batch: GatherBatch<SlotToken>,
        payloads: Vec<Bytes>,
        credit_bytes: u64,
    },
}

impl OpenBatch {
    /// Starts a batch in the form that `record` needs, with `record` in it.
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
        let target = lane.target();
        let too_small = |slot: SlotToken| {
            let bytes = slot.len();
            (slot, SendError::SlotTooSmall { bytes })
        };
        let kind = if record.by_reference {
            FormKind::Gathered {
                batch: GatherBatch::new(slot, &target).map_err(|small| too_small(small.buf))?,
                payloads: lane.shard.take_payload_list(),
                credit_bytes: 0,
            }
        } else {
            let buffer = Clipped::new(slot, ledger.settings.batch_bytes_max as usize);
            let writer = BatchWriter::new(buffer, &target)
                .map_err(|small| too_small(small.buf.into_slot()))?;
            FormKind::Copied(writer)
        };
        let mut form = Form {
            kind,
            payload_bytes: 0,
            origin_us: 0,
        };
        match form.append(ids, record, held) {
            Ok(true) => Ok(form),
            Ok(false) => Err(too_small(form.into_slot())),
            Err(error) => Err((form.into_slot(), error)),
        }
    }

    pub(super) fn new(form: Form, cell: Arc<BatchCell>, lane: &Lane, ledger: &Arc<Ledger>) -> Self {
        let now = lane.shard.now();
        Self {
            form,
            owed: Owed::new(Arc::clone(ledger), cell),
            life: lane.topic.life(),
            opened_at: now,
        }
    }

    /// Tells the ledger of the records that it does not know of.
    pub(super) fn count_accepted(&mut self) {
        let records = self.count();
        self.owed.ledger.accept(records - self.owed.records);
        self.owed.records = records;
    }

    pub(super) fn cell(&self) -> &Arc<BatchCell> {
        &self.owed.cell
    }

    pub(super) fn count(&self) -> u32 {
        self.form.count()
    }

    /// Whether a record of this producer and form, for what the topic's name means now, may join.
    pub(super) fn takes(&self, lane: &Lane, ledger: &Arc<Ledger>, record: &Incoming<'_>) -> bool {
        Arc::ptr_eq(&self.owed.ledger, ledger)
            && lane.topic.is_in(self.life)
            && self.form.takes(record)
    }

    /// Adds the record and takes its credit. `Ok(false)` when it does not fit here and belongs into a batch of its own.
    ///
    /// # Errors
    /// The record fits no batch.
    pub(super) fn append(
        &mut self,
        ids: &mut MessageIdGenerator,
        record: &mut Incoming<'_>,
        held: &mut Held,
    ) -> Result<bool, SendError> {
        self.form.append(ids, record, held)
    }

    /// Whether the smallest record would not fit any more.
    pub(super) fn is_full(&self) -> bool {
        self.count() >= self.owed.ledger.settings.batch_records_max || self.form.is_full()
    }

    /// When its linger is over.
    pub(super) fn linger_until(&self) -> Micros {
        self.opened_at.after(self.owed.ledger.settings.linger_us)
    }

    /// When its first record must have its answer.
    pub(super) fn deadline(&self) -> Micros {
        self.opened_at
            .after(self.owed.ledger.settings.delivery_timeout_us)
    }

    /// Writes the batch header and closes the batch.
    pub(super) fn seal(mut self, lane: Arc<Lane>, resumed_losses: u32, now: Micros) -> SealedBatch {
        self.count_accepted();
        SealedBatch {
            lane,
            deadline: self.deadline(),
            resumed_losses,
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
        match &self.kind {
            FormKind::Copied(writer) => writer.count(),
            FormKind::Gathered { batch, .. } => batch.count(),
        }
    }

    fn takes(&self, record: &Incoming<'_>) -> bool {
        match &self.kind {
            FormKind::Copied(_) => !record.by_reference,
            FormKind::Gathered { batch, .. } => {
                record.by_reference
                    && batch.body_len() + record.payload.as_slice().len()
                        <= limits::GATHER_BYTES_MAX
            }
        }
    }

    fn append(
        &mut self,
        ids: &mut MessageIdGenerator,
        record: &mut Incoming<'_>,
        held: &mut Held,
    ) -> Result<bool, SendError> {
        let parts = RecordParts {
            id: record.id.unwrap_or_else(|| ids.next_id()),
            // The clock may step back; records stamped here never precede the batch.
            timestamp_us: record
                .timestamp_us
                .unwrap_or_else(|| record.clock.calendar_us().max(self.origin_us)),
            payload: record.payload.as_slice(),
            user_headers: record.user_headers,
        };
        let (payload_bytes, timestamp_us) = (parts.payload.len(), parts.timestamp_us);
        let appended = match &mut self.kind {
            FormKind::Copied(writer) => writer.append(&parts),
            FormKind::Gathered { batch, .. } => batch.append(&parts),
        };
        match appended {
            Ok(()) => {}
            Err(AppendError::PayloadTooLarge { found_bytes }) => {
                return Err(SendError::PayloadTooLarge {
                    bytes: found_bytes,
                    max: limits::PAYLOAD_BYTES_MAX,
                });
            }
            Err(
                AppendError::Full { .. }
                | AppendError::BeforeOrigin { .. }
                | AppendError::SpanExceeded { .. },
            ) => {
                return Ok(false);
            }
        }
        if let FormKind::Gathered {
            payloads,
            credit_bytes,
            ..
        } = &mut self.kind
        {
            payloads.push(record.payload.take());
            *credit_bytes += std::mem::take(&mut held.credit_bytes);
        }
        if self.count() == 1 {
            self.origin_us = timestamp_us;
        }
        self.payload_bytes += payload_bytes as u64;
        Ok(true)
    }

    fn is_full(&self) -> bool {
        match &self.kind {
            FormKind::Copied(writer) => writer.room_bytes() <= MESSAGE_HEADER_BYTES,
            FormKind::Gathered { batch, .. } => {
                batch.count() >= limits::GATHER_RECORDS_MAX
                    || batch.body_len() >= limits::GATHER_BYTES_MAX
            }
        }
    }

    fn seal(self) -> Body {
        match self.kind {
            FormKind::Copied(writer) => {
                let sealed = writer.seal();
                Body::Copied {
                    body_bytes: sealed.body_len,
                    slot: sealed.buf.into_slot(),
                }
            }
            FormKind::Gathered {
                batch,
                payloads,
                credit_bytes,
            } => Body::Gathered {
                sealed: batch.seal(),
                payloads,
                credit_bytes,
            },
        }
    }

    /// Gives up a batch to which nothing was added.
    fn into_slot(self) -> SlotToken {
        match self.kind {
            FormKind::Copied(writer) => writer.into_buf().into_slot(),
            FormKind::Gathered { batch, .. } => batch.into_buf(),
        }
    }
}
