//! User headers: the typed key-value pairs that follow a message's payload.
//!
//! ```text
//! user headers = pair*            pair = key field, value field
//! field        = kind u8, length u32 little-endian (1..=255), that many bytes
//! ```
//!
//! A key is a string (kind 2). A value is one of the fifteen kinds of [`HeaderKind`]; kinds of a
//! fixed size have exactly that length, a bool is 0 or 1 and a string is UTF-8. [`UserHeaders`]
//! holds bytes for which all of this has been checked once, so that a batch can take them without
//! looking again.
//!
//! Repeated keys are legal on the wire (each reader keeps the last); [`UserHeadersWriter`] never
//! produces them.

use core::ops::Range;

use crate::codec::{Decode, Encode, Reader, Writer};
use crate::error::WireError;
use crate::name::{NAME_BYTES_MAX, check_length};

/// Bytes of user headers that one message may carry, limited by the server.
pub const USER_HEADERS_BYTES_MAX: usize = 100_000;

/// Bytes of one key or one value.
pub const FIELD_BYTES_MAX: usize = NAME_BYTES_MAX;

/// `kind` and `length` in front of a field's bytes.
const FIELD_PREFIX_BYTES: usize = 1 + size_of::<u32>();

/// The type tag of a key or value, with the protocol's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HeaderKind {
    /// Bytes without a meaning to the protocol.
    Raw = 1,
    /// UTF-8 text. The only kind of a key.
    String = 2,
    /// One byte, 0 or 1.
    Bool = 3,
    /// Signed, 1 byte.
    Int8 = 4,
    /// Signed, 2 bytes.
    Int16 = 5,
    /// Signed, 4 bytes.
    Int32 = 6,
    /// Signed, 8 bytes.
    Int64 = 7,
    /// Signed, 16 bytes.
    Int128 = 8,
    /// Unsigned, 1 byte.
    Uint8 = 9,
    /// Unsigned, 2 bytes.
    Uint16 = 10,
    /// Unsigned, 4 bytes.
    Uint32 = 11,
    /// Unsigned, 8 bytes.
    Uint64 = 12,
    /// Unsigned, 16 bytes.
    Uint128 = 13,
    /// IEEE 754, 4 bytes.
    Float32 = 14,
    /// IEEE 754, 8 bytes.
    Float64 = 15,
}

impl HeaderKind {
    /// The kind with this number, or `None` outside 1..=15.
    #[must_use]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Raw,
            2 => Self::String,
            3 => Self::Bool,
            4 => Self::Int8,
            5 => Self::Int16,
            6 => Self::Int32,
            7 => Self::Int64,
            8 => Self::Int128,
            9 => Self::Uint8,
            10 => Self::Uint16,
            11 => Self::Uint32,
            12 => Self::Uint64,
            13 => Self::Uint128,
            14 => Self::Float32,
            15 => Self::Float64,
            _ => return None,
        })
    }

    /// The number on the wire.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// The length of a value of this kind, or `None` when it is free (1..=255).
    #[must_use]
    pub const fn fixed_bytes(self) -> Option<usize> {
        match self {
            Self::Raw | Self::String => None,
            Self::Bool | Self::Int8 | Self::Uint8 => Some(1),
            Self::Int16 | Self::Uint16 => Some(2),
            Self::Int32 | Self::Uint32 | Self::Float32 => Some(4),
            Self::Int64 | Self::Uint64 | Self::Float64 => Some(8),
            Self::Int128 | Self::Uint128 => Some(16),
        }
    }
}

/// A value of user headers, borrowed from the bytes that hold it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HeaderValue<'a> {
    /// 1..=255 bytes.
    Raw(&'a [u8]),
    /// 1..=255 bytes of UTF-8.
    String(&'a str),
    /// A truth value.
    Bool(bool),
    /// Signed, 1 byte.
    Int8(i8),
    /// Signed, 2 bytes.
    Int16(i16),
    /// Signed, 4 bytes.
    Int32(i32),
    /// Signed, 8 bytes.
    Int64(i64),
    /// Signed, 16 bytes.
    Int128(i128),
    /// Unsigned, 1 byte.
    Uint8(u8),
    /// Unsigned, 2 bytes.
    Uint16(u16),
    /// Unsigned, 4 bytes.
    Uint32(u32),
    /// Unsigned, 8 bytes.
    Uint64(u64),
    /// Unsigned, 16 bytes.
    Uint128(u128),
    /// IEEE 754, 4 bytes.
    Float32(f32),
    /// IEEE 754, 8 bytes.
    Float64(f64),
}

impl<'a> HeaderValue<'a> {
    /// The kind of this value.
    #[must_use]
    pub const fn kind(&self) -> HeaderKind {
        match self {
            Self::Raw(_) => HeaderKind::Raw,
            Self::String(_) => HeaderKind::String,
            Self::Bool(_) => HeaderKind::Bool,
            Self::Int8(_) => HeaderKind::Int8,
            Self::Int16(_) => HeaderKind::Int16,
            Self::Int32(_) => HeaderKind::Int32,
            Self::Int64(_) => HeaderKind::Int64,
            Self::Int128(_) => HeaderKind::Int128,
            Self::Uint8(_) => HeaderKind::Uint8,
            Self::Uint16(_) => HeaderKind::Uint16,
            Self::Uint32(_) => HeaderKind::Uint32,
            Self::Uint64(_) => HeaderKind::Uint64,
            Self::Uint128(_) => HeaderKind::Uint128,
            Self::Float32(_) => HeaderKind::Float32,
            Self::Float64(_) => HeaderKind::Float64,
        }
    }

    /// Calls `with` on the bytes of the value as they stand on the wire.
    fn with_bytes<R>(&self, with: impl FnOnce(&[u8]) -> R) -> R {
        match *self {
            Self::Raw(bytes) => with(bytes),
            Self::String(text) => with(text.as_bytes()),
            Self::Bool(truth) => with(&[u8::from(truth)]),
            Self::Int8(number) => with(&number.to_le_bytes()),
            Self::Int16(number) => with(&number.to_le_bytes()),
            Self::Int32(number) => with(&number.to_le_bytes()),
            Self::Int64(number) => with(&number.to_le_bytes()),
            Self::Int128(number) => with(&number.to_le_bytes()),
            Self::Uint8(number) => with(&number.to_le_bytes()),
            Self::Uint16(number) => with(&number.to_le_bytes()),
            Self::Uint32(number) => with(&number.to_le_bytes()),
            Self::Uint64(number) => with(&number.to_le_bytes()),
            Self::Uint128(number) => with(&number.to_le_bytes()),
            Self::Float32(number) => with(&number.to_le_bytes()),
            Self::Float64(number) => with(&number.to_le_bytes()),
        }
    }

    /// Reads a value of `kind` whose length, already read, is `length`.
    fn read(reader: &mut Reader<'a>, kind: HeaderKind, length: usize) -> Result<Self, WireError> {
        const FIELD: &str = VALUE.bytes;
        if let Some(expected) = kind.fixed_bytes()
            && length != expected
        {
            return Err(WireError::Mismatch {
                field: VALUE.length,
                offset: reader.offset() - size_of::<u32>(),
                found: length as u128,
                expected: expected as u128,
            });
        }
        Ok(match kind {
            HeaderKind::Raw => Self::Raw(reader.bytes(FIELD, length)?),
            HeaderKind::String => Self::String(reader.utf8(FIELD, length)?),
            HeaderKind::Bool => Self::Bool(reader.flag(FIELD)?),
            HeaderKind::Int8 => Self::Int8(i8::from_le_bytes(reader.array(FIELD)?)),
            HeaderKind::Int16 => Self::Int16(i16::from_le_bytes(reader.array(FIELD)?)),
            HeaderKind::Int32 => Self::Int32(i32::from_le_bytes(reader.array(FIELD)?)),
            HeaderKind::Int64 => Self::Int64(i64::from_le_bytes(reader.array(FIELD)?)),
            HeaderKind::Int128 => Self::Int128(i128::from_le_bytes(reader.array(FIELD)?)),
            HeaderKind::Uint8 => Self::Uint8(reader.u8(FIELD)?),
            HeaderKind::Uint16 => Self::Uint16(reader.u16(FIELD)?),
            HeaderKind::Uint32 => Self::Uint32(reader.u32(FIELD)?),
            HeaderKind::Uint64 => Self::Uint64(reader.u64(FIELD)?),
            HeaderKind::Uint128 => Self::Uint128(reader.u128(FIELD)?),
            HeaderKind::Float32 => Self::Float32(f32::from_le_bytes(reader.array(FIELD)?)),
            HeaderKind::Float64 => Self::Float64(f64::from_le_bytes(reader.array(FIELD)?)),
        })
    }
}

/// What errors call the parts of one field.
struct FieldNames {
    kind: &'static str,
    length: &'static str,
    bytes: &'static str,
}

const KEY: FieldNames = FieldNames {
    kind: "user_headers.key.kind",
    length: "user_headers.key.length",
    bytes: "user_headers.key",
};

const VALUE: FieldNames = FieldNames {
    kind: "user_headers.value.kind",
    length: "user_headers.value.length",
    bytes: "user_headers.value",
};

/// Reads the kind and the length in front of a field's bytes.
fn prefix(reader: &mut Reader<'_>, names: &FieldNames) -> Result<(HeaderKind, usize), WireError> {
    let offset = reader.offset();
    let code = reader.u8(names.kind)?;
    let kind = HeaderKind::from_u8(code).ok_or(WireError::UnknownKind {
        field: names.kind,
        offset,
        found: u64::from(code),
    })?;
    let length = reader.u32(names.length)? as usize;
    check_length(names.length, offset + 1, length, 1)?;
    Ok((kind, length))
}

/// Reads one pair.
fn pair<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, HeaderValue<'a>), WireError> {
    let offset = reader.offset();
    let (kind, length) = prefix(reader, &KEY)?;
    if kind != HeaderKind::String {
        return Err(WireError::Mismatch {
            field: KEY.kind,
            offset,
            found: u128::from(kind.as_u8()),
            expected: u128::from(HeaderKind::String.as_u8()),
        });
    }
    let key = reader.utf8(KEY.bytes, length)?;
    let (kind, length) = prefix(reader, &VALUE)?;
    Ok((key, HeaderValue::read(reader, kind, length)?))
}

/// The user headers of one message: bytes that have been checked, at most 100,000 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UserHeaders<'a> {
    bytes: &'a [u8],
}

impl<'a> UserHeaders<'a> {
    /// No headers: zero bytes on the wire.
    pub const EMPTY: Self = Self { bytes: &[] };

    /// Checks `bytes` from the first to the last.
    ///
    /// # Errors
    ///
    /// The peer's or caller's bytes are not user headers: more than 100,000 bytes, a kind outside
    /// 1..=15, a key that is not a string, a length outside 1..=255 or not that of the kind, a bool
    /// that is neither 0 nor 1, text that is not UTF-8, or an end inside a pair.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > USER_HEADERS_BYTES_MAX {
            return Err(too_long(bytes.len()));
        }
        let mut reader = Reader::new(bytes);
        while reader.left() > 0 {
            pair(&mut reader)?;
        }
        Ok(Self { bytes })
    }

    /// The bytes as they stand after the payload.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there is no pair.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The pairs in wire order.
    #[must_use]
    pub const fn iter(&self) -> UserHeadersIter<'a> {
        UserHeadersIter {
            reader: Reader::new(self.bytes),
        }
    }

    /// The value of `key`; the last one if the sender repeated the key. O(bytes).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<HeaderValue<'a>> {
        let values = self.iter().filter(|(found, _)| *found == key);
        values.map(|(_, value)| value).last()
    }
}

impl<'a> IntoIterator for &UserHeaders<'a> {
    type Item = (&'a str, HeaderValue<'a>);
    type IntoIter = UserHeadersIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The pairs of [`UserHeaders`] in wire order.
#[derive(Debug, Clone)]
pub struct UserHeadersIter<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for UserHeadersIter<'a> {
    type Item = (&'a str, HeaderValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.left() == 0 {
            return None;
        }
        // Checked when the headers were made, so this never refuses.
        pair(&mut self.reader).ok()
    }
}

impl Encode for UserHeaders<'_> {
    const NAME: &'static str = "user_headers";

    fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(self.bytes);
    }
}

impl<'a> Decode<'a> for UserHeaders<'a> {
    /// Takes all bytes that are left: user headers have no length of their own.
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        let offset = reader.offset();
        Self::decode(reader.rest()).map_err(|error| error.shifted(offset))
    }
}

/// Builds user headers, each key once, in memory that is kept from one message to the next.
#[derive(Debug, Clone, Default)]
pub struct UserHeadersWriter {
    bytes: Vec<u8>,
}

impl UserHeadersWriter {
    /// No pairs and no memory yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Sets `key` to `value`. A value that the key had before goes; the new pair is the last.
    ///
    /// # Errors
    ///
    /// The caller's key, text or raw bytes are empty or longer than 255 bytes, or all pairs
    /// together would exceed 100,000 bytes. Nothing is changed then.
    pub fn set(&mut self, key: &str, value: &HeaderValue<'_>) -> Result<(), WireError> {
        value.with_bytes(|value_bytes| {
            check_length(KEY.length, 0, key.len(), 1)?;
            check_length(VALUE.length, 0, value_bytes.len(), 1)?;
            let before = self.find(key);
            let kept = self.bytes.len() - before.clone().map_or(0, |range| range.len());
            let total = kept + pair_bytes(key.len(), value_bytes.len());
            if total > USER_HEADERS_BYTES_MAX {
                return Err(too_long(total));
            }
            if let Some(range) = before {
                self.bytes.drain(range);
            }
            self.push(HeaderKind::String, key.as_bytes());
            self.push(value.kind(), value_bytes);
            Ok(())
        })
    }

    /// Removes `key`; says whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let range = self.find(key);
        let found = range.is_some();
        if let Some(range) = range {
            self.bytes.drain(range);
        }
        found
    }

    /// Removes all pairs and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The pairs so far.
    #[must_use]
    pub fn headers(&self) -> UserHeaders<'_> {
        UserHeaders { bytes: &self.bytes }
    }

    fn push(&mut self, kind: HeaderKind, bytes: &[u8]) {
        self.bytes.push(kind.as_u8());
        // At most 255, checked by the caller.
        self.bytes
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Where the pair of `key` lies.
    fn find(&self, key: &str) -> Option<Range<usize>> {
        let mut pairs = self.headers().iter();
        loop {
            let start = pairs.reader.offset();
            let (found, _) = pairs.next()?;
            if found == key {
                return Some(start..pairs.reader.offset());
            }
        }
    }
}

/// Bytes of a pair with a key and a value of these lengths.
const fn pair_bytes(key: usize, value: usize) -> usize {
    2 * FIELD_PREFIX_BYTES + key + value
}

const fn too_long(found: usize) -> WireError {
    WireError::OutOfRange {
        field: "user_headers",
        offset: 0,
        found: found as u64,
        min: 0,
        max: USER_HEADERS_BYTES_MAX as u64,
    }
}

#[cfg(test)]
mod tests;
