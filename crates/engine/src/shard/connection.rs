//! One connection of a shard: its protocol client, its decoder, what it is writing.
//!
//! Holds the state; moving bytes is [`super::inbound`]'s and [`super::outbound`]'s job.

use std::collections::VecDeque;

use bytes::Bytes;
use ringmain_proto::{Client, Frame, Micros};
use ringmain_wire::FrameDecoder;

use super::addresses::Addresses;
use super::calls::OwedCall;
use crate::limits;
use ringmain_io::driver::{ConnIndex, SocketOptions};
use ringmain_io::memory::SlotToken;

/// Bytes a decoder keeps for a reply that is cut between two receives. Replies to sends have 280
/// bytes.
const REPLY_BYTES: usize = 4096;

/// Past this many bytes a decoder's buffer is dropped after use: only a large poll reply needs it.
const DECODER_BYTES_KEPT: usize = 64 * 1024;

/// Writes of a connection that may overlap: zero-copy writes do, while their memory is not free
/// yet.
const WRITES_MAX: usize = ringmain_io::transport::WRITES_MAX as usize;

/// Frames that all these writes carry: each frame has two pieces at least.
const FRAMES_MAX: usize = WRITES_MAX * limits::WRITE_PIECES_MAX as usize / 2;

/// One connection.
pub(super) struct Connection {
    pub(super) index: ConnIndex,
    pub(super) client: Client,
    pub(super) decoder: FrameDecoder,
    /// The body of a login: version, user, password or token.
    pub(super) login_body: Bytes,
    pub(super) addresses: Addresses,
    pub(super) socket_options: SocketOptions,
    /// What all attempts together may take, and what the answer to a login may.
    pub(super) connect_timeout_us: u64,
    pub(super) login_timeout_us: u64,
    /// When the lookup or the connect under way is given up.
    pub(super) attempt_ends_at: Micros,
    /// The driver has it: from the connect until it failed or closed.
    pub(super) is_open: bool,
    /// The connect succeeded, and the connection is not lost yet.
    pub(super) is_connected: bool,
    /// It was logged in on this connection.
    pub(super) is_logged_in: bool,
    /// Why we close it ourselves.
    pub(super) given_up: Option<String>,
    /// What the protocol client had counted when it last gave a connection up.
    pub(super) given_up_seen: [u64; 3],
    /// Bytes are unreadable, or memory of a write is wanted back: close at the next opportunity.
    pub(super) close_wanted: bool,
    /// Frames of the writes in flight, oldest first.
    pub(super) writing: VecDeque<Frame>,
    /// How many of these each write carries, oldest first.
    pub(super) writes: VecDeque<usize>,
    /// Header of logins: a connection has one.
    pub(super) login_header: SlotToken,
    /// Header of logouts. The driver may still read that of the login.
    pub(super) logout_header: SlotToken,
    /// Header of heartbeats.
    pub(super) ping_header: SlotToken,
    /// Calls by key, each with its header. Only the first connection of an engine has any.
    pub(super) calls: Vec<CallSlot>,
    /// Times the session was logged in when the lanes were last told.
    pub(super) logins_seen: u64,
}

/// A call in the hands of the protocol client, and its header.
pub(super) struct CallSlot {
    pub(super) header: SlotToken,
    pub(super) cell: Option<OwedCall>,
}

impl Connection {
    pub(super) fn new(
        index: ConnIndex,
        client: Client,
        (connect_timeout_us, login_timeout_us): (u64, u64),
        login_body: Bytes,
        addresses: Addresses,
        socket_options: SocketOptions,
        headers: ConnectionHeaders,
    ) -> Self {
        Self {
            index,
            client,
            decoder: new_decoder(),
            login_body,
            addresses,
            socket_options,
            connect_timeout_us,
            login_timeout_us,
            attempt_ends_at: Micros::MAX,
            is_open: false,
            is_connected: false,
            is_logged_in: false,
            given_up: None,
            given_up_seen: [0; 3],
            close_wanted: false,
            writing: VecDeque::with_capacity(FRAMES_MAX),
            writes: VecDeque::with_capacity(WRITES_MAX),
            login_header: headers.login,
            logout_header: headers.logout,
            ping_header: headers.ping,
            calls: headers
                .calls
                .into_iter()
                .map(|header| CallSlot { header, cell: None })
                .collect(),
            logins_seen: 0,
        }
    }

    /// Forgets the bytes of a connection that is gone.
    pub(super) fn reset_decoder(&mut self) {
        self.decoder.reset();
        self.close_wanted = false;
    }

    /// After a frame of `frame_bytes`: gives back the memory of an exceptionally large one.
    pub(super) fn shrink_decoder(&mut self, frame_bytes: usize) {
        if frame_bytes > DECODER_BYTES_KEPT && self.decoder.pending_bytes() == 0 {
            self.decoder = new_decoder();
        }
    }

    /// Gives all header-slab entries back, at the end.
    pub(super) fn into_headers(self) -> impl Iterator<Item = SlotToken> {
        [self.login_header, self.logout_header, self.ping_header]
            .into_iter()
            .chain(self.calls.into_iter().map(|slot| slot.header))
    }
}

/// The header-slab entries of one connection.
pub(super) struct ConnectionHeaders {
    pub(super) login: SlotToken,
    pub(super) logout: SlotToken,
    pub(super) ping: SlotToken,
    pub(super) calls: Vec<SlotToken>,
}

fn new_decoder() -> FrameDecoder {
    FrameDecoder::with_limits(REPLY_BYTES, ringmain_wire::header::FRAME_BYTES_MAX)
}
