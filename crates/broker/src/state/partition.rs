//! One partition: its log, what it remembers of requests, its consumers' offsets, and what it has
//! not yet committed.
//!
//! A send is committed at once unless commits are delayed (a builder option) or held (a fault).
//! Then up to 32 wait as uncommitted and 64 more in a queue; the next one is dropped without a
//! reply, as the real server does.

use std::collections::{HashMap, VecDeque};

use ringmain_wire::header::RawRequestHeader;
use ringmain_wire::payload::topic::PartitionInfo;

use super::connection::ConnectionKey;
use super::log::PartitionLog;
use super::window::CommittedWindow;
use crate::limits::{PARTITION_QUEUED_MAX, PARTITION_UNCOMMITTED_MAX};
use crate::script::ReplyFault;

/// Whose offset: a consumer's number, or the hash of its name.
pub(crate) type ConsumerKey = u32;

/// A send that was taken and is not committed yet.
#[derive(Debug)]
pub(crate) struct Uncommitted {
    pub(crate) connection: ConnectionKey,
    /// Identity that the window remembers: the one bound to the connection when the send arrived.
    pub(crate) client: u128,
    pub(crate) header: RawRequestHeader,
    /// Memory that holds the batch: `record_at` is where its header begins.
    pub(crate) buffer: Vec<u8>,
    pub(crate) record_at: usize,
    pub(crate) records: u32,
    /// When it is committed, unless commits are held.
    pub(crate) due_us: u64,
    /// What a script does to its reply.
    pub(crate) fault: Option<ReplyFault>,
}

impl Uncommitted {
    /// Memory it holds.
    pub(crate) fn held_bytes(&self) -> u64 {
        (self.buffer.capacity() + size_of::<Self>()) as u64
    }
}

/// One partition of a topic.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: u32,
    pub(crate) created_at_us: u64,
    pub(crate) log: PartitionLog,
    pub(crate) window: CommittedWindow,
    pub(crate) offsets: HashMap<ConsumerKey, u64>,
    /// Position of the latest commit in the partition's own log of operations.
    pub(crate) commit: u64,
    /// Oldest first, at most 32 + 64.
    uncommitted: VecDeque<Uncommitted>,
}

impl Partition {
    pub(crate) fn new(id: u32, now_us: u64) -> Self {
        Self {
            id,
            created_at_us: now_us,
            log: PartitionLog::default(),
            window: CommittedWindow::default(),
            offsets: HashMap::new(),
            commit: 0,
            uncommitted: VecDeque::new(),
        }
    }

    /// What the protocol tells of it.
    pub(crate) fn info(&self, segments_count: u32) -> PartitionInfo {
        PartitionInfo {
            id: self.id,
            created_at: self.created_at_us,
            segments_count,
            current_offset: self.log.current_offset(),
            size_bytes: self.log.record_bytes(),
            messages_count: self.log.records(),
        }
    }

    /// Whether one more send can be taken.
    pub(crate) fn has_room(&self) -> bool {
        self.uncommitted.len() < PARTITION_UNCOMMITTED_MAX + PARTITION_QUEUED_MAX
    }

    /// Whether nothing waits to be committed.
    pub(crate) fn is_settled(&self) -> bool {
        self.uncommitted.is_empty()
    }

    /// Whether this request waits to be committed: a retry of it is absorbed.
    pub(crate) fn is_uncommitted(&self, client: u128, request: u64) -> bool {
        self.uncommitted
            .iter()
            .any(|send| send.client == client && send.header.request() == request)
    }

    /// Takes a send. The caller has checked [`Partition::has_room`].
    pub(crate) fn take(&mut self, send: Uncommitted) {
        assert!(self.has_room(), "a send is taken only into a free place");
        self.uncommitted.push_back(send);
    }

    /// Bytes that wait to be committed.
    pub(crate) fn uncommitted_bytes(&self) -> u64 {
        self.uncommitted.iter().map(Uncommitted::held_bytes).sum()
    }

    /// When the oldest uncommitted send is due.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.uncommitted.front().map(|send| send.due_us)
    }

    /// The oldest uncommitted send if it is due.
    pub(crate) fn next_due(&mut self, now_us: u64) -> Option<Uncommitted> {
        if self.due_us()? > now_us {
            return None;
        }
        self.uncommitted.pop_front()
    }

    /// Forgets what is not committed.
    pub(crate) fn lose_uncommitted(&mut self) {
        self.uncommitted.clear();
    }

    /// Forgets records, consumer offsets and what is not committed. Windows stay: a purge does not
    /// make a retry new.
    pub(crate) fn purge(&mut self) {
        self.log.purge();
        self.offsets.clear();
        self.uncommitted.clear();
    }
}
