//! A batch on its way: what an application thread seals and a shard sends.
//!
//! Owns its memory (a slot of the arena, and payloads by reference) until the shard gives it back.
//! Builds no bytes: that is the wire crate's job, also when records are taken out.

use std::sync::Arc;

use bytes::Bytes;
use ringmain_proto::Micros;
use ringmain_wire::batch::{
    BATCH_HEADER_BYTES, Integrity, MESSAGE_HEADER_BYTES, Message, Piece, Pieces, Referenced,
};
use ringmain_wire::{BatchWriter, RecordParts, SendMessagesRef};

use crate::lane::Lane;
use crate::owed::Owed;
use crate::record::Record;
use crate::topic::Life;
use ringmain_io::memory::SlotToken;

/// The body of a request, ready to be sent: what is in its slot, and payloads where the caller left
/// them.
pub(crate) struct Body {
    pub(crate) slot: SlotToken,
    /// Bytes at the start of the slot.
    pub(crate) own_bytes: usize,
    /// Bytes of the body, payloads by reference included.
    pub(crate) body_bytes: usize,
    /// The payloads by reference, in order.
    pub(crate) payloads: PayloadList,
    /// Bytes taken for them from the by-reference budget.
    pub(crate) credit_bytes: u64,
}

/// Payloads by reference and where they belong.
pub(crate) type PayloadList = Vec<Referenced<Bytes>>;

impl Body {
    pub(crate) fn pieces(&self) -> Pieces<'_, Bytes> {
        Pieces::new(self.own_bytes, &self.payloads)
    }

    /// All bytes in a row, copied.
    fn whole(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.body_bytes);
        for piece in self.pieces() {
            match piece {
                Piece::Own(range) => whole.extend_from_slice(&self.slot.as_ref()[range]),
                Piece::Payload(payload) => whole.extend_from_slice(payload),
            }
        }
        whole
    }
}

/// A sealed batch.
pub(crate) struct SealedBatch {
    pub(crate) lane: Arc<Lane>,
    pub(crate) owed: Owed,
    pub(crate) body: Body,
    /// The losses of its lane that the application had accepted before it was sealed.
    pub(crate) resumed_losses: u32,
    /// What its records are meant for.
    pub(crate) life: Life,
    /// Its turn among the batches of the shard; zero until it is with the protocol.
    pub(crate) turn: u64,
    /// At least 1.
    pub(crate) records: u32,
    /// Sum of the payloads.
    pub(crate) payload_bytes: u64,
    /// When the first record was accepted.
    pub(crate) opened_at: Micros,
    /// When it was sealed.
    pub(crate) sealed_at: Micros,
    /// When every record of it must have its answer, unless the server answers what is ahead of it
    /// until then.
    pub(crate) deadline: Micros,
}

impl SealedBatch {
    /// The records that `is_wanted` says, of a batch that was never sent. Cold: copies every
    /// payload.
    pub(crate) fn records(&self, is_wanted: &[bool]) -> Vec<Record> {
        let whole = self.body.whole();
        let messages = messages(&whole).zip(is_wanted);
        messages
            .filter(|(_, is_wanted)| **is_wanted)
            .map(|(message, _)| record(&message))
            .collect()
    }

    /// Takes records out of a batch that was never sent: writes the body anew without those that
    /// `is_out` says, of which there are some, and not all. The payloads of theirs that are by
    /// reference go to `freed`, to be dropped. Cold: copies every payload.
    pub(crate) fn take_out(&mut self, is_out: &[bool], freed: &mut Vec<Bytes>) {
        let whole = self.body.whole();
        let (target, slot_bytes) = (self.lane.target(), self.body.slot.len());
        let writer = BatchWriter::new(vec![0; slot_bytes], &target);
        let mut writer = writer.expect("as large as the slot");
        let mut before = std::mem::take(&mut self.body.payloads)
            .into_iter()
            .peekable();
        let mut payloads = PayloadList::new();
        // Where a message begins in the slot, which lacks the payloads by reference.
        let mut at = target.prefix_bytes() + BATCH_HEADER_BYTES;
        for (message, is_out) in messages(&whole).zip(is_out) {
            let referenced = before.next_if(|next| next.at == at + MESSAGE_HEADER_BYTES);
            at += MESSAGE_HEADER_BYTES + message.user_headers_bytes().len();
            if referenced.is_none() {
                at += message.payload().len();
            }
            if *is_out {
                self.payload_bytes -= message.payload().len() as u64;
                freed.extend(referenced.map(|referenced| referenced.payload));
                continue;
            }
            let parts = RecordParts {
                id: message.id(),
                timestamp_us: message.timestamp_us(),
                payload: message.payload(),
                user_headers: message.user_headers().expect("checked on acceptance"),
            };
            match referenced {
                None => writer.append(&parts).expect("it was here before"),
                Some(Referenced { payload, .. }) => {
                    let at = writer.append_referenced(&parts);
                    let at = at.expect("it was here before");
                    payloads.push(Referenced { at, payload });
                }
            }
        }
        let sealed = writer.seal_referenced(&payloads);
        let body = &mut self.body;
        body.slot.as_mut()[..sealed.own_len].copy_from_slice(&sealed.buf[..sealed.own_len]);
        (body.own_bytes, body.body_bytes) = (sealed.own_len, sealed.body_len);
        body.payloads = payloads;
        self.records = sealed.messages_count;
    }
}

/// The messages of a body.
fn messages(whole: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let sent = SendMessagesRef::decode(whole).expect("our own address");
    let reader = sent.batch(Integrity::Layout).expect("our own batch");
    reader.messages()
}

fn record(message: &Message<'_>) -> Record {
    let user_headers = message.user_headers_bytes();
    Record {
        payload: Bytes::copy_from_slice(message.payload()),
        key: None,
        user_headers: (!user_headers.is_empty()).then(|| Bytes::copy_from_slice(user_headers)),
        id: Some(message.id()),
        timestamp_us: Some(message.timestamp_us()),
    }
}
