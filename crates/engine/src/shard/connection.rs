//! One connection of a shard: its protocol client, its decoder, what it is writing.
//!
//! Holds the state; moving bytes is [`super::inbound`]'s and [`super::outbound`]'s job.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use ringmain_proto::{Client, Frame};
use ringmain_wire::FrameDecoder;

use super::calls::CallCell;
use crate::limits;
use ringmain_io::driver::{ConnIndex, SocketOptions};
use ringmain_io::memory::SlotToken;

/// Bytes a decoder keeps for a reply that is cut between two receives. Replies to sends have 280 bytes.
const REPLY_BYTES: usize = 4096;

/// Past this many bytes a decoder's buffer is dropped after use: only a large poll reply needs it.
const DECODER_BYTES_KEPT: usize = 64 * 1024;

/// Writes of a connection that may overlap: zero-copy writes do, while their memory is not free yet.
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
    pub(super) addresses: Arc<[SocketAddr]>,
    /// Which address comes next.
    pub(super) address_next: usize,
    pub(super) socket_options: SocketOptions,
    /// The transport has it: from the connect until it failed or closed.
    pub(super) is_open: bool,
    /// Bytes are unreadable, or memory of a write is wanted back: close at the next opportunity.
    pub(super) close_wanted: bool,
    /// Frames of the writes in flight, oldest first.
    pub(super) writing: VecDeque<Frame>,
    /// How many of these each write carries, oldest first.
    pub(super) writes: VecDeque<usize>,
    /// Header of logins and logouts: there is one of either at a time.
    pub(super) session_header: SlotToken,
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
    pub(super) cell: Option<Arc<CallCell>>,
}

impl Connection {
    pub(super) fn new(
        index: ConnIndex,
        client: Client,
        login_body: Bytes,
        addresses: Arc<[SocketAddr]>,
        socket_options: SocketOptions,
        headers: ConnectionHeaders,
    ) -> Self {
        Self {
            index,
            client,
            decoder: new_decoder(),
            login_body,
            // Connections of one engine start at different addresses.
            address_next: usize::from(index.0) % addresses.len(),
            addresses,
            socket_options,
            is_open: false,
            close_wanted: false,
            writing: VecDeque::with_capacity(FRAMES_MAX),
            writes: VecDeque::with_capacity(WRITES_MAX),
            session_header: headers.session,
            ping_header: headers.ping,
            calls: headers
                .calls
                .into_iter()
                .map(|header| CallSlot { header, cell: None })
                .collect(),
            logins_seen: 0,
        }
    }

    /// The address to connect to now; the next call gives the next one.
    pub(super) fn take_address(&mut self) -> SocketAddr {
        let address = self.addresses[self.address_next];
        self.address_next = (self.address_next + 1) % self.addresses.len();
        address
    }

    /// A connection came up: stay with its address when it has to be made again.
    pub(super) fn keep_address(&mut self) {
        self.address_next = (self.address_next + self.addresses.len() - 1) % self.addresses.len();
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
        [self.session_header, self.ping_header]
            .into_iter()
            .chain(self.calls.into_iter().map(|slot| slot.header))
    }
}

/// The header-slab entries of one connection.
pub(super) struct ConnectionHeaders {
    pub(super) session: SlotToken,
    pub(super) ping: SlotToken,
    pub(super) calls: Vec<SlotToken>,
}

fn new_decoder() -> FrameDecoder {
    FrameDecoder::with_limits(REPLY_BYTES, ringmain_wire::header::FRAME_BYTES_MAX)
}
