//! Valid frames, built beforehand: what a raw loop sends, and what makes the topic.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use ringmain_wire::Identifier;
use ringmain_wire::batch::{BatchWriter, RecordParts, SendTarget};
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::frame::{Inbound, ReplyOutcome};
use ringmain_wire::header::{HEADER_BYTES, ReplyHeader, RequestHeader};
use ringmain_wire::name::Name;
use ringmain_wire::operation::Operation;
use ringmain_wire::options::Options;
use ringmain_wire::partitioning::Partitioning;
use ringmain_wire::payload::login::{ClientVersion, LoginRegister, LoginReply};
use ringmain_wire::payload::stream::{CreateStream, DeleteStream};
use ringmain_wire::payload::topic::CreateTopic;
use ringmain_wire::text::{Secret, Text};
use ringmain_wire::user_headers::UserHeaders;
use ringmain_wire::version::ProtocolVersion;

use crate::failure::Failure;
use crate::payloads::Payloads;
use crate::spec::{Load, RawSetup, STREAM, TOPIC};

/// Identity of a raw loop.
pub(crate) const LOOP: u128 = 8;

fn name(text: &str) -> Name<'_> {
    Name::new(text).expect("a short name")
}

/// Makes the stream and the topic that every peer sends to, anew when they are there: a server that
/// was not started for this measurement may have them from the one before.
pub(crate) fn create_topic(addr: SocketAddr, partitions: u32) -> Result<(), Failure> {
    let mut socket = TcpStream::connect(addr).map_err(Failure::io("connecting to the broker"))?;
    // An identity of its own for each run: a server takes a number it has seen for a repetition.
    let run = SystemTime::now().duration_since(UNIX_EPOCH);
    let maker = run.expect("a clock past 1970").as_nanos();
    let session = login(&mut socket, maker)?;
    let stream = DeleteStream {
        stream_id: Identifier::String(name(STREAM)),
    };
    let create = CreateStream {
        name: name(STREAM),
        options: Options::EMPTY,
    };
    let topic = CreateTopic {
        stream_id: Identifier::String(name(STREAM)),
        partitions_count: partitions,
        name: name(TOPIC),
        options: Options::EMPTY,
    };
    let calls = [
        (Operation::DeleteStream, stream.to_vec()),
        (Operation::CreateStream, create.to_vec()),
        (Operation::CreateTopic, topic.to_vec()),
    ];
    for (number, (operation, body)) in (1..).zip(calls) {
        let header = RequestHeader::metadata(operation, maker, session, number, &body)
            .expect("a valid header");
        ask(&mut socket, &frame(&header, &body))?;
    }
    Ok(())
}

/// The login of `client` as one frame.
pub(crate) fn login_frame(client: u128) -> Vec<u8> {
    let body = LoginRegister {
        client_version: ClientVersion {
            protocol_version: ProtocolVersion::CURRENT,
            sdk_name: name("raw-loop"),
            sdk_version: name("1"),
        },
        username: name("iggy"),
        password: Secret::new("iggy").expect("a short password"),
        context: Text::EMPTY,
    }
    .to_vec();
    frame(
        &RequestHeader::register(client, &body).expect("a valid header"),
        &body,
    )
}

/// The session that the reply to a login opened.
pub(crate) fn session(reply: &[u8]) -> Result<u64, Failure> {
    let refused = |found: String| Failure::Child {
        who: "broker",
        found,
        expected: "a session",
    };
    let payload = match Inbound::decode(reply) {
        Ok(Inbound::Reply(reply)) => match reply.outcome() {
            Ok(ReplyOutcome::Success(payload)) => payload,
            other => return Err(refused(format!("{other:?}"))),
        },
        other => return Err(refused(format!("{other:?}"))),
    };
    LoginReply::decode(payload)
        .map(|login| login.session.get())
        .map_err(|error| refused(error.to_string()))
}

/// Logs in on a blocking socket.
pub(crate) fn login(socket: &mut TcpStream, client: u128) -> Result<u64, Failure> {
    session(&ask(socket, &login_frame(client))?)
}

fn ask(socket: &mut TcpStream, frame: &[u8]) -> Result<Vec<u8>, Failure> {
    socket
        .write_all(frame)
        .map_err(Failure::io("asking the broker"))?;
    let mut reply = vec![0; HEADER_BYTES];
    socket
        .read_exact(&mut reply)
        .map_err(Failure::io("reading the broker's reply"))?;
    let header = ReplyHeader::from_bytes(&reply).map_err(Failure::peer("broker"))?;
    let bytes = header.size() as usize;
    reply.resize(bytes.max(HEADER_BYTES), 0);
    socket
        .read_exact(&mut reply[HEADER_BYTES..])
        .map_err(Failure::io("reading the broker's reply"))?;
    Ok(reply)
}

fn frame(header: &RequestHeader, body: &[u8]) -> Vec<u8> {
    [header.as_bytes().as_slice(), body].concat()
}

/// The frames of a raw loop: as many bodies as its window, each with payloads of its own.
pub(crate) struct Prebuilt {
    pub(crate) bodies: Vec<Vec<u8>>,
    /// Records of every body.
    pub(crate) records: u64,
    header: RequestHeader,
    next_request: u64,
}

impl Prebuilt {
    pub(crate) fn new(load: &Load, setup: &RawSetup, session: u64) -> Self {
        let mut payloads = Payloads::new(load.record_bytes);
        let bodies: Vec<_> = (0..setup.window)
            .map(|_| body(&mut payloads, setup.frame_bytes))
            .collect();
        let records = bodies[0].1;
        let bodies: Vec<_> = bodies.into_iter().map(|(body, _)| body).collect();
        let header =
            RequestHeader::partition(Operation::SendMessages, LOOP, session, 1, bodies[0].len())
                .expect("a valid header");
        Self {
            bodies,
            records,
            header,
            next_request: 1,
        }
    }

    /// The header of the next frame.
    pub(crate) fn next_header(&mut self) -> &[u8] {
        self.header
            .set_request(self.next_request)
            .expect("a number above zero");
        self.next_request += 1;
        self.header.as_bytes()
    }
}

/// A body that fills a frame of `frame_bytes` as far as whole records do, and how many there are in
/// it.
fn body(payloads: &mut Payloads, frame_bytes: usize) -> (Vec<u8>, u64) {
    let target = SendTarget {
        stream: Identifier::named(STREAM).expect("a name"),
        topic: Identifier::named(TOPIC).expect("a name"),
        partitioning: Partitioning::PartitionId(0),
    };
    let mut writer =
        BatchWriter::new(vec![0; frame_bytes - HEADER_BYTES], &target).expect("room for a head");
    let mut records = 0;
    loop {
        let payload = payloads.take();
        let appended = writer.append(&RecordParts {
            id: u128::from(records) + 1,
            timestamp_us: 1_700_000_000_000_000,
            payload: &payload,
            user_headers: UserHeaders::EMPTY,
        });
        if appended.is_err() {
            return (writer.seal().body().to_vec(), records);
        }
        records += 1;
    }
}
