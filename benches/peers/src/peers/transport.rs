//! The raw loops on a ring: the engine's transport alone, one write path forced, prebuilt frames in
//! its slots.
//!
//! No lanes, no accounts, no checksums, no copy by the application: headers are stamped, frames
//! gathered, replies counted. The transport is what holds the `unsafe` of this, and it is public.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use ringmain_io::driver::{Driver, Gather};
use ringmain_io::memory::{ArenaConfig, DriverMemory, SLOT_BYTES_MIN, SlotToken};
use ringmain_io::transport::{
    CarriedBy, ConnIndex, Event, SocketOptions, Transport, TransportConfig,
};
use ringmain_wire::frame::FrameDecoder;

use super::frames::{self, Prebuilt};
use super::raw::{RawLoop, count_replies};
use crate::failure::Failure;
use crate::spec::{Order, RawSetup};

const CONN: ConnIndex = ConnIndex(0);

/// One frame of the window: its header and its body, in registered memory.
struct Frame {
    header: SlotToken,
    body: SlotToken,
    body_bytes: usize,
}

/// A raw loop on a ring.
pub(super) struct Loop {
    transport: Transport,
    prebuilt: Prebuilt,
    decoder: FrameDecoder,
    frames: Vec<Frame>,
    /// Frames of the write that is out, 0 when none is.
    writing: u64,
    sent: u64,
    /// Frames that the kernel no longer reads.
    written: u64,
    answered: u64,
}

impl Loop {
    pub(super) fn new(order: &Order, setup: RawSetup) -> Result<Self, Failure> {
        let frame_bytes = u32::try_from(setup.frame_bytes).expect("a frame below 64 MiB");
        let arena = ArenaConfig {
            slot_bytes: frame_bytes.next_multiple_of(SLOT_BYTES_MIN),
            slots: u32::try_from(setup.window).expect("a small window"),
            headers: u32::try_from(setup.window).expect("a small window"),
            ..ArenaConfig::default()
        };
        let memory = DriverMemory::new(&arena).map_err(Failure::peer("arena"))?;
        let arena = Arc::clone(memory.arena());
        let config = TransportConfig {
            connections_max: 1,
            write_path: setup.path.on_ring(),
            ..TransportConfig::default()
        };
        let mut transport = Transport::new(&config, memory).map_err(Failure::peer("transport"))?;
        let session = connect(&mut transport, order.addr)?;
        let mut prebuilt = Prebuilt::new(&order.load, &setup, session);
        let frames = std::mem::take(&mut prebuilt.bodies)
            .into_iter()
            .map(|bytes| {
                let mut body = arena.slots().acquire().expect("a slot for each frame");
                body.as_mut()[..bytes.len()].copy_from_slice(&bytes);
                Frame {
                    header: arena.headers().acquire().expect("a header for each frame"),
                    body,
                    body_bytes: bytes.len(),
                }
            })
            .collect();
        Ok(Self {
            transport,
            prebuilt,
            decoder: FrameDecoder::new(),
            frames,
            writing: 0,
            sent: 0,
            written: 0,
            answered: 0,
        })
    }

    /// One write with every frame that the window has room for.
    fn gather(&mut self) {
        let window = self.frames.len() as u64;
        let room = window - (self.sent - self.answered.min(self.written));
        if room == 0 {
            return;
        }
        let Some(mut gather) = self.transport.gather(CONN) else {
            return;
        };
        for _ in 0..room {
            let frame = &mut self.frames[(self.sent % window) as usize];
            let header = self.prebuilt.next_header();
            frame.header.as_mut()[..header.len()].copy_from_slice(header);
            gather.push_slot(&frame.header, 0..header.len());
            gather.push_slot(&frame.body, 0..frame.body_bytes);
            self.sent += 1;
        }
        gather.submit();
        self.writing = room;
    }

    fn wait(&mut self) -> Result<(), Failure> {
        self.transport
            .wait(None)
            .map_err(Failure::peer("transport"))?;
        while let Some(event) = self.transport.next_event() {
            match event {
                Event::Received { bytes, .. } => {
                    self.answered += count_replies(&mut self.decoder, bytes)?;
                }
                Event::WriteDone { .. } => {
                    self.written += self.writing;
                    self.writing = 0;
                }
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }
}

impl RawLoop for Loop {
    fn turn(&mut self) -> Result<(), Failure> {
        self.gather();
        self.wait()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        while self.answered.min(self.written) < self.sent {
            self.wait()?;
        }
        Ok(())
    }

    fn answered(&self) -> u64 {
        self.answered
    }

    fn records_per_frame(&self) -> u64 {
        self.prebuilt.records
    }

    fn note(&self) -> String {
        let stats = self.transport.stats();
        let carried = CarriedBy::ALL
            .iter()
            .max_by_key(|path| stats.write_bytes[**path as usize])
            .expect("there are paths");
        format!(
            "{} records a frame, {:.2} enters a frame, {:.1} frames a write, by {}",
            self.prebuilt.records,
            stats.enters as f64 / self.sent.max(1) as f64,
            self.sent as f64 / stats.writes.max(1) as f64,
            carried.name()
        )
    }
}

/// Connects and logs in; returns the session.
fn connect(transport: &mut Transport, addr: SocketAddr) -> Result<u64, Failure> {
    transport.connect(CONN, addr, &SocketOptions::default());
    let mut decoder = FrameDecoder::new();
    let mut session = None;
    let (mut is_connected, mut is_written) = (false, false);
    while session.is_none() || !is_written {
        transport.wait(None).map_err(Failure::peer("transport"))?;
        let mut is_new = false;
        while let Some(event) = transport.next_event() {
            match event {
                Event::Connected { .. } => is_new = true,
                Event::WriteDone { .. } => is_written = true,
                Event::Received { mut bytes, .. } => {
                    let frame = decoder
                        .next_frame(&mut bytes)
                        .map_err(Failure::peer("broker"))?;
                    if let Some(frame) = frame {
                        session = Some(frames::session(frame)?);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
        if is_new && !is_connected {
            is_connected = true;
            let mut gather = transport.gather(CONN).expect("a new connection");
            gather.push_bytes(Bytes::from(frames::login_frame(frames::LOOP)));
            gather.submit();
        }
    }
    Ok(session.expect("the loop ends with one"))
}

fn unexpected(event: &Event<'_>) -> Failure {
    Failure::Child {
        who: "broker",
        found: format!("{event:?}"),
        expected: "a connection that stands",
    }
}
