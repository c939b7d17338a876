//! The client table of the model broker's metadata plane.
//!
//! Role: fence epochs, the watermark of committed metadata requests and the last few replies of
//! every client. Does not: order or execute operations. Semantics: an epoch is the log position of
//! the committed register, so it only rises while the log lives; a request at or below the
//! watermark is never executed again: it is answered from the cache of the last [`REPLIES_CACHED`]
//! replies, or with result 59. The watermark says nothing about the ids below it, so an id that was
//! skipped can never be used later. A full table evicts the client whose last commit is oldest.

use std::collections::{BTreeMap, VecDeque};

/// Replies a client's entry keeps, the register reply included.
pub const REPLIES_CACHED: usize = 5;

/// What the table says about a metadata request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Above the watermark: execute it.
    New,
    /// Executed, and the reply is still here.
    Replay(Vec<u8>),
    /// At or below the watermark, reply gone (result 59).
    AlreadyApplied,
    /// The same number with other arguments: silence.
    Reused,
    /// No entry (eviction 1).
    NoSession,
    /// The epoch is older than the entry's (eviction 7).
    Fenced,
    /// The epoch is newer than any handed out: silence.
    EpochAhead,
}

#[derive(Debug)]
struct Cached {
    request: u64,
    checksum: u128,
    reply: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    epoch: u64,
    watermark: u64,
    watermark_checksum: u128,
    replies: VecDeque<Cached>,
    last_commit: u64,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct ClientTable {
    entries: BTreeMap<u128, Entry>,
}

impl ClientTable {
    /// Judges a metadata request.
    pub(crate) fn standing(
        &self,
        client: u128,
        epoch: u64,
        request: u64,
        checksum: u128,
    ) -> Standing {
        let Some(entry) = self.entries.get(&client) else {
            return Standing::NoSession;
        };
        if epoch != entry.epoch {
            return if epoch < entry.epoch {
                Standing::Fenced
            } else {
                Standing::EpochAhead
            };
        }
        if request > entry.watermark {
            return Standing::New;
        }
        let conflicts = |stored: u128| stored != 0 && checksum != 0 && stored != checksum;
        if request == entry.watermark && conflicts(entry.watermark_checksum) {
            return Standing::Reused;
        }
        match entry
            .replies
            .iter()
            .find(|cached| cached.request == request)
        {
            Some(cached) if conflicts(cached.checksum) => Standing::Reused,
            Some(cached) => Standing::Replay(cached.reply.clone()),
            None => Standing::AlreadyApplied,
        }
    }

    /// Records a committed register at log position `op`, which becomes the epoch.
    pub(crate) fn commit_register(&mut self, client: u128, op: u64) {
        let entry = self.entries.entry(client).or_insert_with(|| Entry {
            epoch: 0,
            watermark: 0,
            watermark_checksum: 0,
            replies: VecDeque::new(),
            last_commit: 0,
        });
        assert!(op > entry.epoch, "an epoch only rises while the log lives");
        entry.epoch = op;
        entry.last_commit = op;
    }

    /// Records the reply of a metadata request committed at log position `op`.
    pub(crate) fn commit_reply(
        &mut self,
        client: u128,
        op: u64,
        request: u64,
        checksum: u128,
        reply: Vec<u8>,
    ) {
        let Some(entry) = self.entries.get_mut(&client) else {
            return;
        };
        if request <= entry.watermark {
            return;
        }
        entry.watermark = request;
        entry.watermark_checksum = checksum;
        entry.last_commit = op;
        // The register reply holds one place of the ring.
        while entry.replies.len() >= REPLIES_CACHED - 1 {
            entry.replies.pop_front();
        }
        entry.replies.push_back(Cached {
            request,
            checksum,
            reply,
        });
    }

    /// Removes `client`: it logged out.
    pub(crate) fn remove(&mut self, client: u128) {
        self.entries.remove(&client);
    }

    /// Evicts the client whose last commit is oldest, as a full table does. Returns that client.
    pub(crate) fn evict_idle(&mut self) -> Option<u128> {
        let (&client, _) = self
            .entries
            .iter()
            .min_by_key(|(_, entry)| entry.last_commit)?;
        self.entries.remove(&client);
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ClientTable {
        let mut table = ClientTable::default();
        table.commit_register(7, 1);
        table
    }

    #[test]
    fn a_repeat_is_replayed_until_its_reply_leaves_the_cache() {
        let mut table = table();
        for request in 1..=6 {
            assert_eq!(table.standing(7, 1, request, 0), Standing::New);
            table.commit_reply(7, 1 + request, request, 0, vec![request as u8]);
        }
        assert_eq!(table.standing(7, 1, 6, 0), Standing::Replay(vec![6]));
        assert_eq!(table.standing(7, 1, 3, 0), Standing::Replay(vec![3]));
        assert_eq!(table.standing(7, 1, 2, 0), Standing::AlreadyApplied);
    }

    #[test]
    fn a_skipped_id_can_never_be_used_later() {
        let mut table = table();
        table.commit_reply(7, 2, 9, 0, Vec::new());
        assert_eq!(table.standing(7, 1, 8, 0), Standing::AlreadyApplied);
    }

    #[test]
    fn a_number_used_for_other_arguments_is_met_with_silence() {
        let mut table = table();
        table.commit_reply(7, 2, 1, 11, Vec::new());
        assert_eq!(table.standing(7, 1, 1, 12), Standing::Reused);
        assert_eq!(table.standing(7, 1, 1, 0), Standing::Replay(Vec::new()));
    }

    #[test]
    fn a_new_register_fences_the_old_epoch_and_keeps_the_watermark() {
        let mut table = table();
        table.commit_reply(7, 2, 4, 0, vec![4]);
        table.commit_register(7, 3);
        assert_eq!(table.standing(7, 1, 5, 0), Standing::Fenced);
        assert_eq!(table.standing(7, 4, 5, 0), Standing::EpochAhead);
        assert_eq!(table.standing(7, 3, 4, 0), Standing::Replay(vec![4]));
        assert_eq!(table.standing(7, 3, 5, 0), Standing::New);
    }

    #[test]
    fn a_full_table_forgets_the_longest_idle_client() {
        let mut table = table();
        table.commit_register(8, 2);
        table.commit_reply(7, 3, 1, 0, Vec::new());
        assert_eq!(table.evict_idle(), Some(8));
        assert_eq!(table.standing(8, 2, 1, 0), Standing::NoSession);
        assert_eq!(table.standing(7, 1, 2, 0), Standing::New);
    }
}
