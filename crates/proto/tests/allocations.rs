//! Once constructed, a client allocates nothing: not when all goes well, not when everything goes
//! wrong.

use allocation_counter::measure;
use ringmain_proto::*;
use ringmain_wire::{CommandCode, ErrorCode, EvictionReason, Operation};

const LANES: u32 = 8;
const REQUESTS: u32 = 256;
const FAR_US: u64 = 60_000_000;

/// What the peer does with the frames of one turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Confirms,
    Refuses,
    IsSilent,
    Vanishes,
    Evicts,
}

struct Loop {
    client: Client,
    now: Micros,
    session: u64,
    resolved: u64,
}

impl Loop {
    fn new() -> Self {
        let config = Config {
            requests_max: REQUESTS,
            lanes_max: LANES,
            ..Config::new(1, 2)
        };
        let client = Client::new(config).expect("valid");
        Self {
            client,
            now: Micros(0),
            session: 0,
            resolved: 0,
        }
    }

    fn reply(&mut self, operation: Operation, request: u64, verdict: Verdict) {
        self.client.handle_reply(
            self.now,
            &Reply {
                operation,
                request,
                echo: Echo::Absent,
                verdict,
            },
        );
    }

    fn connect(&mut self) {
        while self.client.poll_connection(self.now) != Some(ConnectionAction::Connect) {
            self.now = self.client.poll_deadline().expect("a pause");
            self.client.handle_timeout(self.now);
        }
        self.client.handle_connected(self.now).expect("asked for");
        assert_eq!(self.client.poll_transmit(self.now), Some(Transmit::Login));
        self.client
            .handle_written(self.now, Frame::Login)
            .expect("handed over");
        self.session += 1;
        self.reply(
            Operation::Register,
            0,
            Verdict::LoggedIn {
                session: self.session,
            },
        );
        assert_eq!(self.client.state(), SessionState::Active);
    }

    fn disconnect(&mut self) {
        while self.client.poll_connection(self.now).is_some() {}
        self.client
            .handle_disconnected(self.now)
            .expect("there is a connection");
        self.connect();
    }

    fn submit_all(&mut self) {
        for key in 0..REQUESTS {
            let deadline = self.now.after(FAR_US);
            match self
                .client
                .submit(LaneKey(key % LANES), BatchKey(key), 10, deadline)
            {
                Ok(()) | Err(SubmitError::KeyInUse(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        for (key, operation) in [(0, Operation::CreateTopic), (1, Operation::NonReplicated)] {
            let deadline = self.now.after(FAR_US);
            let _accepted_or_in_use =
                self.client
                    .call(CallKey(key), operation, CommandCode::GET_TOPIC, deadline);
        }
    }

    fn turn(&mut self, peer: Peer) {
        self.submit_all();
        while let Some(transmit) = self.client.poll_transmit(self.now) {
            self.client
                .handle_written(self.now, transmit.frame())
                .expect("handed over");
            let (operation, request) = match transmit {
                Transmit::Batch { request, .. } => (Operation::SendMessages, request),
                Transmit::Call {
                    operation, request, ..
                } => (operation, request),
                Transmit::Ping { request, .. } => (Operation::NonReplicated, request),
                Transmit::Login | Transmit::Logout { .. } => continue,
            };
            match peer {
                Peer::Confirms => {
                    let verdict = Verdict::Confirmed {
                        partition_id: 0,
                        base_offset: request,
                    };
                    self.reply(operation, request, verdict);
                }
                Peer::Refuses => {
                    self.reply(
                        operation,
                        request,
                        Verdict::Refused(ErrorCode::TRANSIENT_NOT_ACCEPTED),
                    );
                }
                Peer::IsSilent | Peer::Vanishes | Peer::Evicts => {}
            }
        }
        match peer {
            Peer::Vanishes => self.disconnect(),
            Peer::Evicts => {
                self.client
                    .handle_eviction(self.now, EvictionReason::NoSession);
                self.disconnect();
            }
            Peer::IsSilent => self.now = self.now.after(self.client.config().request_timeout_us),
            Peer::Confirms | Peer::Refuses => {}
        }
        while let Some(Outcome::Batch { .. } | Outcome::Call { .. }) = self.client.poll_outcome() {
            self.resolved += 1;
        }
        if let Some(deadline) = self.client.poll_deadline() {
            self.now = self.now.max(deadline);
            self.client.handle_timeout(self.now);
        }
    }
}

#[test]
fn nothing_is_allocated_after_construction() {
    let mut driver = Loop::new();
    let counted = measure(|| {
        for lane in 0..LANES {
            driver
                .client
                .open_lane(LaneKey(lane), LaneConfig::default())
                .expect("free");
        }
        driver.connect();
        let peers = [
            Peer::Confirms,
            Peer::Refuses,
            Peer::Confirms,
            Peer::IsSilent,
            Peer::Vanishes,
            Peer::Confirms,
            Peer::Evicts,
        ];
        for turn in 0..2_000 {
            driver.turn(peers[turn % peers.len()]);
        }
        driver.client.purge(driver.now);
    });
    driver.client.check_invariants();
    assert!(
        driver.resolved > 10_000,
        "the loop did its work: {}",
        driver.resolved
    );
    let stats = driver.client.stats();
    assert!(stats.refusals_not_admitted > 0 && stats.silences > 0 && stats.coverage_losses > 0);
    assert_eq!(
        (counted.count_total, counted.bytes_total),
        (0, 0),
        "allocations after construction"
    );
}

#[test]
fn construction_allocates_exactly_what_is_announced() {
    for (requests_max, lanes_max, calls_max) in [(1, 1, 1), (1_000, 7, 16), (4_096, 256, 3)] {
        let config = Config {
            requests_max,
            lanes_max,
            calls_max,
            ..Config::new(1, 2)
        };
        let counted = measure(|| drop(Client::new(config)));
        assert_eq!(counted.bytes_total, Client::memory_bytes(&config) as u64);
        assert_eq!(counted.bytes_current, 0);
    }
}
