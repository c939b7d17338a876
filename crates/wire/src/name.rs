//! Names: of streams, topics, users, tokens, SDKs; and the other short texts that are encoded like
//! them.
//!
//! ```text
//! length  u8     1 to 255
//! text    UTF-8  that many bytes
//! ```

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use std::fmt;

/// Longest name. The length is one byte.
pub const NAME_BYTES_MAX: usize = 255;

/// 1 to 255 bytes of UTF-8, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name<'a>(&'a str);

impl<'a> Name<'a> {
    /// Takes a text as a name.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] when the text is empty or longer than [`NAME_BYTES_MAX`] bytes.
    pub const fn new(text: &'a str) -> Result<Self, WireError> {
        match check_length("name", 0, text.len(), 1) {
            Ok(()) => Ok(Self(text)),
            Err(error) => Err(error),
        }
    }

    /// The text.
    #[must_use]
    pub const fn as_str(&self) -> &'a str {
        self.0
    }
}

impl Encode for Name<'_> {
    const NAME: &'static str = "name";

    fn encoded_len(&self) -> usize {
        1 + self.0.len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        write_short_text(out, self.0);
    }
}

impl<'a> Decode<'a> for Name<'a> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        read_short_text(reader, field, 1).map(Self)
    }
}

impl<'a> TryFrom<&'a str> for Name<'a> {
    type Error = WireError;

    fn try_from(text: &'a str) -> Result<Self, WireError> {
        Self::new(text)
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

/// Checks the length of a short text, key or value, which stands at `offset`.
pub(crate) const fn check_length(
    field: &'static str,
    offset: usize,
    found: usize,
    min: usize,
) -> Result<(), WireError> {
    if found < min || found > NAME_BYTES_MAX {
        return Err(WireError::OutOfRange {
            field,
            offset,
            found: found as u64,
            min: min as u64,
            max: NAME_BYTES_MAX as u64,
        });
    }
    Ok(())
}

/// Reads a text with a one-byte length of at least `min`.
pub(crate) fn read_short_text<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
    min: usize,
) -> Result<&'a str, WireError> {
    let offset = reader.offset();
    let length = reader.u8(field)? as usize;
    check_length(field, offset, length, min)?;
    reader.utf8(field, length)
}

/// Puts a text whose length is known to fit one byte.
pub(crate) fn write_short_text(out: &mut Writer<'_>, text: &str) {
    out.u8(text.len() as u8);
    out.bytes(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_from_1_to_255_round_trip() {
        for length in [1, 2, 254, 255] {
            let text = "n".repeat(length);
            let name = Name::new(&text).expect("in range");
            let bytes = name.to_vec();
            assert_eq!(bytes.len(), name.encoded_len());
            assert_eq!(bytes[0] as usize, length);
            assert_eq!(Name::decode(&bytes), Ok(name));
        }
    }

    #[test]
    fn lengths_outside_are_refused() {
        let long = "n".repeat(256);
        for text in ["", long.as_str()] {
            assert_eq!(
                Name::new(text),
                Err(WireError::OutOfRange {
                    field: "name",
                    offset: 0,
                    found: text.len() as u64,
                    min: 1,
                    max: 255
                })
            );
        }
        assert!(matches!(
            Name::decode(&[0]),
            Err(WireError::OutOfRange { found: 0, .. })
        ));
    }

    #[test]
    fn error_points_at_the_first_wrong_byte() {
        assert_eq!(
            Name::decode(&[3, b'a', b'b', 0xff]),
            Err(WireError::InvalidUtf8 {
                field: "name",
                offset: 3,
                found: 0xff
            })
        );
        assert_eq!(
            Name::decode(&[3, b'a', b'b']),
            Err(WireError::Truncated {
                field: "name",
                offset: 1,
                needed: 3,
                found: 2
            })
        );
        assert_eq!(
            Name::decode(&[1, b'a', b'b']),
            Err(WireError::Trailing {
                field: "name",
                offset: 2,
                found: 1
            })
        );
    }
}
