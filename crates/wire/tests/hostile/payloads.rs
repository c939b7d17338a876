//! Any bytes into every payload decoder.

use allocation_counter::measure;
use proptest::prelude::*;
use ringmain_wire::codec::Decode;
use ringmain_wire::payload::cluster::ClusterMetadata;
use ringmain_wire::payload::consumer::{
    ConsumerOffsetInfo, DeleteConsumerOffset, GetConsumerOffset, StoreConsumerOffset,
};
use ringmain_wire::payload::login::{LoginRegister, LoginRegisterWithPat, LoginReply};
use ringmain_wire::payload::poll::{PollMessages, PollReply};
use ringmain_wire::payload::send::SendMessagesReply;
use ringmain_wire::payload::stream::{
    CreateStream, StreamDetails, StreamInfo, TopicInfo, UpdateStream,
};
use ringmain_wire::payload::system::{ClientDetails, DescribeOptions, OptionDescriptor, Stats};
use ringmain_wire::payload::token::{
    CreatePersonalAccessToken, PersonalAccessTokenInfo, RawPersonalAccessToken,
};
use ringmain_wire::payload::topic::{
    CreatePartitions, CreateTopic, DeleteSegments, GetTopic, TopicDetails, UpdateTopic,
};
use ringmain_wire::payload::{Counted, Empty, ToEnd};
use ringmain_wire::result::{self, ResultSection};
use ringmain_wire::{Identifier, Name, Options, Partitioning, Secret, Text};

/// Memory for the first items of a list: a vector starts with room for four.
const LIST_BYTES_MIN: u64 = 1024;

/// Memory for each byte of a list: the shortest items take 4 bytes and are kept in fewer than 16,
/// and a vector that grows holds its old and its new memory, which is twice as much.
const LIST_BYTES_PER_BYTE: u64 = 16;

/// Decodes, within memory that the bytes at hand account for, and if that works compares with what
/// it encodes to.
fn taken_is_written_back<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<(), TestCaseError> {
    let mut decoded = None;
    let memory = measure(|| decoded = T::decode(bytes).ok());
    prop_assert!(
        memory.bytes_max <= LIST_BYTES_MIN + LIST_BYTES_PER_BYTE * bytes.len() as u64,
        "{} takes {} bytes of memory for {} bytes",
        T::NAME,
        memory.bytes_max,
        bytes.len()
    );
    if let Some(value) = decoded {
        prop_assert_eq!(value.encoded_len(), bytes.len(), "{}", T::NAME);
        prop_assert_eq!(value.to_vec(), bytes, "{}", T::NAME);
    }
    Ok(())
}

/// Every decoder of the crate that reads a payload, once for those of the same fields.
fn all_decoders(bytes: &[u8]) -> Result<(), TestCaseError> {
    taken_is_written_back::<Empty>(bytes)?;
    taken_is_written_back::<Name<'_>>(bytes)?;
    taken_is_written_back::<Text<'_>>(bytes)?;
    taken_is_written_back::<Secret<'_>>(bytes)?;
    taken_is_written_back::<Identifier<'_>>(bytes)?;
    taken_is_written_back::<Partitioning<'_>>(bytes)?;
    taken_is_written_back::<Options<'_>>(bytes)?;
    taken_is_written_back::<LoginRegister<'_>>(bytes)?;
    taken_is_written_back::<LoginRegisterWithPat<'_>>(bytes)?;
    taken_is_written_back::<LoginReply<'_>>(bytes)?;
    taken_is_written_back::<ClusterMetadata<'_>>(bytes)?;
    taken_is_written_back::<CreateStream<'_>>(bytes)?;
    taken_is_written_back::<UpdateStream<'_>>(bytes)?;
    taken_is_written_back::<Option<StreamDetails<'_>>>(bytes)?;
    taken_is_written_back::<ToEnd<StreamInfo<'_>>>(bytes)?;
    taken_is_written_back::<CreateTopic<'_>>(bytes)?;
    taken_is_written_back::<UpdateTopic<'_>>(bytes)?;
    taken_is_written_back::<GetTopic<'_>>(bytes)?;
    taken_is_written_back::<Option<TopicDetails<'_>>>(bytes)?;
    taken_is_written_back::<Option<Counted<TopicInfo<'_>>>>(bytes)?;
    taken_is_written_back::<CreatePartitions<'_>>(bytes)?;
    taken_is_written_back::<DeleteSegments<'_>>(bytes)?;
    taken_is_written_back::<SendMessagesReply<'_>>(bytes)?;
    taken_is_written_back::<PollMessages<'_>>(bytes)?;
    taken_is_written_back::<PollReply<'_>>(bytes)?;
    taken_is_written_back::<GetConsumerOffset<'_>>(bytes)?;
    taken_is_written_back::<StoreConsumerOffset<'_>>(bytes)?;
    taken_is_written_back::<DeleteConsumerOffset<'_>>(bytes)?;
    taken_is_written_back::<Option<ConsumerOffsetInfo>>(bytes)?;
    taken_is_written_back::<ClientDetails<'_>>(bytes)?;
    taken_is_written_back::<Stats<'_>>(bytes)?;
    taken_is_written_back::<DescribeOptions>(bytes)?;
    taken_is_written_back::<Counted<OptionDescriptor<'_>>>(bytes)?;
    taken_is_written_back::<CreatePersonalAccessToken<'_>>(bytes)?;
    taken_is_written_back::<RawPersonalAccessToken<'_>>(bytes)?;
    taken_is_written_back::<ToEnd<PersonalAccessTokenInfo<'_>>>(bytes)?;
    match ResultSection::decode(bytes) {
        Ok(ResultSection::Success(payload)) => {
            prop_assert_eq!([&result::SUCCESS[..], payload].concat(), bytes);
        }
        Ok(ResultSection::Rejected(code)) => prop_assert_eq!(&result::rejection(code)[..], bytes),
        Err(_) => {}
    }
    Ok(())
}

/// Bytes of one seed: small numbers more often than not, so that kinds, lengths and counts are in
/// range now and then.
fn bytes_of(seed: u64) -> Vec<u8> {
    // SplitMix64: every seed gives another stream, and a failing one is all that is needed to
    // repeat it.
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let length = next() % 200;
    let byte = |random: u64| match random % 11 {
        0..4 => 0,
        4..8 => (random >> 8) as u8 % 6,
        8..10 => b'a',
        _ => (random >> 8) as u8,
    };
    (0..length).map(|_| byte(next())).collect()
}

#[test]
fn any_bytes() {
    for seed in 0..50_000 {
        if let Err(error) = all_decoders(&bytes_of(seed)) {
            panic!("seed {seed}: {error}");
        }
    }
}
