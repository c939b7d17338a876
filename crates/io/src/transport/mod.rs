//! One ring of one shard and its sockets: connects, gathered writes, receives, wake-ups.
//!
//! The first implementation of [`Driver`], whose contract says who keeps which memory until when.
//!
//! Operations are never submitted where they are decided: that place only notes them, and `wait`
//! submits all of them. So there is one place where the submission queue can be full and one where
//! the ring can fail.
//!
//! What it does not do: frames, retries, reconnects, deadlines (other than the socket's own).

mod close;
mod config;
mod conn;
mod connect;
mod meter;
mod outgoing;
mod read;
mod registration;
mod setup;
mod trial;
mod write;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::opcode;
use io_uring::types::Fd;

use crate::driver::wake::WakeShared;
use crate::driver::{Driver, DriverKind};
use crate::memory::{Arena, DriverMemory};
use crate::ring::{Completion, Op, RecvRing, Ring, RingError, SetupError, Stay, UserData};
use conn::{Conn, OpState, Phase};
use meter::Meter;
use read::Received;
use setup::Prepared;
use trial::Trial;

pub use crate::driver::{CarriedBy, Features, TRAFFIC_KINDS, Traffic, WRITE_PATHS, WritePath};
pub use crate::driver::{
    ConnIndex, DriverError, Errno, Event, LostCause, SocketOptions, WakeHandle,
};
pub use crate::driver::{DriverInfo as TransportInfo, DriverStats as TransportStats};
pub use config::{CONNECTIONS_MAX, TransportConfig, WRITE_PIECES_MAX, WRITES_MAX};
pub use write::Gather;

/// Looks at the completion queue between two yields of a spinning shard: about a microsecond.
const SPIN_LOOKS: u32 = 16;

/// The kernel side of one shard. See the module.
pub struct Transport {
    ring: Ring,
    /// `Some` exactly with multishot receives.
    recv_ring: Option<RecvRing>,
    conns: Box<[Conn]>,
    /// Connections with something to submit, each once (`is_listed`).
    listed: VecDeque<u16>,
    /// Connections whose ending event is due without a completion that would bring it.
    ready: VecDeque<u16>,
    /// A connection whose next write is done, too, and is reported before the next completion is
    /// looked at.
    retiring: Option<u16>,
    /// Bytes the driver may still be looking at.
    received: Option<Received>,
    arena: Arc<Arena>,
    /// Bytes from the start of the arena that are registered.
    registered_bytes: usize,
    trials: [Trial; TRAFFIC_KINDS],
    meter: Meter,
    zero_copy_bytes_min: u32,
    wake: Arc<WakeShared>,
    /// Where the read of the eventfd puts its count. Boxed: the kernel knows its address.
    wake_buffer: Box<u64>,
    wake_read: OpState,
    /// An [`Event::Woken`] is due.
    is_woken: bool,
    is_tearing_down: bool,
    /// Found while dispatching; reported by the next `wait`.
    fault: Option<RingError>,
    busy_poll: Duration,
    /// Counters of the sockets; those of the ring are the ring's.
    stats: TransportStats,
    /// The ring accepts one submitting thread only.
    not_send: PhantomData<*const ()>,
}

/// What a completion leads to.
enum Step {
    Event(Event<'static>),
    Received(ConnIndex, Received),
}

impl Transport {
    /// Sets the ring up, registers the arena of `memory` with it and allocates every table. Call it
    /// on the shard thread; it blocks SIGPIPE for that thread.
    ///
    /// # Errors
    /// [`SetupError`], which names the likely cause and the remedy. Locked memory being refused is
    /// not an error unless a path that needs it is demanded: what fits is registered, with a
    /// warning, and the stats say how much.
    pub fn new(config: &TransportConfig, memory: DriverMemory) -> Result<Self, SetupError> {
        Self::try_new(config, memory).map_err(|(error, _)| error)
    }

    /// Likewise, and gives the memory back with the error, for another driver.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn try_new(
        config: &TransportConfig,
        memory: DriverMemory,
    ) -> Result<Self, (SetupError, DriverMemory)> {
        match setup::prepare(config, memory.arena()) {
            Ok(prepared) => Ok(Self::around(config, prepared, memory.into_arena())),
            Err(error) => Err((error, memory)),
        }
    }

    fn around(config: &TransportConfig, prepared: Prepared, arena: Arc<Arena>) -> Self {
        let Prepared {
            ring,
            recv_ring,
            registered_bytes,
            trials,
            wake,
        } = prepared;
        setup::block_sigpipe();
        let connections_max = config.connections_max;
        Self {
            ring,
            recv_ring,
            conns: (0..connections_max)
                .map(|index| Conn::new(index, config.writes_max, config.write_pieces_max as usize))
                .collect(),
            listed: VecDeque::with_capacity(usize::from(connections_max)),
            ready: VecDeque::with_capacity(usize::from(connections_max)),
            retiring: None,
            received: None,
            registered_bytes,
            trials,
            meter: Meter::default(),
            zero_copy_bytes_min: config.zero_copy_bytes_min,
            wake,
            wake_buffer: Box::new(0),
            wake_read: OpState::Wanted,
            is_woken: false,
            is_tearing_down: false,
            fault: None,
            busy_poll: Duration::from_micros(u64::from(config.busy_poll_us)),
            stats: TransportStats {
                registered_bytes: registered_bytes as u64,
                registered_bytes_wanted: arena.layout().registered_bytes_wanted() as u64,
                ..TransportStats::default()
            },
            arena,
            not_send: PhantomData,
        }
    }

    /// One turn with the kernel: submit, sleep or look, collect.
    fn turn(&mut self, timeout: Option<Duration>) -> Result<(), RingError> {
        self.recycle_received();
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.meter.settle(&mut self.trials);
        let started_ns = self.meter.is_running().then(meter::thread_cpu_ns);
        self.submit_listed()?;
        self.enter(timeout)?;
        if let Some(started_ns) = started_ns {
            self.meter.spent(meter::thread_cpu_ns() - started_ns);
        }
        self.is_woken |= self.wake.state().take();
        self.stats.wakes += u64::from(self.is_woken);
        self.ring.take_completions();
        Ok(())
    }

    /// Notes that a connection has something to submit.
    fn list(&mut self, index: u16) {
        let conn = &mut self.conns[usize::from(index)];
        if !conn.is_listed {
            conn.is_listed = true;
            self.listed.push_back(index);
        }
    }

    /// Submits what was noted, as far as the kernel takes it; the rest stays noted.
    fn submit_listed(&mut self) -> Result<(), RingError> {
        if self.wake_read == OpState::Wanted && !self.is_tearing_down {
            let buffer: *mut u64 = &mut *self.wake_buffer;
            let entry =
                opcode::Read::new(Fd(self.wake.fd()), buffer.cast(), size_of::<u64>() as u32)
                    .build();
            // SAFETY: the buffer is boxed and kept until the read is home (see the teardown), and
            // nobody reads it.
            if !unsafe {
                self.ring
                    .push(&entry.user_data(close::WAKE_USER_DATA.encode()))?
            } {
                return Ok(());
            }
            self.wake_read = OpState::InFlight;
        }
        while let Some(&index) = self.listed.front() {
            if !self.submit_connection(index)? {
                return Ok(());
            }
            self.listed.pop_front();
            self.conns[usize::from(index)].is_listed = false;
        }
        Ok(())
    }

    /// Submits what one connection wants. False when the queue is full; what was taken is marked as
    /// such.
    fn submit_connection(&mut self, index: u16) -> Result<bool, RingError> {
        let at = usize::from(index);
        if self.conns[at].connect == OpState::Wanted {
            let conn = &self.conns[at];
            let address = conn
                .address
                .as_ref()
                .expect("set before the connect is wanted");
            let entry =
                opcode::Connect::new(conn.fd(), address.as_ptr().cast(), address.len()).build();
            let entry = entry.user_data(conn.user_data(Op::Connect));
            // SAFETY: the address lies in the connection's own record, which neither moves nor
            // changes before the connect is home.
            if !unsafe { self.ring.push(&entry)? } {
                return Ok(false);
            }
            self.conns[at].connect = OpState::InFlight;
        }
        if self.conns[at].recv == OpState::Wanted {
            let entry = self.recv_entry(&self.conns[at]);
            // SAFETY: the buffers are part of the arena, which this transport holds until nothing
            // is in flight; the connection's own buffer is not lent to the driver now
            // (`recycle_received` came before).
            if !unsafe { self.ring.push(&entry)? } {
                return Ok(false);
            }
            self.stats.receive_requests += 1;
            self.conns[at].recv = OpState::InFlight;
        }
        if self.conns[at].write == OpState::Wanted {
            let entry = self.write_entry(index);
            // SAFETY: the iovecs and the message header lie in tables of the write's queue that do
            // not move; the blocks are lent and the `Bytes` held by it. It is cleared only when the
            // write is done (this completion, and the notification it may announce) or the
            // connection is home with all notifications.
            if !unsafe { self.ring.push(&entry)? } {
                return Ok(false);
            }
            self.conns[at].write = OpState::InFlight;
        }
        if matches!(self.conns[at].phase, Phase::Closing(_)) {
            return self.submit_cancellations(index);
        }
        Ok(true)
    }

    fn submit_cancellations(&mut self, index: u16) -> Result<bool, RingError> {
        let conn = &mut self.conns[usize::from(index)];
        while let Some(op) = conn.next_to_cancel() {
            let entry = opcode::AsyncCancel::new(conn.user_data(op))
                .build()
                .user_data(conn.user_data(Op::Cancel));
            // SAFETY: a cancellation names no memory.
            if !unsafe { self.ring.push(&entry)? } {
                return Ok(false);
            }
            conn.cancelling(op);
        }
        Ok(true)
    }

    /// Spins, sleeps or only looks.
    fn enter(&mut self, timeout: Option<Duration>) -> Result<(), RingError> {
        let is_idle = self.ready.is_empty() && self.listed.is_empty() && !self.is_woken;
        let may_stay = is_idle && timeout != Some(Duration::ZERO);
        if may_stay && !self.busy_poll.is_zero() {
            self.spin(timeout)?;
        }
        if may_stay && !self.ring.has_completions() && self.wake.state().sleep_begin() {
            // That long it has spun.
            let left = timeout.map(|timeout| timeout.saturating_sub(self.busy_poll));
            return self.ring.enter(left.map_or(Stay::Sleep, Stay::SleepFor));
        }
        if self.ring.wants_enter() {
            self.ring.enter(Stay::Look)
        } else {
            Ok(())
        }
    }

    /// Looks at the completion queue until something is there, somebody calls, or the time is over.
    /// Lets other threads of this core run every few looks: on a core of its own that costs next to
    /// nothing, and on a shared one the thread that waits for an answer would otherwise wait for
    /// the end of the time slice.
    fn spin(&mut self, timeout: Option<Duration>) -> Result<(), RingError> {
        let mut looks = 0u32;
        let limit = timeout.map_or(self.busy_poll, |timeout| timeout.min(self.busy_poll));
        let started = Instant::now();
        loop {
            if self.ring.wants_enter() {
                self.ring.enter(Stay::Look)?;
            }
            if self.ring.has_completions()
                || self.wake.state().is_notified()
                || started.elapsed() >= limit
            {
                return Ok(());
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(SPIN_LOOKS) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Finds what a completion belongs to. What belongs to nothing is counted, and a buffer in it
    /// goes back.
    fn handle(&mut self, completion: Completion) -> Option<Step> {
        let Some(user_data) = UserData::decode(completion.user_data) else {
            return self.handle_stale(completion);
        };
        let UserData {
            op,
            write,
            index,
            generation,
        } = user_data;
        if op == Op::Wake {
            self.handle_wake(completion);
            return None;
        }
        let Some(conn) = self
            .conns
            .get(usize::from(index))
            .filter(|conn| conn.generation == generation)
        else {
            return self.handle_stale(completion);
        };
        match op {
            Op::Connect if conn.connect.is_out() => self.handle_connect(index, completion),
            Op::Recv if conn.recv.is_out() => self.handle_recv(index, completion),
            Op::Write if completion.is_notification() => {
                self.handle_notification(index, write, completion)
            }
            Op::Write if conn.write.is_out() => self.handle_write(index, completion),
            Op::Cancel if conn.cancels_in_flight > 0 => self.handle_cancel(index, completion),
            _ => self.handle_stale(completion),
        }
    }

    fn handle_stale(&mut self, completion: Completion) -> Option<Step> {
        self.stats.stale_completions += 1;
        self.hand_back(completion.buffer());
        None
    }

    /// The eventfd was read: read it again. That somebody called is known from the wake state.
    fn handle_wake(&mut self, completion: Completion) {
        self.wake_read = OpState::Wanted;
        match -completion.result {
            ..=0 | libc::EINTR | libc::EAGAIN | libc::ECANCELED => {}
            errno => self.fault = Some(RingError::Wake { errno }),
        }
    }
}

impl Driver for Transport {
    type Gather<'d> = Gather<'d>;

    fn connect(&mut self, conn: ConnIndex, address: SocketAddr, options: &SocketOptions) {
        self.begin_connect(conn, address, options);
    }

    fn close(&mut self, conn: ConnIndex) {
        self.give_up(conn);
    }

    fn gather(&mut self, conn: ConnIndex) -> Option<Gather<'_>> {
        self.begin_gather(conn)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DriverError> {
        self.turn(timeout).map_err(DriverError::from)
    }

    fn next_event(&mut self) -> Option<Event<'_>> {
        self.recycle_received();
        if std::mem::take(&mut self.is_woken) {
            return Some(Event::Woken);
        }
        let step = loop {
            let step = if let Some(index) = self.retiring.take() {
                self.retire_write(index)
            } else if let Some(completion) = self.ring.next_completion() {
                self.handle(completion)
            } else {
                let index = self.ready.pop_front()?;
                self.settle(index)
            };
            if let Some(step) = step {
                break step;
            }
        };
        Some(match step {
            Step::Event(event) => event,
            Step::Received(conn, received) => {
                // SAFETY: the completion says that the kernel wrote `len` bytes at `base`, inside a
                // receive buffer of the arena that `self` keeps mapped. The kernel does not get the
                // buffer back before the next call that takes `&mut self`, which the lifetime of
                // the event forbids while the bytes are in use.
                let bytes =
                    unsafe { std::slice::from_raw_parts(received.base.as_ptr(), received.len) };
                Event::Received { conn, bytes }
            }
        })
    }

    fn wake_handle(&self) -> WakeHandle {
        self.wake.handle()
    }

    fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn stats(&self) -> TransportStats {
        let ring = self.ring.counters();
        TransportStats {
            enters: ring.enters,
            submissions: ring.submissions,
            completions: ring.completions,
            submission_queue_full: ring.submission_queue_full,
            completion_overflows: ring.completion_overflows,
            enter_retries: ring.enter_retries,
            enter_interrupts: ring.enter_interrupts,
            sleeps: ring.sleeps,
            ..self.stats
        }
    }

    fn info(&self) -> TransportInfo {
        TransportInfo {
            driver: DriverKind::IoUring,
            features: Features {
                registered_arena: self.registered_bytes > 0,
                multishot_recv: self.recv_ring.is_some(),
                ..self.ring.features()
            },
            paths: self.trials.map(|trial| trial.decided()),
            path_costs: self
                .trials
                .map(|trial| CarriedBy::ALL.map(|path| trial.cost_told(path))),
            submission_entries: self.ring.sq_entries(),
            completion_entries: self.ring.cq_entries(),
            page_kind: self.arena.page_kind(),
        }
    }
}
