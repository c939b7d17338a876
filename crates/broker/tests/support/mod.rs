//! A blocking client for tests: one socket, whole frames, no cleverness.
#![allow(dead_code)] // Every test file uses another part of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ringmain_wire::batch::{BatchWriter, RecordParts, SendTarget};
use ringmain_wire::header::{HEADER_BYTES, ReplyHeader, RequestHeader};
use ringmain_wire::identifier::Identifier;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::partitioning::Partitioning;
use ringmain_wire::user_headers::UserHeaders;

/// A test waits so long for bytes that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A frame from the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn command(&self) -> u8 {
        self.bytes[60]
    }

    pub(crate) fn reply(&self) -> &ReplyHeader {
        assert_eq!(
            self.command(),
            8,
            "an eviction (reason {}) came instead of a reply",
            self.bytes[255]
        );
        ReplyHeader::from_bytes(&self.bytes[..HEADER_BYTES]).expect("a header")
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    pub(crate) fn status(&self) -> u32 {
        self.reply().status().map_or(0, |code| code.get())
    }

    /// The code of a result section, 0 for success.
    pub(crate) fn result(&self) -> u32 {
        let body = self.body();
        if body[..4] == [0; 4] {
            0
        } else {
            u32::from_le_bytes(body[8..12].try_into().expect("4 bytes"))
        }
    }

    pub(crate) fn eviction(&self) -> u8 {
        assert_eq!(self.command(), 13, "a reply came instead of an eviction");
        self.bytes[255]
    }

    /// Stream, topic, partition and base offset of a confirmed send.
    pub(crate) fn confirmation(&self) -> (u32, u32, u32, u64) {
        let body = self.body();
        assert_eq!(
            (body.len(), &body[..4]),
            (24, &[1, 0, 0, 0][..]),
            "one confirmation"
        );
        let number = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("4 bytes"));
        (
            number(4),
            number(8),
            number(12),
            u64::from_le_bytes(body[16..24].try_into().expect("8 bytes")),
        )
    }
}

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    pub(crate) id: u128,
    pub(crate) session: u64,
    pub(crate) request: u64,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr, id: u128) -> Self {
        let socket = TcpStream::connect(addr).expect("the broker listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_nodelay(true).expect("an option");
        Self {
            socket,
            id,
            session: 0,
            request: 0,
        }
    }

    pub(crate) fn login(addr: SocketAddr, id: u128) -> Self {
        let mut client = Self::connect(addr, id);
        let answer = client.register("iggy", "iggy");
        client.session = answer.reply().op();
        client
    }

    pub(crate) fn register(&mut self, username: &str, password: &str) -> Answer {
        self.try_register(username, password)
            .expect("a frame, not the end of the connection")
    }

    /// The answer to a login, or `None` when the broker closes the connection.
    pub(crate) fn try_register(&mut self, username: &str, password: &str) -> Option<Answer> {
        let body = login_body(username, password);
        let header = RequestHeader::register(self.id, &body).expect("a header");
        let frame = [header.as_bytes(), &body[..]].concat();
        // A broker that is down has closed the connection by now, or does before it reads this.
        self.socket.write_all(&frame).ok()?;
        self.try_read()
    }

    pub(crate) fn send_frame(&mut self, header: &[u8], body: &[u8]) {
        self.socket
            .write_all(&[header, body].concat())
            .expect("the broker reads");
    }

    pub(crate) fn next_request(&mut self) -> u64 {
        self.request += 1;
        self.request
    }

    /// A read or a ping.
    pub(crate) fn ask(&mut self, code: CommandCode, body: &[u8]) -> Answer {
        self.write_read(code, body);
        self.read()
    }

    /// A read or a ping whose reply is read later, or never.
    pub(crate) fn write_read(&mut self, code: CommandCode, body: &[u8]) {
        let header = RequestHeader::non_replicated(
            code,
            self.id,
            self.session,
            self.request + 1,
            body.len(),
        );
        self.send_frame(header.expect("a header").as_bytes(), body);
    }

    /// A metadata operation under the next number.
    pub(crate) fn metadata(&mut self, operation: Operation, body: &[u8]) -> Answer {
        let request = self.next_request();
        self.metadata_at(operation, request, body)
    }

    pub(crate) fn metadata_at(
        &mut self,
        operation: Operation,
        request: u64,
        body: &[u8],
    ) -> Answer {
        let header = RequestHeader::metadata(operation, self.id, self.session, request, body)
            .expect("a header");
        self.send_frame(header.as_bytes(), body);
        self.read()
    }

    pub(crate) fn write_messages(&mut self, request: u64, body: &[u8]) {
        self.write_partition(Operation::SendMessages, request, body);
    }

    pub(crate) fn write_partition(&mut self, operation: Operation, request: u64, body: &[u8]) {
        let header =
            RequestHeader::partition(operation, self.id, self.session, request, body.len());
        self.send_frame(header.expect("a header").as_bytes(), body);
    }

    /// Sends under the next number and waits for the reply.
    pub(crate) fn send(&mut self, body: &[u8]) -> Answer {
        let request = self.next_request();
        self.write_messages(request, body);
        self.read()
    }

    pub(crate) fn create_stream(&mut self, name: &str) -> Answer {
        self.metadata(Operation::CreateStream, &name_bytes(name))
    }

    pub(crate) fn create_topic(&mut self, stream: &str, topic: &str, partitions: u32) -> Answer {
        let body = [
            &identifier(stream)[..],
            &partitions.to_le_bytes(),
            &name_bytes(topic),
        ]
        .concat();
        self.metadata(Operation::CreateTopic, &body)
    }

    /// A frame, or a panic when none comes.
    pub(crate) fn read(&mut self) -> Answer {
        self.try_read()
            .expect("a frame, not the end of the connection")
    }

    /// A frame, or `None` when the connection has ended.
    pub(crate) fn try_read(&mut self) -> Option<Answer> {
        let mut bytes = vec![0; HEADER_BYTES];
        if let Err(error) = self.socket.read_exact(&mut bytes) {
            let ended = error.kind() != std::io::ErrorKind::WouldBlock;
            assert!(ended, "no frame came in {PATIENCE:?}");
            return None;
        }
        let size = u32::from_le_bytes(bytes[48..52].try_into().expect("4 bytes")) as usize;
        bytes.resize(size, 0);
        self.socket
            .read_exact(&mut bytes[HEADER_BYTES..])
            .expect("a whole frame");
        Some(Answer { bytes })
    }

    /// Asserts that what was sent before got no reply: the next reply is that of a ping.
    pub(crate) fn assert_silence(&mut self) {
        let answer = self.ask(CommandCode::PING, &[]);
        assert_eq!(
            answer.reply().operation_byte(),
            2,
            "a reply came where none was due"
        );
        assert_eq!(answer.bytes.len(), HEADER_BYTES);
    }
}

pub(crate) fn login_body(username: &str, password: &str) -> Vec<u8> {
    let version = 11_u32 << 10;
    let mut body = version.to_le_bytes().to_vec();
    for text in ["test", "0.1.0", username, password] {
        body.extend_from_slice(&name_bytes(text));
    }
    body.extend_from_slice(&[0; 4]);
    body
}

pub(crate) fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

pub(crate) fn identifier(name: &str) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend_from_slice(&name_bytes(name));
    bytes
}

/// A `SendMessages` body for partition `partition` of `stream`/`topic`.
pub(crate) fn send_body(stream: &str, topic: &str, partition: u32, payloads: &[&[u8]]) -> Vec<u8> {
    send_body_to(
        stream,
        topic,
        Partitioning::PartitionId(partition),
        payloads,
    )
}

pub(crate) fn send_body_to(
    stream: &str,
    topic: &str,
    partitioning: Partitioning<'_>,
    payloads: &[&[u8]],
) -> Vec<u8> {
    let target = SendTarget {
        stream: Identifier::named(stream).expect("a name"),
        topic: Identifier::named(topic).expect("a name"),
        partitioning,
    };
    let bytes: usize = payloads.iter().map(|payload| payload.len() + 48).sum();
    let mut writer = BatchWriter::new(vec![0; bytes + 1200], &target).expect("room for a head");
    for (payload, id) in payloads.iter().zip(1..) {
        let record = RecordParts {
            id,
            timestamp_us: 1_700_000_000_000_000,
            payload,
            user_headers: UserHeaders::EMPTY,
        };
        writer.append(&record).expect("room for the record");
    }
    writer.seal().body().to_vec()
}

/// A `PollMessages` body of consumer 1.
pub(crate) fn poll_body(
    stream: &str,
    topic: &str,
    partition: u32,
    strategy: (u8, u64),
    count: u32,
) -> Vec<u8> {
    let mut body = vec![1, 1, 4, 1, 0, 0, 0];
    body.extend_from_slice(&identifier(stream));
    body.extend_from_slice(&identifier(topic));
    body.push(1);
    body.extend_from_slice(&partition.to_le_bytes());
    body.push(strategy.0);
    body.extend_from_slice(&strategy.1.to_le_bytes());
    body.extend_from_slice(&count.to_le_bytes());
    body.push(0);
    body
}

/// Offsets and payloads of a poll reply, with the partition's current offset.
pub(crate) fn polled(answer: &Answer) -> (u64, Vec<(u64, Vec<u8>)>) {
    let body = answer.body();
    let current = u64::from_le_bytes(body[4..12].try_into().expect("8 bytes"));
    let count = u32::from_le_bytes(body[12..16].try_into().expect("4 bytes"));
    let mut rest = &body[16..];
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (batch, behind) = ringmain_wire::batch::BatchReader::decode_first(
            rest,
            ringmain_wire::batch::Integrity::Verify,
        )
        .expect("stored batches verify");
        messages.extend(
            batch
                .messages()
                .map(|message| (message.offset(), message.payload().to_vec())),
        );
        rest = behind;
    }
    assert_eq!(
        messages.len(),
        count as usize,
        "the count is that of the messages"
    );
    (current, messages)
}
