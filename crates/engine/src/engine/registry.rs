//! What an engine has handed out: topics, producers' accounts, places for lanes, random numbers.
//!
//! Locks: a lane's may be held when the registry's is taken, never the other way round. The
//! registry only tries those of topics that no producer holds.
//!
//! Cold: used when something is built, closed or looked at, never for a record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ringmain_proto::LaneKey;

use crate::lane::LanePlace;
use crate::ledger::Ledger;
use crate::outcome::Account;
use crate::topic::Topic;

/// One connection as the registry counts it.
struct Seat {
    shard: usize,
    conn: u16,
    /// Places made so far; the keys of its lanes are dense.
    made: u32,
    /// Places that were given back: index within the shard, and key.
    free: Vec<(u32, LaneKey)>,
}

impl Seat {
    fn taken(&self) -> usize {
        self.made as usize - self.free.len()
    }
}

/// A topic, and how many producers hold it.
struct Entry {
    topic: Arc<Topic>,
    producers: u32,
}

/// See the module.
pub(crate) struct Registry {
    /// By stream and topic: a number may be another topic's tomorrow.
    topics: HashMap<(String, String), Entry>,
    /// Topics that no producer holds and of which something may be unanswered.
    unheld: Vec<Arc<Topic>>,
    ledgers: Vec<Arc<Ledger>>,
    /// The accounts of producers that are gone and settled.
    retired: Account,
    seats: Vec<Seat>,
    lanes_of_shard: Vec<u32>,
    lanes_per_conn_max: u32,
    /// Lanes of all connections together.
    lanes_max: u32,
    random: [u64; 2],
}

impl Registry {
    /// `conns_of_shards[i]` connections in shard `i`, with so many lanes in all, spread evenly.
    pub(super) fn new(conns_of_shards: &[u16], lanes_max: u32, random: [u64; 2]) -> Self {
        let seats = conns_of_shards
            .iter()
            .enumerate()
            .flat_map(|(shard, conns)| {
                (0..*conns).map(move |conn| Seat {
                    shard,
                    conn,
                    made: 0,
                    free: Vec::new(),
                })
            })
            .collect();
        let conns: u32 = conns_of_shards.iter().copied().map(u32::from).sum();
        Self {
            topics: HashMap::new(),
            unheld: Vec::new(),
            ledgers: Vec::new(),
            retired: Account::default(),
            seats,
            lanes_of_shard: vec![0; conns_of_shards.len()],
            lanes_per_conn_max: lanes_max.div_ceil(conns.max(1)),
            lanes_max,
            random,
        }
    }

    /// A place on the connection with the fewest lanes; `None` when all are taken. A lane stays
    /// there until its topic is forgotten.
    pub(super) fn take_place(&mut self) -> Option<(usize, LanePlace)> {
        if self.lanes_taken() >= self.lanes_max as usize {
            self.forget_answered();
        }
        if self.lanes_taken() >= self.lanes_max as usize {
            return None;
        }
        let seats = self.seats.iter_mut().enumerate();
        let (number, seat) = seats.min_by_key(|(_, seat)| seat.taken())?;
        let (index, key) = seat.free.pop().unwrap_or_else(|| {
            assert!(seat.made < self.lanes_per_conn_max, "spread evenly");
            let index = &mut self.lanes_of_shard[seat.shard];
            let made = (*index, LaneKey(seat.made));
            *index += 1;
            seat.made += 1;
            made
        });
        let place = LanePlace {
            index,
            conn: seat.conn,
            key,
            seat: u16::try_from(number).expect("few connections"),
        };
        Some((seat.shard, place))
    }

    fn lanes_taken(&self) -> usize {
        self.seats.iter().map(Seat::taken).sum()
    }

    /// Whether a place may come back without a producer letting go: something unheld has all its
    /// answers, and the shard is about to notice.
    pub(super) fn is_place_coming(&self) -> bool {
        self.unheld.iter().any(|topic| topic.is_answered())
    }

    /// The topic of these names.
    pub(crate) fn topic(&self, stream: &str, topic: &str) -> Option<&Arc<Topic>> {
        let key = (stream.to_owned(), topic.to_owned());
        self.topics.get(&key).map(|entry| &entry.topic)
    }

    pub(crate) fn topics(&self) -> Vec<Arc<Topic>> {
        let entries = self.topics.values();
        entries.map(|entry| Arc::clone(&entry.topic)).collect()
    }

    /// Counts one more producer of the topic, known or new.
    pub(crate) fn hold_topic(&mut self, topic: &Arc<Topic>) {
        let entry = self.topics.entry(key_of(topic)).or_insert_with(|| Entry {
            topic: Arc::clone(topic),
            producers: 0,
        });
        assert!(Arc::ptr_eq(&entry.topic, topic), "a name has one topic");
        if entry.producers == 0 {
            self.unheld.retain(|unheld| !Arc::ptr_eq(unheld, topic));
        }
        entry.producers += 1;
    }

    /// One producer of the topic less. True when it was the last one.
    pub(super) fn let_go(&mut self, topic: &Arc<Topic>) -> bool {
        let entry = self.topics.get_mut(&key_of(topic)).expect("held");
        entry.producers -= 1;
        if entry.producers > 0 {
            return false;
        }
        self.unheld.push(Arc::clone(topic));
        self.forget_answered();
        true
    }

    /// Forgets the topics that no producer holds and of which everything is answered: their places
    /// are free.
    pub(crate) fn forget_answered(&mut self) {
        let (topics, seats) = (&mut self.topics, &mut self.seats);
        self.unheld.retain(|topic| {
            if !topic.give_up_lanes() {
                return true;
            }
            topics.remove(&key_of(topic));
            for LanePlace {
                seat, index, key, ..
            } in topic.lanes().map(|lane| &lane.place)
            {
                seats[*seat as usize].free.push((*index, *key));
            }
            false
        });
    }

    /// Keeps a producer's account, and lets go of those that are gone and settled.
    pub(crate) fn keep_ledger(&mut self, ledger: Arc<Ledger>) {
        let retired = &mut self.retired;
        self.ledgers.retain(|known| {
            // Producers and batches hold their ledger. When nobody does, everything is counted, and
            // whoever counted it dropped it afterwards: the fence makes that visible.
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

    /// A base for message ids: 128 bits that no other lane of this process has and no other process
    /// repeats.
    pub(crate) fn random_id(&mut self) -> u128 {
        let (high, low) = (self.random_u64(), self.random_u64());
        u128::from(high) << 64 | u128::from(low)
    }

    /// The next number of a generator seeded from the system's entropy: xorshift128+, not for
    /// secrets.
    pub(crate) fn random_u64(&mut self) -> u64 {
        let [mut x, y] = self.random;
        x ^= x << 23;
        self.random = [y, x ^ y ^ (x >> 17) ^ (y >> 26)];
        self.random[1].wrapping_add(y)
    }
}

fn key_of(topic: &Topic) -> (String, String) {
    let (stream, topic) = topic.name.parts();
    (stream.to_owned(), topic.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn lanes_are_spread_evenly_and_numbered_densely() {
        let mut registry = Registry::new(&[2, 1], 9, [1, 2]);
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
