//! The raw loops: prebuilt frames, a window of them without an answer, and nothing else.
//!
//! What no client can beat on the same socket. This file holds the blocking one; the three on a
//! ring are in `transport`.

use std::io::{Read, Write};
use std::net::TcpStream;

use ringmain_wire::frame::FrameDecoder;

use super::frames::{self, Prebuilt};
use super::transport;
use crate::failure::Failure;
use crate::machine;
use crate::measure::{Deadline, Stretch};
use crate::spec::{Order, RawPath, RawSetup, Report};

/// What is read in one go: 58 replies.
const READ_BYTES: usize = 16 * 1024;

pub(crate) fn run(order: &Order, setup: RawSetup) -> Result<Report, Failure> {
    match setup.path {
        RawPath::Write => measured(order, &mut Blocking::new(order, setup)?),
        _ => measured(order, &mut transport::Loop::new(order, setup)?),
    }
}

/// A loop that keeps its window full.
pub(super) trait RawLoop {
    /// Sends what the window has room for, and waits for at least one answer.
    fn turn(&mut self) -> Result<(), Failure>;
    /// Waits until everything is answered.
    fn drain(&mut self) -> Result<(), Failure>;
    /// Frames answered so far.
    fn answered(&self) -> u64;
    /// Records of a frame.
    fn records_per_frame(&self) -> u64;
    /// What it wants to say.
    fn note(&self) -> String;
}

fn measured(order: &Order, raw: &mut dyn RawLoop) -> Result<Report, Failure> {
    let rss_idle_bytes = machine::rss_bytes();
    send(raw, order.warm_seconds)?;
    let warm_records = raw.answered() * raw.records_per_frame();
    let stretch = Stretch::begin(rss_idle_bytes);
    send(raw, order.seconds)?;
    let records = raw.answered() * raw.records_per_frame() - warm_records;
    let payload_bytes = records * order.load.record_bytes as u64;
    let mut report = stretch.end(records, warm_records, payload_bytes);
    report.note = raw.note();
    Ok(report)
}

fn send(raw: &mut dyn RawLoop, seconds: f64) -> Result<(), Failure> {
    let deadline = Deadline::within(seconds);
    while !deadline.is_over() {
        raw.turn()?;
    }
    raw.drain()
}

/// Whole replies in what arrived.
pub(super) fn count_replies(decoder: &mut FrameDecoder, mut bytes: &[u8]) -> Result<u64, Failure> {
    let mut replies = 0;
    while decoder
        .next_frame(&mut bytes)
        .map_err(Failure::peer("broker"))?
        .is_some()
    {
        replies += 1;
    }
    Ok(replies)
}

/// `write` and `read` on a blocking socket.
struct Blocking {
    socket: TcpStream,
    prebuilt: Prebuilt,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
    /// Whole frames, header included, to be written with one call each.
    frames: Vec<Vec<u8>>,
    sent: u64,
    answered: u64,
}

impl Blocking {
    fn new(order: &Order, setup: RawSetup) -> Result<Self, Failure> {
        let mut socket =
            TcpStream::connect(order.addr).map_err(Failure::io("connecting to the broker"))?;
        socket
            .set_nodelay(true)
            .map_err(Failure::io("setting TCP_NODELAY"))?;
        let session = frames::login(&mut socket, frames::LOOP)?;
        let mut prebuilt = Prebuilt::new(&order.load, &setup, session);
        let bodies = std::mem::take(&mut prebuilt.bodies);
        let header_bytes = ringmain_wire::header::HEADER_BYTES;
        let frames = bodies
            .iter()
            .map(|body| [vec![0; header_bytes].as_slice(), body].concat())
            .collect();
        Ok(Self {
            socket,
            prebuilt,
            decoder: FrameDecoder::new(),
            buffer: vec![0; READ_BYTES],
            frames,
            sent: 0,
            answered: 0,
        })
    }

    fn read(&mut self) -> Result<(), Failure> {
        let read = self
            .socket
            .read(&mut self.buffer)
            .map_err(Failure::io("reading replies"))?;
        if read == 0 {
            return Err(Failure::Child {
                who: "broker",
                found: "the end of the stream".to_owned(),
                expected: "replies",
            });
        }
        self.answered += count_replies(&mut self.decoder, &self.buffer[..read])?;
        Ok(())
    }
}

impl RawLoop for Blocking {
    fn turn(&mut self) -> Result<(), Failure> {
        let window = self.frames.len() as u64;
        while self.sent - self.answered < window {
            let frame = &mut self.frames[(self.sent % window) as usize];
            let header = self.prebuilt.next_header();
            frame[..header.len()].copy_from_slice(header);
            self.socket
                .write_all(frame)
                .map_err(Failure::io("writing a frame"))?;
            self.sent += 1;
        }
        self.read()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        while self.answered < self.sent {
            self.read()?;
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
        format!("{} records a frame", self.prebuilt.records)
    }
}
