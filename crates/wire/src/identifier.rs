//! Identifiers of streams, topics, consumers, users and groups: a number or a name.
//!
//! ```text
//! kind    u8    1 numeric, 2 string
//! length  u8    4 for a number, 1 to 255 for a name
//! value   u32, or UTF-8 of that length
//! ```

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::name::{Name, check_length};
use std::fmt;

const KIND_NUMERIC: u8 = 1;
const KIND_STRING: u8 = 2;
const NUMERIC_BYTES: usize = 4;

/// What a stream, topic, consumer, user or group is called in a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identifier<'a> {
    /// By the number that the server gave it.
    Numeric(u32),
    /// By its name.
    String(Name<'a>),
}

impl<'a> Identifier<'a> {
    /// An identifier by name.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] when the name is not 1 to 255 bytes long.
    pub const fn named(name: &'a str) -> Result<Self, WireError> {
        match Name::new(name) {
            Ok(name) => Ok(Self::String(name)),
            Err(error) => Err(error),
        }
    }
}

impl Encode for Identifier<'_> {
    const NAME: &'static str = "identifier";

    fn encoded_len(&self) -> usize {
        match self {
            Self::Numeric(_) => 2 + NUMERIC_BYTES,
            Self::String(name) => 1 + name.encoded_len(),
        }
    }

    fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::Numeric(number) => {
                out.u8(KIND_NUMERIC);
                out.u8(NUMERIC_BYTES as u8);
                out.u32(*number);
            }
            Self::String(name) => {
                out.u8(KIND_STRING);
                name.write(out);
            }
        }
    }
}

impl<'a> Decode<'a> for Identifier<'a> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let kind_offset = reader.offset();
        let kind = reader.u8(field)?;
        let length_offset = reader.offset();
        let length = reader.u8(field)? as usize;
        match kind {
            KIND_NUMERIC if length != NUMERIC_BYTES => Err(WireError::Mismatch {
                field,
                offset: length_offset,
                found: length as u128,
                expected: NUMERIC_BYTES as u128,
            }),
            KIND_NUMERIC => Ok(Self::Numeric(reader.u32(field)?)),
            KIND_STRING => {
                check_length(field, length_offset, length, 1)?;
                Self::named(reader.utf8(field, length)?)
            }
            found => Err(WireError::UnknownKind {
                field,
                offset: kind_offset,
                found: found.into(),
            }),
        }
    }
}

impl From<u32> for Identifier<'_> {
    fn from(number: u32) -> Self {
        Self::Numeric(number)
    }
}

impl<'a> From<Name<'a>> for Identifier<'a> {
    fn from(name: Name<'a>) -> Self {
        Self::String(name)
    }
}

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numeric(number) => fmt::Display::fmt(number, f),
            Self::String(name) => fmt::Display::fmt(name, f),
        }
    }
}

impl fmt::Debug for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numeric(number) => fmt::Debug::fmt(number, f),
            Self::String(name) => fmt::Debug::fmt(name, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_documented() {
        assert_eq!(
            Identifier::Numeric(0x0403_0201).to_vec(),
            [1, 4, 1, 2, 3, 4]
        );
        let named = Identifier::named("ab").expect("in range");
        assert_eq!(named.to_vec(), [2, 2, b'a', b'b']);
        for identifier in [Identifier::Numeric(u32::MAX), named] {
            assert_eq!(Identifier::decode(&identifier.to_vec()), Ok(identifier));
        }
    }

    #[test]
    fn malformed_identifiers_name_the_field() {
        let mismatch = WireError::Mismatch {
            field: "identifier",
            offset: 1,
            found: 3,
            expected: 4,
        };
        let empty = WireError::OutOfRange {
            field: "identifier",
            offset: 1,
            found: 0,
            min: 1,
            max: 255,
        };
        let kind = WireError::UnknownKind {
            field: "identifier",
            offset: 0,
            found: 3,
        };
        let utf8 = WireError::InvalidUtf8 {
            field: "identifier",
            offset: 2,
            found: 0xc0,
        };
        let value = WireError::Truncated {
            field: "identifier",
            offset: 2,
            needed: 4,
            found: 3,
        };
        for (bytes, error) in [
            (&[1, 3, 0, 0, 0][..], mismatch),
            (&[2, 0], empty),
            (&[3, 4, 0, 0, 0, 0], kind),
            (&[2, 1, 0xc0], utf8),
            (&[1, 4, 0, 0, 0], value),
        ] {
            assert_eq!(Identifier::decode(bytes), Err(error), "{bytes:?}");
        }
    }
}
