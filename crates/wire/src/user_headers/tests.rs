//! User headers set, read back and refused; the comparison with the reference codec is in `tests/`.

use super::*;

fn one_of_each() -> [(&'static str, HeaderValue<'static>); 15] {
    [
        ("raw", HeaderValue::Raw(&[0, 255, 7])),
        ("string", HeaderValue::String("gr\u{fc}n")),
        ("bool", HeaderValue::Bool(true)),
        ("int8", HeaderValue::Int8(i8::MIN)),
        ("int16", HeaderValue::Int16(i16::MIN)),
        ("int32", HeaderValue::Int32(i32::MIN)),
        ("int64", HeaderValue::Int64(i64::MIN)),
        ("int128", HeaderValue::Int128(i128::MIN)),
        ("uint8", HeaderValue::Uint8(u8::MAX)),
        ("uint16", HeaderValue::Uint16(u16::MAX)),
        ("uint32", HeaderValue::Uint32(u32::MAX)),
        ("uint64", HeaderValue::Uint64(u64::MAX)),
        ("uint128", HeaderValue::Uint128(u128::MAX)),
        ("float32", HeaderValue::Float32(-0.5)),
        ("float64", HeaderValue::Float64(1e300)),
    ]
}

#[test]
fn every_kind_is_set_and_read_back() {
    let mut writer = UserHeadersWriter::new();
    for (key, value) in one_of_each() {
        writer.set(key, &value).expect("within the limits");
    }
    let headers = UserHeaders::decode(writer.headers().as_bytes()).expect("well formed");
    assert_eq!(headers.iter().collect::<Vec<_>>(), one_of_each());
    for (code, (key, value)) in (1..).zip(one_of_each()) {
        assert_eq!(headers.get(key), Some(value));
        assert_eq!(value.kind().as_u8(), code);
        assert_eq!(HeaderKind::from_u8(code), Some(value.kind()));
    }
    assert_eq!(headers.get("absent"), None);
    assert_eq!(HeaderKind::from_u8(0), None);
    assert_eq!(HeaderKind::from_u8(16), None);
}

#[test]
fn setting_a_key_again_replaces_its_value() {
    let mut writer = UserHeadersWriter::new();
    writer.set("a", &HeaderValue::Uint8(1)).expect("fits");
    writer.set("b", &HeaderValue::Uint8(2)).expect("fits");
    writer.set("a", &HeaderValue::String("long")).expect("fits");
    let pairs: Vec<_> = writer.headers().iter().collect();
    assert_eq!(
        pairs,
        [
            ("b", HeaderValue::Uint8(2)),
            ("a", HeaderValue::String("long"))
        ]
    );
    assert!(writer.remove("b"));
    assert!(!writer.remove("b"));
    assert_eq!(writer.headers().iter().count(), 1);
    writer.clear();
    assert!(writer.headers().is_empty());
}

#[test]
fn a_repeated_key_reads_as_its_last_value() {
    let mut bytes = Vec::new();
    for value in [1, 2] {
        let mut writer = UserHeadersWriter::new();
        writer.set("k", &HeaderValue::Uint8(value)).expect("fits");
        bytes.extend_from_slice(writer.headers().as_bytes());
    }
    let headers = UserHeaders::decode(&bytes).expect("legal on the wire");
    assert_eq!(headers.get("k"), Some(HeaderValue::Uint8(2)));
}

#[test]
fn lengths_are_limited_when_set() {
    let mut writer = UserHeadersWriter::new();
    let long = "x".repeat(FIELD_BYTES_MAX + 1);
    let refused = |field, found| {
        Err(WireError::OutOfRange {
            field,
            offset: 0,
            found,
            min: 1,
            max: 255,
        })
    };
    for (key, value, expected) in [
        ("", HeaderValue::Bool(true), refused(KEY.length, 0)),
        (&long, HeaderValue::Bool(true), refused(KEY.length, 256)),
        ("k", HeaderValue::Raw(&[]), refused(VALUE.length, 0)),
        ("k", HeaderValue::String(&long), refused(VALUE.length, 256)),
    ] {
        assert_eq!(writer.set(key, &value), expected);
    }
    assert!(writer.headers().is_empty());
    writer
        .set(&long[1..], &HeaderValue::String(&long[1..]))
        .expect("255 bytes each");
}

#[test]
fn all_pairs_together_are_limited() {
    let value = [9; FIELD_BYTES_MAX];
    let mut writer = UserHeadersWriter::new();
    let mut key = 0;
    while writer.headers().as_bytes().len() + pair_bytes(4, value.len()) <= USER_HEADERS_BYTES_MAX {
        writer
            .set(&format!("{key:04}"), &HeaderValue::Raw(&value))
            .expect("fits");
        key += 1;
    }
    let full = writer.headers().as_bytes().to_vec();
    writer
        .set("last", &HeaderValue::Raw(&value))
        .expect_err("over 100,000 bytes");
    assert_eq!(writer.headers().as_bytes(), full);
    // Replacing does not count the value that goes.
    writer
        .set("0000", &HeaderValue::Raw(&value))
        .expect("as long as before");
    let mut longer = full;
    longer.resize(USER_HEADERS_BYTES_MAX + 1, 0);
    let error = UserHeaders::decode(&longer).expect_err("over 100,000 bytes");
    assert_eq!(error, too_long(longer.len()));
}

/// The bytes of one pair whose value has this kind and these bytes.
fn pair_of(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x02\x01\0\0\0k".to_vec();
    bytes.push(kind);
    bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
    bytes.extend_from_slice(value);
    bytes
}

#[test]
fn malformed_values_are_refused_where_they_are() {
    let cases: [(u8, &[u8], WireError); 7] = [
        (0, b"v", unknown_kind(6, 0)),
        (16, b"v", unknown_kind(6, 16)),
        (1, b"", length_out_of_range(7, 0)),
        (1, &[0; 256], length_out_of_range(7, 256)),
        (12, b"1234567", length_mismatch(7, 8)),
        (3, &[2], flag(11, 2)),
        (2, b"ok\xFF", not_utf8(13, 0xFF)),
    ];
    for (kind, value, expected) in cases {
        let bytes = pair_of(kind, value);
        assert_eq!(UserHeaders::decode(&bytes), Err(expected), "kind {kind}");
    }
}

#[test]
fn malformed_keys_are_refused_where_they_are() {
    let mismatch = WireError::Mismatch {
        field: "user_headers.key.kind",
        offset: 0,
        found: 1,
        expected: 2,
    };
    assert_eq!(
        UserHeaders::decode(b"\x01\x01\0\0\0k\x09\x01\0\0\0v"),
        Err(mismatch)
    );
    let not_utf8 = WireError::InvalidUtf8 {
        field: "user_headers.key",
        offset: 5,
        found: 0x80,
    };
    assert_eq!(
        UserHeaders::decode(b"\x02\x01\0\0\0\x80\x09\x01\0\0\0v"),
        Err(not_utf8)
    );
}

#[test]
fn every_truncation_is_refused() {
    let bytes = pair_of(12, &7u64.to_le_bytes());
    for len in 1..bytes.len() {
        let error = UserHeaders::decode(&bytes[..len]).expect_err("ends inside the pair");
        assert!(
            matches!(error, WireError::Truncated { .. }),
            "{len}: {error}"
        );
    }
}

fn unknown_kind(offset: usize, found: u64) -> WireError {
    WireError::UnknownKind {
        field: "user_headers.value.kind",
        offset,
        found,
    }
}

fn length_out_of_range(offset: usize, found: u64) -> WireError {
    WireError::OutOfRange {
        field: "user_headers.value.length",
        offset,
        found,
        min: 1,
        max: 255,
    }
}

fn length_mismatch(found: u128, expected: u128) -> WireError {
    WireError::Mismatch {
        field: "user_headers.value.length",
        offset: 7,
        found,
        expected,
    }
}

fn flag(offset: usize, found: u64) -> WireError {
    WireError::OutOfRange {
        field: "user_headers.value",
        offset,
        found,
        min: 0,
        max: 1,
    }
}

fn not_utf8(offset: usize, found: u8) -> WireError {
    WireError::InvalidUtf8 {
        field: "user_headers.value",
        offset,
        found,
    }
}
