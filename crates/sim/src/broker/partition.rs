//! One partition of the model broker: its log, its duplicate windows and its two queues.
//!
//! Role: decides what becomes of a `SendMessages` that reached the partition, and commits in order.
//! Does not: build replies, draw latencies or know connections beyond the number that a reply goes
//! to. Semantics (the partition plane of the protocol): for every client a watermark and the last
//! [`WINDOW_IDS`] committed ids; a recognised duplicate is answered with an empty success; an id
//! [`WINDOW_IDS`] or more below the watermark counts as committed whether it was or not.
//! [`PREPARES_MAX`] uncommitted requests, [`QUEUE_MAX`] waiting ones, from all producers together;
//! past them silence. Invariants: the prepare queue commits in order; the request queue is empty
//! unless the prepare queue is full.

use std::collections::{BTreeMap, VecDeque};

/// Ids below and including the watermark of which the server remembers which ones committed.
pub const WINDOW_IDS: u64 = 128;

/// Uncommitted requests a partition takes.
pub const PREPARES_MAX: usize = 32;

/// Requests that wait for a place among the uncommitted ones.
pub const QUEUE_MAX: usize = 64;

/// What the partition knows about an id of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Not committed as far as the window tells.
    New,
    /// In the window and committed.
    Committed,
    /// Below the window: taken for committed.
    BelowWindow,
}

/// The committed ids of one client on one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    watermark: u64,
    /// Bit `i` is set when id `watermark - i` committed.
    committed: u128,
    used_at: u64,
}

impl Window {
    pub(crate) const fn seen(&self, request: u64) -> Seen {
        if request > self.watermark {
            return Seen::New;
        }
        let below = self.watermark - request;
        if below >= WINDOW_IDS {
            Seen::BelowWindow
        } else if self.committed >> below & 1 == 1 {
            Seen::Committed
        } else {
            Seen::New
        }
    }

    pub(crate) fn commit(&mut self, request: u64) {
        if request > self.watermark {
            let step = request - self.watermark;
            self.committed = if step >= WINDOW_IDS {
                0
            } else {
                self.committed << step
            };
            self.committed |= 1;
            self.watermark = request;
            return;
        }
        let below = self.watermark - request;
        if below < WINDOW_IDS {
            self.committed |= 1 << below;
        }
    }
}

/// Who sent a request, and where its reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) conn: usize,
    pub(crate) client: u128,
    pub(crate) request: u64,
    /// The timestamp of the request's header, which direct replies echo.
    pub(crate) timestamp: u64,
}

/// A request on its way through the partition. `origin` is `None` for the load of other producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) origin: Option<Origin>,
    /// The batch, by its number over the whole run. Meaningless for other producers.
    pub(crate) batch: u32,
    pub(crate) records: u32,
    /// What the commit takes, in microseconds.
    pub(crate) takes_us: u64,
    /// Whether the commit is answered on the connection.
    pub(crate) answered: bool,
}

#[derive(Clone, Copy, Debug)]
struct Prepare {
    pending: Pending,
    ready_us: u64,
}

/// What became of a request that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Waits to commit.
    Prepared,
    /// Waits for a place among those that wait to commit.
    Queued,
    /// Already committed: an empty success.
    Duplicate,
    /// Below the window: an empty success, whatever is the truth.
    BelowWindow,
    /// The same id is among the uncommitted ones.
    InFlight,
    /// Both queues are full: silence.
    Dropped,
}

/// What became of the head of the prepare queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Appended at this offset.
    Appended { pending: Pending, base_offset: u64 },
    /// It had committed under the same id in the meantime.
    Duplicate { pending: Pending },
    /// The window had moved past it in the meantime.
    BelowWindow { pending: Pending },
}

/// A committed batch of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// The batch, by its number over the whole run; `None` for other producers.
    pub(crate) batch: Option<u32>,
    /// The offset of its first record.
    pub(crate) base_offset: u64,
    /// How many records it holds.
    pub(crate) records: u32,
}

/// A partition.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    log: Vec<LogEntry>,
    next_offset: u64,
    windows: BTreeMap<u128, Window>,
    prepares: VecDeque<Prepare>,
    queue: VecDeque<Pending>,
    /// Counts uses of the windows, to find the longest idle one.
    uses: u64,
}

impl Partition {
    /// Takes a request of a client that is neither known nor malformed.
    pub(crate) fn admit(&mut self, now_us: u64, pending: Pending) -> Admission {
        if let Some(origin) = pending.origin {
            match self.seen(origin) {
                Seen::Committed => return Admission::Duplicate,
                Seen::BelowWindow => return Admission::BelowWindow,
                Seen::New => {}
            }
            let same = |other: &Prepare| {
                other
                    .pending
                    .origin
                    .is_some_and(|o| (o.client, o.request) == (origin.client, origin.request))
            };
            if self.prepares.iter().any(same) {
                return Admission::InFlight;
            }
        }
        if self.prepares.len() < PREPARES_MAX {
            assert!(
                self.queue.is_empty(),
                "a request waits although a place is free"
            );
            self.prepare(now_us, pending);
            Admission::Prepared
        } else if self.queue.len() < QUEUE_MAX {
            self.queue.push_back(pending);
            Admission::Queued
        } else {
            Admission::Dropped
        }
    }

    fn seen(&self, origin: Origin) -> Seen {
        self.windows
            .get(&origin.client)
            .map_or(Seen::New, |window| window.seen(origin.request))
    }

    fn prepare(&mut self, now_us: u64, pending: Pending) {
        let before_us = self
            .prepares
            .back()
            .map_or(now_us, |last| last.ready_us.max(now_us));
        let ready_us = before_us.max(now_us + pending.takes_us);
        self.prepares.push_back(Prepare { pending, ready_us });
    }

    /// When the head of the prepare queue commits; `None` when nothing waits.
    pub(crate) fn commits_at_us(&self) -> Option<u64> {
        self.prepares.front().map(|head| head.ready_us)
    }

    /// Commits the head of the prepare queue if it is due, and lets a queued request take its
    /// place.
    pub(crate) fn commit_head(&mut self, now_us: u64) -> Option<Commit> {
        self.prepares
            .front()
            .filter(|head| head.ready_us <= now_us)?;
        let Prepare { pending, .. } = self.prepares.pop_front()?;
        let commit = self.commit(pending);
        while self.prepares.len() < PREPARES_MAX {
            let Some(next) = self.queue.pop_front() else {
                break;
            };
            self.prepare(now_us, next);
        }
        Some(commit)
    }

    fn commit(&mut self, pending: Pending) -> Commit {
        if let Some(origin) = pending.origin {
            match self.seen(origin) {
                Seen::Committed => return Commit::Duplicate { pending },
                Seen::BelowWindow => return Commit::BelowWindow { pending },
                Seen::New => {}
            }
            self.uses += 1;
            let window = self.windows.entry(origin.client).or_default();
            window.commit(origin.request);
            window.used_at = self.uses;
        }
        let base_offset = self.next_offset;
        let batch = pending.origin.map(|_| pending.batch);
        self.log.push(LogEntry {
            batch,
            base_offset,
            records: pending.records,
        });
        self.next_offset += u64::from(pending.records);
        Commit::Appended {
            pending,
            base_offset,
        }
    }

    /// Forgets the window of the longest idle client, as a full table does. Returns that client.
    pub(crate) fn forget_idle_window(&mut self) -> Option<u128> {
        let (&client, _) = self
            .windows
            .iter()
            .min_by_key(|(_, window)| window.used_at)?;
        self.windows.remove(&client);
        Some(client)
    }

    /// A restart that keeps the log: the first `durable` uncommitted requests had reached it and
    /// commit without an answer, the others are gone. Returns those that committed.
    pub(crate) fn restart(&mut self, durable: usize) -> Vec<Commit> {
        self.queue.clear();
        let survivors: Vec<Pending> = self
            .prepares
            .drain(..)
            .take(durable)
            .map(|head| head.pending)
            .collect();
        survivors
            .into_iter()
            .map(|pending| {
                self.commit(Pending {
                    answered: false,
                    ..pending
                })
            })
            .collect()
    }

    /// The batches of clients that wait, in either queue.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u32> {
        let prepares = self.prepares.iter().map(|prepare| &prepare.pending);
        let waiting = prepares
            .chain(&self.queue)
            .filter(|pending| pending.origin.is_some());
        waiting.map(|pending| pending.batch)
    }

    /// How many requests are uncommitted.
    pub(crate) fn prepares_waiting(&self) -> usize {
        self.prepares.len()
    }

    /// The log, for the audit.
    pub(crate) fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// Takes the log out, when the partition ends.
    pub(crate) fn into_log(self) -> Vec<LogEntry> {
        self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(client: u128, request: u64) -> Pending {
        let origin = Some(Origin {
            conn: 0,
            client,
            request,
            timestamp: 0,
        });
        Pending {
            origin,
            batch: request as u32,
            records: 2,
            takes_us: 10,
            answered: true,
        }
    }

    fn store(partition: &mut Partition, client: u128, request: u64) -> Option<Commit> {
        assert_eq!(
            partition.admit(0, pending(client, request)),
            Admission::Prepared
        );
        partition.commit_head(10)
    }

    /// Commits everything that waits, long after it arrived.
    fn commit_all(partition: &mut Partition) -> Vec<Commit> {
        let mut commits = Vec::new();
        while let Some(due_us) = partition.commits_at_us() {
            commits.extend(partition.commit_head(due_us));
        }
        commits
    }

    #[test]
    fn a_window_tells_127_from_128_below_the_watermark() {
        let mut window = Window::default();
        window.commit(129);
        assert_eq!(window.seen(1), Seen::BelowWindow);
        assert_eq!(window.seen(2), Seen::New);
        window.commit(2);
        assert_eq!(window.seen(2), Seen::Committed);
        window.commit(130);
        assert_eq!(window.seen(2), Seen::BelowWindow);
        assert_eq!(window.seen(129), Seen::Committed);
        window.commit(500);
        assert_eq!(window.seen(500), Seen::Committed);
        assert_eq!(window.seen(499), Seen::New);
    }

    #[test]
    fn a_window_agrees_with_a_plain_set() {
        let mut rng = crate::rng::Rng::new(11);
        let mut window = Window::default();
        let mut committed = std::collections::BTreeSet::new();
        let mut highest = 0;
        for _ in 0..5000 {
            let request = rng
                .between(1, highest + 140)
                .max(highest.saturating_sub(140))
                .max(1);
            let expected = match highest {
                highest if request > highest => Seen::New,
                highest if highest - request >= 128 => Seen::BelowWindow,
                _ if committed.contains(&request) => Seen::Committed,
                _ => Seen::New,
            };
            assert_eq!(
                window.seen(request),
                expected,
                "id {request} at watermark {highest}"
            );
            if expected == Seen::New {
                window.commit(request);
                committed.insert(request);
                highest = highest.max(request);
            }
        }
    }

    #[test]
    fn a_duplicate_is_stored_once_per_client() {
        let mut partition = Partition::default();
        assert!(matches!(
            store(&mut partition, 1, 7),
            Some(Commit::Appended { base_offset: 0, .. })
        ));
        assert_eq!(partition.admit(20, pending(1, 7)), Admission::Duplicate);
        assert!(matches!(
            store(&mut partition, 2, 7),
            Some(Commit::Appended { base_offset: 2, .. })
        ));
    }

    #[test]
    fn both_queues_fill_and_then_requests_fall_off() {
        let mut partition = Partition::default();
        let kinds: Vec<Admission> = (1..=98)
            .map(|request| partition.admit(0, pending(1, request)))
            .collect();
        assert!(kinds[..32].iter().all(|kind| *kind == Admission::Prepared));
        assert!(kinds[32..96].iter().all(|kind| *kind == Admission::Queued));
        assert!(kinds[96..].iter().all(|kind| *kind == Admission::Dropped));
        assert_eq!(partition.admit(0, pending(1, 5)), Admission::InFlight);
        assert_eq!((partition.prepares.len(), partition.queue.len()), (32, 64));
        assert!(
            partition.commit_head(9).is_none(),
            "nothing is due before its time"
        );
        commit_all(&mut partition);
        assert_eq!(partition.log().len(), 96);
    }

    #[test]
    fn a_request_queued_twice_is_stored_once() {
        let mut partition = Partition::default();
        for request in 1..=32 {
            partition.admit(0, pending(9, request));
        }
        assert_eq!(partition.admit(0, pending(1, 1)), Admission::Queued);
        assert_eq!(partition.admit(0, pending(1, 1)), Admission::Queued);
        let commits = commit_all(&mut partition);
        assert_eq!(commits.len(), 34);
        assert!(matches!(commits[33], Commit::Duplicate { .. }));
        assert_eq!(partition.log().len(), 33);
    }

    #[test]
    fn a_restart_keeps_a_prefix_of_what_waited_and_the_windows() {
        let mut partition = Partition::default();
        store(&mut partition, 1, 1);
        for request in 2..=4 {
            partition.admit(20, pending(1, request));
        }
        assert_eq!(partition.restart(2).len(), 2);
        assert_eq!(partition.prepares_waiting(), 0);
        assert_eq!(partition.admit(30, pending(1, 3)), Admission::Duplicate);
        assert_eq!(partition.admit(30, pending(1, 4)), Admission::Prepared);
    }

    #[test]
    fn the_longest_idle_window_is_forgotten_first() {
        let mut partition = Partition::default();
        store(&mut partition, 1, 1);
        store(&mut partition, 2, 1);
        store(&mut partition, 1, 2);
        assert_eq!(partition.forget_idle_window(), Some(2));
        assert_eq!(partition.admit(20, pending(1, 2)), Admission::Duplicate);
        assert_eq!(partition.admit(20, pending(2, 1)), Admission::Prepared);
    }
}
