//! The driver on epoll: for hosts whose rules or kernel forbid io_uring.
//!
//! ```text
//!  wait        send what was submitted -> sleep in epoll -> note what is ready, send what waited
//!  next_event  connection by connection: its connect, its write, one receive, its end
//! ```
//!
//! Sockets do not block, and each is registered once, edge by edge: a turn is one `sendmsg` for
//! each connection with a write, one `epoll_wait`, and one `recv` for each connection with bytes.
//! No system call is in flight when a call of the driver returns. So memory is free as soon as the
//! kernel has taken it, and a connection ends at once.
//!
//! A connection receives once a turn, however much its peer sends: what is left waits for the next
//! one, which does not sleep.

mod conn;
mod error;

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use crate::driver::wake::WakeShared;
use crate::driver::{
    self, CarriedBy, ConnIndex, Driver, DriverError, DriverInfo, DriverKind, DriverStats, Errno,
    Event, Features, LostCause, SocketOptions, TRAFFIC_KINDS, WRITE_PATHS, WakeHandle,
};
use crate::memory::{Arena, DriverMemory, SlotToken};
use crate::ring::SetupError;
use crate::socket;
use crate::socket::errno::{self, OnRecv, OnWrite};
use conn::{Conn, Phase, Sent};

pub use crate::socket::{CONNECTIONS_MAX, WRITE_PIECES_MAX};
pub use error::EpollError;

/// Bytes of one receive.
const RECV_BYTES: usize = 128 * 1024;
/// Looks between two yields of a spinning shard.
const SPIN_LOOKS: u32 = 4;
/// Data of the registration of the eventfd; connections have their index.
const WAKE_DATA: u64 = u64::MAX;

/// Limits of one driver. Everything is allocated by these when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollConfig {
    /// Connections that can exist at a time, 1 to [`CONNECTIONS_MAX`]. Default 64.
    pub connections_max: u16,
    /// Pieces that one write may gather, 2 to [`WRITE_PIECES_MAX`]. Default 1024. More than the
    /// kernel takes at once (1024) are sent by several calls.
    pub write_pieces_max: u32,
    /// How long [`wait`](Driver::wait) looks again and again before it sleeps. Default 0: sleep at
    /// once. For hosts where latency is worth a core.
    pub busy_poll_us: u32,
}

impl Default for EpollConfig {
    fn default() -> Self {
        Self {
            connections_max: 64,
            write_pieces_max: 1024,
            busy_poll_us: 0,
        }
    }
}

impl EpollConfig {
    fn check(&self) -> Result<(), SetupError> {
        let fail = |option, found: u32, rule| {
            let found = u64::from(found);
            Err(SetupError::Option {
                option,
                found,
                rule,
            })
        };
        if !(1..=CONNECTIONS_MAX).contains(&self.connections_max) {
            return fail(
                "connections_max",
                u32::from(self.connections_max),
                "a shard has 1 to 1024 connections",
            );
        }
        if !(2..=WRITE_PIECES_MAX).contains(&self.write_pieces_max) {
            return fail(
                "write_pieces_max",
                self.write_pieces_max,
                "a write gathers 2 to 65536 pieces",
            );
        }
        Ok(())
    }
}

/// The kernel side of one shard, without a ring. See the module.
pub struct Epoll {
    epoll: OwnedFd,
    conns: Box<[Conn]>,
    /// Connections with a write that has to be offered, each once (`is_listed`).
    listed: VecDeque<u16>,
    /// Connections that may have an event, each once (`is_active`).
    active: VecDeque<u16>,
    /// Those of the next turn: they have received in this one, each once (`is_active`).
    again: VecDeque<u16>,
    /// Where the kernel puts what is ready. Never grows past its first capacity.
    ready: Vec<epoll::Event>,
    received: Box<[u8]>,
    arena: Arc<Arena>,
    wake: Arc<WakeShared>,
    /// An [`Event::Woken`] is due.
    is_woken: bool,
    /// Why the driver is beyond use.
    fault: Option<EpollError>,
    busy_poll: Duration,
    stats: DriverStats,
}

/// What a connection leads to.
enum Step {
    Event(Event<'static>),
    Received(ConnIndex, usize),
}

impl Epoll {
    /// Makes the epoll instance and allocates every table.
    ///
    /// # Errors
    /// [`SetupError`]: an option out of range, or no descriptor left.
    pub fn new(config: &EpollConfig, memory: DriverMemory) -> Result<Self, SetupError> {
        config.check()?;
        let descriptors =
            |what| move |source: std::io::Error| SetupError::Descriptors { what, source };
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|error| descriptors("epoll")(error.into()))?;
        let wake = WakeShared::new().map_err(descriptors("the wake-up eventfd"))?;
        // Each write of the eventfd is an edge, so nobody ever has to read it.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, wake.as_fd(), EventData::new_u64(WAKE_DATA), flags).map_err(
            |error| SetupError::Refused {
                call: "epoll_ctl for the wake-up eventfd",
                source: error.into(),
            },
        )?;
        let connections = usize::from(config.connections_max);
        Ok(Self {
            epoll,
            conns: (0..connections)
                .map(|_| Conn::new(config.write_pieces_max as usize))
                .collect(),
            listed: VecDeque::with_capacity(connections),
            active: VecDeque::with_capacity(connections),
            again: VecDeque::with_capacity(connections),
            ready: Vec::with_capacity(connections + 1),
            received: vec![0; RECV_BYTES].into_boxed_slice(),
            arena: memory.into_arena(),
            wake,
            is_woken: false,
            fault: None,
            busy_poll: Duration::from_micros(u64::from(config.busy_poll_us)),
            stats: DriverStats::default(),
        })
    }

    fn turn(&mut self, timeout: Option<Duration>) -> Result<(), EpollError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.active.append(&mut self.again);
        for _ in 0..self.listed.len() {
            let index = self.listed.pop_front().expect("counted");
            self.conns[usize::from(index)].is_listed = false;
            self.offer(index);
        }
        let looked = self.look_or_sleep(timeout);
        self.is_woken |= self.wake.state().take();
        self.stats.wakes += u64::from(self.is_woken);
        looked.inspect_err(|fault| self.fault = Some(*fault))
    }

    /// Spins, sleeps or only looks.
    fn look_or_sleep(&mut self, timeout: Option<Duration>) -> Result<(), EpollError> {
        let may_stay = self.active.is_empty()
            && self.listed.is_empty()
            && !self.is_woken
            && timeout != Some(Duration::ZERO);
        if !may_stay {
            return self.collect(Some(Duration::ZERO));
        }
        if !self.busy_poll.is_zero() {
            self.spin(timeout)?;
        }
        // What the spinning found may also be a write that is to be offered again.
        let is_due = !self.active.is_empty() || !self.listed.is_empty();
        if is_due || !self.wake.state().sleep_begin() {
            return Ok(());
        }
        self.stats.sleeps += 1;
        // That long it has spun.
        self.collect(timeout.map(|timeout| timeout.saturating_sub(self.busy_poll)))
    }

    /// Looks until something is there, another thread calls, or the time is over. Yields every few
    /// looks, for the sake of a thread on the same core that makes what the shard waits for.
    fn spin(&mut self, timeout: Option<Duration>) -> Result<(), EpollError> {
        let limit = timeout.map_or(self.busy_poll, |timeout| timeout.min(self.busy_poll));
        let started = Instant::now();
        let mut looks = 0u32;
        loop {
            self.collect(Some(Duration::ZERO))?;
            let is_over = started.elapsed() >= limit;
            let is_due = !self.active.is_empty() || !self.listed.is_empty();
            if is_due || self.wake.state().is_notified() || is_over {
                return Ok(());
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(SPIN_LOOKS) {
                std::thread::yield_now();
            }
        }
    }

    /// One `epoll_wait`, and what it says.
    fn collect(&mut self, timeout: Option<Duration>) -> Result<(), EpollError> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        // `epoll_wait` counts in milliseconds, and its successor needs Linux 5.11. A shorter sleep
        // is one of `ppoll`.
        let is_fine = |time: &Timespec| time.tv_sec == 0 && time.tv_nsec % 1_000_000 != 0;
        let timeout = match timeout.filter(is_fine) {
            Some(fine) => {
                let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
                self.stats.enters += 1;
                match poll(&mut fds, Some(&fine)) {
                    Ok(0) => return Ok(()),
                    Err(rustix::io::Errno::INTR) => {
                        self.stats.enter_interrupts += 1;
                        return Ok(());
                    }
                    Ok(_) => Some(Timespec::default()),
                    Err(errno) => return Err(EpollError::new("ppoll", errno)),
                }
            }
            None => timeout,
        };
        self.stats.enters += 1;
        self.ready.clear();
        let mut ready = mem::take(&mut self.ready);
        let room = rustix::buffer::spare_capacity(&mut ready);
        let outcome = epoll::wait(&self.epoll, room, timeout.as_ref());
        match outcome {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => self.stats.enter_interrupts += 1,
            Err(errno) => return Err(EpollError::new("epoll_wait", errno)),
        }
        for event in &ready {
            self.note(event.data.u64(), event.flags);
        }
        self.ready = ready;
        Ok(())
    }

    /// One edge of one descriptor.
    fn note(&mut self, data: u64, flags: EventFlags) {
        self.stats.completions += 1;
        if data == WAKE_DATA {
            return;
        }
        // The socket of an earlier life is closed, and with it its registration: what comes is of
        // this one.
        let index = u16::try_from(data).expect("we registered it");
        let conn = &mut self.conns[usize::from(index)];
        let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let has_ended = is_broken || flags.contains(EventFlags::RDHUP);
        if conn.phase == Phase::Connecting {
            if is_broken || flags.contains(EventFlags::OUT) {
                self.finish_connect(index);
            }
            let conn = &mut self.conns[usize::from(index)];
            conn.is_readable |= flags.contains(EventFlags::IN) || has_ended;
            conn.has_ended |= has_ended;
            return;
        }
        conn.has_ended |= has_ended;
        if flags.contains(EventFlags::IN) || has_ended {
            conn.is_readable = true;
            self.activate(index);
        }
        if is_broken || flags.contains(EventFlags::OUT) {
            let conn = &mut self.conns[usize::from(index)];
            if !mem::replace(&mut conn.is_writable, true) && conn.sent == Sent::Partly {
                self.offer(index);
            }
        }
    }

    /// The connection may have an event.
    fn activate(&mut self, index: u16) {
        let conn = &mut self.conns[usize::from(index)];
        if !conn.is_active {
            conn.is_active = true;
            self.active.push_back(index);
        }
    }

    /// The write is to be offered with the next turn.
    fn list(&mut self, index: u16) {
        let conn = &mut self.conns[usize::from(index)];
        if !conn.is_listed {
            conn.is_listed = true;
            self.listed.push_back(index);
        }
    }

    fn begin_connect(&mut self, index: ConnIndex, addr: SocketAddr, options: &SocketOptions) {
        let conn = &mut self.conns[usize::from(index.0)];
        assert!(conn.phase == Phase::Free, "connection {index} is in use");
        conn.begin();
        self.stats.submissions += 1;
        match connect(self.epoll.as_fd(), index, addr, options) {
            Ok(socket) => {
                conn.phase = Phase::Connecting;
                conn.socket = Some(socket);
            }
            Err(errno) => {
                conn.phase = Phase::Refused(errno::on_connect(errno.0));
                self.activate(index.0);
            }
        }
    }

    /// The kernel knows how the connect ended.
    fn finish_connect(&mut self, index: u16) {
        let conn = &mut self.conns[usize::from(index)];
        let socket = conn.socket.as_ref().expect("a connecting socket is open");
        let refusal = match socket.take_error() {
            Ok(None) if socket::is_connected_to_itself(socket) => Some(LostCause::Refused),
            Ok(None) => None,
            Ok(Some(error)) | Err(error) => Some(errno::on_connect(Errno::of(&error).0)),
        };
        match refusal {
            Some(cause) => conn.phase = Phase::Refused(cause),
            None => {
                conn.phase = Phase::Open;
                conn.is_connected_due = true;
                conn.is_writable = true;
            }
        }
        self.activate(index);
    }

    /// Offers the write of a connection to its socket until the socket takes no more.
    fn offer(&mut self, index: u16) {
        let conn = &mut self.conns[usize::from(index)];
        if conn.phase != Phase::Open || conn.sent != Sent::Partly || !conn.is_writable {
            return;
        }
        let path = CarriedBy::SendMsg as usize;
        while !conn.queue.is_done() {
            let socket = conn
                .socket
                .as_ref()
                .expect("an open connection has a socket");
            self.stats.submissions += 1;
            self.stats.write_operations[path] += 1;
            match conn.queue.send(socket) {
                Ok((0, _)) => return self.fail_write(index, LostCause::Unexpected(Errno(0))),
                Ok((taken, offered)) => {
                    conn.refusals = 0;
                    self.stats.write_bytes[path] += taken;
                    self.stats.short_writes += u64::from(taken < offered);
                }
                Err(rustix::io::Errno::AGAIN) => {
                    conn.is_writable = false;
                    return;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return self.refuse_write(index, errno.raw_os_error()),
            }
        }
        conn.sent = Sent::Whole;
        self.activate(index);
    }

    fn refuse_write(&mut self, index: u16, errno: i32) {
        let conn = &mut self.conns[usize::from(index)];
        match errno::on_write(errno, CarriedBy::SendMsg) {
            OnWrite::Again(_) if conn.refusals < errno::REFUSALS_MAX => {
                conn.refusals += 1;
                self.list(index);
            }
            OnWrite::Again(cause) | OnWrite::Lost(cause) => self.fail_write(index, cause),
            OnWrite::LeavePath | OnWrite::Plainly => unreachable!("sendmsg is the plain path"),
        }
    }

    /// The socket takes no more. What the peer said before is still delivered, then comes the end.
    fn fail_write(&mut self, index: u16, cause: LostCause) {
        let conn = &mut self.conns[usize::from(index)];
        conn.phase = Phase::Failing(cause);
        (conn.is_readable, conn.has_ended) = (true, true);
        socket::shutdown(
            conn.socket
                .as_ref()
                .expect("an open connection has a socket"),
        );
        self.activate(index);
    }

    /// The next event of the first connection that may have one; `None` when it has none.
    fn step(&mut self, index: u16) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        let this = ConnIndex(index);
        if let Phase::Closing(cause) | Phase::Refused(cause) = conn.phase {
            return Some(Step::Event(self.finish(index, cause)));
        }
        if mem::take(&mut conn.is_connected_due) {
            self.stats.connects += 1;
            return Some(Step::Event(Event::Connected { conn: this }));
        }
        if conn.sent == Sent::Whole {
            conn.sent = Sent::Nothing;
            conn.queue.clear(self.arena.mapping());
            return Some(Step::Event(Event::WriteDone { conn: this }));
        }
        if !conn.is_readable || !matches!(conn.phase, Phase::Open | Phase::Failing(_)) {
            return None;
        }
        self.receive(index)
    }

    fn receive(&mut self, index: u16) -> Option<Step> {
        let conn = &mut self.conns[usize::from(index)];
        let socket = conn
            .socket
            .as_ref()
            .expect("an open connection has a socket");
        self.stats.submissions += 1;
        self.stats.receive_requests += 1;
        match recv(socket, &mut self.received[..], RecvFlags::empty()) {
            Ok((0, _)) => self.end_receive(index, LostCause::PeerClosed),
            Ok((bytes, _)) => {
                // Less than there was room for is all there was; the next byte is a new edge. An
                // end that was seen is no edge again, so it has to be read.
                conn.is_readable = bytes == RECV_BYTES || conn.has_ended;
                self.stats.receives += 1;
                self.stats.receive_bytes += bytes as u64;
                Some(Step::Received(ConnIndex(index), bytes))
            }
            Err(errno) => match errno::on_recv(errno.raw_os_error()) {
                // After a failed write there is nothing to wait for.
                OnRecv::Again if errno == rustix::io::Errno::AGAIN => match conn.phase {
                    Phase::Failing(cause) => self.end_receive(index, cause),
                    _ => {
                        conn.is_readable = false;
                        None
                    }
                },
                OnRecv::Again | OnRecv::NoBuffer => self.receive_again(index),
                OnRecv::Lost(cause) => self.end_receive(index, cause),
            },
        }
    }

    /// A signal, or no kernel memory: with the next turn.
    fn receive_again(&mut self, index: u16) -> Option<Step> {
        self.again.push_back(index);
        None
    }

    fn end_receive(&mut self, index: u16, cause: LostCause) -> Option<Step> {
        let cause = match self.conns[usize::from(index)].phase {
            // After our own shutdown the receive ends like an orderly end, which says nothing. Its
            // errno may say more than that of the write.
            Phase::Failing(LostCause::Broken) if cause != LostCause::PeerClosed => cause,
            Phase::Failing(first_cause) => first_cause,
            _ => cause,
        };
        Some(Step::Event(self.finish(index, cause)))
    }

    /// Ends a connection: its socket, its memory, its index.
    fn finish(&mut self, index: u16, cause: LostCause) -> Event<'static> {
        let conn = &mut self.conns[usize::from(index)];
        let has_refused = matches!(conn.phase, Phase::Refused(_));
        let write_progress_bytes = conn.end(self.arena.mapping());
        let conn = ConnIndex(index);
        if has_refused {
            self.stats.connect_failures += 1;
            return Event::ConnectFailed { conn, cause };
        }
        self.stats.closes += 1;
        Event::Closed {
            conn,
            cause,
            write_progress_bytes,
        }
    }
}

/// A socket that does not block, on its way to `addr`, registered under its index.
fn connect(
    epoll: BorrowedFd<'_>,
    index: ConnIndex,
    addr: SocketAddr,
    options: &SocketOptions,
) -> Result<socket2::Socket, Errno> {
    let socket = socket::open(addr, options)?;
    let errno = |error: std::io::Error| Errno::of(&error);
    socket.set_nonblocking(true).map_err(errno)?;
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        // A connect that a signal meets goes on in the kernel.
        Err(error) if matches!(Errno::of(&error).0, libc::EINPROGRESS | libc::EINTR) => {}
        Err(error) => return Err(Errno::of(&error)),
    }
    // After the connect: a socket that was never connected counts as hung up.
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(
        epoll,
        &socket,
        EventData::new_u64(u64::from(index.0)),
        flags,
    )
    .map_err(|error| Errno(error.raw_os_error()))?;
    Ok(socket)
}

impl Driver for Epoll {
    type Gather<'d> = Gather<'d>;

    fn connect(&mut self, conn: ConnIndex, address: SocketAddr, options: &SocketOptions) {
        self.begin_connect(conn, address, options);
    }

    fn close(&mut self, conn: ConnIndex) {
        let this = &mut self.conns[usize::from(conn.0)];
        if matches!(
            this.phase,
            Phase::Connecting | Phase::Open | Phase::Failing(_)
        ) {
            this.phase = Phase::Closing(LostCause::Local);
            self.activate(conn.0);
        }
    }

    fn gather(&mut self, conn: ConnIndex) -> Option<Gather<'_>> {
        let this = &mut self.conns[usize::from(conn.0)];
        if this.phase != Phase::Open || this.sent != Sent::Nothing {
            return None;
        }
        // Not empty only when an earlier gather was leaked.
        this.queue.clear(self.arena.mapping());
        Some(Gather {
            driver: self,
            conn,
            is_submitted: false,
        })
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DriverError> {
        self.turn(timeout).map_err(DriverError::from)
    }

    fn next_event(&mut self) -> Option<Event<'_>> {
        if mem::take(&mut self.is_woken) {
            return Some(Event::Woken);
        }
        let step = loop {
            let index = *self.active.front()?;
            let step = self.step(index);
            let is_received = matches!(step, Some(Step::Received(..)));
            if step.is_none() || is_received {
                self.active.pop_front();
                // In the list of the next turn already, if the receive is to be tried again.
                let is_again = self.again.back() == Some(&index);
                if is_received && self.conns[usize::from(index)].is_readable {
                    self.again.push_back(index);
                } else {
                    self.conns[usize::from(index)].is_active = is_again;
                }
            }
            if let Some(step) = step {
                break step;
            }
        };
        Some(match step {
            Step::Event(event) => event,
            Step::Received(conn, bytes) => Event::Received {
                conn,
                bytes: &self.received[..bytes],
            },
        })
    }

    fn wake_handle(&self) -> WakeHandle {
        self.wake.handle()
    }

    fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn info(&self) -> DriverInfo {
        DriverInfo {
            driver: DriverKind::Epoll,
            features: Features::NONE,
            paths: [Some(CarriedBy::SendMsg); TRAFFIC_KINDS],
            path_costs: [[None; WRITE_PATHS]; TRAFFIC_KINDS],
            submission_entries: 0,
            completion_entries: 0,
            page_kind: self.arena.page_kind(),
        }
    }
}

impl Drop for Epoll {
    /// No call is in flight, so every socket can be closed and all memory let go at once.
    fn drop(&mut self) {
        for conn in &mut self.conns {
            conn.end(self.arena.mapping());
        }
    }
}

/// A write of a connection being put together, in the table of that connection.
pub struct Gather<'d> {
    driver: &'d mut Epoll,
    conn: ConnIndex,
    is_submitted: bool,
}

impl Gather<'_> {
    fn this(&self) -> &Conn {
        &self.driver.conns[usize::from(self.conn.0)]
    }
}

impl driver::Gather for Gather<'_> {
    fn room_pieces(&self) -> usize {
        self.this().queue.room_pieces()
    }

    fn bytes(&self) -> u64 {
        self.this().queue.bytes()
    }

    fn push_slot(&mut self, token: &SlotToken, range: Range<usize>) {
        let driver = &mut *self.driver;
        let queue = &mut driver.conns[usize::from(self.conn.0)].queue;
        queue.push_range(driver.arena.mapping(), token, range, usize::MAX);
    }

    fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            let queue = &mut self.driver.conns[usize::from(self.conn.0)].queue;
            queue.push_bytes(bytes);
        }
    }

    fn submit(mut self) {
        assert!(self.bytes() > 0, "a write has bytes");
        self.is_submitted = true;
        let conn = &mut self.driver.conns[usize::from(self.conn.0)];
        (conn.sent, conn.refusals) = (Sent::Partly, 0);
        self.driver.stats.writes += 1;
        self.driver.list(self.conn.0);
    }
}

impl Drop for Gather<'_> {
    fn drop(&mut self) {
        if !self.is_submitted {
            let driver = &mut *self.driver;
            driver.conns[usize::from(self.conn.0)]
                .queue
                .clear(driver.arena.mapping());
        }
    }
}
