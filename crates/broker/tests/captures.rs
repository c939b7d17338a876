//! The captured server as the specification: the client side of every captured scenario is replayed
//! byte by byte against a broker of profile `Edge5`, and every reply is compared field by field
//! with the captured one.
//!
//! Fields that must differ are named in `captures::compare::MUST_DIFFER` with the reason. Any other
//! difference has to be listed in `REMAINING` with its reason, and an entry there that no longer
//! occurs fails as well.
//!
//! What is not compared: the order of replies across partitions and planes, which the real server
//! does not keep either. Replies of one write are matched by shape, operation and request; within a
//! partition the order is checked.

#[path = "captures/compare.rs"]
mod compare;
#[path = "captures/scenarios.rs"]
mod scenarios;
mod support;

use std::collections::{BTreeMap, VecDeque};

use ringmain_broker::{Broker, Profile};
use ringmain_wire::operation::CommandCode;
use support::{Answer, Client, send_body};

use crate::compare::Difference;
use crate::scenarios::{Direction, Event, Scenario};

/// Differences that remain, each with its reason: scenario, note, field.
const REMAINING: &[(&str, &str, &str, &str)] = &[
    (
        "*",
        "*",
        "cluster of an eviction",
        "the captured server names its cluster on one of its shards only",
    ),
    (
        "*",
        "*",
        "commit of a direct reply",
        "the captured server knows its position on one of its shards only",
    ),
    (
        "header-release-nonzero",
        "release_nonzero",
        "release",
        "replies have release 0, as the protocol says",
    ),
    (
        "metadata-ops",
        "describe topic options",
        "size",
        "descriptions of options are not served",
    ),
    (
        "metadata-ops",
        "describe topic options",
        "status",
        "they are answered as unavailable",
    ),
    (
        "metadata-ops",
        "describe topic options",
        "body",
        "and so without a body",
    ),
    (
        "second-connection-same-client",
        "get streams on the first connection",
        "body.0.size_bytes",
        STREAM_0,
    ),
    (
        "second-connection-same-client",
        "get streams on the first connection",
        "body.0.messages_count",
        STREAM_0,
    ),
];

const STREAM_0: &str =
    "the captured server held 467 messages before its capture began, the prelude here 2";

/// What the captured server held before its first scenario, as far as replies depend on it: stream
/// 0 with one topic, whose partition 0 had one batch of two messages.
fn prelude(broker: &Broker) {
    let mut client = Client::login(broker.addr(), u128::MAX);
    assert_eq!(client.create_stream("s1").result(), 0);
    assert_eq!(client.create_topic("s1", "t1", 1).result(), 0);
    assert_eq!(
        client
            .send(&send_body("s1", "t1", 0, &[b"a", b"b"]))
            .confirmation(),
        (0, 0, 0, 0)
    );
}

#[test]
fn every_captured_scenario_is_answered_as_captured() {
    let broker = Broker::builder()
        .profile(Profile::Edge5)
        .start()
        .expect("a broker");
    prelude(&broker);
    let mut found: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut unexplained = Vec::new();
    let scenarios = scenarios::load();
    assert_eq!(scenarios.len(), 47);
    let mut compared = 0;
    for scenario in &scenarios {
        let mut replay = Replay::new(&broker, scenario);
        replay.run();
        compared += replay.compared;
        for (note, difference) in replay.differences {
            match remaining(&scenario.name, &note, &difference) {
                Some(entry) => *found.entry(entry).or_default() += 1,
                None => unexplained.push(format!("{} / {note}: {difference}", scenario.name)),
            }
        }
    }
    println!(
        "{} scenarios, {compared} replies compared field by field",
        scenarios.len()
    );
    for (field, reason) in compare::MUST_DIFFER {
        println!("  must differ: {field}: {reason}");
    }
    for ((scenario, note, field), count) in &found {
        println!("  differs {count} times: {scenario} / {note}: {field}");
    }
    assert!(
        unexplained.is_empty(),
        "differences without a reason:\n{}",
        unexplained.join("\n")
    );
    for (scenario, note, field, reason) in REMAINING {
        let key = (scenario.to_string(), note.to_string(), field.to_string());
        assert!(
            found.contains_key(&key),
            "{scenario} / {note}: {field} no longer differs ({reason})"
        );
    }
}

/// The entry of `REMAINING` that explains a difference.
fn remaining(
    scenario: &str,
    note: &str,
    difference: &Difference,
) -> Option<(String, String, String)> {
    let entry = REMAINING.iter().find(|(in_scenario, at_note, field, _)| {
        (*in_scenario == "*" || *in_scenario == scenario)
            && (*at_note == "*" || *at_note == note)
            && *field == difference.field
    });
    entry.map(|(scenario, note, field, _)| {
        (scenario.to_string(), note.to_string(), field.to_string())
    })
}

/// One scenario in progress.
struct Replay<'a> {
    broker: &'a Broker,
    events: VecDeque<&'a Event>,
    connections: BTreeMap<u64, Client>,
    /// Note of the request whose replies are compared, by connection.
    notes: BTreeMap<u64, String>,
    /// Code of the last non-replicated request, by connection: tells what its reply is.
    codes: BTreeMap<u64, u32>,
    differences: Vec<(String, Difference)>,
    compared: usize,
}

impl<'a> Replay<'a> {
    fn new(broker: &'a Broker, scenario: &'a Scenario) -> Self {
        Self {
            broker,
            events: scenario.events.iter().collect(),
            connections: BTreeMap::new(),
            notes: BTreeMap::new(),
            codes: BTreeMap::new(),
            differences: Vec::new(),
            compared: 0,
        }
    }

    fn run(&mut self) {
        while let Some(event) = self.events.pop_front() {
            match &event.direction {
                Direction::Out(bytes) => self.write(event, bytes),
                Direction::In(bytes) => self.read_replies(event.connection, bytes),
                Direction::Event => self.observe(event),
            }
        }
    }

    fn write(&mut self, event: &Event, bytes: &[u8]) {
        self.notes.insert(event.connection, event.note.clone());
        if bytes.len() >= 200 && bytes[176] == 2 {
            let code = u32::from_le_bytes(bytes[196..200].try_into().expect("4 bytes"));
            self.codes.insert(event.connection, code);
        }
        let client = self
            .connections
            .get_mut(&event.connection)
            .expect("a connection");
        // A connection that the server closed takes no more, as in the capture.
        let _ = std::io::Write::write_all(&mut client.socket, bytes);
    }

    /// Reads as many replies as the capture has in a row on this connection, and compares them pair
    /// by pair.
    fn read_replies(&mut self, connection: u64, first: &[u8]) {
        let mut expected = vec![Answer {
            bytes: first.to_vec(),
        }];
        while let Some(Event {
            connection: next,
            direction: Direction::In(bytes),
            ..
        }) = self.events.front()
            && *next == connection
        {
            expected.push(Answer {
                bytes: bytes.clone(),
            });
            self.events.pop_front();
        }
        let client = self.connections.get_mut(&connection).expect("a connection");
        let mut found: Vec<_> = expected.iter().map(|_| client.read()).collect();
        assert_partition_order(&found);
        let note = self.notes[&connection].clone();
        let code = self.codes.get(&connection).copied();
        for expected in &expected {
            let matching = found.iter().position(|answer| key(answer) == key(expected));
            let matching =
                matching.unwrap_or_else(|| panic!("{note}: no reply to {:?}", key(expected)));
            let answer = found.swap_remove(matching);
            self.compared += 1;
            let differences = compare::compare(expected, &answer, code);
            self.differences.extend(
                differences
                    .into_iter()
                    .map(|difference| (note.clone(), difference)),
            );
        }
    }

    fn observe(&mut self, event: &Event) {
        match event.note.as_str() {
            "connect" => {
                let client = Client::connect(self.broker.addr(), 1);
                self.connections.insert(event.connection, client);
            }
            "closed by client" => {
                self.connections.remove(&event.connection);
            }
            "closed by server" => {
                let client = self
                    .connections
                    .get_mut(&event.connection)
                    .expect("a connection");
                assert!(client.try_read().is_none(), "the connection is closed");
            }
            "no reply within 3 s" => {
                let client = self
                    .connections
                    .get_mut(&event.connection)
                    .expect("a connection");
                // What comes next is the reply to this ping: the request before it got none.
                let answer = client.ask(CommandCode::PING, &[]);
                assert_eq!(
                    (answer.reply().client(), answer.bytes.len()),
                    (1, 256),
                    "{}",
                    event.note
                );
            }
            note => panic!("an event that this test does not know: {note}"),
        }
    }
}

/// What tells the replies of one write apart.
fn key(answer: &Answer) -> (u8, u8, u64) {
    match answer.command() {
        8 => (8, answer.reply().operation_byte(), answer.reply().request()),
        command => (command, 0, 0),
    }
}

/// Confirmations of one partition come in the order of its offsets.
fn assert_partition_order(answers: &[Answer]) {
    let mut last: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
    for answer in answers {
        if answer.command() == 8 && answer.reply().operation_byte() == 160 && answer.status() == 0 {
            let (stream, topic, partition, base_offset) = answer.confirmation();
            let before = last.insert((stream, topic, partition), base_offset);
            assert!(
                before.is_none_or(|before| before < base_offset),
                "partition {partition} is out of order"
            );
        }
    }
}
