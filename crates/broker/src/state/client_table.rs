//! Who is registered, under which fence epoch, and the last replies to each client's metadata
//! operations.
//!
//! A request above a client's watermark is new, even far above; at or below it the cached reply is
//! repeated, or, when that is gone, the client learns that the request was applied.

use std::collections::{HashMap, VecDeque};

use crate::limits::{REPLIES_CACHED_BYTES_MAX, REPLIES_CACHED_MAX};

/// How a metadata request relates to what its client has committed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestStatus<'a> {
    /// Above the watermark: execute it.
    New,
    /// Committed before; this is the whole reply frame.
    Duplicate(&'a [u8]),
    /// Committed before, its reply is gone.
    AlreadyApplied,
    /// The same number with another body stamp: the client reused a number. Not answered.
    ChecksumMismatch,
    /// The client is not in the table.
    NoSession,
    /// The client registered again since: the older holder is fenced.
    Fenced,
    /// An epoch that this table never gave out. Not answered.
    EpochAhead,
}

#[derive(Debug)]
struct CachedReply {
    request: u64,
    request_checksum: u128,
    frame: Box<[u8]>,
}

#[derive(Debug)]
struct Client {
    epoch: u64,
    watermark: u64,
    watermark_checksum: u128,
    /// Newest last, at most `REPLIES_CACHED_MAX`.
    replies: VecDeque<CachedReply>,
    /// Log position of the latest register or metadata commit: the eviction order.
    latest_commit: u64,
}

/// The client table.
#[derive(Debug)]
pub(crate) struct ClientTable {
    clients: HashMap<u128, Client>,
    clients_max: usize,
    replies_bytes: usize,
}

impl ClientTable {
    pub(crate) fn new(clients_max: usize) -> Self {
        Self {
            clients: HashMap::new(),
            clients_max,
            replies_bytes: 0,
        }
    }

    /// Registered clients.
    #[cfg(test)]
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Bytes of all cached replies.
    pub(crate) fn replies_bytes(&self) -> usize {
        self.replies_bytes
    }

    /// The epoch of a registered client.
    pub(crate) fn epoch(&self, client: u128) -> Option<u64> {
        self.clients.get(&client).map(|entry| entry.epoch)
    }

    /// Binds `client` under `epoch`, keeping the watermark and replies of an earlier registration.
    /// A full table evicts its longest idle client, which is returned.
    pub(crate) fn register(&mut self, client: u128, epoch: u64) -> Option<u128> {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.epoch = epoch;
            entry.latest_commit = epoch;
            return None;
        }
        let evicted = if self.clients.len() >= self.clients_max {
            self.evict_longest_idle()
        } else {
            None
        };
        let entry = Client {
            epoch,
            watermark: 0,
            watermark_checksum: 0,
            replies: VecDeque::new(),
            latest_commit: epoch,
        };
        self.clients.insert(client, entry);
        evicted
    }

    /// Forgets a client. False when it was not registered.
    pub(crate) fn remove(&mut self, client: u128) -> bool {
        let Some(entry) = self.clients.remove(&client) else {
            return false;
        };
        self.replies_bytes -= entry
            .replies
            .iter()
            .map(|reply| reply.frame.len())
            .sum::<usize>();
        true
    }

    /// Forgets every client.
    pub(crate) fn clear(&mut self) {
        self.clients.clear();
        self.replies_bytes = 0;
    }

    /// Classifies a metadata request. The fence comes before the number.
    pub(crate) fn check(
        &self,
        client: u128,
        epoch: u64,
        request: u64,
        request_checksum: u128,
    ) -> RequestStatus<'_> {
        let Some(entry) = self.clients.get(&client) else {
            return RequestStatus::NoSession;
        };
        if epoch < entry.epoch {
            return RequestStatus::Fenced;
        }
        if epoch > entry.epoch {
            return RequestStatus::EpochAhead;
        }
        if request > entry.watermark {
            return RequestStatus::New;
        }
        if request == entry.watermark && conflict(entry.watermark_checksum, request_checksum) {
            return RequestStatus::ChecksumMismatch;
        }
        match entry.replies.iter().find(|reply| reply.request == request) {
            Some(reply) if conflict(reply.request_checksum, request_checksum) => {
                RequestStatus::ChecksumMismatch
            }
            Some(reply) => RequestStatus::Duplicate(&reply.frame),
            None => RequestStatus::AlreadyApplied,
        }
    }

    /// Records a committed metadata request that `check` called new.
    pub(crate) fn commit(
        &mut self,
        client: u128,
        request: u64,
        request_checksum: u128,
        commit: u64,
        frame: &[u8],
    ) {
        let Some(entry) = self.clients.get_mut(&client) else {
            return;
        };
        assert!(request > entry.watermark, "only a new request is committed");
        entry.watermark = request;
        entry.watermark_checksum = request_checksum;
        entry.latest_commit = commit;
        if entry.replies.len() == REPLIES_CACHED_MAX {
            let oldest = entry
                .replies
                .pop_front()
                .map_or(0, |reply| reply.frame.len());
            self.replies_bytes -= oldest;
        }
        if self.replies_bytes + frame.len() <= REPLIES_CACHED_BYTES_MAX {
            self.replies_bytes += frame.len();
            entry.replies.push_back(CachedReply {
                request,
                request_checksum,
                frame: frame.into(),
            });
        }
    }

    fn evict_longest_idle(&mut self) -> Option<u128> {
        let idle = self
            .clients
            .iter()
            .min_by_key(|(_, entry)| entry.latest_commit);
        let client = idle.map(|(client, _)| *client)?;
        self.remove(client);
        Some(client)
    }
}

/// Zero means that one side was not stamped, which proves nothing.
fn conflict(stored: u128, received: u128) -> bool {
    stored != 0 && received != 0 && stored != received
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_with(client: u128, epoch: u64) -> ClientTable {
        let mut table = ClientTable::new(2);
        table.register(client, epoch);
        table
    }

    #[test]
    fn a_repeated_request_gets_its_first_reply_until_it_ages_out() {
        let mut table = table_with(7, 5);
        for request in 1..=6 {
            assert_eq!(table.check(7, 5, request, 0), RequestStatus::New);
            table.commit(7, request, 0, 5 + request, &[request as u8]);
        }
        assert_eq!(table.check(7, 5, 6, 0), RequestStatus::Duplicate(&[6]));
        assert_eq!(table.check(7, 5, 2, 0), RequestStatus::Duplicate(&[2]));
        assert_eq!(table.check(7, 5, 1, 0), RequestStatus::AlreadyApplied);
        assert_eq!(
            table.check(7, 5, 1000, 0),
            RequestStatus::New,
            "jumps are allowed"
        );
    }

    #[test]
    fn a_reused_number_with_another_stamp_is_told_apart() {
        let mut table = table_with(7, 5);
        table.commit(7, 1, 0xAA, 6, &[1]);
        assert_eq!(table.check(7, 5, 1, 0xBB), RequestStatus::ChecksumMismatch);
        assert_eq!(table.check(7, 5, 1, 0), RequestStatus::Duplicate(&[1]));
    }

    #[test]
    fn a_second_registration_fences_the_first_and_keeps_its_history() {
        let mut table = table_with(7, 5);
        table.commit(7, 1, 0, 6, &[1]);
        table.register(7, 9);
        assert_eq!(table.check(7, 5, 2, 0), RequestStatus::Fenced);
        assert_eq!(table.check(7, 10, 2, 0), RequestStatus::EpochAhead);
        assert_eq!(table.check(7, 9, 1, 0), RequestStatus::Duplicate(&[1]));
    }

    #[test]
    fn a_full_table_evicts_its_longest_idle_client() {
        let mut table = table_with(1, 1);
        table.register(2, 2);
        table.commit(1, 1, 0, 3, &[]);
        assert_eq!(table.register(3, 4), Some(2));
        assert_eq!(table.check(2, 2, 1, 0), RequestStatus::NoSession);
        assert_eq!((table.clients(), table.epoch(1)), (2, Some(1)));
    }

    #[test]
    fn replies_past_the_byte_bound_are_not_kept() {
        let mut table = table_with(1, 1);
        table.commit(1, 1, 0, 2, &vec![0; REPLIES_CACHED_BYTES_MAX]);
        table.commit(1, 2, 0, 3, &[9]);
        assert_eq!(table.check(1, 1, 2, 0), RequestStatus::AlreadyApplied);
        assert!(table.remove(1));
        assert_eq!(table.replies_bytes, 0);
    }
}
