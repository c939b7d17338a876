//! Values as both codecs need them: owned here, lent to this crate, moved to the reference.

use iggy_binary_protocol::{
    AckLevel as TheirAckLevel, WireConsumer, WireIdentifier, WireName, WireOptions,
    WirePollingStrategy,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use ringmain_wire::payload::consumer::{AckLevel, Consumer, PartitionChoice};
use ringmain_wire::payload::poll::PollingStrategy;
use ringmain_wire::{HeaderValue, Identifier, Name, Options, Text, UserHeaders, UserHeadersWriter};

/// Characters of any length in UTF-8. A regular expression would do, and take most of the time of
/// all tests.
fn characters(count: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = String> {
    vec(any::<char>(), count).prop_map(String::from_iter)
}

/// 1 to 255 bytes of text, the ends included.
pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => characters(1..=20),
        1 => characters(1..=63),
        1 => Just("n".to_owned()),
        1 => Just("n".repeat(255)),
    ]
}

/// 0 to 255 bytes of text.
pub(crate) fn secret() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just(String::new()), 4 => name()]
}

/// Text of some length, which may be more than a name's.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![2 => Just(String::new()), 4 => characters(1..=30), 1 => Just("t".repeat(300))]
}

pub(crate) fn our_name(name: &str) -> Name<'_> {
    Name::new(name).expect("1 to 255 bytes")
}

pub(crate) fn their_name(name: &str) -> WireName {
    WireName::new(name).expect("1 to 255 bytes")
}

pub(crate) fn our_text(text: &str) -> Text<'_> {
    Text::new(text).expect("fits a body")
}

/// A stream, topic, consumer.
#[derive(Debug, Clone)]
pub(crate) enum Id {
    Number(u32),
    Named(String),
}

pub(crate) fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        any::<u32>().prop_map(Id::Number),
        name().prop_map(Id::Named)
    ]
}

impl Id {
    pub(crate) fn ours(&self) -> Identifier<'_> {
        match self {
            Self::Number(number) => Identifier::Numeric(*number),
            Self::Named(name) => Identifier::named(name).expect("1 to 255 bytes"),
        }
    }

    pub(crate) fn theirs(&self) -> WireIdentifier {
        match self {
            Self::Number(number) => WireIdentifier::numeric(*number),
            Self::Named(name) => WireIdentifier::named(name.clone()).expect("1 to 255 bytes"),
        }
    }
}

/// One consumer or a group.
pub(crate) type Who = (bool, Id);

pub(crate) fn who() -> impl Strategy<Value = Who> {
    (any::<bool>(), id())
}

pub(crate) fn our_consumer((is_group, id): &Who) -> Consumer<'_> {
    match is_group {
        true => Consumer::ConsumerGroup(id.ours()),
        false => Consumer::Consumer(id.ours()),
    }
}

pub(crate) fn their_consumer((is_group, id): &Who) -> WireConsumer {
    match is_group {
        true => WireConsumer::consumer_group(id.theirs()),
        false => WireConsumer::consumer(id.theirs()),
    }
}

pub(crate) fn our_partition(partition: Option<u32>) -> PartitionChoice {
    partition.map_or(PartitionChoice::ByServer, PartitionChoice::PartitionId)
}

pub(crate) fn our_ack(quorum: bool) -> AckLevel {
    if quorum {
        AckLevel::Quorum
    } else {
        AckLevel::NoAck
    }
}

pub(crate) fn their_ack(quorum: bool) -> TheirAckLevel {
    if quorum {
        TheirAckLevel::Quorum
    } else {
        TheirAckLevel::NoAck
    }
}

pub(crate) fn strategy() -> impl Strategy<Value = PollingStrategy> {
    prop_oneof![
        any::<u64>().prop_map(PollingStrategy::Offset),
        any::<u64>().prop_map(PollingStrategy::Timestamp),
        Just(PollingStrategy::First),
        Just(PollingStrategy::Last),
        Just(PollingStrategy::Next),
    ]
}

pub(crate) fn their_strategy(strategy: PollingStrategy) -> WirePollingStrategy {
    match strategy {
        PollingStrategy::Offset(offset) => WirePollingStrategy::offset(offset),
        PollingStrategy::Timestamp(timestamp) => WirePollingStrategy::timestamp(timestamp),
        PollingStrategy::First => WirePollingStrategy::first(),
        PollingStrategy::Last => WirePollingStrategy::last(),
        PollingStrategy::Next => WirePollingStrategy::next(),
    }
}

/// A block of options, as bytes.
#[derive(Debug, Clone)]
pub(crate) struct OptionBytes(Vec<u8>);

pub(crate) fn options() -> impl Strategy<Value = OptionBytes> {
    btree_map("[a-z_]{1,20}", vec(any::<u8>(), 1..=40), 0..4).prop_map(|pairs| {
        let mut writer = UserHeadersWriter::new();
        for (index, (key, bytes)) in pairs.iter().enumerate() {
            let number = u64::from(bytes[0]);
            let value = match index % 4 {
                0 => HeaderValue::Raw(bytes),
                1 => HeaderValue::Uint64(number),
                2 => HeaderValue::Bool(number % 2 == 0),
                _ => HeaderValue::String(key),
            };
            writer.set(key, &value).expect("fits");
        }
        OptionBytes(writer.headers().as_bytes().to_vec())
    })
}

impl OptionBytes {
    pub(crate) fn ours(&self) -> Options<'_> {
        let headers = UserHeaders::decode(&self.0).expect("just written");
        Options::new(headers).expect("keys of a map differ")
    }

    pub(crate) fn theirs(&self) -> WireOptions {
        WireOptions::from_slice(&self.0).expect("keys of a map differ")
    }
}

/// A number that equals itself.
pub(crate) fn number() -> impl Strategy<Value = f32> {
    proptest::num::f32::NORMAL | proptest::num::f32::ZERO
}
