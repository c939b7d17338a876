//! What a partition remembers of each client's requests, so that a retry is not stored twice.
//!
//! Per client: the highest committed request id (the watermark) and one bit for each of the 128 ids
//! that end with it. Ids further below are taken as committed, whether or not they ever were: the
//! protocol's known gap.
//!
//! ```text
//!              watermark - 127                      watermark
//!   committed        | bit 127  . . . . bit 1  bit 0 |        new
//!   (swallowed)      | set: duplicate  clear: new    |
//! ```

use std::collections::HashMap;

use crate::limits::{WINDOW_CLIENTS_MAX, WINDOW_IDS};

/// How a request relates to what the partition has committed for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Execute it.
    New,
    /// Committed before: answer an empty success.
    Duplicate,
    /// 128 or more below the watermark: answer an empty success without executing.
    Swallowed,
}

#[derive(Debug, Clone, Copy)]
struct ClientWindow {
    /// Highest committed request id.
    watermark: u64,
    /// Bit `n` is set when request `watermark - n` is committed. Bit 0 is always set.
    committed: u128,
    /// When this client last committed here, in commits of the partition: the eviction order.
    used_at: u64,
}

/// The committed windows of one partition.
#[derive(Debug, Default)]
pub(crate) struct CommittedWindow {
    clients: HashMap<u128, ClientWindow>,
    /// Commits so far: the clock of `used_at`.
    commits: u64,
}

impl CommittedWindow {
    /// Clients remembered.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Classifies `request` of `client` without changing anything.
    pub(crate) fn seen(&self, client: u128, request: u64) -> Seen {
        let Some(window) = self.clients.get(&client) else {
            return Seen::New;
        };
        if request > window.watermark {
            return Seen::New;
        }
        let below = window.watermark - request;
        if below >= WINDOW_IDS {
            Seen::Swallowed
        } else if window.committed >> below & 1 == 1 {
            Seen::Duplicate
        } else {
            Seen::New
        }
    }

    /// Records a commit. `make_room` asks that a new client displaces one of this partition's,
    /// whatever its count. Returns how many clients were forgotten (0 or 1).
    pub(crate) fn commit(&mut self, client: u128, request: u64, make_room: bool) -> usize {
        self.commits += 1;
        let used_at = self.commits;
        if let Some(window) = self.clients.get_mut(&client) {
            window.used_at = used_at;
            window.commit(request);
            return 0;
        }
        let full = self.clients.len() >= WINDOW_CLIENTS_MAX || make_room;
        let forgotten = if full { self.forget_longest_idle() } else { 0 };
        self.clients.insert(
            client,
            ClientWindow {
                watermark: request,
                committed: 1,
                used_at,
            },
        );
        forgotten
    }

    /// Forgets every client.
    pub(crate) fn clear(&mut self) {
        self.clients.clear();
    }

    fn forget_longest_idle(&mut self) -> usize {
        let idle = self
            .clients
            .iter()
            .min_by_key(|(_, window)| window.used_at)
            .map(|(client, _)| *client);
        match idle {
            Some(client) => {
                self.clients.remove(&client);
                1
            }
            None => 0,
        }
    }
}

impl ClientWindow {
    fn commit(&mut self, request: u64) {
        if request > self.watermark {
            let rise = request - self.watermark;
            self.committed = if rise >= WINDOW_IDS {
                0
            } else {
                self.committed << rise
            };
            self.watermark = request;
        }
        // A send can wait for its commit while the client's other requests run ahead by more than
        // the window.
        let below = self.watermark - request;
        if below < WINDOW_IDS {
            self.committed |= 1 << below;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_inside_the_window_is_a_duplicate() {
        let mut window = CommittedWindow::default();
        window.commit(7, 10, false);
        assert_eq!(window.seen(7, 10), Seen::Duplicate);
        assert_eq!(
            window.seen(8, 10),
            Seen::New,
            "another client's ids are its own"
        );
    }

    #[test]
    fn an_unseen_id_inside_the_window_executes_and_outside_is_swallowed() {
        let mut window = CommittedWindow::default();
        window.commit(7, 1000, false);
        assert_eq!(window.seen(7, 873), Seen::New);
        assert_eq!(window.seen(7, 872), Seen::Swallowed);
        window.commit(7, 873, false);
        assert_eq!(window.seen(7, 873), Seen::Duplicate);
    }

    #[test]
    fn a_jump_past_the_window_clears_the_bits() {
        let mut window = CommittedWindow::default();
        window.commit(7, 1, false);
        window.commit(7, 129, false);
        assert_eq!(window.seen(7, 1), Seen::Swallowed);
        assert_eq!(window.seen(7, 2), Seen::New);
        assert_eq!(window.seen(7, 129), Seen::Duplicate);
    }

    #[test]
    fn the_longest_idle_client_is_forgotten_first() {
        let mut window = CommittedWindow::default();
        for client in 0..WINDOW_CLIENTS_MAX as u128 {
            assert_eq!(window.commit(client, 1, false), 0);
        }
        window.commit(0, 2, false);
        assert_eq!(window.commit(u128::MAX, 1, false), 1);
        assert_eq!(
            window.seen(1, 1),
            Seen::New,
            "client 1 was the longest idle"
        );
        assert_eq!(window.seen(0, 2), Seen::Duplicate);
        assert_eq!(window.clients(), WINDOW_CLIENTS_MAX);
    }

    proptest::proptest! {
        /// Against the definition: a set of committed ids and its maximum.
        #[test]
        fn agrees_with_a_set_of_ids(ids in proptest::collection::vec(1_u64..400, 1..200)) {
            let mut window = CommittedWindow::default();
            let mut committed = std::collections::BTreeSet::new();
            for id in ids {
                let watermark = committed.last().copied().unwrap_or(0);
                let expected = if watermark >= id + WINDOW_IDS {
                    Seen::Swallowed
                } else if committed.contains(&id) {
                    Seen::Duplicate
                } else {
                    Seen::New
                };
                proptest::prop_assert_eq!(window.seen(1, id), expected);
                if expected == Seen::New {
                    window.commit(1, id, false);
                    committed.insert(id);
                }
            }
        }
    }
}
