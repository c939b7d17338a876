//! Texts that are no names: long ones, and secrets.
//!
//! ```text
//! text:    length  u32   0 to 67108608        secret:  length  u8     0 to 255
//!          bytes   UTF-8                               bytes   UTF-8
//! ```

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use crate::header::BODY_BYTES_MAX;
use crate::name::{check_length, read_short_text, write_short_text};
use std::fmt;

/// UTF-8 of any length that a body can hold, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// The text without a character.
    pub const EMPTY: Self = Self("");

    /// Takes a text.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] when it is longer than [`BODY_BYTES_MAX`] bytes.
    pub const fn new(text: &'a str) -> Result<Self, WireError> {
        if text.len() > BODY_BYTES_MAX {
            return Err(WireError::OutOfRange {
                field: "text",
                offset: 0,
                found: text.len() as u64,
                min: 0,
                max: BODY_BYTES_MAX as u64,
            });
        }
        Ok(Self(text))
    }

    /// The text.
    #[must_use]
    pub const fn as_str(&self) -> &'a str {
        self.0
    }
}

impl Encode for Text<'_> {
    const NAME: &'static str = "text";

    fn encoded_len(&self) -> usize {
        4 + self.0.len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.0.len() as u32);
        out.bytes(self.0.as_bytes());
    }
}

impl<'a> Decode<'a> for Text<'a> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let length = reader.u32(field)? as usize;
        reader.utf8(field, length).map(Self)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

/// A password or a token: up to 255 bytes of UTF-8 that never show in debug output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret<'a>(&'a str);

impl<'a> Secret<'a> {
    /// Takes a text as a secret.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] when it is longer than 255 bytes.
    pub const fn new(text: &'a str) -> Result<Self, WireError> {
        match check_length("secret", 0, text.len(), 0) {
            Ok(()) => Ok(Self(text)),
            Err(error) => Err(error),
        }
    }

    /// The text, to be compared or sent, not to be shown.
    #[must_use]
    pub const fn expose(&self) -> &'a str {
        self.0
    }
}

impl Encode for Secret<'_> {
    const NAME: &'static str = "secret";

    fn encoded_len(&self) -> usize {
        1 + self.0.len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        write_short_text(out, self.0);
    }
}

impl<'a> Decode<'a> for Secret<'a> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        read_short_text(reader, field, 0).map(Self)
    }
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_secrets_round_trip() {
        for length in [0, 1, 255] {
            let string = "t".repeat(length);
            let secret = Secret::new(&string).expect("in range");
            assert_eq!(Secret::decode(&secret.to_vec()), Ok(secret));
            let text = Text::new(&string).expect("in range");
            assert_eq!(Text::decode(&text.to_vec()), Ok(text));
        }
        assert!(Secret::new(&"t".repeat(256)).is_err());
    }

    #[test]
    fn secrets_do_not_show() {
        let secret = Secret::new("hunter2").expect("in range");
        assert!(!format!("{secret:?}").contains("hunter2"));
    }

    #[test]
    fn announced_length_is_bounded_by_the_bytes_at_hand() {
        assert_eq!(
            Text::decode(&[0xff, 0xff, 0xff, 0xff, b'a']),
            Err(WireError::Truncated {
                field: "text",
                offset: 4,
                needed: u32::MAX as usize,
                found: 1
            })
        );
    }
}
