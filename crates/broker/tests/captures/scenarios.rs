//! The captured scenarios, parsed.

use serde_json::Value;

/// What went over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Client to server.
    Out(Vec<u8>),
    /// Server to client.
    In(Vec<u8>),
    /// A connect, a close, or silence: see the note.
    Event,
}

/// One line of the capture.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) connection: u64,
    pub(crate) note: String,
    pub(crate) direction: Direction,
}

/// One named scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) events: Vec<Event>,
}

/// All scenarios in the order of their capture.
pub(crate) fn load() -> Vec<Scenario> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../wire/testdata/server-0.9.0-edge.5.jsonl"
    );
    let text = std::fs::read_to_string(path).expect("the capture is part of the project");
    let mut scenarios: Vec<Scenario> = Vec::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect("one object a line");
        let name = string(&value, "scenario");
        if scenarios
            .last()
            .is_none_or(|scenario| scenario.name != name)
        {
            scenarios.push(Scenario {
                name,
                events: Vec::new(),
            });
        }
        let scenario = scenarios.last_mut().expect("one was pushed");
        scenario.events.push(event(&value));
    }
    scenarios
}

fn event(value: &Value) -> Event {
    let direction = match value["dir"].as_str() {
        Some("out") => Direction::Out(bytes(value)),
        Some("in") => Direction::In(bytes(value)),
        _ => Direction::Event,
    };
    let connection = value["conn"].as_u64().expect("a connection");
    Event {
        connection,
        note: string(value, "note"),
        direction,
    }
}

fn string(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn bytes(value: &Value) -> Vec<u8> {
    let hex = value["hex"].as_str().expect("frames have bytes");
    let digit = |at| {
        (hex.as_bytes()[at] as char)
            .to_digit(16)
            .expect("a hex digit") as u8
    };
    (0..hex.len() / 2)
        .map(|index| digit(2 * index) << 4 | digit(2 * index + 1))
        .collect()
}
