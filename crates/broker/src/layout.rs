//! Payloads that only a server writes.

use ringmain_wire::codec::Writer;
use ringmain_wire::user_headers::HeaderKind;

use crate::state::{OptionValue, Partition, Stream, Topic};

/// The body that confirms one batch.
pub(crate) fn confirmation(stream: u32, topic: u32, partition: u32, base_offset: u64) -> [u8; 24] {
    let mut body = [0; 24];
    let mut writer = Writer::new(&mut body);
    writer.u32(1);
    writer.u32(stream);
    writer.u32(topic);
    writer.u32(partition);
    writer.u64(base_offset);
    body
}

/// Stream details.
pub(crate) fn stream(out: &mut Vec<u8>, stream: &Stream) {
    out.extend_from_slice(&stream.id.to_le_bytes());
    out.extend_from_slice(&stream.created_at_us.to_le_bytes());
    out.extend_from_slice(&(stream.topics.len() as u32).to_le_bytes());
    out.extend_from_slice(&stream.record_bytes().to_le_bytes());
    out.extend_from_slice(&stream.records().to_le_bytes());
    name(out, &stream.name);
    out.extend_from_slice(&0_u32.to_le_bytes());
}

/// Topic details without its partitions.
pub(crate) fn topic(out: &mut Vec<u8>, topic: &Topic) {
    out.extend_from_slice(&topic.id.to_le_bytes());
    out.extend_from_slice(&topic.created_at_us.to_le_bytes());
    out.extend_from_slice(&(topic.partitions.len() as u32).to_le_bytes());
    out.extend_from_slice(&topic.options.message_expiry().to_le_bytes());
    out.push(topic.options.compression_algorithm());
    out.extend_from_slice(&topic.options.max_topic_size().to_le_bytes());
    out.extend_from_slice(&topic.record_bytes().to_le_bytes());
    out.extend_from_slice(&topic.records().to_le_bytes());
    name(out, &topic.name);
    options(out, topic.options.explicit());
    options(out, topic.options.derived());
}

/// One partition of topic details.
pub(crate) fn partition(out: &mut Vec<u8>, partition: &Partition, segments: u32) {
    out.extend_from_slice(&partition.id.to_le_bytes());
    out.extend_from_slice(&partition.created_at_us.to_le_bytes());
    out.extend_from_slice(&segments.to_le_bytes());
    out.extend_from_slice(&partition.log.current_offset().to_le_bytes());
    out.extend_from_slice(&partition.log.record_bytes().to_le_bytes());
    out.extend_from_slice(&partition.log.records().to_le_bytes());
}

fn name(out: &mut Vec<u8>, name: &str) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn options<'a>(out: &mut Vec<u8>, pairs: impl Iterator<Item = (&'a str, &'a OptionValue)>) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    for (key, value) in pairs {
        field(out, HeaderKind::String, key.as_bytes());
        field(out, value.kind, &value.bytes);
    }
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}

fn field(out: &mut Vec<u8>, kind: HeaderKind, bytes: &[u8]) {
    out.push(kind.code());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}
