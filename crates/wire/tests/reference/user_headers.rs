//! User headers of every kind, written by both and read by both.
//!
//! The reference looks at kinds and lengths only, so what it takes of damaged bytes and this crate
//! refuses is listed.

use crate::check::{CASES, damage};
use crate::strategies::name;
use bytes::BytesMut;
use iggy_binary_protocol::{
    WireUserHeaderIterator, encode_user_headers, user_headers_encoded_size, validate_user_headers,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use ringmain_wire::{HeaderKind, HeaderValue, UserHeaders, UserHeadersWriter, WireError};

/// Pairs of a key and a value, the value as kind and bytes.
pub(crate) type Pairs = Vec<(String, (u8, Vec<u8>))>;

/// Bytes that are a value of the kind with this number.
fn value_of(code: u8) -> BoxedStrategy<(u8, Vec<u8>)> {
    let kind = HeaderKind::from_u8(code).expect("1 to 15");
    let bytes = match (kind, kind.fixed_bytes()) {
        (HeaderKind::String, _) => name().prop_map(String::into_bytes).boxed(),
        (HeaderKind::Bool, _) => (0..=1u8).prop_map(|byte| vec![byte]).boxed(),
        (_, Some(length)) => vec(any::<u8>(), length).boxed(),
        (_, None) => prop_oneof![
            4 => vec(any::<u8>(), 1..=40),
            1 => any::<u8>().prop_map(|byte| vec![byte; 255]),
        ]
        .boxed(),
    };
    bytes.prop_map(move |bytes| (code, bytes)).boxed()
}

/// No more than so many pairs, with keys that differ.
pub(crate) fn pairs(count_max: usize) -> impl Strategy<Value = Pairs> {
    btree_map(name(), (1..=15u8).prop_flat_map(value_of), 0..=count_max)
        .prop_map(|pairs| pairs.into_iter().collect())
}

fn our_value((code, bytes): &(u8, Vec<u8>)) -> HeaderValue<'_> {
    macro_rules! number {
        ($Number:ty) => {
            <$Number>::from_le_bytes(bytes[..].try_into().expect("as long as its kind"))
        };
    }
    match HeaderKind::from_u8(*code).expect("1 to 15") {
        HeaderKind::Raw => HeaderValue::Raw(bytes),
        HeaderKind::String => HeaderValue::String(str::from_utf8(bytes).expect("from text")),
        HeaderKind::Bool => HeaderValue::Bool(bytes[0] == 1),
        HeaderKind::Int8 => HeaderValue::Int8(number!(i8)),
        HeaderKind::Int16 => HeaderValue::Int16(number!(i16)),
        HeaderKind::Int32 => HeaderValue::Int32(number!(i32)),
        HeaderKind::Int64 => HeaderValue::Int64(number!(i64)),
        HeaderKind::Int128 => HeaderValue::Int128(number!(i128)),
        HeaderKind::Uint8 => HeaderValue::Uint8(number!(u8)),
        HeaderKind::Uint16 => HeaderValue::Uint16(number!(u16)),
        HeaderKind::Uint32 => HeaderValue::Uint32(number!(u32)),
        HeaderKind::Uint64 => HeaderValue::Uint64(number!(u64)),
        HeaderKind::Uint128 => HeaderValue::Uint128(number!(u128)),
        HeaderKind::Float32 => HeaderValue::Float32(number!(f32)),
        HeaderKind::Float64 => HeaderValue::Float64(number!(f64)),
    }
}

/// The pairs as this crate writes them.
pub(crate) fn our_bytes(pairs: &Pairs) -> Vec<u8> {
    let mut writer = UserHeadersWriter::new();
    for (key, value) in pairs {
        writer
            .set(key, &our_value(value))
            .expect("within the limits");
    }
    writer.headers().as_bytes().to_vec()
}

/// The pairs as the reference writes them.
pub(crate) fn their_bytes(pairs: &Pairs) -> Vec<u8> {
    let entries: Vec<_> = pairs
        .iter()
        .map(|(key, (code, bytes))| {
            (
                HeaderKind::String.as_u8(),
                key.as_bytes(),
                *code,
                &bytes[..],
            )
        })
        .collect();
    let mut buffer = BytesMut::new();
    encode_user_headers(&entries, &mut buffer);
    assert_eq!(buffer.len(), user_headers_encoded_size(&entries));
    buffer.to_vec()
}

/// Whether this crate refuses on purpose what the reference takes.
fn is_stricter(error: &WireError) -> bool {
    match error {
        WireError::UnknownKind { field, .. } => {
            ["user_headers.key.kind", "user_headers.value.kind"].contains(field)
        }
        WireError::Mismatch { field, .. } => {
            ["user_headers.key.kind", "user_headers.value.length"].contains(field)
        }
        WireError::OutOfRange { field, .. } => *field == "user_headers.value",
        WireError::InvalidUtf8 { field, .. } => {
            ["user_headers.key", "user_headers.value"].contains(field)
        }
        _ => false,
    }
}

/// What the reference sees.
fn their_view(bytes: &[u8]) -> Pairs {
    WireUserHeaderIterator::new(bytes)
        .map(|entry| {
            assert_eq!(entry.key_kind.0, HeaderKind::String.as_u8());
            let key = String::from_utf8(entry.key.to_vec()).expect("from text");
            (key, (entry.value_kind.0, entry.value.to_vec()))
        })
        .collect()
}

/// Writes again what this crate reads: bytes, since a float that is no number does not equal
/// itself.
fn written_again(headers: &UserHeaders<'_>) -> Vec<u8> {
    let mut writer = UserHeadersWriter::new();
    for (key, value) in headers {
        writer.set(key, &value).expect("read a moment ago");
    }
    writer.headers().as_bytes().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn user_headers_are_written_and_read_alike(pairs in pairs(6), damage in damage()) {
        let (ours, theirs) = (our_bytes(&pairs), their_bytes(&pairs));
        prop_assert_eq!(&ours, &theirs, "what each writes");
        prop_assert_eq!(validate_user_headers(&ours).ok(), Some(pairs.len() as u32));
        prop_assert_eq!(&their_view(&ours), &pairs, "what the reference reads of ours");
        let read = UserHeaders::decode(&theirs);
        prop_assert!(read.is_ok(), "{read:?}");
        let read = read.unwrap_or_default();
        prop_assert_eq!(written_again(&read), ours, "what we read of the reference");
        for ((key, (code, _)), (found, value)) in pairs.iter().zip(&read) {
            prop_assert_eq!(key, found);
            prop_assert_eq!(*code, value.kind().as_u8());
        }

        for damaged in damage.apply(&theirs) {
            let theirs = validate_user_headers(&damaged);
            match UserHeaders::decode(&damaged) {
                Ok(headers) => prop_assert_eq!(theirs.ok(), Some(headers.iter().count() as u32)),
                Err(error) => prop_assert!(theirs.is_err() || is_stricter(&error), "only we refuse: {error}"),
            }
        }
    }

    #[test]
    fn each_kind_is_written_and_read_alike(
        values in (1..=15u8).map(value_of).collect::<Vec<_>>(),
    ) {
        let pairs: Pairs = values.into_iter().map(|value| (format!("kind {}", value.0), value)).collect();
        let bytes = our_bytes(&pairs);
        prop_assert_eq!(&bytes, &their_bytes(&pairs));
        prop_assert_eq!(&their_view(&bytes), &pairs);
        let read = UserHeaders::decode(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(written_again(&read), bytes.clone());
    }
}
