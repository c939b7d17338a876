//! The driver of a simulated shard: what the ring is in production, without a kernel.
//!
//! Role: keeps the contract of `ringmain_io::driver` towards the shard, and does nothing by itself:
//! what was ordered waits for the world, and what the world reports waits for the shard's next
//! look. Memory: a block that was pushed is lent until the shard has taken the event that frees it.
//! Its bytes are read when the kernel takes them, which may be long after the write was submitted,
//! and are compared with what they were then. Invariants: events of a connection leave in the order
//! in which they were reported; a connection has one ending event.

use bytes::Bytes;
use ringmain_io::driver::{
    ConnIndex, Driver, DriverError, DriverInfo, DriverKind, DriverStats, Event, Gather, LostCause,
    SocketOptions, WakeBoard, WakeHandle,
};
use ringmain_io::memory::{Arena, DriverMemory, Lent, SlotToken};
use ringmain_io::transport::Features;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What a driver takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Writes of a connection that may hold their memory at once.
    pub(crate) writes: usize,
    /// Frames of a write, of two pieces each. One frame fits, however many it has.
    pub(crate) frames: usize,
}

/// What the shard wants, for the world to carry out.
#[derive(Debug)]
pub(crate) enum Order {
    /// A connection.
    Connect { conn: usize },
    /// The end of one.
    Close { conn: usize },
    /// A write, with its bytes as they are now.
    Write { conn: usize, bytes: Vec<u8> },
}

/// What the world reports.
#[derive(Debug)]
enum Happening {
    Connected,
    ConnectFailed(LostCause),
    Received(Vec<u8>),
    WriteDone,
    Closed(LostCause),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    Connecting,
    Open,
    /// On its way to an ending event. Bytes that come after the shard closed it are dropped.
    Ending {
        by_shard: bool,
    },
}

#[derive(Debug)]
enum Piece {
    Lent(Lent),
    Owned(Bytes),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(lent) => lent.as_ref(),
            Self::Owned(bytes) => bytes,
        }
    }
}

/// A write in flight.
#[derive(Debug, Default)]
struct Write {
    pieces: Vec<Piece>,
    /// The bytes when it was submitted.
    submitted: Vec<u8>,
    taken: usize,
    /// The kernel reads none of its memory any more.
    is_free: bool,
    is_reported: bool,
    /// The world's names of what it carries.
    batches: Vec<u32>,
}

impl Write {
    fn is_taken(&self) -> bool {
        self.taken == self.submitted.len()
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.submitted.len());
        for piece in &self.pieces {
            bytes.extend_from_slice(piece.bytes());
        }
        bytes
    }
}

#[derive(Debug)]
struct Conn {
    phase: Phase,
    writes: VecDeque<Write>,
}

/// Bytes that the kernel took, and whether they are what was submitted.
pub(crate) struct Taken {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_torn: bool,
}

/// See the module.
pub(crate) struct SimDriver {
    arena: Arc<Arena>,
    wakes: WakeBoard,
    limits: Limits,
    conns: Vec<Conn>,
    /// Reported since the shard's last `wait`.
    reported: VecDeque<(usize, Happening)>,
    /// What the last `wait` collected.
    at_hand: VecDeque<(usize, Happening)>,
    is_woken: bool,
    current: Vec<u8>,
    orders: Vec<Order>,
    /// Bytes that the shard took, for the world to look at.
    handed: Vec<(usize, Vec<u8>)>,
    /// The shard sleeps in `wait`.
    is_asleep: bool,
}

impl SimDriver {
    pub(crate) fn new(memory: DriverMemory, conns: usize, limits: Limits) -> Self {
        let conn = || Conn {
            phase: Phase::Free,
            writes: VecDeque::new(),
        };
        Self {
            arena: memory.into_checked_arena(),
            wakes: WakeBoard::default(),
            limits,
            conns: (0..conns).map(|_| conn()).collect(),
            reported: VecDeque::new(),
            at_hand: VecDeque::new(),
            is_woken: false,
            current: Vec::new(),
            orders: Vec::new(),
            handed: Vec::new(),
            is_asleep: false,
        }
    }

    /// What the shard ordered since the last call.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// The bytes that the shard took since the last call, by connection.
    pub(crate) fn take_handed(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.handed)
    }

    /// Whether the shard sleeps.
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep
    }

    /// Whether there is something that ends its sleep.
    pub(crate) fn is_called(&self) -> bool {
        !self.reported.is_empty() || self.wakes.state().is_notified()
    }

    /// The shard wakes up: the rest of the `wait` in which it slept.
    pub(crate) fn wake_up(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.collect();
        }
    }

    fn collect(&mut self) {
        self.is_woken |= self.wakes.state().take();
        self.at_hand.append(&mut self.reported);
    }

    fn report(&mut self, conn: usize, happening: Happening) {
        self.reported.push_back((conn, happening));
    }

    /// A connection stands.
    pub(crate) fn connected(&mut self, conn: usize) {
        self.report(conn, Happening::Connected);
    }

    /// A connection could not be made.
    pub(crate) fn connect_failed(&mut self, conn: usize) {
        self.conns[conn].phase = Phase::Ending { by_shard: false };
        self.report(conn, Happening::ConnectFailed(LostCause::Refused));
    }

    /// Bytes arrived.
    pub(crate) fn received(&mut self, conn: usize, bytes: Vec<u8>) {
        self.report(conn, Happening::Received(bytes));
    }

    /// A connection is on its way to its end: it takes no more writes.
    pub(crate) fn ending(&mut self, conn: usize) {
        let phase = &mut self.conns[conn].phase;
        if *phase == Phase::Open {
            *phase = Phase::Ending { by_shard: false };
        }
    }

    /// A connection is gone, and the kernel is done with its memory.
    pub(crate) fn closed(&mut self, conn: usize) {
        let by_shard = self.conns[conn].phase == Phase::Ending { by_shard: true };
        let cause = if by_shard {
            LostCause::Local
        } else {
            LostCause::PeerReset
        };
        self.report(conn, Happening::Closed(cause));
    }

    /// Bytes that the kernel did not take yet.
    pub(crate) fn bytes_left(&self, conn: usize) -> usize {
        let youngest = self.conns[conn].writes.back();
        youngest.map_or(0, |write| write.submitted.len() - write.taken)
    }

    /// The bytes that the kernel would take next, as they are in memory now.
    pub(crate) fn peek(&self, conn: usize, count: usize) -> Vec<u8> {
        let Some(write) = self.conns[conn].writes.back() else {
            return Vec::new();
        };
        write.read()[write.taken..][..count].to_vec()
    }

    /// The kernel takes `count` bytes of the youngest write.
    pub(crate) fn take(&mut self, conn: usize, count: usize) -> Taken {
        let write = self.conns[conn].writes.back_mut();
        let write = write.expect("only a write that is under way is taken");
        let range = write.taken..write.taken + count;
        let now = write.read();
        let is_torn = now != write.submitted;
        write.taken += count;
        Taken {
            bytes: now[range].to_vec(),
            is_torn,
        }
    }

    /// Whether writes are under way, or were and hold their memory.
    pub(crate) fn is_writing(&self, conn: usize) -> bool {
        !self.conns[conn].writes.is_empty()
    }

    /// Writes of a connection that are wholly with the kernel and hold their memory.
    pub(crate) fn held(&self, conn: usize) -> usize {
        let writes = self.conns[conn].writes.iter();
        writes
            .filter(|write| write.is_taken() && !write.is_free)
            .count()
    }

    /// The kernel is done with the oldest write that holds its memory.
    pub(crate) fn free_oldest(&mut self, conn: usize) {
        let writes = &mut self.conns[conn].writes;
        let oldest = writes
            .iter_mut()
            .find(|write| write.is_taken() && !write.is_free);
        oldest.expect("a write holds its memory").is_free = true;
        let mut done = 0;
        for write in writes.iter_mut() {
            if !write.is_free {
                break;
            }
            done += usize::from(!std::mem::replace(&mut write.is_reported, true));
        }
        for _ in 0..done {
            self.report(conn, Happening::WriteDone);
        }
    }

    /// Whether a connection takes another write now.
    pub(crate) fn takes_write(&self, conn: usize) -> bool {
        let conn = &self.conns[conn];
        conn.phase == Phase::Open
            && conn.writes.len() < self.limits.writes
            && conn.writes.back().is_none_or(Write::is_taken)
    }

    /// Names the batches of the youngest write.
    pub(crate) fn tag(&mut self, conn: usize, batches: Vec<u32>) {
        if let Some(write) = self.conns[conn].writes.back_mut() {
            write.batches = batches;
        }
    }

    /// Whether the kernel may read the memory of a batch, as far as the shard knows.
    pub(crate) fn is_read(&self, batch: u32) -> bool {
        let mut writes = self.conns.iter().flat_map(|conn| &conn.writes);
        writes.any(|write| write.batches.contains(&batch))
    }
}

impl Driver for SimDriver {
    type Gather<'d> = SimGather<'d>;

    fn connect(&mut self, conn: ConnIndex, _address: SocketAddr, _options: &SocketOptions) {
        let conn = usize::from(conn.0);
        assert!(
            self.conns[conn].phase == Phase::Free,
            "a connection is made once it is free"
        );
        self.conns[conn].phase = Phase::Connecting;
        self.orders.push(Order::Connect { conn });
    }

    fn close(&mut self, conn: ConnIndex) {
        let conn = usize::from(conn.0);
        if matches!(self.conns[conn].phase, Phase::Connecting | Phase::Open) {
            self.conns[conn].phase = Phase::Ending { by_shard: true };
            self.orders.push(Order::Close { conn });
        }
    }

    fn gather(&mut self, conn: ConnIndex) -> Option<SimGather<'_>> {
        let conn = usize::from(conn.0);
        self.takes_write(conn).then(|| SimGather {
            driver: self,
            conn,
            write: Write::default(),
            bytes: 0,
        })
    }

    /// Never sleeps: notes that the shard does.
    fn wait(&mut self, _timeout: Option<Duration>) -> Result<(), DriverError> {
        assert!(
            self.at_hand.is_empty() && !self.is_woken,
            "the shard takes every event before it waits again"
        );
        self.collect();
        if self.at_hand.is_empty() && !self.is_woken {
            self.is_asleep = self.wakes.state().sleep_begin();
        }
        Ok(())
    }

    fn next_event(&mut self) -> Option<Event<'_>> {
        if std::mem::take(&mut self.is_woken) {
            return Some(Event::Woken);
        }
        loop {
            let (index, happening) = self.at_hand.pop_front()?;
            let conn = ConnIndex(u16::try_from(index).expect("few connections"));
            let state = &mut self.conns[index];
            let is_closed_by_shard = state.phase == Phase::Ending { by_shard: true };
            return Some(match happening {
                // The shard gave it up meanwhile: its end follows.
                Happening::Connected | Happening::Received(_) if is_closed_by_shard => continue,
                Happening::Connected => {
                    state.phase = Phase::Open;
                    Event::Connected { conn }
                }
                Happening::ConnectFailed(cause) => {
                    state.phase = Phase::Free;
                    Event::ConnectFailed { conn, cause }
                }
                Happening::Received(bytes) => {
                    self.handed.push((index, bytes.clone()));
                    self.current = bytes;
                    let bytes = &self.current[..];
                    Event::Received { conn, bytes }
                }
                Happening::WriteDone => {
                    state.writes.pop_front();
                    Event::WriteDone { conn }
                }
                Happening::Closed(cause) => {
                    let youngest = state.writes.back();
                    let write_progress_bytes = youngest.map(|write| write.taken as u64);
                    state.writes.clear();
                    state.phase = Phase::Free;
                    Event::Closed {
                        conn,
                        cause,
                        write_progress_bytes,
                    }
                }
            });
        }
    }

    fn wake_handle(&self) -> WakeHandle {
        self.wakes.handle()
    }

    fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    fn info(&self) -> DriverInfo {
        DriverInfo {
            driver: DriverKind::Simulated,
            features: Features::default(),
            paths: Default::default(),
            path_costs: Default::default(),
            submission_entries: 0,
            completion_entries: 0,
            page_kind: self.arena.page_kind(),
        }
    }
}

/// A write being put together.
pub(crate) struct SimGather<'d> {
    driver: &'d mut SimDriver,
    conn: usize,
    write: Write,
    bytes: u64,
}

impl SimGather<'_> {
    fn push(&mut self, piece: Piece) {
        assert!(
            self.room_pieces() > 0,
            "a piece is pushed where there is room"
        );
        let bytes = piece.bytes();
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len() as u64;
        self.write.pieces.push(piece);
    }
}

impl Gather for SimGather<'_> {
    fn room_pieces(&self) -> usize {
        let pieces_max = ringmain::limits::FRAME_PIECES_MAX + 2 * (self.driver.limits.frames - 1);
        pieces_max - self.write.pieces.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn push_slot(&mut self, token: &SlotToken, range: Range<usize>) {
        self.push(Piece::Lent(token.lend(range)));
    }

    fn push_bytes(&mut self, bytes: Bytes) {
        self.push(Piece::Owned(bytes));
    }

    fn submit(mut self) {
        assert!(!self.write.pieces.is_empty(), "a write has pieces");
        self.write.submitted = self.write.read();
        let bytes = self.write.submitted.clone();
        let conn = self.conn;
        self.driver.conns[conn].writes.push_back(self.write);
        self.driver.orders.push(Order::Write { conn, bytes });
    }
}
