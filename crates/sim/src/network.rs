//! Connections of the simulated network: two byte streams that lose nothing but their end.
//!
//! Role: when which bytes arrive, how a stream is cut into fragments, and what is left of it after
//! a reset. Does not: open connections or act on what arrives; the world schedules what is returned
//! here. Invariants: bytes of one direction arrive in order and without gaps; after the end of a
//! direction none arrive.

use crate::draws::NetworkDraws;
use crate::faults::{Fault, Faults};
use crate::rng::{Rng, Stream};
use std::collections::VecDeque;

/// Fragments that one send is cut into at most, less one.
const FRAGMENTS_MAX: usize = 8;

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    /// Fragments on their way, in order, with the instants at which they arrive.
    fragments: VecDeque<(u64, Vec<u8>)>,
    /// When the last bytes sent so far arrive.
    last_us: u64,
    /// Nothing can be sent any more.
    shut: bool,
}

impl Direction {
    /// Nothing can be sent any more, and what is on its way is lost.
    fn tear(&mut self) {
        self.shut = true;
        self.fragments.clear();
    }
}

/// A connection.
#[derive(Debug, Default)]
struct Link {
    client: usize,
    to_server: Direction,
    to_client: Direction,
    /// Until then the server does not read from it: it drains slowly.
    stalled_us: u64,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    Server,
    Client,
}

/// How a connection ended, as far as both sides will notice.
pub(crate) struct Ending {
    /// When the client notices.
    pub(crate) client_us: u64,
    /// When the server notices.
    pub(crate) server_us: u64,
}

/// All connections of a run.
pub(crate) struct Network {
    draws: NetworkDraws,
    rng: Rng,
    links: Vec<Link>,
}

impl Network {
    pub(crate) fn new(seed: u64, draws: NetworkDraws) -> Self {
        Self {
            draws,
            rng: Rng::stream(seed, Stream::Network),
            links: Vec::new(),
        }
    }

    /// Opens a connection of `client` and returns its number.
    pub(crate) fn open(&mut self, client: usize) -> usize {
        self.links.push(Link {
            client,
            ..Link::default()
        });
        self.links.len() - 1
    }

    /// Whose connection it is.
    pub(crate) fn client(&self, conn: usize) -> usize {
        self.links[conn].client
    }

    /// A draw of the time that something takes on the way.
    pub(crate) const fn latency_us(&mut self) -> u64 {
        self.rng
            .scaled(self.draws.latency_us.0, self.draws.latency_us.1)
    }

    /// A draw of the time that a write takes.
    pub(crate) const fn write_us(&mut self) -> u64 {
        self.rng.between(1, self.draws.write_us_max)
    }

    /// A draw of the time for which the kernel goes on reading memory that it sent.
    pub(crate) const fn hold_us(&mut self) -> u64 {
        self.rng.scaled(0, self.draws.hold_us_max)
    }

    /// The longest run of bytes that one write call takes of `total`.
    pub(crate) fn write_progress(&mut self, faults: &mut Faults, total: usize) -> usize {
        if faults.fires(Fault::WriteShort, None) {
            self.rng.between(1, total as u64) as usize
        } else {
            total
        }
    }

    /// Sends bytes; returns the instants at which fragments of them arrive. Nothing goes out on a
    /// direction that is shut.
    pub(crate) fn send(
        &mut self,
        now_us: u64,
        faults: &mut Faults,
        conn: usize,
        towards: Towards,
        mut bytes: Vec<u8>,
    ) -> Vec<u64> {
        let mut arrivals = Vec::new();
        if self.direction(conn, towards).shut {
            return arrivals;
        }
        while bytes.len() > 1
            && arrivals.len() < FRAGMENTS_MAX
            && faults.fires(Fault::BytesCut, None)
        {
            let rest = bytes.split_off(self.rng.between(1, bytes.len() as u64 - 1) as usize);
            let first = std::mem::replace(&mut bytes, rest);
            arrivals.push(self.post(now_us, conn, towards, first));
        }
        arrivals.push(self.post(now_us, conn, towards, bytes));
        arrivals
    }

    fn post(&mut self, now_us: u64, conn: usize, towards: Towards, bytes: Vec<u8>) -> u64 {
        let at_us = self.arrival_us(now_us, conn, towards);
        self.direction_mut(conn, towards)
            .fragments
            .push_back((at_us, bytes));
        at_us
    }

    /// The next fragment that has arrived.
    pub(crate) fn receive(
        &mut self,
        now_us: u64,
        conn: usize,
        towards: Towards,
    ) -> Option<Vec<u8>> {
        let fragments = &mut self.direction_mut(conn, towards).fragments;
        fragments.front().filter(|(at_us, _)| *at_us <= now_us)?;
        fragments.pop_front().map(|(_, bytes)| bytes)
    }

    fn arrival_us(&mut self, now_us: u64, conn: usize, towards: Towards) -> u64 {
        let latency_us = self.latency_us();
        let direction = self.direction_mut(conn, towards);
        direction.last_us = direction.last_us.max(now_us + latency_us);
        direction.last_us
    }

    fn direction(&self, conn: usize, towards: Towards) -> &Direction {
        match towards {
            Towards::Server => &self.links[conn].to_server,
            Towards::Client => &self.links[conn].to_client,
        }
    }

    fn direction_mut(&mut self, conn: usize, towards: Towards) -> &mut Direction {
        match towards {
            Towards::Server => &mut self.links[conn].to_server,
            Towards::Client => &mut self.links[conn].to_client,
        }
    }

    /// Until when the server does not read from this connection.
    pub(crate) fn stalled_us(&self, conn: usize) -> u64 {
        self.links[conn].stalled_us
    }

    /// Whether both sides may still send.
    pub(crate) fn is_open(&self, conn: usize) -> bool {
        !self.links[conn].to_server.shut && !self.links[conn].to_client.shut
    }

    /// The network resets the connection: what is on its way to the client is lost, what is on its
    /// way to the server is lost too unless the server goes on draining it.
    pub(crate) fn reset(&mut self, now_us: u64, faults: &mut Faults, conn: usize) -> Ending {
        let link = &mut self.links[conn];
        link.to_server.shut = true;
        link.to_client.tear();
        let client_us = now_us + self.latency_us();
        Ending {
            client_us,
            server_us: self.drain(now_us, faults, conn, true),
        }
    }

    /// The client closes: what it wrote still arrives.
    pub(crate) fn close_by_client(
        &mut self,
        now_us: u64,
        faults: &mut Faults,
        conn: usize,
    ) -> Ending {
        let link = &mut self.links[conn];
        link.to_server.shut = true;
        link.to_client.tear();
        Ending {
            client_us: now_us,
            server_us: self.drain(now_us, faults, conn, false),
        }
    }

    /// The server closes: what it wrote still arrives, what comes is not read.
    pub(crate) fn close_by_server(&mut self, now_us: u64, conn: usize) -> Ending {
        let client_us = self.arrival_us(now_us, conn, Towards::Client);
        let link = &mut self.links[conn];
        link.to_server.tear();
        link.to_client.shut = true;
        Ending {
            client_us,
            server_us: now_us,
        }
    }

    /// What becomes of the bytes on their way to the server, and when it notices the end.
    fn drain(&mut self, now_us: u64, faults: &mut Faults, conn: usize, abrupt: bool) -> u64 {
        let link = &mut self.links[conn];
        if faults.fires(Fault::StaleDrain, None) {
            link.stalled_us = now_us + faults.rng().scaled(1_000, 4_000_000);
            return link.to_server.last_us.max(link.stalled_us);
        }
        if abrupt {
            link.to_server.tear();
            return now_us;
        }
        link.to_server.last_us.max(now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultPlan;

    fn network() -> (Network, Faults) {
        let draws = NetworkDraws {
            latency_us: (10, 500),
            write_us_max: 1,
            hold_us_max: 0,
            frames_max: 4,
        };
        let plan = FaultPlan::none().with(Fault::BytesCut, 700_000);
        let mut network = Network::new(1, draws);
        assert_eq!(network.open(0), 0);
        (network, Faults::new(1, plan, Vec::new()))
    }

    fn received(network: &mut Network, towards: Towards, until_us: u64) -> Vec<u8> {
        std::iter::from_fn(|| network.receive(until_us, 0, towards))
            .flatten()
            .collect()
    }

    #[test]
    fn bytes_arrive_in_order_however_they_are_cut() {
        let (mut network, mut faults) = network();
        let sent: Vec<u8> = (0..200).collect();
        let arrivals: Vec<u64> = sent
            .chunks(40)
            .enumerate()
            .flat_map(|(step, bytes)| {
                network.send(step as u64, &mut faults, 0, Towards::Server, bytes.to_vec())
            })
            .collect();
        assert!(arrivals.len() > 5, "nothing was cut");
        assert!(arrivals.is_sorted());
        let early = received(&mut network, Towards::Server, arrivals[1]);
        assert_eq!(early[..], sent[..early.len()]);
        let rest = received(&mut network, Towards::Server, u64::MAX);
        assert_eq!([early, rest].concat(), sent);
    }

    #[test]
    fn a_reset_loses_what_was_on_its_way_and_a_close_does_not() {
        for (abrupt, expected) in [(true, 0), (false, 8)] {
            let (mut network, mut faults) = network();
            network.send(0, &mut faults, 0, Towards::Server, vec![1; 8]);
            network.send(0, &mut faults, 0, Towards::Client, vec![1; 8]);
            if abrupt {
                network.reset(1, &mut faults, 0)
            } else {
                network.close_by_client(1, &mut faults, 0)
            };
            assert!(!network.is_open(0));
            assert_eq!(
                received(&mut network, Towards::Server, u64::MAX).len(),
                expected
            );
            assert_eq!(received(&mut network, Towards::Client, u64::MAX), []);
            assert!(
                network
                    .send(2, &mut faults, 0, Towards::Server, vec![2])
                    .is_empty()
            );
        }
    }
}
