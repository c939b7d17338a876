//! Compares two server frames field by field.

use std::fmt;

use ringmain_wire::batch::{BatchReader, Integrity};
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::cluster::ClusterMetadata;
use ringmain_wire::payload::login::LoginReply;
use ringmain_wire::payload::poll::PollReply;
use ringmain_wire::payload::stream::{StreamDetails, StreamInfo, TopicInfo};
use ringmain_wire::payload::system::ClientDetails;
use ringmain_wire::payload::topic::TopicDetails;
use ringmain_wire::payload::{Counted, ToEnd};

use crate::support::Answer;

/// Fields that must differ, and why. They are compared by presence: both zero, or both not.
pub(crate) const MUST_DIFFER: &[(&str, &str)] = &[
    (
        "cluster of a committed reply",
        "each cluster has its own id",
    ),
    ("timestamp of a committed reply", "the time of the commit"),
    (
        "op and commit of session and metadata replies",
        "positions of another log, session epochs among them",
    ),
    (
        "client of partition replies and of refusals",
        "a transport id, numbered by each server",
    ),
    ("session of a login reply", "an epoch"),
    (
        "created_at of streams, topics and partitions",
        "the time of the commit",
    ),
    (
        "base_timestamp and batch_checksum of polled batches",
        "the time of the append, and the hash over it",
    ),
    (
        "address and ports of cluster nodes",
        "where each server listens",
    ),
    (
        "client number and address in get me",
        "which connection it was",
    ),
];

/// One field that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) field: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: captured {}, found {}",
            self.field, self.expected, self.found
        )
    }
}

/// Named values of a frame, in order.
type Fields = Vec<(String, String)>;

/// All fields that differ. `code` tells what the reply to a non-replicated request is.
pub(crate) fn compare(expected: &Answer, found: &Answer, code: Option<u32>) -> Vec<Difference> {
    let fields = |answer: &Answer| match answer.command() {
        8 => [header_fields(answer), body_fields(answer, code)].concat(),
        _ => eviction_fields(answer),
    };
    let (expected, found) = (fields(expected), fields(found));
    let mut differences = Vec::new();
    for index in 0..expected.len().max(found.len()) {
        let nothing = ("field count".to_owned(), "nothing".to_owned());
        let (name, value) = expected.get(index).unwrap_or(&nothing);
        let (found_name, found_value) = found.get(index).unwrap_or(&nothing);
        if name != found_name {
            let field = if name.starts_with("body") || found_name.starts_with("body") {
                "body"
            } else {
                name
            };
            differences.push(difference(field, name, found_name));
            break;
        }
        if value != found_value {
            differences.push(difference(name, value, found_value));
        }
    }
    differences
}

fn difference(field: &str, expected: &str, found: &str) -> Difference {
    Difference {
        field: field.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> u128 {
    bytes[at..at + length]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn exact(bytes: &[u8], at: usize, length: usize) -> String {
    format!("{:#x}", number(bytes, at, length))
}

fn presence(bytes: &[u8], at: usize, length: usize) -> String {
    if number(bytes, at, length) == 0 {
        "zero"
    } else {
        "not zero"
    }
    .to_owned()
}

fn header_fields(answer: &Answer) -> Fields {
    let bytes = &answer.bytes;
    let reply = answer.reply();
    let (operation, status) = (reply.operation_byte(), answer.status());
    let partition = operation >= 160;
    let committed = number(bytes, 32, 16) != 0;
    let transport_id = partition || status == 40 || status == 20;
    let of_a_log = operation != 2 && !(partition && committed);
    let position = |at| {
        if of_a_log {
            presence(bytes, at, 8)
        } else {
            exact(bytes, at, 8)
        }
    };
    let commit_name = if committed {
        "commit"
    } else {
        "commit of a direct reply"
    };
    let fields: [(&str, String); 20] = [
        ("checksum", exact(bytes, 0, 16)),
        ("checksum_body", exact(bytes, 16, 16)),
        ("cluster", presence(bytes, 32, 16)),
        ("size", exact(bytes, 48, 4)),
        ("view", exact(bytes, 52, 4)),
        ("release", exact(bytes, 56, 4)),
        ("command", exact(bytes, 60, 1)),
        ("replica", exact(bytes, 61, 1)),
        ("reserved", format!("{:?}", &bytes[62..128])),
        ("request_checksum", exact(bytes, 128, 16)),
        ("context", exact(bytes, 144, 16)),
        (
            "client",
            if transport_id {
                presence(bytes, 160, 16)
            } else {
                exact(bytes, 160, 16)
            },
        ),
        ("op", position(176)),
        (
            commit_name,
            if committed {
                position(184)
            } else {
                presence(bytes, 184, 8)
            },
        ),
        (
            "timestamp",
            if committed {
                presence(bytes, 192, 8)
            } else {
                exact(bytes, 192, 8)
            },
        ),
        ("request", exact(bytes, 200, 8)),
        ("operation", exact(bytes, 208, 1)),
        ("padding", exact(bytes, 209, 7)),
        ("status", exact(bytes, 216, 4)),
        ("reserved at the end", format!("{:?}", &bytes[220..256])),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn eviction_fields(answer: &Answer) -> Fields {
    let bytes = &answer.bytes;
    // A client without a session is evicted by its transport id.
    let client = if bytes[255] == 1 {
        presence(bytes, 128, 16)
    } else {
        exact(bytes, 128, 16)
    };
    let fields: [(&str, String); 8] = [
        ("cluster of an eviction", presence(bytes, 32, 16)),
        ("size", exact(bytes, 48, 4)),
        (
            "view, release, command, replica",
            format!("{:?}", &bytes[52..62]),
        ),
        ("client", client),
        ("server_protocol_version", exact(bytes, 144, 4)),
        ("server_protocol_version_min", exact(bytes, 148, 4)),
        (
            "reserved",
            format!("{:?}", [&bytes[62..128], &bytes[152..255]].concat()),
        ),
        ("reason", exact(bytes, 255, 1)),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn body_fields(answer: &Answer, code: Option<u32>) -> Fields {
    let body = answer.body();
    let operation = answer.reply().operation_byte();
    if body.is_empty() {
        return Vec::new();
    }
    let mut fields = Fields::new();
    match (operation, code) {
        (1, _) if answer.result() == 0 => login(&mut fields, &body[4..]),
        (128, _) if answer.result() == 0 => {
            stream(
                &mut fields,
                "body",
                &StreamInfo::decode(&body[4..]).expect("a stream"),
            );
        }
        (64, _) if answer.result() == 0 => topic_details(&mut fields, &body[4..]),
        (2, Some(12)) => cluster(&mut fields, body),
        (2, Some(20)) => me(&mut fields, body),
        (2, Some(100)) => poll(&mut fields, body),
        (2, Some(200)) => stream_details(&mut fields, body),
        (2, Some(201)) => {
            for info in ToEnd::<StreamInfo<'_>>::decode(body).expect("streams").0 {
                stream(&mut fields, &format!("body.{}", info.id), &info);
            }
        }
        (2, Some(300)) => topic_details(&mut fields, body),
        (2, Some(301)) => {
            for info in Counted::<TopicInfo<'_>>::decode(body).expect("topics").0 {
                topic(&mut fields, &format!("body.{}", info.id), &info);
            }
        }
        _ => push(&mut fields, "body", format!("{body:?}")),
    }
    fields
}

fn push(fields: &mut Fields, name: &str, value: impl fmt::Display) {
    fields.push((name.to_owned(), value.to_string()));
}

fn login(fields: &mut Fields, body: &[u8]) {
    let reply = LoginReply::decode(body).expect("a login reply");
    push(fields, "body.user_id", reply.user_id);
    push(
        fields,
        "body.server_protocol_version",
        format!("{:?}", reply.server_protocol_version),
    );
    push(fields, "body.server_version", reply.server_version.as_str());
}

fn stream(fields: &mut Fields, at: &str, info: &StreamInfo<'_>) {
    push(fields, &format!("{at}.id"), info.id);
    push(fields, &format!("{at}.created"), info.created_at != 0);
    push(fields, &format!("{at}.topics_count"), info.topics_count);
    push(fields, &format!("{at}.size_bytes"), info.size_bytes);
    push(fields, &format!("{at}.messages_count"), info.messages_count);
    push(fields, &format!("{at}.name"), info.name.as_str());
    push(
        fields,
        &format!("{at}.options"),
        format!("{:?}", info.options),
    );
}

fn topic(fields: &mut Fields, at: &str, info: &TopicInfo<'_>) {
    push(fields, &format!("{at}.id"), info.id);
    push(fields, &format!("{at}.created"), info.created_at != 0);
    push(
        fields,
        &format!("{at}.partitions_count"),
        info.partitions_count,
    );
    push(fields, &format!("{at}.message_expiry"), info.message_expiry);
    push(
        fields,
        &format!("{at}.compression_algorithm"),
        info.compression_algorithm,
    );
    push(fields, &format!("{at}.max_topic_size"), info.max_topic_size);
    push(fields, &format!("{at}.size_bytes"), info.size_bytes);
    push(fields, &format!("{at}.messages_count"), info.messages_count);
    push(fields, &format!("{at}.name"), info.name.as_str());
    push(
        fields,
        &format!("{at}.options"),
        format!("{:?}", info.options),
    );
    push(
        fields,
        &format!("{at}.derived_options"),
        format!("{:?}", info.derived_options),
    );
}

fn stream_details(fields: &mut Fields, body: &[u8]) {
    let details = StreamDetails::decode(body).expect("stream details");
    stream(fields, "body", &details.stream);
    for info in &details.topics {
        topic(fields, &format!("body.topic.{}", info.id), info);
    }
}

fn topic_details(fields: &mut Fields, body: &[u8]) {
    let details = TopicDetails::decode(body).expect("topic details");
    topic(fields, "body", &details.topic);
    for partition in &details.partitions {
        let at = format!("body.partition.{}", partition.id);
        push(fields, &format!("{at}.created"), partition.created_at != 0);
        push(
            fields,
            &format!("{at}.segments_count"),
            partition.segments_count,
        );
        push(
            fields,
            &format!("{at}.current_offset"),
            partition.current_offset,
        );
        push(fields, &format!("{at}.size_bytes"), partition.size_bytes);
        push(
            fields,
            &format!("{at}.messages_count"),
            partition.messages_count,
        );
    }
}

fn cluster(fields: &mut Fields, body: &[u8]) {
    let cluster = ClusterMetadata::decode(body).expect("a cluster");
    push(fields, "body.name", cluster.name.as_str());
    for node in &cluster.nodes.0 {
        push(fields, "body.node.name", node.name.as_str());
        push(fields, "body.node.role", node.role);
        push(fields, "body.node.status", node.status);
    }
}

fn me(fields: &mut Fields, body: &[u8]) {
    let me = ClientDetails::decode(body).expect("a client");
    push(fields, "body.user_id", me.client.user_id);
    push(fields, "body.transport", me.client.transport);
    push(
        fields,
        "body.consumer_groups_count",
        me.client.consumer_groups_count,
    );
}

fn poll(fields: &mut Fields, body: &[u8]) {
    let reply = PollReply::decode(body).expect("a poll reply");
    push(fields, "body.partition_id", reply.partition_id);
    push(fields, "body.current_offset", reply.current_offset);
    push(fields, "body.messages_count", reply.messages_count);
    let mut rest = reply.batches;
    while !rest.is_empty() {
        let (batch, behind) =
            BatchReader::decode_first(rest, Integrity::Verify).expect("a valid batch");
        let header = batch.header();
        let at = format!("body.batch.{}", header.base_offset());
        push(fields, &format!("{at}.partition_id"), header.partition_id());
        push(
            fields,
            &format!("{at}.stamped"),
            header.base_timestamp_us() != 0,
        );
        push(
            fields,
            &format!("{at}.origin_timestamp"),
            header.origin_timestamp_us(),
        );
        push(fields, &format!("{at}.batch_length"), header.batch_length());
        for message in batch.messages() {
            push(
                fields,
                &format!("{at}.{}.header", message.offset()),
                format!("{:?}", message.header()),
            );
            push(
                fields,
                &format!("{at}.{}.payload", message.offset()),
                format!("{:?}", message.payload()),
            );
        }
        rest = behind;
    }
}
