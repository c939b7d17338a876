//! SendMessages: operation 160 (code 101), partition plane.
//!
//! ```text
//! metadata_length u32 | stream identifier | topic identifier | partitioning | messages_count u32 | batch
//! reply: count u32 = 1 | stream u32, topic u32, partition u32, base_offset u64; empty for a duplicate
//! ```
//!
//! In this order: an address that does not resolve gets status 20; a request that the client's
//! window knows gets an empty success; a malformed batch, wrong checksums included, gets no reply;
//! a full partition drops the request without a reply; the rest is stored as sent, with the three
//! stamped fields and the batch checksum over them. The identity is the one bound to the
//! connection, whatever client and session the header names.
//!
//! Simplified: one replica, so a commit needs no quorum. In sink mode the batch is neither checked
//! nor kept.

use ringmain_wire::batch::{Integrity, SendMessagesRef, SendTarget};
use ringmain_wire::code::ErrorCode;
use ringmain_wire::header::HEADER_BYTES;
use ringmain_wire::partitioning::Partitioning;

use crate::frame::Frame;
use crate::state::{Call, Place, State, ValidBatch};

pub(super) fn handle(state: &mut State, call: &Call, frame: Frame<'_>) {
    let Some(session) = state.session(call.connection) else {
        return;
    };
    let send = SendMessagesRef::decode(frame.body());
    let place = send
        .as_ref()
        .ok()
        .and_then(|send| resolve(state, send.target()));
    let (Ok(send), Some(place)) = (send, place) else {
        state.deny(call, ErrorCode::RESOURCE_NOT_FOUND);
        return;
    };
    if state.answer_known(call, place) {
        return;
    }
    if state.config.sink {
        let records = send.messages_count();
        state.sink_send(call, place, records);
        return;
    }
    if send.batch(Integrity::Verify).is_err() {
        state.stats.sends_malformed += 1;
        if send.batch(Integrity::Layout).is_ok() {
            state.stats.checksum_failures += 1;
        }
        return;
    }
    let records = send.messages_count();
    let record_at = HEADER_BYTES + send.batch_at();
    let batch = match frame {
        Frame::Owned(buffer) => ValidBatch {
            buffer,
            record_at,
            records,
        },
        Frame::Borrowed(bytes) | Frame::Head(bytes) => ValidBatch {
            buffer: bytes[record_at..].to_vec(),
            record_at: 0,
            records,
        },
    };
    state.take_send(call, place, session.client, batch);
}

/// The partition that a target names. `None` when stream, topic or partition do not exist.
fn resolve(state: &mut State, target: &SendTarget<'_>) -> Option<Place> {
    let (stream, topic) = state
        .catalog
        .topic_ids(&target.stream, &target.topic)
        .ok()?;
    let found = state.catalog.topic_mut(stream, topic)?;
    let partitions = u32::try_from(found.partitions.len())
        .ok()
        .and_then(std::num::NonZeroU32::new)?;
    let partition = match &target.partitioning {
        Partitioning::Balanced => found.next_balanced()?,
        Partitioning::PartitionId(partition) => *partition,
        Partitioning::MessagesKey(key) => key.partition(partitions),
    };
    (partition < partitions.get()).then_some(Place {
        stream,
        topic,
        partition,
    })
}
