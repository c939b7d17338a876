//! What an engine has handed out: topics, producers' accounts, places for lanes, random numbers.
//!
//! Locks: a lane's may be held when the registry's is taken, never the other way round.
//!
//! Cold: used when something is built, closed or looked at, never for a record.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ringmain_proto::LaneKey;

use crate::lane::LanePlace;
use crate::ledger::Ledger;
use crate::outcome::Account;
use crate::topic::Topic;

/// One connection as the registry counts it.
struct Seats {
    shard: usize,
    conn: u16,
    lanes: u32,
}

/// See the module.
pub(crate) struct Registry {
    topics: Vec<Arc<Topic>>,
    ledgers: Vec<Arc<Ledger>>,
    /// The accounts of producers that are gone and settled.
    retired: Account,
    seats: Vec<Seats>,
    lanes_of_shard: Vec<u32>,
    lanes_per_conn_max: u32,
    random: [u64; 2],
}

impl Registry {
    /// `conns_of_shards[i]` connections in shard `i`, each with at most `lanes_per_conn_max` lanes.
    pub(super) fn new(conns_of_shards: &[u16], lanes_per_conn_max: u32, random: [u64; 2]) -> Self {
        let seats = conns_of_shards
            .iter()
            .enumerate()
            .flat_map(|(shard, conns)| {
                (0..*conns).map(move |conn| Seats {
                    shard,
                    conn,
                    lanes: 0,
                })
            })
            .collect();
        Self {
            topics: Vec::new(),
            ledgers: Vec::new(),
            retired: Account::default(),
            seats,
            lanes_of_shard: vec![0; conns_of_shards.len()],
            lanes_per_conn_max,
            random,
        }
    }

    /// A place on the connection with the fewest lanes; `None` when all are full. A lane stays there for good.
    pub(super) fn take_place(&mut self) -> Option<(usize, LanePlace)> {
        let seat = self.seats.iter_mut().min_by_key(|seat| seat.lanes)?;
        if seat.lanes >= self.lanes_per_conn_max {
            return None;
        }
        let index = &mut self.lanes_of_shard[seat.shard];
        let place = LanePlace {
            index: *index,
            conn: seat.conn,
            key: LaneKey(seat.lanes),
        };
        *index += 1;
        seat.lanes += 1;
        Some((seat.shard, place))
    }

    /// The topic of these names, or of these numbers: names can change, and a topic that was deleted and created anew
    /// has new numbers. Either way its partitions have one lane each.
    pub(crate) fn topic(&self, stream: &str, topic: &str, ids: (u32, u32)) -> Option<&Arc<Topic>> {
        let mut topics = self.topics.iter();
        topics.find(|known| known.ids() == ids || known.name.is(stream, topic))
    }

    pub(crate) fn topics(&self) -> Vec<Arc<Topic>> {
        self.topics.clone()
    }

    pub(crate) fn keep_topic(&mut self, topic: Arc<Topic>) {
        self.topics.push(topic);
    }

    /// Keeps a producer's account, and lets go of those that are gone and settled.
    pub(crate) fn keep_ledger(&mut self, ledger: Arc<Ledger>) {
        let retired = &mut self.retired;
        self.ledgers.retain(|known| {
            // Producers and batches hold their ledger. When nobody does, everything is counted, and whoever counted it
            // dropped it afterwards: the fence makes that visible.
            if Arc::strong_count(known) > 1 {
                return true;
            }
            fence(Ordering::Acquire);
            let account = known.account();
            assert!(account.in_flight == 0, "a batch in flight holds its ledger");
            *retired += account;
            false
        });
        self.ledgers.push(ledger);
    }

    pub(super) fn close_all(&self) {
        for ledger in &self.ledgers {
            ledger.close();
        }
    }

    /// The sum over all producers, as far as their lanes have counted.
    pub(super) fn account(&self) -> Account {
        let mut sum = self.retired;
        for ledger in &self.ledgers {
            sum += ledger.account();
        }
        sum
    }

    /// A base for message ids: 128 bits that no other lane of this process has and no other process repeats.
    pub(crate) fn random_id(&mut self) -> u128 {
        let (high, low) = (self.random_u64(), self.random_u64());
        u128::from(high) << 64 | u128::from(low)
    }

    /// The next number of a generator seeded from the system's entropy: xorshift128+, not for secrets.
    pub(crate) fn random_u64(&mut self) -> u64 {
        let [mut x, y] = self.random;
        x ^= x << 23;
        self.random = [y, x ^ y ^ (x >> 17) ^ (y >> 26)];
        self.random[1].wrapping_add(y)
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn lanes_are_spread_evenly_and_numbered_densely() {
        let mut registry = Registry::new(&[2, 1], 3, [1, 2]);
        let mut seen = vec![Vec::new(); 2];
        for _ in 0..9 {
            let (shard, place) = registry.take_place().expect("nine places");
            assert_eq!(place.index as usize, seen[shard].len());
            seen[shard].push((place.conn, place.key.0));
        }
        assert!(registry.take_place().is_none());
        assert_eq!(seen[0], [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(seen[1], [(0, 0), (0, 1), (0, 2)]);
    }

    #[test]
    fn random_ids_differ() {
        let mut registry = Registry::new(&[1], 1, [3, 4]);
        let mut ids: Vec<u128> = (0..1000).map(|_| registry.random_id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 1000);
    }
}
