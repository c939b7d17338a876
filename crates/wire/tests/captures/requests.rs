//! Recorded requests: legal ones come out of the constructors and typed bodies byte for byte; each
//! illegal one breaks the rule that its scenario is about, and no constructor makes it.

use crate::recording::{Direction, Outbound, Sent, lines};
use ringmain_wire::batch::{BatchWriter, Integrity, RecordParts, SendMessagesRef};
use ringmain_wire::codec::{Decode, Encode};
use ringmain_wire::header::RawRequestHeader;
use ringmain_wire::payload::Raw;
use ringmain_wire::payload::cluster::{GetClusterMetadata, Ping};
use ringmain_wire::payload::login::{ClientVersion, LoginRegister, LoginRegisterWithPat, Logout};
use ringmain_wire::payload::poll::PollMessages;
use ringmain_wire::payload::stream::{CreateStream, DeleteStream, GetStream, GetStreams};
use ringmain_wire::payload::system::{DescribeOptions, GetMe};
use ringmain_wire::payload::topic::{
    CreatePartitions, CreateTopic, DeletePartitions, DeleteTopic, GetTopic, GetTopics, PurgeTopic,
};
use ringmain_wire::{
    Command, CommandCode, HeaderError, Operation, RequestHeader, UserHeaders, WireError,
};
use std::collections::{BTreeMap, HashMap};

/// Decodes and encodes, for the command that a type is for.
fn again<'a, C: Command + Decode<'a>>(body: &'a [u8]) -> Result<Vec<u8>, WireError> {
    C::decode(body).map(|command| command.to_vec())
}

/// Writes a body again from what it decodes to; `None` for a command that the recording should not
/// hold.
fn body_again(code: CommandCode, body: &[u8]) -> Option<Result<Vec<u8>, WireError>> {
    Some(match code {
        CommandCode::PING => again::<Ping>(body),
        CommandCode::GET_CLUSTER_METADATA => again::<GetClusterMetadata>(body),
        CommandCode::GET_ME => again::<GetMe>(body),
        CommandCode::DESCRIBE_OPTIONS => again::<DescribeOptions>(body),
        CommandCode::LOGOUT_USER => again::<Logout>(body),
        CommandCode::LOGIN_REGISTER => again::<LoginRegister<'_>>(body),
        CommandCode::LOGIN_REGISTER_WITH_PAT => again::<LoginRegisterWithPat<'_>>(body),
        CommandCode::GET_STREAMS => again::<GetStreams>(body),
        CommandCode::GET_STREAM => again::<GetStream<'_>>(body),
        CommandCode::CREATE_STREAM => again::<CreateStream<'_>>(body),
        CommandCode::DELETE_STREAM => again::<DeleteStream<'_>>(body),
        CommandCode::GET_TOPIC => again::<GetTopic<'_>>(body),
        CommandCode::GET_TOPICS => again::<GetTopics<'_>>(body),
        CommandCode::CREATE_TOPIC => again::<CreateTopic<'_>>(body),
        CommandCode::DELETE_TOPIC => again::<DeleteTopic<'_>>(body),
        CommandCode::PURGE_TOPIC => again::<PurgeTopic<'_>>(body),
        CommandCode::CREATE_PARTITIONS => again::<CreatePartitions<'_>>(body),
        CommandCode::DELETE_PARTITIONS => again::<DeletePartitions<'_>>(body),
        CommandCode::POLL_MESSAGES => again::<PollMessages<'_>>(body),
        CommandCode::SEND_MESSAGES => send_again(body),
        // A command without a type goes as it is; the recording has one that the server does not
        // know either.
        CommandCode(9999) => Raw::decode(body).map(|raw| raw.to_vec()),
        _ => return None,
    })
}

/// Takes a send apart and builds it again, message by message.
fn send_again(body: &[u8]) -> Result<Vec<u8>, WireError> {
    let send = SendMessagesRef::decode(body)?;
    let batch = send.batch(Integrity::Verify)?;
    let room = vec![0; body.len()];
    let mut writer = BatchWriter::new(room, send.target()).expect("room for the prefix");
    for message in batch.messages() {
        let record = RecordParts {
            id: message.id(),
            timestamp_us: message.timestamp_us(),
            payload: message.payload(),
            user_headers: UserHeaders::decode(message.user_headers_bytes())?,
        };
        writer.append(&record).expect("as many bytes as before");
    }
    Ok(writer.seal().body().to_vec())
}

/// The command of a request: its code if it carries one, its operation's if that has one, or which
/// login it is.
fn code_of(header: &RawRequestHeader, operation: Operation, body: &[u8]) -> CommandCode {
    match operation {
        Operation::NonReplicated => header.code(),
        Operation::Register if LoginRegisterWithPat::decode(body).is_ok() => {
            CommandCode::LOGIN_REGISTER_WITH_PAT
        }
        Operation::Register => CommandCode::LOGIN_REGISTER,
        other => other.command_code().expect("clients send no other"),
    }
}

/// The header from its constructor. The recording's client stamps nothing.
fn header_again(
    header: &RawRequestHeader,
    code: CommandCode,
    body: &[u8],
) -> Result<RequestHeader, HeaderError> {
    let (client, session, request) = (header.client(), header.session(), header.request());
    let mut built = RequestHeader::command(code, client, session, request, body)?;
    assert_eq!(
        header.request_checksum(),
        0,
        "the recording's client stamps nothing"
    );
    built.clear_stamp();
    built.set_timestamp(header.timestamp());
    Ok(built)
}

#[test]
fn recorded_requests_are_written_again_byte_for_byte() {
    let mut outbound = HashMap::<(String, u64), Outbound>::new();
    let mut written = BTreeMap::<String, usize>::new();
    let mut refused = BTreeMap::<String, String>::new();
    for line in lines()
        .into_iter()
        .filter(|line| line.direction == Direction::Client)
    {
        let connection = outbound
            .entry((line.scenario.clone(), line.connection))
            .or_default();
        for sent in connection.feed(&line.bytes) {
            let problem = match sent {
                Sent::Lost(error) => error.to_string(),
                Sent::Foreign { command } => format!("command {command}"),
                Sent::Request { header, body } => match write_again(&header, &body) {
                    Ok(code) => {
                        *written.entry(code.to_string()).or_default() += 1;
                        continue;
                    }
                    Err(problem) => problem,
                },
            };
            let twice = refused.insert(line.scenario.clone(), problem);
            assert_eq!(twice, None, "{}", line.scenario);
        }
    }
    let written: Vec<_> = written
        .iter()
        .map(|(code, count)| format!("{count} {code}"))
        .collect();
    assert_eq!(written, WRITTEN);
    let refused: Vec<_> = refused.into_iter().collect();
    assert_eq!(refused.len(), REFUSED.len(), "{refused:#?}");
    for ((scenario, found), (expected, rule)) in refused.iter().zip(REFUSED) {
        assert_eq!(scenario, expected);
        assert!(found.contains(rule), "{scenario}: {found}");
    }
}

/// Writes a request again and compares; otherwise says which rule it breaks.
fn write_again(header: &RawRequestHeader, body: &[u8]) -> Result<CommandCode, String> {
    let operation = header.check().map_err(|error| error.to_string())?;
    let code = code_of(header, operation, body);
    let built = header_again(header, code, body).map_err(|error| error.to_string())?;
    header.check_reserved().map_err(|error| error.to_string())?;
    assert_eq!(&built.as_bytes()[..], header.as_bytes(), "{code}");
    assert_eq!(RequestHeader::from_raw(header), Ok(built), "{code}");
    let Some(again) = body_again(code, body) else {
        return Err(format!("{code}"));
    };
    if operation == Operation::Register && again.is_err() {
        let prefix = ClientVersion::decode_prefix(body);
        return Err(prefix
            .expect_err("both recorded bodies lack it")
            .to_string());
    }
    assert_eq!(again.map_err(|error| error.to_string())?, body, "{code}");
    Ok(code)
}

/// Requests that were written again, by command.
const WRITTEN: &[&str] = &[
    "1 CreatePartitions (402)",
    "26 CreateStream (202)",
    "18 CreateTopic (302)",
    "1 DeletePartitions (403)",
    "2 DeleteStream (203)",
    "1 DeleteTopic (303)",
    "1 DescribeOptions (13)",
    "1 GetClusterMetadata (12)",
    "1 GetMe (20)",
    "1 GetStream (200)",
    "3 GetStreams (201)",
    "2 GetTopic (300)",
    "1 GetTopics (301)",
    "42 LoginRegister (40)",
    "1 LoginRegisterWithPat (45)",
    "1 LogoutUser (39)",
    "30 Ping (1)",
    "2 PollMessages (100)",
    "1 PurgeTopic (305)",
    "81 SendMessages (101)",
    "1 unknown command (9999)",
];

/// Scenarios with a request that is illegal on purpose, with the rule that it breaks. 27 of the 47.
const REFUSED: &[(&str, &str)] = &[
    ("header-command-prepare", "command 6"),
    ("header-command-reply", "command 8"),
    ("header-command-unknown", "command 200"),
    (
        "header-operation-internal",
        "operation at byte 176: found CreateTopicWithAssignments (64), which only servers make",
    ),
    (
        "header-operation-unknown",
        "operation at byte 176: found 250",
    ),
    ("header-operation-zero", "operation at byte 176: found 0"),
    ("header-release-nonzero", "release at byte 56: found 0x07"),
    (
        "header-reserved-nonzero",
        "reserved at byte 100: found 0x01",
    ),
    (
        "header-reserved-tail-nonzero",
        "reserved at byte 250: found 0x01",
    ),
    ("header-size-65mib", "size at byte 48: found 68157440"),
    ("header-size-huge", "size at byte 48: found 4294967280"),
    ("header-size-small", "size at byte 48: found 100"),
    (
        "login-empty-body",
        "protocol_version at byte 0: 4 bytes needed, 0 left",
    ),
    (
        "login-malformed",
        "protocol_version at byte 0: 4 bytes needed, 3 left",
    ),
    ("login-nonzero-request", "request at byte 168: found 5"),
    ("login-zero-client", "client at byte 128: must not be zero"),
    ("metadata-retry", "request at byte 168: must not be zero"),
    ("send-bad-batch-checksum", "batch_checksum at byte 98"),
    (
        "send-bad-partitioning-kind",
        "partitioning at byte 51: found 9",
    ),
    (
        "send-empty-batch",
        "batch_length at byte 83: found 256, allowed are 304 to 67108608",
    ),
    ("send-flipped-payload-byte", "message.checksum at byte 369"),
    ("send-nonzero-reserved", "batch_header.reserved at byte 311"),
    ("send-request-zero", "request at byte 168: must not be zero"),
    ("send-session-zero", "session at byte 184: must not be zero"),
    ("send-trailing-bytes", "at byte 416: 5 bytes follow"),
    (
        "send-truncated-batch",
        "batch at byte 55: 362 bytes needed, 355 left",
    ),
    (
        "send-wrong-count",
        "messages_count at byte 47: found 0x3, expected 0x2",
    ),
];
