//! The driver of one client under test: what the engine is in production, without a kernel.
//!
//! Role: holds the client, its memory, its socket and the application's counters. Does not: touch the network or
//! the oracle; the world does that with what is held here.
//! Invariants: one write in flight at a time; a socket is up, coming up, or ending, never two of these.

use crate::codec;
use crate::draws::ClientDraws;
use crate::memory::{Body, FrameOut, Slots, Write};
use crate::rng::{Rng, Stream};
use ringmain_proto::limits::REQUEST_LAST;
use ringmain_proto::{
    BatchKey, CallKey, Client, Config, Frame, LaneConfig, LaneKey, Micros, OnLostCoverage,
    Ordering, Transmit,
};
use ringmain_wire::frame::FrameDecoder;
use ringmain_wire::header::RequestHeader;
use ringmain_wire::{CommandCode, Operation};

/// Control calls a client holds at once.
const CALLS_MAX: u32 = 4;

/// The connection as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    /// None.
    Idle,
    /// Coming up; the number tells late completions of attempts that were given up.
    Connecting { attempt: u64 },
    /// Up.
    Up { conn: usize },
    /// Given up, and the kernel is not done with it.
    Ending { conn: Option<usize> },
}

/// A call the application made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallOut {
    pub(crate) key: u64,
    /// The key in the body of the reply that the client said was the answer.
    pub(crate) echoed: Option<u64>,
}

/// A client with everything around it.
pub(crate) struct Driver {
    pub(crate) draws: ClientDraws,
    pub(crate) client: Client,
    pub(crate) slots: Slots,
    pub(crate) calls: Vec<Option<CallOut>>,
    pub(crate) socket: Socket,
    pub(crate) attempts: u64,
    pub(crate) write: Option<Write>,
    /// Frames that were sent whole, and whose memory the kernel still reads.
    pub(crate) held: Vec<Frame>,
    pub(crate) decoder: FrameDecoder,
    /// How far the client's clock is ahead of virtual time.
    pub(crate) ahead_us: u64,
    /// Until then the client is not scheduled.
    pub(crate) paused_us: u64,
    /// The earliest wake-up that is scheduled.
    pub(crate) wake_us: Option<u64>,
    /// Random numbers of the application.
    pub(crate) rng: Rng,
    pub(crate) batches_submitted: u32,
    pub(crate) calls_made: u32,
    pub(crate) work_done: bool,
    /// It was told to close.
    pub(crate) closing: bool,
}

impl Driver {
    /// The driver of client `index` of run `seed`.
    pub(crate) fn new(
        seed: u64,
        index: usize,
        draws: ClientDraws,
        tune: impl FnOnce(&mut Config),
    ) -> Self {
        let mut seeds = Rng::stream(seed ^ (index as u64) << 48, Stream::Clients);
        let identity = u128::from(seeds.next_u64()) << 64 | u128::from(seeds.next_u64() | 1);
        let mut config = configuration(&draws, identity, seeds.next_u64());
        tune(&mut config);
        let mut client = Client::new(config).expect("drawn settings are legal");
        let ordering = if draws.strict {
            Ordering::Strict
        } else {
            Ordering::Pipelined
        };
        for lane in 0..draws.lanes.len() as u32 {
            let lane_config = LaneConfig {
                window_requests_max: draws.window_requests_max,
                ordering,
            };
            client
                .open_lane(LaneKey(lane), lane_config)
                .expect("drawn settings are legal");
        }
        Self {
            slots: Slots::new(draws.slots),
            client,
            calls: vec![None; CALLS_MAX as usize],
            socket: Socket::Idle,
            attempts: 0,
            write: None,
            held: Vec::new(),
            decoder: FrameDecoder::new(),
            ahead_us: 0,
            paused_us: 0,
            wake_us: None,
            rng: Rng::stream(seed ^ (index as u64) << 48, Stream::Workload),
            batches_submitted: 0,
            calls_made: 0,
            work_done: false,
            closing: false,
            draws,
        }
    }

    /// The client's clock at an instant of virtual time.
    pub(crate) const fn clock(&self, now_us: u64) -> Micros {
        Micros(now_us + self.ahead_us)
    }

    /// The instant of virtual time at which the client's clock shows `at`.
    pub(crate) const fn instant_us(&self, at: Micros) -> u64 {
        at.0.saturating_sub(self.ahead_us)
    }

    /// The batches whose memory the kernel may read.
    fn being_read(&self) -> impl Iterator<Item = BatchKey> {
        let writing = self.write.iter().flat_map(Write::frames);
        let frames = writing.chain(self.held.iter().copied());
        frames.filter_map(|frame| match frame {
            Frame::Batch(key) => Some(key),
            _ => None,
        })
    }

    /// Whether the kernel may read the memory of this key.
    pub(crate) fn is_read(&self, key: BatchKey) -> bool {
        self.being_read().any(|read| read == key)
    }

    /// Whether the kernel may read the memory of this batch.
    pub(crate) fn is_batch_read(&self, batch: u32) -> bool {
        self.being_read()
            .any(|key| self.slots.batch(key) == Some(batch))
    }

    /// The kernel is done with the memory of a frame.
    pub(crate) fn release(&mut self, frame: Frame) {
        let position = self.held.iter().position(|held| *held == frame);
        self.held
            .swap_remove(position.expect("a frame is held until it is released"));
    }

    /// A free call key.
    pub(crate) fn free_call(&self) -> Option<CallKey> {
        self.calls
            .iter()
            .position(Option::is_none)
            .map(|index| CallKey(index as u32))
    }

    /// Whether the client may refuse what the application asks for: it failed, is closing, or has no numbers left.
    pub(crate) fn has_ended(&self) -> bool {
        self.closing || self.client.fatal().is_some() || self.is_exhausted()
    }

    /// Whether the client's request numbers are used up.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.client.request_next() > REQUEST_LAST
    }

    /// Whether the application waits for nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.slots.all_free() && self.calls.iter().all(Option::is_none)
    }

    /// The frame that the client wants to have written.
    pub(crate) fn frame(&self, transmit: &Transmit) -> FrameOut {
        let id = self.client.client();
        let (header, body) = match *transmit {
            Transmit::Login => {
                let body = codec::login_body();
                (RequestHeader::register(id, &body), Body::Owned(body))
            }
            Transmit::Batch {
                key,
                request,
                session,
                ..
            } => {
                let bytes = self.slots.body_bytes(key);
                (
                    RequestHeader::partition(Operation::SendMessages, id, session, request, bytes),
                    Body::Slot(key),
                )
            }
            Transmit::Call {
                key,
                operation,
                code,
                request,
                session,
                ..
            } => {
                let call = self.calls[key.0 as usize]
                    .as_ref()
                    .expect("a call is known until it is resolved");
                let body = call.key.to_le_bytes().to_vec();
                let header = if operation == Operation::NonReplicated {
                    RequestHeader::non_replicated(code, id, session, request, body.len())
                } else {
                    RequestHeader::metadata(operation, id, session, request, &body)
                };
                (header, Body::Owned(body))
            }
            Transmit::Ping { request, session } => (
                RequestHeader::non_replicated(CommandCode::PING, id, session, request, 0),
                Body::Owned(Vec::new()),
            ),
            Transmit::Logout { request, session } => (
                RequestHeader::logout(id, session, request),
                Body::Owned(Vec::new()),
            ),
        };
        let mut header = header.expect("the client's numbers keep the protocol's rules");
        header.set_timestamp(transmit.timestamp());
        let header = *header.as_bytes();
        let body_bytes = match &body {
            Body::Slot(key) => self.slots.body_bytes(*key),
            Body::Owned(bytes) => bytes.len(),
        };
        FrameOut {
            frame: transmit.frame(),
            header,
            body,
            body_bytes,
        }
    }
}

/// The settings of a client, from what was drawn for it.
fn configuration(draws: &ClientDraws, identity: u128, seed: u64) -> Config {
    let mut config = Config::new(identity, seed);
    config.request_first = draws.request_first;
    config.requests_max = draws.slots;
    config.lanes_max = draws.lanes.len() as u32;
    config.calls_max = CALLS_MAX;
    config.connect_timeout_us = draws.connect_timeout_us;
    config.login_timeout_us = draws.login_timeout_us;
    config.request_timeout_us = draws.request_timeout_us;
    config.resume_requests_max = draws.resume_requests_max;
    config.write_stall_us = draws.write_stall_us;
    config.heartbeat_interval_us = draws.heartbeat_us;
    (
        config.reconnect_backoff_us_min,
        config.reconnect_backoff_us_max,
    ) = draws.reconnect_us;
    (config.refusal_backoff_us_min, config.refusal_backoff_us_max) = draws.refusal_us;
    if draws.resends_uncovered {
        config.on_lost_coverage = OnLostCoverage::Resend;
    }
    config
}
