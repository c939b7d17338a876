//! After its start no driver allocates anything on the shard thread: connecting, sending on every
//! path, short writes, receiving, waking, closing.
//!
//! A test binary of its own, because the allocator it counts with is the whole process's. What it
//! does not show: that `Bytes` of the caller are freed elsewhere; letting go of them is the
//! transport's task.

#[path = "support/counting.rs"]
mod counting;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain_io::driver::{Driver, Gather};
use ringmain_io::epoll::{Epoll, EpollConfig};
use ringmain_io::memory::{ArenaConfig, DriverMemory, SlotToken};
use ringmain_io::transport::{
    ConnIndex, Event, Features, SocketOptions, Transport, TransportConfig, TransportStats,
    WritePath,
};

/// Allocations of this thread during `run`.
fn allocations(run: impl FnOnce()) -> u64 {
    counting::allocations(run).0
}

/// A driver that keeps no events: what it waits for is counted on the stack.
struct Rig<D> {
    transport: D,
    received: usize,
    done: u32,
    ended: u32,
    connected: u32,
    woken: u32,
}

impl<D: Driver> Rig<D> {
    fn drive_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_done(self) {
            assert!(Instant::now() < deadline, "{:?}", self.transport.stats());
            self.transport
                .wait(Some(Duration::from_millis(100)))
                .expect("the driver works");
            while let Some(event) = self.transport.next_event() {
                match event {
                    Event::Connected { .. } => self.connected += 1,
                    Event::Received { bytes, .. } => self.received += bytes.len(),
                    Event::WriteDone { .. } => self.done += 1,
                    Event::ConnectFailed { .. } | Event::Closed { .. } => self.ended += 1,
                    Event::Woken => self.woken += 1,
                }
            }
        }
    }
}

const CONN: ConnIndex = ConnIndex(0);
const ROUNDS: u32 = 100;
const BODY_BYTES: usize = 16 * 1024;

/// A peer that sends back what it gets.
fn echo() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 65_536];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..len]).is_err() {
                return;
            }
        }
    });
    (addr, thread)
}

/// Connects, sends and gets everything back, closes; allocations are counted from before the
/// connect.
fn session<D: Driver>(make: impl FnOnce(DriverMemory) -> D) -> (u64, TransportStats) {
    let (addr, echo) = echo();
    let arena = ArenaConfig {
        slot_bytes: BODY_BYTES as u32,
        slots: 4,
        ..ArenaConfig::default()
    };
    let memory = DriverMemory::new(&arena).unwrap();
    let arena = Arc::clone(memory.arena());
    let transport = make(memory);
    let mut rig = Rig {
        transport,
        received: 0,
        done: 0,
        ended: 0,
        connected: 0,
        woken: 0,
    };
    let (mut header, mut body) = (
        arena.headers().acquire().unwrap(),
        arena.slots().acquire().unwrap(),
    );
    header.as_mut().fill(1);
    body.as_mut().fill(2);
    // The first clone of such `Bytes` allocates their reference count: the caller's affair, made
    // here.
    let payload = Bytes::from(vec![3; 100_000]);
    let _first_clone = payload.clone();
    let counted = allocations(|| drive(&mut rig, addr, (&header, &body, &payload)));
    assert!(rig.woken > 0);
    let stats = rig.transport.stats();
    drop(rig);
    arena.headers().release(header);
    arena.slots().release(body);
    arena.assert_all_free();
    echo.join().unwrap();
    (counted, stats)
}

/// The part that is counted.
fn drive<D: Driver>(
    rig: &mut Rig<D>,
    addr: SocketAddr,
    (header, body, payload): (&SlotToken, &SlotToken, &Bytes),
) {
    let wake = rig.transport.wake_handle();
    let options = SocketOptions {
        send_buffer_bytes: Some(1),
        ..SocketOptions::default()
    };
    rig.transport.connect(CONN, addr, &options);
    rig.drive_until(|rig| rig.connected == 1);
    let mut expected = 0;
    for round in 0..ROUNDS {
        let mut gather = rig.transport.gather(CONN).unwrap();
        gather.push_slot(header, 0..256);
        gather.push_slot(body, 0..BODY_BYTES);
        if round % 4 == 0 {
            gather.push_bytes(payload.clone());
        }
        expected += gather.bytes() as usize;
        gather.submit();
        wake.wake();
        rig.drive_until(|rig| rig.done == round + 1 && rig.received == expected);
    }
    rig.transport.close(CONN);
    rig.drive_until(|rig| rig.ended == 1);
}

#[test]
fn nothing_is_allocated_after_start_on_any_path() {
    let all = Features::default();
    let feature_sets = [
        all,
        Features {
            multishot_recv: false,
            defer_taskrun: false,
            ..all
        },
        Features {
            send_zc_wait_all: false,
            ..all
        },
    ];
    for write_path in [
        WritePath::Auto,
        WritePath::WritevFixed,
        WritePath::SendMsg,
        WritePath::SendZc,
    ] {
        for features in feature_sets {
            let config = TransportConfig {
                write_path,
                features,
                writes_max: 2,
                ..TransportConfig::default()
            };
            let (counted, stats) = session(|memory| Transport::new(&config, memory).unwrap());
            assert_eq!(counted, 0, "{write_path:?} {features:?}: {stats:?}");
            assert!(stats.write_bytes.iter().sum::<u64>() > 1_000_000);
        }
    }
}

#[test]
fn nothing_is_allocated_after_start_on_epoll() {
    for busy_poll_us in [0, 1000] {
        let config = EpollConfig {
            busy_poll_us,
            ..EpollConfig::default()
        };
        let (counted, stats) = session(|memory| Epoll::new(&config, memory).unwrap());
        assert_eq!(counted, 0, "{busy_poll_us}: {stats:?}");
        assert!(stats.write_bytes.iter().sum::<u64>() > 1_000_000);
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    assert_eq!(allocations(|| ()), 0);
}
