//! A driver for tests, with a ledger: a naive second opinion on everything the client says.
//!
//! The ledger keeps, for every batch, the list of its transmissions and the answer each of them
//! got, and derives from it alone what the client may do next and which receipts are true. It
//! shares no code with the client. It knows nothing of the server's memory; whether a retry is
//! recognised there is the simulator's subject.

#![allow(dead_code, reason = "each test binary uses its own part of the driver")]

pub(crate) mod ledger;

use std::collections::VecDeque;

use ledger::Ledger;
use ringmain_proto::*;
use ringmain_wire::{CommandCode, ErrorCode, Operation};

/// A reply the peer owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) operation: Operation,
    pub(crate) request: u64,
    /// Which transmission of the request it answers, from 1; 0 for frames that are not repeated.
    pub(crate) attempt: u64,
}

/// Beyond every timeout of the tests.
pub(crate) const FAR_US: u64 = 10_000_000;

/// One client, its connection and its ledger.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) now: Micros,
    pub(crate) ledger: Ledger,
    /// The driver was told to connect and has not answered.
    pub(crate) connecting: bool,
    pub(crate) connected: bool,
    /// Frames handed over and not written, oldest first.
    pub(crate) unwritten: VecDeque<Frame>,
    /// Replies that the peer owes on this connection, oldest request first.
    pub(crate) owed: Vec<Owed>,
    /// Replies delivered on this connection.
    pub(crate) delivered: Vec<(Owed, Verdict)>,
    /// Outcomes drained so far.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) epoch: u64,
    pub(crate) base_offset: u64,
}

pub(crate) fn code(number: u32) -> ErrorCode {
    ErrorCode::new(number).expect("codes are not 0")
}

pub(crate) fn refused(number: u32) -> Verdict {
    Verdict::Refused(code(number))
}

/// A configuration with short tables, so that keys are reused and limits are met.
pub(crate) fn config() -> Config {
    Config {
        requests_max: 64,
        lanes_max: 4,
        calls_max: 4,
        request_timeout_us: 1_000,
        login_timeout_us: 5_000,
        connect_timeout_us: 5_000,
        write_stall_us: 4_000,
        heartbeat_interval_us: 3_000,
        // What is sent again is seen at once; tests of the probe ask for it.
        resume_requests_max: 64,
        ..Config::new(0xA11CE, 42)
    }
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            client: Client::new(config).expect("a valid configuration"),
            now: Micros(1_000_000),
            ledger: Ledger::new(config.request_first),
            connecting: false,
            connected: false,
            unwritten: VecDeque::new(),
            owed: Vec::new(),
            delivered: Vec::new(),
            outcomes: Vec::new(),
            epoch: 0,
            base_offset: 0,
        }
    }

    /// A world that is logged in, with one lane open.
    pub(crate) fn active(config: Config, lane: LaneConfig) -> Self {
        let mut world = Self::new(config);
        world.open(0, lane);
        world.log_in();
        world
    }

    /// A world whose lane 0 has request 1 out, silent, while lane 1 is free to consume numbers.
    pub(crate) fn with_oldest_silent(config: Config) -> Self {
        let patient = Config {
            request_timeout_us: 5_000_000,
            heartbeat_interval_us: 5_000_000,
            ..config
        };
        let mut world = Self::active(patient, window(limits::WINDOW_REQUESTS_MAX));
        world.open(1, window(1));
        world.give(0, 0);
        assert_eq!(requests_of(&world.send_all()), [1]);
        world
    }

    /// Takes numbers with sends on lane 1, metadata calls and reads, until `next` is the next one.
    pub(crate) fn consume_until(&mut self, next: u64) {
        while self.client.request_next() < next {
            let operation = match self.client.request_next() % 3 {
                0 => {
                    self.give_and_confirm(1, 1);
                    continue;
                }
                1 => Operation::CreateTopic,
                _ => Operation::NonReplicated,
            };
            self.call(0, operation, self.now.after(FAR_US))
                .expect("accepted");
            let request = request_of(&self.send_all()[0]);
            self.reply(operation, request, Verdict::Success);
        }
        assert_eq!(self.client.request_next(), next, "consumed one by one");
    }

    pub(crate) fn open(&mut self, lane: u32, config: LaneConfig) {
        self.client
            .open_lane(LaneKey(lane), config)
            .expect("a free lane");
        self.ledger.open(LaneKey(lane), config);
    }

    /// Drains what is to be drained after every call, and checks everything.
    pub(crate) fn drain(&mut self) {
        while let Some(action) = self.client.poll_connection(self.now) {
            match action {
                ConnectionAction::Connect => {
                    assert!(
                        !self.connected && !self.connecting,
                        "one connection at a time"
                    );
                    self.connecting = true;
                }
                ConnectionAction::Disconnect => {
                    assert!(
                        self.connected || self.connecting,
                        "there is something to disconnect"
                    );
                    self.ledger.closing = true;
                }
            }
        }
        while let Some(outcome) = self.client.poll_outcome() {
            self.ledger.resolve(&outcome);
            self.outcomes.push(outcome);
        }
        self.client.check_invariants();
        self.ledger.check_account(&self.client.account());
    }

    pub(crate) fn connect(&mut self) {
        assert!(core::mem::take(&mut self.connecting));
        self.connected = true;
        self.client
            .handle_connected(self.now)
            .expect("a connect was asked for");
        self.drain();
    }

    pub(crate) fn disconnect(&mut self) {
        assert!(self.connected || self.connecting);
        self.connected = false;
        self.connecting = false;
        self.unwritten.clear();
        self.owed.clear();
        self.delivered.clear();
        self.ledger.disconnect();
        self.client
            .handle_disconnected(self.now)
            .expect("there was a connection");
        self.drain();
    }

    /// From any state before the login to `Active`, with the next epoch.
    pub(crate) fn log_in(&mut self) {
        self.epoch += 1;
        self.log_in_with(Verdict::LoggedIn {
            session: self.epoch,
        });
        assert_eq!(self.client.state(), SessionState::Active);
    }

    pub(crate) fn log_in_with(&mut self, verdict: Verdict) {
        self.drain();
        if !self.connected {
            while !self.connecting {
                self.advance_to_deadline();
            }
            self.connect();
        }
        assert_eq!(self.transmit(), Some(Transmit::Login));
        self.write_all();
        self.reply(Operation::Register, 0, verdict);
    }

    pub(crate) fn submit(
        &mut self,
        lane: u32,
        key: u32,
        records: u32,
        deadline: Micros,
    ) -> Result<(), SubmitError> {
        let (lane, key) = (LaneKey(lane), BatchKey(key));
        self.client.submit(lane, key, records, deadline)?;
        self.ledger.submit(lane, key, records, deadline);
        self.drain();
        Ok(())
    }

    /// Submits one record with a deadline that progress moves. The ledger leaves that to the test.
    pub(crate) fn submit_waiting(
        &mut self,
        lane: u32,
        key: u32,
        deadline: Deadline,
    ) -> Result<(), SubmitError> {
        let (lane, key) = (LaneKey(lane), BatchKey(key));
        self.client.submit(lane, key, 1, deadline)?;
        self.ledger.submit(lane, key, 1, Micros::MAX);
        self.drain();
        Ok(())
    }

    /// Submits one record with a deadline that no test reaches by accident.
    pub(crate) fn give(&mut self, lane: u32, key: u32) {
        let deadline = self.now.after(FAR_US);
        self.submit(lane, key, 1, deadline).expect("accepted");
    }

    /// Gives one batch, sends it and confirms it.
    pub(crate) fn give_and_confirm(&mut self, lane: u32, key: u32) -> u64 {
        self.give(lane, key);
        let request = request_of(self.send_all().last().expect("it is sent at once"));
        self.confirm(request);
        request
    }

    pub(crate) fn call(
        &mut self,
        key: u32,
        operation: Operation,
        deadline: Micros,
    ) -> Result<(), CallError> {
        self.client
            .call(CallKey(key), operation, CommandCode::GET_TOPIC, deadline)?;
        self.ledger.call(CallKey(key), operation);
        self.drain();
        Ok(())
    }

    /// Polls one frame.
    pub(crate) fn transmit(&mut self) -> Option<Transmit> {
        let transmit = self.client.poll_transmit(self.now);
        if let Some(transmit) = transmit {
            assert!(self.connected, "frames go out on a connection");
            self.ledger
                .transmit(self.now, &transmit, self.client.session());
            self.unwritten.push_back(transmit.frame());
            let (operation, request) = match transmit {
                Transmit::Login => (Operation::Register, 0),
                Transmit::Batch { request, .. } => (Operation::SendMessages, request),
                Transmit::Call {
                    operation, request, ..
                } => (operation, request),
                Transmit::Ping { request, .. } => (Operation::NonReplicated, request),
                Transmit::Logout { request, .. } => (Operation::Logout, request),
            };
            self.owed.push(Owed {
                operation,
                request,
                attempt: transmit.timestamp(),
            });
        }
        self.drain();
        transmit
    }

    /// Polls frames until there is none, and reports them all written.
    pub(crate) fn send_all(&mut self) -> Vec<Transmit> {
        let mut sent = Vec::new();
        while let Some(transmit) = self.transmit() {
            sent.push(transmit);
        }
        self.write_all();
        sent
    }

    /// Lets time pass, deadline by deadline, until there is something to send, and sends it.
    pub(crate) fn send_next(&mut self) -> Vec<Transmit> {
        for _ in 0..16 {
            let sent = self.send_all();
            if !sent.is_empty() {
                return sent;
            }
            self.advance_to_deadline();
        }
        panic!("nothing to send in sight");
    }

    pub(crate) fn write_one(&mut self) -> bool {
        let Some(frame) = self.unwritten.pop_front() else {
            return false;
        };
        self.ledger.written(frame);
        self.client
            .handle_written(self.now, frame)
            .expect("the frame was handed over");
        self.drain();
        true
    }

    pub(crate) fn write_all(&mut self) {
        while self.write_one() {}
    }

    /// A reply: the oldest that is owed under this key, or one out of nowhere.
    pub(crate) fn reply(
        &mut self,
        operation: Operation,
        request: u64,
        verdict: Verdict,
    ) -> ReplyMatch {
        let mut owed = self.owed.iter();
        match owed.position(|owed| (owed.operation, owed.request) == (operation, request)) {
            Some(position) => {
                let owed = self.owed.remove(position);
                self.deliver(owed, verdict)
            }
            None => self.deliver(
                Owed {
                    operation,
                    request,
                    attempt: 0,
                },
                verdict,
            ),
        }
    }

    /// Delivers a reply to one transmission, for the first time or once more.
    pub(crate) fn deliver(&mut self, owed: Owed, verdict: Verdict) -> ReplyMatch {
        let Owed {
            operation,
            request,
            attempt,
        } = owed;
        if operation == Operation::SendMessages {
            self.ledger.answer(request, attempt, verdict);
        }
        if let Verdict::LoggedIn { session } = verdict {
            self.epoch = self.epoch.max(session);
        }
        self.delivered.push((owed, verdict));
        let echo = if self.ledger.server_echoes {
            Echo::of_timestamp(attempt)
        } else {
            Echo::Absent
        };
        let reply = Reply {
            operation,
            request,
            echo,
            verdict,
        };
        let matched = self.client.handle_reply(self.now, &reply);
        self.drain();
        matched
    }

    /// A reply to a send.
    pub(crate) fn answer(&mut self, request: u64, verdict: Verdict) -> ReplyMatch {
        self.reply(Operation::SendMessages, request, verdict)
    }

    /// Confirms a send at the next offset.
    pub(crate) fn confirm(&mut self, request: u64) -> ReplyMatch {
        let verdict = self.confirmation();
        self.answer(request, verdict)
    }

    pub(crate) fn confirmation(&mut self) -> Verdict {
        self.base_offset += 1_000;
        Verdict::Confirmed {
            partition_id: 7,
            base_offset: self.base_offset,
        }
    }

    pub(crate) fn evict(&mut self, reason: ringmain_wire::EvictionReason) {
        self.client.handle_eviction(self.now, reason);
        self.drain();
    }

    pub(crate) fn purge(&mut self) {
        self.ledger.purge();
        self.client.purge(self.now);
        self.drain();
    }

    /// Purges the batches of one lane that are meant.
    pub(crate) fn purge_some(&mut self, lane: u32, is_meant: impl Fn(BatchKey) -> bool) {
        self.ledger.purge_some(LaneKey(lane), &is_meant);
        self.client
            .purge_lane(self.now, LaneKey(lane), NotSent::Purged, is_meant);
        self.drain();
    }

    pub(crate) fn resume(&mut self, lane: u32) {
        self.ledger.resume(LaneKey(lane));
        self.client
            .resume_lane(LaneKey(lane))
            .expect("the lane is open");
        self.drain();
    }

    pub(crate) fn advance(&mut self, us: u64) {
        self.now = self.now.after(us);
        self.client.handle_timeout(self.now);
        self.drain();
        self.ledger.check_deadlines(self.now);
    }

    /// Moves to the next deadline the client named.
    pub(crate) fn advance_to_deadline(&mut self) {
        let at = self
            .client
            .poll_deadline()
            .expect("something waits for time");
        self.advance(at.since(self.now));
    }

    /// The receipts drained so far, by key.
    pub(crate) fn receipts(&self) -> Vec<(u32, Receipt)> {
        let receipt = |outcome: &Outcome| match *outcome {
            Outcome::Batch { key, receipt, .. } => Some((key.0, receipt)),
            Outcome::Call { .. } => None,
        };
        self.outcomes.iter().filter_map(receipt).collect()
    }

    /// The answers of calls drained so far, by key.
    pub(crate) fn answers(&self) -> Vec<(u32, Answer)> {
        let answer = |outcome: &Outcome| match *outcome {
            Outcome::Batch { .. } => None,
            Outcome::Call { key, answer } => Some((key.0, answer)),
        };
        self.outcomes.iter().filter_map(answer).collect()
    }
}

/// The number of a batch frame.
pub(crate) fn request_of(transmit: &Transmit) -> u64 {
    match *transmit {
        Transmit::Batch { request, .. } | Transmit::Call { request, .. } => request,
        ref other => panic!("{other:?} is neither a batch nor a call"),
    }
}

/// The numbers of batch frames, in order.
pub(crate) fn requests_of(sent: &[Transmit]) -> Vec<u64> {
    sent.iter().map(request_of).collect()
}

/// A pipelined lane with this window.
pub(crate) fn window(requests_max: u8) -> LaneConfig {
    LaneConfig {
        window_requests_max: requests_max,
        ordering: Ordering::Pipelined,
    }
}

/// A strict lane.
pub(crate) fn strict() -> LaneConfig {
    LaneConfig {
        ordering: Ordering::Strict,
        ..LaneConfig::default()
    }
}
