//! Replies and evictions: which fields echo the request and which are the broker's own.
//!
//! A direct reply echoes; its `op` is the session and its `commit` the position of the metadata
//! log. A committed reply names the cluster and carries its own position twice, with the time of
//! the commit.

use ringmain_wire::code::ErrorCode;
use ringmain_wire::eviction::EvictionReason;
use ringmain_wire::header::{EvictionHeader, RawRequestHeader, ReplyFields, ReplyHeader};
use ringmain_wire::operation::Operation;

use super::{CLUSTER_ID, Call, ConnectionKey, State};
use crate::config::Now;

/// Room that the place where replies are put together keeps after a large one.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl State {
    /// Answers a read or a ping.
    pub(crate) fn reply_read(&mut self, call: &Call, body: &[u8]) {
        let fields = ReplyFields {
            op: call.header.session(),
            commit: self.commit,
            ..ReplyFields::answering(&call.header, call.operation)
        };
        self.reply(call, &fields, body);
    }

    /// Refuses a read.
    pub(crate) fn deny_read(&mut self, call: &Call, code: ErrorCode) {
        let fields = ReplyFields {
            op: call.header.session(),
            commit: self.commit,
            status: Some(code),
            ..ReplyFields::answering(&call.header, call.operation)
        };
        self.stats.refusals += 1;
        self.reply(call, &fields, &[]);
    }

    /// Refuses a read of a connection without a login.
    pub(crate) fn deny_unbound(&mut self, call: &Call) {
        let fields = ReplyFields {
            client: call.connection.transport_id(),
            status: Some(ErrorCode::UNAUTHENTICATED),
            ..ReplyFields::answering(&call.header, call.operation)
        };
        self.stats.refusals += 1;
        self.reply(call, &fields, &[]);
    }

    /// Refuses a replicated request before it reaches a log.
    pub(crate) fn deny(&mut self, call: &Call, code: ErrorCode) {
        let fields = ReplyFields {
            client: call.connection.transport_id(),
            commit: self.commit,
            status: Some(code),
            ..ReplyFields::answering(&call.header, call.operation)
        };
        self.stats.refusals += 1;
        self.reply(call, &fields, &[]);
    }

    /// Answers a request of the session plane.
    pub(crate) fn reply_session(&mut self, call: &Call, client: u128, epoch: u64, body: &[u8]) {
        let fields = ReplyFields {
            client,
            op: epoch,
            commit: self.commit.max(epoch),
            ..ReplyFields::answering(&call.header, call.operation)
        };
        self.reply(call, &fields, body);
    }

    /// Answers a metadata request that is not executed, from the position the log has now.
    pub(crate) fn reply_uncommitted(&mut self, call: &Call, client: u128, body: &[u8]) {
        let fields = ReplyFields {
            client,
            op: self.commit,
            commit: self.commit,
            ..ReplyFields::answering(&call.header, call.operation)
        };
        self.reply(call, &fields, body);
    }

    /// Fields of the reply to a request that position `commit` of its log holds.
    pub(crate) fn committed(
        header: &RawRequestHeader,
        operation: Operation,
        client: u128,
        commit: u64,
        now: Now,
    ) -> ReplyFields {
        ReplyFields {
            cluster: CLUSTER_ID,
            client,
            op: commit,
            commit,
            timestamp: now.wall_us,
            ..ReplyFields::answering(header, operation.reply_operation())
        }
    }

    /// Sends a reply to the request at hand, as a script wants it.
    pub(crate) fn reply(&mut self, call: &Call, fields: &ReplyFields, body: &[u8]) {
        self.reply_to(call.connection, fields, body, call.now);
    }

    /// Sends a reply on a connection, as a script wants it.
    pub(crate) fn reply_to(
        &mut self,
        key: ConnectionKey,
        fields: &ReplyFields,
        body: &[u8],
        now: Now,
    ) {
        let header = ReplyHeader::new(fields, body.len())
            .expect("bodies are bounded and refusals have none");
        self.scratch.clear();
        self.scratch.extend_from_slice(header.as_bytes());
        self.scratch.extend_from_slice(body);
        self.send_scratch(key, now);
    }

    /// Sends a whole reply frame again.
    pub(crate) fn reply_again(&mut self, call: &Call, frame: &[u8]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        self.send_scratch(call.connection, call.now);
    }

    fn send_scratch(&mut self, key: ConnectionKey, now: Now) {
        self.stats.replies_out += 1;
        match self.reply_fault.take() {
            None => self.queue(key, |connection, frame| connection.send(frame)),
            Some(fault) => {
                self.queue(key, |connection, frame| {
                    connection.send_with(frame, fault, now.monotonic_us);
                });
                self.timed.insert(key);
            }
        }
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
    }

    /// Tells a client that its session is dead. The connection stays open.
    pub(crate) fn evict(&mut self, key: ConnectionKey, client: u128, reason: EvictionReason) {
        let header = EvictionHeader::new(client, reason)
            .expect("clients are not zero and windows are in order");
        let header = header.from_replica(CLUSTER_ID, 0, 0);
        self.stats.evictions_out += 1;
        self.queue(key, |connection, _| connection.send(header.as_bytes()));
    }
}
