//! Recorded replies: each is found by operation and number, says what its scenario says, and is
//! written again byte for byte from what it decodes to.

use crate::expected::{Expected, expected};
use crate::payloads::{Seen, check_payload};
use crate::recording::{Direction, Line, Outbound, Sent, lines, scenarios};
use ringmain_wire::header::{RawRequestHeader, ReplyFields};
use ringmain_wire::{
    EvictionReason, FrameDecoder, Inbound, Operation, Plane, Reply, ReplyHeader, ReplyOutcome,
    result,
};
use std::collections::HashMap;

/// A request that waits for its answer.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) header: RawRequestHeader,
    pub(crate) operation: Operation,
    pub(crate) body: Vec<u8>,
    pub(crate) note: String,
    expected: Expected,
}

/// One connection of a scenario, followed from both ends.
#[derive(Debug, Default)]
struct Connection {
    outbound: Outbound,
    inbound: FrameDecoder,
    open: HashMap<(Operation, u64), Open>,
    evictions: usize,
}

impl Connection {
    /// Takes what the client sent: every request that can be named waits from now on.
    fn sent(&mut self, line: &Line) {
        for (index, sent) in self.outbound.feed(&line.bytes).into_iter().enumerate() {
            let Sent::Request { header, body } = sent else {
                continue;
            };
            let Some(operation) = Operation::from_u8(header.operation_byte()) else {
                continue;
            };
            let open = Open {
                header: *header,
                operation,
                body,
                note: line.note.clone(),
                expected: expected(&line.scenario, &line.note, index),
            };
            self.open.insert((operation, header.request()), open);
        }
    }

    /// Takes what the server sent.
    fn received(&mut self, line: &Line, seen: &mut Seen) {
        let mut input = &line.bytes[..];
        while let Some(inbound) = self
            .inbound
            .next_inbound(&mut input)
            .expect("servers write legal frames")
        {
            match inbound {
                Inbound::Reply(reply) => {
                    let key = (reply.operation().client_operation(), reply.request());
                    let open = self
                        .open
                        .remove(&key)
                        .expect("the reply is for an open request");
                    check_reply(&open, &reply, seen);
                }
                Inbound::Eviction(eviction) => {
                    let reason = Expected::Evicted(eviction.reason());
                    let is_cause = |open: &Open| open.expected == reason;
                    let cause = self
                        .open
                        .values()
                        .find(|open| is_cause(open))
                        .expect("a request asked for it");
                    // Before the login the server knows a connection by a transport id of its own
                    // only.
                    let is_same_client = eviction.header().client() == cause.header.client();
                    assert_eq!(
                        is_same_client,
                        eviction.reason() != EvictionReason::NoSession
                    );
                    self.open.retain(|_, open| !is_cause(open));
                    self.evictions += 1;
                }
                Inbound::Foreign { command, .. } => {
                    panic!("command {command} on a client's connection")
                }
            }
        }
    }
}

/// Holds a reply against its request.
fn check_reply(open: &Open, reply: &Reply<'_>, seen: &mut Seen) {
    assert_eq!(
        reply.operation(),
        open.operation.reply_operation(),
        "{}",
        open.note
    );
    let header = reply.header();
    if open.operation.plane() == Plane::Metadata {
        assert_eq!(header.client(), open.header.client(), "{}", open.note);
    }
    let again = header_again(header, reply);
    if open.note == "release_nonzero" {
        // The server echoes what a client must not send, and this crate does not write it.
        let release = 56..60;
        assert_eq!(header.as_bytes()[release.clone()], [7, 0, 0, 0]);
        assert_eq!(
            header.as_bytes()[..release.start],
            again.as_bytes()[..release.start]
        );
        assert_eq!(
            header.as_bytes()[release.end..],
            again.as_bytes()[release.end..]
        );
    } else {
        assert_eq!(again, *header, "{}", open.note);
    }
    let outcome = reply.outcome().expect("servers write legal bodies");
    let found = match outcome {
        ReplyOutcome::Success(payload) => {
            check_payload(open, payload, seen);
            Expected::Success
        }
        ReplyOutcome::Status(code) => Expected::Status(code),
        ReplyOutcome::Result(code) => {
            assert_eq!(reply.body(), result::rejection(code), "{}", open.note);
            Expected::Result(code)
        }
        ReplyOutcome::LoginFailed => panic!("no recorded login is answered so"),
    };
    assert_eq!(found, open.expected, "{}", open.note);
}

/// The header from its constructor, field by field.
fn header_again(header: &ReplyHeader, reply: &Reply<'_>) -> ReplyHeader {
    let fields = ReplyFields {
        cluster: header.cluster(),
        view: header.view(),
        replica: header.replica(),
        request_checksum: header.request_checksum(),
        context: header.context(),
        client: header.client(),
        op: header.op(),
        commit: header.commit(),
        timestamp: header.timestamp(),
        request: header.request(),
        operation: reply.operation(),
        status: header.status(),
    };
    ReplyHeader::new(&fields, reply.body().len()).expect("legal")
}

#[test]
fn recorded_replies_say_what_their_scenario_says() {
    let mut frames = 0;
    let mut evictions = 0;
    for (scenario, lines) in scenarios() {
        let mut seen = Seen::default();
        let mut connections = HashMap::<u64, Connection>::new();
        for line in &lines {
            let connection = connections.entry(line.connection).or_default();
            match line.direction {
                Direction::Client => connection.sent(line),
                Direction::Server => {
                    frames += 1;
                    connection.received(line, &mut seen);
                }
                Direction::Event => {}
            }
        }
        for connection in connections.values() {
            evictions += connection.evictions;
            for open in connection.open.values() {
                assert_eq!(
                    open.expected,
                    Expected::Silence,
                    "{scenario}: {}",
                    open.note
                );
            }
        }
    }
    assert_eq!((frames, evictions), (221, 10));
}

#[test]
fn recorded_streams_read_the_same_byte_by_byte() {
    let mut streams = HashMap::<(String, u64), Vec<u8>>::new();
    for line in lines()
        .into_iter()
        .filter(|line| line.direction == Direction::Server)
    {
        streams
            .entry((line.scenario, line.connection))
            .or_default()
            .extend(line.bytes);
    }
    for ((scenario, _), stream) in streams {
        let whole = frames(&stream, stream.len());
        for piece in [1, 7, 255, 257] {
            assert_eq!(
                frames(&stream, piece),
                whole,
                "{scenario} in pieces of {piece}"
            );
        }
    }
}

fn frames(stream: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let mut decoder = FrameDecoder::new();
    let mut frames = Vec::new();
    for mut input in stream.chunks(piece) {
        while let Some(frame) = decoder.next_frame(&mut input).expect("legal sizes") {
            frames.push(frame.to_vec());
        }
    }
    assert_eq!(decoder.pending_bytes(), 0);
    frames
}

#[test]
fn replies_to_partition_operations_carry_another_client() {
    let mut others = 0;
    for (_, lines) in scenarios() {
        for line in lines
            .iter()
            .filter(|line| line.direction == Direction::Server)
        {
            let Ok(Inbound::Reply(reply)) = Inbound::decode(&line.bytes) else {
                continue;
            };
            let client = lines
                .iter()
                .find(|line| line.direction == Direction::Client)
                .expect("a request");
            let client = RawRequestHeader::from_bytes(&client.bytes[..256])
                .expect("256 bytes")
                .client();
            let is_send = reply.operation().plane() == Plane::Partition;
            if is_send && reply.header().status().is_none() {
                assert_ne!(reply.header().client(), client, "{}", line.note);
                others += 1;
            }
        }
    }
    assert_eq!(others, 76);
}
