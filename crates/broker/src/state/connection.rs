//! One connection as the broker's state sees it: who is bound to it, and what is still to be
//! written.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::limits::{OUTBOX_BYTES_MAX, REPLIES_HELD_MAX};
use crate::script::ReplyFault;

/// Number of a connection, from 1 in the order of acceptance. It is also the transport id that the
/// protocol puts into replies of the partition plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionKey(pub(crate) u64);

impl ConnectionKey {
    /// The transport id in replies and evictions.
    pub(crate) fn transport_id(self) -> u128 {
        u128::from(self.0)
    }
}

/// The client that logged in on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) client: u128,
    /// Fence epoch given out at the login.
    pub(crate) epoch: u64,
}

/// Frames are joined to one write up to this size: a buffer that grows holds up to twice what is in
/// it.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// What is written next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// Bytes in one go.
    Bytes(Vec<u8>),
    /// Bytes in pieces of so many, each its own write.
    Pieces(Vec<u8>, usize),
    /// Nothing more: close.
    Close,
}

#[derive(Debug)]
struct Held {
    frame: Vec<u8>,
    /// Replies that go first.
    replies: u32,
    /// When it goes at the latest.
    due_us: u64,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    /// The broker's end.
    pub(crate) local: SocketAddr,
    /// `Some` while a client is logged in.
    pub(crate) session: Option<Session>,
    /// When the last frame came.
    pub(crate) heard_us: u64,
    /// Until when nothing is read, by a script.
    pub(crate) stalled_until_us: u64,
    outgoing: VecDeque<Outgoing>,
    outgoing_bytes: usize,
    /// Bytes handed out last: being written until the next are asked for.
    written_bytes: usize,
    held: Vec<Held>,
    /// Set once; frames that still come are ignored.
    closing: bool,
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr, now_us: u64) -> Self {
        Self {
            peer,
            local,
            session: None,
            heard_us: now_us,
            stalled_until_us: 0,
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            written_bytes: 0,
            held: Vec::new(),
            closing: false,
        }
    }

    /// Whether the broker has decided to close it.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Bytes that wait to be written or are being written, held ones included.
    pub(crate) fn outgoing_bytes(&self) -> usize {
        self.queued_bytes() + self.held_bytes()
    }

    /// Bytes that the writer writes or can write now.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.outgoing_bytes + self.written_bytes
    }

    fn held_bytes(&self) -> usize {
        self.held.iter().map(|held| held.frame.len()).sum()
    }

    /// Queues a frame, and what was held until it came.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.push(frame);
        for held in &mut self.held {
            held.replies = held.replies.saturating_sub(1);
        }
        self.release(|held| held.replies == 0);
    }

    /// Queues a frame as a script wants it.
    pub(crate) fn send_with(&mut self, frame: &[u8], fault: ReplyFault, now_us: u64) {
        match fault {
            ReplyFault::Cut => self.close(),
            ReplyFault::Pieces { bytes } => {
                self.outgoing_bytes += frame.len();
                self.outgoing
                    .push_back(Outgoing::Pieces(frame.to_vec(), bytes));
            }
            ReplyFault::Reorder { replies } => self.hold(frame, replies, u64::MAX),
            ReplyFault::Delay { us } => self.hold(frame, u32::MAX, now_us.saturating_add(us)),
        }
    }

    /// Queues what a script delayed until now.
    pub(crate) fn release_due(&mut self, now_us: u64) {
        self.release(|held| held.due_us <= now_us);
    }

    /// When the next delayed frame is due.
    pub(crate) fn due_us(&self) -> Option<u64> {
        let due = self.held.iter().map(|held| held.due_us).min();
        due.filter(|due| *due != u64::MAX)
    }

    /// Closes after what is queued; what is held is lost.
    pub(crate) fn close(&mut self) {
        if !self.closing {
            self.closing = true;
            self.held.clear();
            self.outgoing.push_back(Outgoing::Close);
        }
    }

    /// What to write next, when what came before is written.
    pub(crate) fn next_outgoing(&mut self) -> Option<Outgoing> {
        self.written_bytes = 0;
        let next = self.outgoing.pop_front()?;
        if let Outgoing::Bytes(bytes) | Outgoing::Pieces(bytes, _) = &next {
            self.outgoing_bytes -= bytes.len();
            self.written_bytes = bytes.len();
        }
        Some(next)
    }

    fn push(&mut self, frame: &[u8]) {
        if self.closing {
            return;
        }
        self.outgoing_bytes += frame.len();
        if let Some(Outgoing::Bytes(bytes)) = self.outgoing.back_mut()
            && bytes.len() + frame.len() <= JOINED_BYTES_MAX
        {
            bytes.extend_from_slice(frame);
        } else {
            self.outgoing.push_back(Outgoing::Bytes(frame.to_vec()));
        }
    }

    fn hold(&mut self, frame: &[u8], replies: u32, due_us: u64) {
        if self.closing {
            return;
        }
        if self.held.len() == REPLIES_HELD_MAX || self.held_bytes() + frame.len() > OUTBOX_BYTES_MAX
        {
            self.release(|_| true);
        }
        self.held.push(Held {
            frame: frame.to_vec(),
            replies,
            due_us,
        });
    }

    fn release(&mut self, ready: impl Fn(&Held) -> bool) {
        let mut index = 0;
        while index < self.held.len() {
            if ready(&self.held[index]) {
                let held = self.held.remove(index);
                self.push(&held.frame);
            } else {
                index += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::new(
            SocketAddr::from(([127, 0, 0, 1], 1)),
            SocketAddr::from(([127, 0, 0, 1], 2)),
            0,
        )
    }

    fn drain(connection: &mut Connection) -> Vec<Outgoing> {
        std::iter::from_fn(|| connection.next_outgoing()).collect()
    }

    #[test]
    fn frames_that_wait_are_written_together() {
        let mut connection = connection();
        connection.send(b"one");
        connection.send(b"two");
        assert_eq!(connection.outgoing_bytes(), 6);
        assert_eq!(
            drain(&mut connection),
            [Outgoing::Bytes(b"onetwo".to_vec())]
        );
        assert_eq!(connection.outgoing_bytes(), 0);
    }

    #[test]
    fn a_held_reply_goes_after_so_many_others() {
        let mut connection = connection();
        connection.send_with(b"late", ReplyFault::Reorder { replies: 2 }, 0);
        connection.send(b"1");
        connection.send(b"2");
        connection.send(b"3");
        assert_eq!(
            drain(&mut connection),
            [Outgoing::Bytes(b"12late3".to_vec())]
        );
    }

    #[test]
    fn a_delayed_reply_goes_when_it_is_due() {
        let mut connection = connection();
        connection.send_with(b"late", ReplyFault::Delay { us: 50 }, 100);
        connection.send(b"1");
        assert_eq!(connection.due_us(), Some(150));
        connection.release_due(149);
        connection.send(b"2");
        connection.release_due(150);
        assert_eq!(
            drain(&mut connection),
            [Outgoing::Bytes(b"12late".to_vec())]
        );
        assert_eq!(connection.due_us(), None);
    }

    #[test]
    fn what_is_held_is_bounded_and_no_backlog() {
        let mut connection = connection();
        let half = vec![1; OUTBOX_BYTES_MAX / 2];
        let late = ReplyFault::Reorder { replies: 9 };
        connection.send_with(&half, late, 0);
        connection.send_with(&half, late, 0);
        assert_eq!(connection.outgoing_bytes(), OUTBOX_BYTES_MAX);
        assert_eq!(connection.queued_bytes(), 0, "the reader goes on");
        connection.send_with(b"one too many", late, 0);
        assert_eq!(connection.queued_bytes(), OUTBOX_BYTES_MAX);
        assert_eq!(connection.outgoing_bytes(), OUTBOX_BYTES_MAX + 12);
    }

    #[test]
    fn a_cut_writes_what_went_before_and_nothing_after() {
        let mut connection = connection();
        connection.send(b"before");
        connection.send_with(b"lost", ReplyFault::Cut, 0);
        connection.send(b"after");
        assert_eq!(
            drain(&mut connection),
            [Outgoing::Bytes(b"before".to_vec()), Outgoing::Close]
        );
        assert!(connection.is_closing());
    }

    #[test]
    fn pieces_keep_their_own_write() {
        let mut connection = connection();
        connection.send(b"a");
        connection.send_with(b"bc", ReplyFault::Pieces { bytes: 1 }, 0);
        connection.send(b"d");
        let expected = [
            Outgoing::Bytes(b"a".to_vec()),
            Outgoing::Pieces(b"bc".to_vec(), 1),
            Outgoing::Bytes(b"d".to_vec()),
        ];
        assert_eq!(drain(&mut connection), expected);
    }
}
