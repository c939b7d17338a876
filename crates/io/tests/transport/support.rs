//! What the tests share: a driver that records events, peers, and frames.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain_io::driver::{Driver, Gather};
use ringmain_io::epoll::{Epoll, EpollConfig};
use ringmain_io::memory::{Arena, ArenaConfig, DriverMemory, SlotToken};
use ringmain_io::ring::SetupError;
use ringmain_io::transport::{
    CarriedBy, ConnIndex, Event, Features, LostCause, SocketOptions, Transport, TransportConfig,
    TransportStats, WritePath,
};

/// Longer than anything here takes, even on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The connection of tests that need only one.
pub(crate) const CONN: ConnIndex = ConnIndex(0);

/// A small arena: 16 slots of 16 KiB, 64 headers, 8 receive buffers of 4 KiB.
pub(crate) fn small_arena() -> ArenaConfig {
    ArenaConfig {
        slot_bytes: 16 * 1024,
        slots: 16,
        headers: 64,
        recv_buffer_bytes: 4096,
        recv_buffers: 8,
        huge_pages: false,
    }
}

/// A configuration for up to eight connections.
pub(crate) fn config(write_path: WritePath) -> TransportConfig {
    TransportConfig {
        connections_max: 8,
        write_path,
        ..TransportConfig::default()
    }
}

/// An event without its borrowed bytes; those are kept by connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Connected(ConnIndex),
    ConnectFailed(ConnIndex, LostCause),
    WriteDone(ConnIndex),
    Closed(ConnIndex, LostCause, Option<u64>),
    Woken,
}

/// Makes a driver; `None` when this host cannot.
pub(crate) type Make<D> = Box<dyn Fn(DriverMemory) -> Option<D>>;

/// A driver the contract is held against.
pub(crate) trait Implementation: Driver + Sized {
    /// Its ways to work that differ: each case runs on each of them.
    fn variants() -> Vec<(String, Make<Self>)>;
}

impl Implementation for Transport {
    fn variants() -> Vec<(String, Make<Self>)> {
        let paths = [
            WritePath::Auto,
            WritePath::WritevFixed,
            WritePath::SendMsg,
            WritePath::SendZc,
        ];
        let all_features = paths.map(|path| (config(path), "all"));
        let plain = feature_sets().into_iter().map(|(name, features)| {
            let config = TransportConfig {
                features,
                ..config(WritePath::SendMsg)
            };
            (config, name)
        });
        let variants = all_features.into_iter().chain(plain);
        variants
            .map(|(config, features)| {
                let name = format!("{:?}, features {features}", config.write_path);
                let make = move |memory| or_skipped(Transport::new(&config, memory));
                (name, Box::new(make) as Make<Self>)
            })
            .collect()
    }
}

impl Implementation for Epoll {
    fn variants() -> Vec<(String, Make<Self>)> {
        let variants = [("sleeping", 0), ("spinning", 1000)];
        variants
            .map(|(name, busy_poll_us)| {
                let config = EpollConfig {
                    connections_max: 8,
                    busy_poll_us,
                    ..EpollConfig::default()
                };
                let make = move |memory| Some(Epoll::new(&config, memory).expect("epoll"));
                (name.to_owned(), Box::new(make) as Make<Self>)
            })
            .into()
    }
}

/// `None`, said on standard output, when this kernel or its locked-memory limit has no room for the
/// path.
fn or_skipped(made: Result<Transport, SetupError>) -> Option<Transport> {
    match made {
        Ok(transport) => Some(transport),
        Err(error @ SetupError::WritePath { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A fresh rig for each variant of a driver, each named on standard output.
pub(crate) fn rigs<D: Implementation>() -> impl Iterator<Item = Rig<D>> {
    D::variants().into_iter().filter_map(|(name, make)| {
        println!("{name}");
        let memory = DriverMemory::new(&small_arena()).expect("an arena");
        let arena = Arc::clone(memory.arena());
        Some(Rig::around(make(memory)?, arena))
    })
}

/// A driver with everything it has told so far.
pub(crate) struct Rig<D: Driver = Transport> {
    pub(crate) transport: D,
    pub(crate) arena: Arc<Arena>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) received: BTreeMap<u16, Vec<u8>>,
}

impl Rig {
    pub(crate) fn new(config: &TransportConfig, arena: &ArenaConfig) -> Self {
        Self::try_new(config, arena).expect("a path that every kernel has")
    }

    /// `None`, said on standard output, when this kernel or its locked-memory limit has no room for
    /// the path.
    pub(crate) fn try_new(config: &TransportConfig, arena: &ArenaConfig) -> Option<Self> {
        let memory = DriverMemory::new(arena).expect("an arena");
        let arena = Arc::clone(memory.arena());
        Some(Self::around(
            or_skipped(Transport::new(config, memory))?,
            arena,
        ))
    }
}

impl<D: Driver> Rig<D> {
    fn around(transport: D, arena: Arc<Arena>) -> Self {
        Self {
            transport,
            arena,
            seen: Vec::new(),
            received: BTreeMap::new(),
        }
    }

    /// Whether a write can begin.
    pub(crate) fn can_write(&mut self, conn: ConnIndex) -> bool {
        self.transport.gather(conn).is_some()
    }

    /// One round of the driver's loop.
    pub(crate) fn step(&mut self, timeout: Duration) {
        self.transport.wait(Some(timeout)).expect("the ring works");
        while let Some(event) = self.transport.next_event() {
            self.seen.push(match event {
                Event::Connected { conn } => Seen::Connected(conn),
                Event::ConnectFailed { conn, cause } => Seen::ConnectFailed(conn, cause),
                Event::WriteDone { conn } => Seen::WriteDone(conn),
                Event::Closed {
                    conn,
                    cause,
                    write_progress_bytes,
                } => Seen::Closed(conn, cause, write_progress_bytes),
                Event::Woken => Seen::Woken,
                Event::Received { conn, bytes } => {
                    assert!(!bytes.is_empty());
                    self.received
                        .entry(conn.0)
                        .or_default()
                        .extend_from_slice(bytes);
                    continue;
                }
            });
        }
    }

    /// Drives until `is_done`; fails after [`PATIENCE`].
    pub(crate) fn drive_until(&mut self, what: &str, mut is_done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_done(self) {
            assert!(
                Instant::now() < deadline,
                "{what}: {:?} {:?}",
                self.seen,
                self.transport.stats()
            );
            self.step(Duration::from_millis(200));
        }
    }

    pub(crate) fn drive_until_seen(&mut self, seen: Seen) {
        self.drive_until(&format!("waiting for {seen:?}"), |rig| {
            rig.seen.contains(&seen)
        });
    }

    /// Drives until the connection has ended; gives the cause and how far its write had come.
    pub(crate) fn drive_until_closed(&mut self, conn: ConnIndex) -> (LostCause, Option<u64>) {
        let mut end = None;
        self.drive_until(&format!("waiting for the end of {conn}"), |rig| {
            end = rig.seen.iter().find_map(|seen| match seen {
                Seen::Closed(closed, cause, progress) if *closed == conn => {
                    Some((*cause, *progress))
                }
                _ => None,
            });
            end.is_some()
        });
        end.expect("driven until then")
    }

    pub(crate) fn connect(&mut self, conn: ConnIndex, addr: SocketAddr, options: &SocketOptions) {
        self.transport.connect(conn, addr, options);
        self.drive_until_seen(Seen::Connected(conn));
    }

    pub(crate) fn count(&self, seen: Seen) -> usize {
        self.seen.iter().filter(|other| **other == seen).count()
    }

    /// Gathers and submits one write. Panics when the connection cannot write.
    pub(crate) fn write(&mut self, conn: ConnIndex, pieces: &[Piece<'_>]) {
        let mut gather = self
            .transport
            .gather(conn)
            .expect("the connection can write");
        for piece in pieces {
            match piece {
                Piece::Slot(token, range) => gather.push_slot(token, range.clone()),
                Piece::Bytes(bytes) => gather.push_bytes(bytes.clone()),
            }
        }
        gather.submit();
    }

    /// Writes and drives until it is done.
    pub(crate) fn write_all(&mut self, conn: ConnIndex, pieces: &[Piece<'_>]) {
        let done = self.count(Seen::WriteDone(conn));
        self.write(conn, pieces);
        self.drive_until("waiting for a write", |rig| {
            rig.count(Seen::WriteDone(conn)) > done
        });
    }

    /// Closes the only connection, shows that its peer got exactly `sent`, and ends the transport.
    pub(crate) fn finish_sent(
        mut self,
        served: JoinHandle<Vec<u8>>,
        sent: &[u8],
    ) -> TransportStats {
        self.transport.close(CONN);
        self.drive_until_closed(CONN);
        // Not `assert_eq`: nobody wants to see megabytes.
        assert!(
            served.join().expect("the peer ends well") == sent,
            "{:?}",
            self.transport.stats()
        );
        self.finish()
    }

    /// Ends the transport and shows that nothing was left behind; gives its counters.
    pub(crate) fn finish(self) -> TransportStats {
        let stats = self.transport.stats();
        drop(self.transport);
        assert_eq!(stats.completion_overflows, 0, "{stats:?}");
        assert_eq!(stats.stale_completions, 0, "{stats:?}");
        self.arena.assert_all_free();
        assert_eq!(
            Arc::strong_count(&self.arena),
            1,
            "nobody holds the arena any more"
        );
        stats
    }
}

/// A piece of a write of a test.
pub(crate) enum Piece<'a> {
    Slot(&'a SlotToken, Range<usize>),
    Bytes(Bytes),
}

/// What a list of pieces puts on the wire.
pub(crate) fn wire_bytes(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Slot(token, range) => all.extend_from_slice(&token.as_ref()[range.clone()]),
            Piece::Bytes(bytes) => all.extend_from_slice(bytes),
        }
    }
    all
}

/// Bytes that repeat only after a long while, so that a shifted or repeated piece is seen.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A filled header and a filled slot, as the engine sends them.
pub(crate) struct Frame {
    pub(crate) header: SlotToken,
    pub(crate) body: SlotToken,
    pub(crate) body_len: usize,
}

impl Frame {
    /// Takes a header and a slot and fills both.
    pub(crate) fn new(arena: &Arena, seed: u64, body_len: usize) -> Self {
        let mut header = arena.headers().acquire().expect("a header");
        let mut body = arena.slots().acquire().expect("a slot");
        header.as_mut().copy_from_slice(&pattern(seed, 256));
        body.as_mut()[..body_len].copy_from_slice(&pattern(seed + 1, body_len));
        Self {
            header,
            body,
            body_len,
        }
    }

    pub(crate) fn pieces(&self) -> [Piece<'_>; 2] {
        [
            Piece::Slot(&self.header, 0..256),
            Piece::Slot(&self.body, 0..self.body_len),
        ]
    }

    pub(crate) fn is_lent(&self) -> bool {
        self.header.is_lent() || self.body.is_lent()
    }

    /// Gives both blocks back.
    pub(crate) fn release(self, arena: &Arena) {
        arena.headers().release(self.header);
        arena.slots().release(self.body);
    }
}

/// The pieces of several frames, one after the other.
pub(crate) fn pieces_of(frames: &[Frame]) -> Vec<Piece<'_>> {
    frames.iter().flat_map(Frame::pieces).collect()
}

/// Shows that `bytes` left in all, and on `path`; the latter unless the locked-memory limit of this
/// host is in the way.
pub(crate) fn assert_carried(stats: &TransportStats, path: CarriedBy, bytes: usize) {
    assert_eq!(
        stats.write_bytes.iter().sum::<u64>(),
        bytes as u64,
        "{stats:?}"
    );
    let is_registered = stats.registered_bytes == stats.registered_bytes_wanted;
    if stats.write_fallbacks == 0 && (is_registered || path != CarriedBy::WritevFixed) {
        assert_eq!(
            stats.write_bytes[path as usize], bytes as u64,
            "{path:?} {stats:?}"
        );
    }
}

/// A listener on loopback and a thread that serves one connection of it.
pub(crate) fn peer<T: Send + 'static>(
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = listener.local_addr().expect("its address");
    (
        addr,
        std::thread::spawn(move || serve(listener.accept().expect("a connection").0)),
    )
}

/// Serves by reading to the end.
pub(crate) fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("readable to the end");
    all
}

/// Feature sets whose fallbacks differ: all, no multishot, a plain ring, nothing registered,
/// nothing at all.
pub(crate) fn feature_sets() -> Vec<(&'static str, Features)> {
    let all = Features::default();
    let none = Features {
        send_zc: true,
        ..Features::NONE
    };
    vec![
        ("all", all),
        (
            "single receives",
            Features {
                multishot_recv: false,
                ..all
            },
        ),
        (
            "no deferred work",
            Features {
                defer_taskrun: false,
                ..all
            },
        ),
        (
            "short sends come back",
            Features {
                send_zc_wait_all: false,
                ..all
            },
        ),
        (
            "unregistered",
            Features {
                registered_arena: false,
                vectored_fixed: false,
                ..all
            },
        ),
        ("bare", none),
    ]
}

/// More than any socket buffers hold.
pub(crate) const MORE_THAN_BUFFERS: usize = 64 << 20;

/// A port of loopback that nobody listens on.
pub(crate) fn unused_addr() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// A listener that takes one connection at a time and never accepts: once it is full, connects
/// hang.
pub(crate) fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: listen takes no memory of ours; on a listening socket it changes the length of the
    // queue.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let addr = listener.local_addr().unwrap();
    let filler = TcpStream::connect(addr).expect("a queue of length 0 takes one connection");
    (listener, vec![filler])
}

/// A peer that neither reads nor writes until the sender of the pair is dropped.
pub(crate) fn black_hole() -> (mpsc::Sender<()>, SocketAddr, std::thread::JoinHandle<()>) {
    let (release, hold) = mpsc::channel();
    let (addr, served) = peer(move |stream| {
        let _ = hold.recv();
        drop(stream);
    });
    (release, addr, served)
}
