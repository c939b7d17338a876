//! The result section in front of the payload of metadata and consumer-offset replies.
//!
//! ```text
//! count  u32                      0: success, the payload follows
//! count times:
//!   index   u32                   0
//!   result  u32                   error code, never 0
//! ```
//!
//! Servers write one entry or none. A section with entries is followed by nothing. Anything else is
//! malformed and never taken for a success.

use crate::WireError;
use crate::code::ErrorCode;
use crate::codec::{Reader, Writer};

/// Bytes of the section of a success.
pub const SUCCESS_BYTES: usize = 4;

/// Bytes of the section of a rejection, and of the whole body that holds it.
pub const REJECTION_BYTES: usize = 12;

/// What a result section says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultSection<'a> {
    /// Success; what follows the section.
    Success(&'a [u8]),
    /// A rejection. Whether it was committed or came before the commit, the code alone tells.
    Rejected(ErrorCode),
}

impl<'a> ResultSection<'a> {
    /// Decodes a body that starts with a result section.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] when the body ends inside the section, [`WireError::OutOfRange`]
    /// when the count is above 1, an index is not 0 or a result is 0, [`WireError::Trailing`] when
    /// bytes follow a rejection.
    pub fn decode(body: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        match reader.u32("result count")? {
            0 => Ok(Self::Success(reader.rest())),
            1 => {
                let index_offset = reader.offset();
                let index = reader.u32("result index")?;
                let result_offset = reader.offset();
                let result = reader.u32("result")?;
                if index != 0 {
                    return Err(WireError::OutOfRange {
                        field: "result index",
                        offset: index_offset,
                        found: index.into(),
                        min: 0,
                        max: 0,
                    });
                }
                let code = ErrorCode::new(result).ok_or(WireError::OutOfRange {
                    field: "result",
                    offset: result_offset,
                    found: 0,
                    min: 1,
                    max: u32::MAX.into(),
                })?;
                reader.finish("rejected result")?;
                Ok(Self::Rejected(code))
            }
            count => Err(WireError::OutOfRange {
                field: "result count",
                offset: 0,
                found: count.into(),
                min: 0,
                max: 1,
            }),
        }
    }
}

/// The section of a success; the payload goes behind it.
pub const SUCCESS: [u8; SUCCESS_BYTES] = [0; SUCCESS_BYTES];

/// The body of a rejection.
#[must_use]
pub fn rejection(code: ErrorCode) -> [u8; REJECTION_BYTES] {
    let mut body = [0; REJECTION_BYTES];
    let mut writer = Writer::new(&mut body);
    writer.u32(1);
    writer.u32(0);
    writer.u32(code.get());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: ErrorCode = ErrorCode::STREAM_ID_NOT_FOUND;

    #[test]
    fn success_gives_what_follows() {
        let mut body = SUCCESS.to_vec();
        assert_eq!(
            ResultSection::decode(&body),
            Ok(ResultSection::Success(b""))
        );
        body.extend_from_slice(b"payload");
        assert_eq!(
            ResultSection::decode(&body),
            Ok(ResultSection::Success(b"payload"))
        );
    }

    #[test]
    fn rejection_gives_the_code() {
        assert_eq!(
            ResultSection::decode(&rejection(CODE)),
            Ok(ResultSection::Rejected(CODE))
        );
    }

    #[test]
    fn every_cut_of_a_rejection_is_an_error() {
        let body = rejection(CODE);
        for cut in 0..body.len() {
            assert!(
                matches!(
                    ResultSection::decode(&body[..cut]),
                    Err(WireError::Truncated { .. })
                ),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn malformed_sections_never_read_as_success() {
        let mut two = rejection(CODE).to_vec();
        two[0] = 2;
        two.extend_from_slice(&[0; 8]);
        let mut index = rejection(CODE).to_vec();
        index[4] = 1;
        let mut zero = rejection(CODE).to_vec();
        zero[8..].fill(0);
        let mut trailing = rejection(CODE).to_vec();
        trailing.push(0);
        let out_of_range = |field, offset, found, min, max| WireError::OutOfRange {
            field,
            offset,
            found,
            min,
            max,
        };
        for (body, error) in [
            (two, out_of_range("result count", 0, 2, 0, 1)),
            (index, out_of_range("result index", 4, 1, 0, 0)),
            (zero, out_of_range("result", 8, 0, 1, u32::MAX.into())),
            (
                trailing,
                WireError::Trailing {
                    field: "rejected result",
                    offset: 12,
                    found: 1,
                },
            ),
        ] {
            assert_eq!(ResultSection::decode(&body), Err(error));
        }
    }
}
