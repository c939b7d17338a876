//! The state without sockets: frames in, frames out, time by hand.

mod faults;
mod partition_plane;
mod reads;
mod retention;
mod sessions;

use std::net::SocketAddr;

use ringmain_wire::batch::{BatchReader, BatchWriter, Integrity, RecordParts, SendTarget};
use ringmain_wire::codec::Encode;
use ringmain_wire::header::{HEADER_BYTES, ReplyHeader, RequestHeader};
use ringmain_wire::identifier::Identifier;
use ringmain_wire::name::Name;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::options::Options;
use ringmain_wire::partitioning::Partitioning;
use ringmain_wire::payload::login::{ClientVersion, LoginRegister};
use ringmain_wire::payload::poll::PollReply;
use ringmain_wire::payload::stream::CreateStream;
use ringmain_wire::payload::topic::CreateTopic;
use ringmain_wire::text::{Secret, Text};
use ringmain_wire::user_headers::UserHeaders;
use ringmain_wire::version::ProtocolVersion;

use super::{ConnectionKey, Outgoing, State};
use crate::commands;
use crate::config::{Config, Now};
use crate::frame::Frame;
use crate::script::Script;

/// A frame that the broker queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer(pub(super) Vec<u8>);

impl Answer {
    pub(super) fn reply(&self) -> &ReplyHeader {
        assert_eq!(
            self.0[60], 8,
            "an eviction (reason {}) came instead of a reply",
            self.0[255]
        );
        ReplyHeader::from_bytes(&self.0[..HEADER_BYTES]).expect("a header")
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.0[HEADER_BYTES..]
    }

    pub(super) fn status(&self) -> u32 {
        self.reply().status().map_or(0, |code| code.get())
    }

    /// The code of a result section, 0 for success.
    pub(super) fn result(&self) -> u32 {
        assert_eq!(self.status(), 0, "a status came instead of a result");
        match self.body() {
            [0, 0, 0, 0, ..] => 0,
            [_, _, _, _, _, _, _, _, code @ ..] => {
                u32::from_le_bytes(code.try_into().expect("4 bytes"))
            }
            body => panic!("{body:?} is no result section"),
        }
    }

    pub(super) fn eviction(&self) -> u8 {
        assert_eq!(self.0[60], 13, "a reply came instead of an eviction");
        self.0[255]
    }

    /// Base offset of a confirmed send, `None` for an empty success.
    pub(super) fn base_offset(&self) -> Option<u64> {
        assert_eq!(self.status(), 0);
        let body = self.body();
        (!body.is_empty()).then(|| u64::from_le_bytes(body[16..24].try_into().expect("8 bytes")))
    }
}

/// A broker and its clock.
pub(super) struct Bench {
    pub(super) state: State,
    pub(super) now: Now,
}

/// A client on a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) connection: ConnectionKey,
    pub(super) client: u128,
    pub(super) session: u64,
}

impl Bench {
    pub(super) fn new(config: Config) -> Self {
        let now = Now {
            monotonic_us: 1_000,
            wall_us: 1_700_000_000_000_000,
        };
        Self {
            state: State::new(config, Script::new(), now),
            now,
        }
    }

    /// A bench with stream `s`, topic `t` of `partitions` partitions, and client 7 logged in.
    pub(super) fn with_topic(config: Config, partitions: u32) -> (Self, Peer) {
        let mut bench = Self::new(config);
        let peer = bench.login(7);
        assert_eq!(
            bench
                .metadata(peer, Operation::CreateStream, 1, &create_stream("s"))
                .result(),
            0
        );
        let body = create_topic("s", "t", partitions);
        assert_eq!(
            bench
                .metadata(peer, Operation::CreateTopic, 2, &body)
                .result(),
            0
        );
        (bench, peer)
    }

    pub(super) fn advance(&mut self, us: u64) {
        self.now.monotonic_us += us;
        self.now.wall_us += us;
        self.state.tick(self.now);
    }

    pub(super) fn connect(&mut self) -> ConnectionKey {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        self.state
            .connect(address(1), address(2), self.now)
            .expect("room for a connection")
    }

    pub(super) fn login(&mut self, client: u128) -> Peer {
        let connection = self.connect();
        let answer = self.register(connection, client, &login("iggy", "iggy"));
        Peer {
            connection,
            client,
            session: answer.reply().op(),
        }
    }

    pub(super) fn register(
        &mut self,
        connection: ConnectionKey,
        client: u128,
        body: &[u8],
    ) -> Answer {
        let header = RequestHeader::register(client, body).expect("a header");
        self.one(connection, header.as_bytes(), body)
    }

    /// Gives a frame to the state.
    pub(super) fn give(&mut self, connection: ConnectionKey, header: &[u8], body: &[u8]) {
        let frame = [header, body].concat();
        commands::receive(
            &mut self.state,
            connection,
            Frame::Borrowed(&frame),
            self.now,
        );
    }

    /// What was queued for a connection, frame by frame.
    pub(super) fn answers(&mut self, connection: ConnectionKey) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(outgoing) = self.state.next_outgoing(connection) {
            let (Outgoing::Bytes(bytes) | Outgoing::Pieces(bytes, _)) = outgoing else {
                continue;
            };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let size = u32::from_le_bytes(rest[48..52].try_into().expect("4 bytes")) as usize;
                answers.push(Answer(rest[..size].to_vec()));
                rest = &rest[size..];
            }
        }
        answers
    }

    /// Gives a frame and takes the one answer to it.
    pub(super) fn one(&mut self, connection: ConnectionKey, header: &[u8], body: &[u8]) -> Answer {
        self.give(connection, header, body);
        let mut answers = self.answers(connection);
        assert_eq!(answers.len(), 1, "one frame, one answer");
        answers.remove(0)
    }

    pub(super) fn ask(&mut self, peer: Peer, code: CommandCode, body: &[u8]) -> Answer {
        let header = RequestHeader::non_replicated(code, peer.client, peer.session, 1, body.len());
        self.one(peer.connection, header.expect("a header").as_bytes(), body)
    }

    pub(super) fn metadata(
        &mut self,
        peer: Peer,
        operation: Operation,
        request: u64,
        body: &[u8],
    ) -> Answer {
        let header = RequestHeader::metadata(operation, peer.client, peer.session, request, body);
        self.one(peer.connection, header.expect("a header").as_bytes(), body)
    }

    /// Gives a partition operation without waiting for an answer.
    pub(super) fn give_partition(
        &mut self,
        peer: Peer,
        operation: Operation,
        request: u64,
        body: &[u8],
    ) {
        let header =
            RequestHeader::partition(operation, peer.client, peer.session, request, body.len());
        self.give(peer.connection, header.expect("a header").as_bytes(), body);
    }

    pub(super) fn partition(
        &mut self,
        peer: Peer,
        operation: Operation,
        request: u64,
        body: &[u8],
    ) -> Answer {
        self.give_partition(peer, operation, request, body);
        let mut answers = self.answers(peer.connection);
        assert_eq!(answers.len(), 1, "one request, one answer");
        answers.remove(0)
    }

    /// Sends one record with `payload` to partition `partition` of `s`/`t`.
    pub(super) fn send(
        &mut self,
        peer: Peer,
        request: u64,
        partition: u32,
        payload: &[u8],
    ) -> Answer {
        let body = send_messages(Partitioning::PartitionId(partition), &[payload]);
        self.partition(peer, Operation::SendMessages, request, &body)
    }
}

pub(super) fn name(text: &str) -> Name<'_> {
    Name::new(text).expect("a name")
}

pub(super) fn identifier(text: &str) -> Identifier<'_> {
    Identifier::String(name(text))
}

pub(super) fn login(username: &str, password: &str) -> Vec<u8> {
    let client_version = ClientVersion {
        protocol_version: ProtocolVersion::CURRENT,
        sdk_name: name("test"),
        sdk_version: name("0.1.0"),
    };
    let password = Secret::new(password).expect("a password");
    LoginRegister {
        client_version,
        username: name(username),
        password,
        context: Text::EMPTY,
    }
    .to_vec()
}

pub(super) fn create_stream(text: &str) -> Vec<u8> {
    CreateStream {
        name: name(text),
        options: Options::EMPTY,
    }
    .to_vec()
}

pub(super) fn create_topic(stream: &str, topic: &str, partitions_count: u32) -> Vec<u8> {
    let request = CreateTopic {
        stream_id: identifier(stream),
        partitions_count,
        name: name(topic),
        options: Options::EMPTY,
    };
    request.to_vec()
}

/// A send to `s`/`t`.
pub(super) fn send_messages(partitioning: Partitioning<'_>, payloads: &[&[u8]]) -> Vec<u8> {
    send_messages_to("t", partitioning, payloads)
}

/// A send to a topic of `s`.
pub(super) fn send_messages_to(
    topic: &str,
    partitioning: Partitioning<'_>,
    payloads: &[&[u8]],
) -> Vec<u8> {
    let target = SendTarget {
        stream: identifier("s"),
        topic: identifier(topic),
        partitioning,
    };
    let bytes: usize = payloads.iter().map(|payload| payload.len() + 48).sum();
    let mut writer = BatchWriter::new(vec![0; bytes + 600], &target).expect("room for a head");
    for (payload, id) in payloads.iter().zip(1..) {
        let timestamp_us = 1_700_000_000_000_000;
        writer
            .append(&RecordParts {
                id,
                timestamp_us,
                payload,
                user_headers: UserHeaders::EMPTY,
            })
            .expect("room for the record");
    }
    writer.seal().body().to_vec()
}

/// Offsets and payloads of a poll reply; every batch is verified.
pub(super) fn polled(answer: &Answer) -> Vec<(u64, Vec<u8>)> {
    assert_eq!(answer.status(), 0);
    let reply = <PollReply<'_> as ringmain_wire::codec::Decode<'_>>::decode(answer.body())
        .expect("a poll reply");
    let mut messages = Vec::new();
    let mut rest = reply.batches;
    while !rest.is_empty() {
        let (batch, behind) =
            BatchReader::decode_first(rest, Integrity::Verify).expect("stored batches verify");
        messages.extend(
            batch
                .messages()
                .map(|message| (message.offset(), message.payload().to_vec())),
        );
        rest = behind;
    }
    assert_eq!(messages.len(), reply.messages_count as usize);
    messages
}
