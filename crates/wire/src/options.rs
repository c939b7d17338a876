//! Options of streams, topics and users: settings by key, in the encoding of user headers, but
//! stricter.
//!
//! ```text
//! pairs of key and value, each field: kind u8, length u32, bytes
//! ```
//!
//! Every key is a string and occurs once; at most [`OPTIONS_COUNT_MAX`] pairs and 100,000 bytes. In
//! a request the block runs to the end of the body, in a reply its length stands before it.

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::user_headers::{HeaderValue, UserHeaders, UserHeadersIter};

/// Most pairs of one block.
pub const OPTIONS_COUNT_MAX: usize = 1024;

/// Bytes of the kinds and lengths of one pair.
const PAIR_OVERHEAD_BYTES: usize = 2 * (1 + 4);

/// A checked block of options, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options<'a>(UserHeaders<'a>);

impl<'a> Options<'a> {
    /// No options.
    pub const EMPTY: Self = Self(UserHeaders::EMPTY);

    /// Takes pairs that were built or read as user headers.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] for more than [`OPTIONS_COUNT_MAX`] pairs,
    /// [`WireError::Duplicate`] when a key occurs twice.
    pub fn new(headers: UserHeaders<'a>) -> Result<Self, WireError> {
        let count = headers.iter().count();
        if count > OPTIONS_COUNT_MAX {
            return Err(WireError::OutOfRange {
                field: "options count",
                offset: 0,
                found: count as u64,
                min: 0,
                max: OPTIONS_COUNT_MAX as u64,
            });
        }
        let mut keys = Vec::with_capacity(count);
        let mut offset = 0;
        for (key, value) in &headers {
            keys.push((key, offset));
            offset += PAIR_OVERHEAD_BYTES + key.len() + value_bytes(&value);
        }
        keys.sort_unstable();
        match keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(Self(headers)),
            Some(pair) => Err(WireError::Duplicate {
                field: "options",
                offset: pair[1].1,
                found: pair[0].1,
            }),
        }
    }

    /// Whether there is no pair.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs in wire order.
    #[must_use]
    pub const fn iter(&self) -> UserHeadersIter<'a> {
        self.0.iter()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<HeaderValue<'a>> {
        self.0.get(key)
    }
}

impl<'a> IntoIterator for &Options<'a> {
    type Item = (&'a str, HeaderValue<'a>);
    type IntoIter = UserHeadersIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Takes all bytes that are left.
impl Encode for Options<'_> {
    const NAME: &'static str = "options";

    fn encoded_len(&self) -> usize {
        self.0.as_bytes().len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(self.0.as_bytes());
    }
}

impl<'a> Decode<'a> for Options<'a> {
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        let start = reader.offset();
        UserHeaders::decode(reader.rest())
            .and_then(Self::new)
            .map_err(|error| error.shifted(start))
    }
}

/// Bytes of a value, kind and length not counted.
fn value_bytes(value: &HeaderValue<'_>) -> usize {
    match value {
        HeaderValue::Raw(bytes) => bytes.len(),
        HeaderValue::String(text) => text.len(),
        fixed => fixed.kind().fixed_bytes().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user_headers::UserHeadersWriter;

    fn writer(pairs: usize) -> UserHeadersWriter {
        let mut writer = UserHeadersWriter::new();
        for index in 0..pairs {
            let value = HeaderValue::Uint64(index as u64);
            writer.set(&format!("key-{index}"), &value).expect("fits");
        }
        writer
    }

    #[test]
    fn built_options_read_back() {
        let writer = writer(3);
        let options = Options::new(writer.headers()).expect("keys differ");
        let bytes = options.to_vec();
        assert_eq!(Options::decode(&bytes), Ok(options));
        assert_eq!(options.get("key-2"), Some(HeaderValue::Uint64(2)));
        assert_eq!(options.get("key-3"), None);
        assert_eq!(Options::decode(&[]), Ok(Options::EMPTY));
    }

    #[test]
    fn a_repeated_key_is_found_wherever_it_is() {
        let writer = writer(3);
        let mut bytes = writer.headers().as_bytes().to_vec();
        let pair_bytes = bytes.len() / 3;
        let second = bytes[pair_bytes..2 * pair_bytes].to_vec();
        bytes.extend_from_slice(&second);
        assert_eq!(
            Options::decode(&bytes),
            Err(WireError::Duplicate {
                field: "options",
                offset: 3 * pair_bytes,
                found: pair_bytes
            })
        );
    }

    #[test]
    fn more_than_1024_pairs_are_refused() {
        assert!(Options::new(writer(OPTIONS_COUNT_MAX).headers()).is_ok());
        assert!(matches!(
            Options::new(writer(OPTIONS_COUNT_MAX + 1).headers()),
            Err(WireError::OutOfRange { found: 1025, .. })
        ));
    }
}
