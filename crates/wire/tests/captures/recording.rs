//! Reading the recording: one JSON object a line, in the order things happened.

use ringmain_wire::header::RawRequestHeader;
use ringmain_wire::{FrameDecoder, HeaderError, InboundRequest};
use serde_json::Value;
use std::collections::BTreeMap;

const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/testdata/server-0.9.0-edge.5.jsonl"
);

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Client,
    Server,
    Event,
}

/// A line of the recording.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) scenario: String,
    /// Which of the scenario's connections.
    pub(crate) connection: u64,
    pub(crate) direction: Direction,
    pub(crate) note: String,
    pub(crate) bytes: Vec<u8>,
}

/// All lines, in order.
pub(crate) fn lines() -> Vec<Line> {
    let text = std::fs::read_to_string(RECORDING).expect("the recording is in the tree");
    let lines: Vec<_> = text.lines().map(parse).collect();
    assert_eq!(lines.len(), 474, "the recording is whole");
    lines
}

fn parse(line: &str) -> Line {
    let value: Value = serde_json::from_str(line).expect("a JSON object");
    let text = |key: &str| value[key].as_str().expect("a string").to_owned();
    Line {
        scenario: text("scenario"),
        connection: value["conn"].as_u64().expect("a number"),
        direction: match value["dir"].as_str() {
            Some("out") => Direction::Client,
            Some("in") => Direction::Server,
            Some("event") => Direction::Event,
            other => panic!("direction {other:?}"),
        },
        note: text("note"),
        bytes: unhex(&text("hex")),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("a hex digit") as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// The lines of each scenario.
pub(crate) fn scenarios() -> BTreeMap<String, Vec<Line>> {
    let mut scenarios = BTreeMap::<String, Vec<Line>>::new();
    for line in lines() {
        scenarios
            .entry(line.scenario.clone())
            .or_default()
            .push(line);
    }
    assert_eq!(scenarios.len(), 47, "the recording is whole");
    scenarios
}

/// What a client sent, frame by frame.
#[derive(Debug, Clone)]
pub(crate) enum Sent {
    Request {
        header: Box<RawRequestHeader>,
        body: Vec<u8>,
    },
    Foreign {
        command: u8,
    },
    /// The size field was out of bounds; the connection was closed.
    Lost(HeaderError),
}

/// Reads what one connection sent, across lines.
#[derive(Debug, Default)]
pub(crate) struct Outbound(FrameDecoder);

impl Outbound {
    /// The frames that are whole with this line.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Sent> {
        let mut input = bytes;
        let mut sent = Vec::new();
        loop {
            match self.0.next_request(&mut input) {
                Ok(None) => return sent,
                Ok(Some(InboundRequest::Request(request))) => sent.push(Sent::Request {
                    header: Box::new(*request.header),
                    body: request.body.to_vec(),
                }),
                Ok(Some(InboundRequest::Foreign { command, .. })) => {
                    sent.push(Sent::Foreign { command });
                }
                Err(error) => {
                    // The recording goes on after such a frame, on a connection that is closed.
                    self.0.reset();
                    sent.push(Sent::Lost(error));
                    return sent;
                }
            }
        }
    }
}
