//! The shapes that payloads are put together from: plain numbers, lists, blocks with a length,
//! nothing at all, and the macro that makes a struct of named fields into a payload.
//!
//! Lists grow as their items are read, never by the count that is announced, and every item takes
//! at least one byte, so their memory and the time to read them are bounded by the bytes that are
//! there.

use crate::WireError;
use crate::codec::{Decode, Encode, Reader, Writer};
use std::num::NonZeroU64;

/// Declares a payload whose wire form is its fields, one behind the other, in the order they are
/// declared. Length, encoder and decoder come from the one list, so they cannot disagree.
macro_rules! payload {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::codec::Encode for $name {
            payload!(@encode $name { $($field)* });
        }

        impl<'a> $crate::codec::Decode<'a> for $name {
            payload!(@decode $name { $($field)* });
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident<'a> {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name<'a> { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::codec::Encode for $name<'_> {
            payload!(@encode $name { $($field)* });
        }

        impl<'a> $crate::codec::Decode<'a> for $name<'a> {
            payload!(@decode $name { $($field)* });
        }
    };
    (@encode $name:ident { $($field:ident)* }) => {
        const NAME: &'static str = stringify!($name);

        fn encoded_len(&self) -> usize {
            0 $(+ $crate::codec::Encode::encoded_len(&self.$field))*
        }

        fn write(&self, out: &mut $crate::codec::Writer<'_>) {
            $($crate::codec::Encode::write(&self.$field, out);)*
        }
    };
    (@decode $name:ident { $($field:ident)* }) => {
        fn read_as(
            reader: &mut $crate::codec::Reader<'a>,
            _field: &'static str,
        ) -> Result<Self, $crate::WireError> {
            Ok(Self {
                $($field: $crate::codec::Decode::read_as(reader, stringify!($field))?,)*
            })
        }
    };
}

/// Declares a request that has no body.
macro_rules! empty_command {
    ($(#[$meta:meta])* pub struct $name:ident = $code:ident -> $reply:ty;) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name;

        impl $crate::codec::Encode for $name {
            const NAME: &'static str = stringify!($name);

            fn encoded_len(&self) -> usize {
                0
            }

            fn write(&self, _out: &mut $crate::codec::Writer<'_>) {}
        }

        impl<'a> $crate::codec::Decode<'a> for $name {
            fn read_as(
                _reader: &mut $crate::codec::Reader<'a>,
                _field: &'static str,
            ) -> Result<Self, $crate::WireError> {
                Ok(Self)
            }
        }

        $crate::payload::shape::command!($name, $code, $reply);
    };
}

/// Declares an enumeration that is one byte on the wire.
macro_rules! kind {
    (
        $(#[$meta:meta])*
        pub enum $name:ident as $label:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $crate::codec::Encode for $name {
            const NAME: &'static str = $label;

            fn encoded_len(&self) -> usize {
                1
            }

            fn write(&self, out: &mut $crate::codec::Writer<'_>) {
                out.u8(match self {
                    $(Self::$variant => $value,)+
                });
            }
        }

        impl<'a> $crate::codec::Decode<'a> for $name {
            fn read_as(
                reader: &mut $crate::codec::Reader<'a>,
                field: &'static str,
            ) -> Result<Self, $crate::WireError> {
                let offset = reader.offset();
                match reader.u8(field)? {
                    $($value => Ok(Self::$variant),)+
                    found => Err($crate::WireError::UnknownKind {
                        field,
                        offset,
                        found: found.into(),
                    }),
                }
            }
        }
    };
}

/// Ties a request to its code and its reply.
macro_rules! command {
    ($request:ty, $code:ident, $reply:ty) => {
        impl $crate::payload::Command for $request {
            const CODE: $crate::CommandCode = $crate::CommandCode::$code;
            type Reply<'r> = $reply;
        }
    };
}

pub(crate) use {command, empty_command, kind, payload};

/// Numbers encode as themselves.
macro_rules! number {
    ($type:ident) => {
        impl Encode for $type {
            const NAME: &'static str = stringify!($type);

            fn encoded_len(&self) -> usize {
                size_of::<$type>()
            }

            fn write(&self, out: &mut Writer<'_>) {
                out.bytes(&self.to_le_bytes());
            }
        }

        impl<'a> Decode<'a> for $type {
            fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
                reader.array(field).map(Self::from_le_bytes)
            }
        }
    };
}

number!(u8);
number!(u16);
number!(u32);
number!(u64);
number!(f32);

impl Encode for bool {
    const NAME: &'static str = "bool";

    fn encoded_len(&self) -> usize {
        1
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8((*self).into());
    }
}

impl<'a> Decode<'a> for bool {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        reader.flag(field)
    }
}

impl Encode for NonZeroU64 {
    const NAME: &'static str = "u64";

    fn encoded_len(&self) -> usize {
        8
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.get());
    }
}

impl<'a> Decode<'a> for NonZeroU64 {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let offset = reader.offset();
        Self::new(reader.u64(field)?).ok_or(WireError::OutOfRange {
            field,
            offset,
            found: 0,
            min: 1,
            max: u64::MAX,
        })
    }
}

/// No bytes: the body of pings and of many replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Empty;

impl Encode for Empty {
    const NAME: &'static str = "empty body";

    fn encoded_len(&self) -> usize {
        0
    }

    fn write(&self, _out: &mut Writer<'_>) {}
}

impl<'a> Decode<'a> for Empty {
    fn read_as(_reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        Ok(Self)
    }
}

/// Bytes to the end of the body, as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Raw<'a>(pub &'a [u8]);

impl Encode for Raw<'_> {
    const NAME: &'static str = "raw body";

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(self.0);
    }
}

impl<'a> Decode<'a> for Raw<'a> {
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        Ok(Self(reader.rest()))
    }
}

/// A value that is absent when the body ends before it: the reply about something that does not
/// exist.
impl<T: Encode> Encode for Option<T> {
    const NAME: &'static str = T::NAME;

    fn encoded_len(&self) -> usize {
        self.as_ref().map_or(0, T::encoded_len)
    }

    fn write(&self, out: &mut Writer<'_>) {
        if let Some(value) = self {
            value.write(out);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        if reader.left() == 0 {
            return Ok(None);
        }
        T::read_as(reader, field).map(Some)
    }
}

/// A `u32` count and that many items. An item without a byte is refused when it is read.
///
/// Encoding more than `u32::MAX` items is a defect of the caller; no body can hold them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted<T>(pub Vec<T>);

impl<T: Encode> Encode for Counted<T> {
    const NAME: &'static str = T::NAME;

    fn encoded_len(&self) -> usize {
        4 + encoded_len_of(&self.0)
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(count_of(&self.0));
        write_items(&self.0, out);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Counted<T> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let count = reader.u32(field)?;
        read_items(reader, count).map(Self)
    }
}

/// Items to the end of the body. An item without a byte is refused when it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToEnd<T>(pub Vec<T>);

impl<T: Encode> Encode for ToEnd<T> {
    const NAME: &'static str = T::NAME;

    fn encoded_len(&self) -> usize {
        encoded_len_of(&self.0)
    }

    fn write(&self, out: &mut Writer<'_>) {
        write_items(&self.0, out);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for ToEnd<T> {
    fn read_as(reader: &mut Reader<'a>, _field: &'static str) -> Result<Self, WireError> {
        let mut items = Vec::new();
        while reader.left() > 0 {
            items.push(read_item(reader)?);
        }
        Ok(Self(items))
    }
}

/// A `u32` length and a value that takes up exactly that many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LengthPrefixed<T>(pub T);

impl<T: Encode> Encode for LengthPrefixed<T> {
    const NAME: &'static str = T::NAME;

    fn encoded_len(&self) -> usize {
        4 + self.0.encoded_len()
    }

    fn write(&self, out: &mut Writer<'_>) {
        let length = self.0.encoded_len();
        assert!(length <= u32::MAX as usize, "a body holds no 2^32 bytes");
        out.u32(length as u32);
        self.0.write(out);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for LengthPrefixed<T> {
    fn read_as(reader: &mut Reader<'a>, field: &'static str) -> Result<Self, WireError> {
        let length = reader.u32(field)? as usize;
        let start = reader.offset();
        let bytes = reader.bytes(field, length)?;
        let mut inner = Reader::new(bytes);
        let value = T::read_as(&mut inner, field);
        let value = value.and_then(|value| inner.finish(field).map(|()| value));
        value.map(Self).map_err(|error| error.shifted(start))
    }
}

/// Bytes that items encode to, one behind the other.
pub(crate) fn encoded_len_of<T: Encode>(items: &[T]) -> usize {
    items.iter().map(T::encoded_len).sum()
}

/// Puts items, one behind the other.
pub(crate) fn write_items<T: Encode>(items: &[T], out: &mut Writer<'_>) {
    for item in items {
        item.write(out);
    }
}

/// How many items there are, as it stands on the wire.
pub(crate) fn count_of<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("a body holds no 2^32 items")
}

/// Reads one item of a list. One that takes no bytes could be read for ever, or as often as a peer
/// likes.
fn read_item<'a, T: Decode<'a>>(reader: &mut Reader<'a>) -> Result<T, WireError> {
    let offset = reader.offset();
    let item = T::read(reader)?;
    if reader.offset() == offset {
        return Err(WireError::Truncated {
            field: T::NAME,
            offset,
            needed: 1,
            found: 0,
        });
    }
    Ok(item)
}

/// Reads so many items. Each takes at least one byte, so a count beyond the bytes ends in an error
/// soon.
pub(crate) fn read_items<'a, T: Decode<'a>>(
    reader: &mut Reader<'a>,
    count: u32,
) -> Result<Vec<T>, WireError> {
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read_item(reader)?);
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_present_values() {
        assert_eq!(Option::<u32>::decode(&[]), Ok(None));
        assert_eq!(Option::<u32>::decode(&[1, 0, 0, 0]), Ok(Some(1)));
        assert!(matches!(
            Option::<u32>::decode(&[1]),
            Err(WireError::Truncated { .. })
        ));
    }

    #[test]
    fn a_count_beyond_the_bytes_is_an_error() {
        let error = Counted::<u32>::decode(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
        assert_eq!(
            error,
            Err(WireError::Truncated {
                field: "u32",
                offset: 8,
                needed: 4,
                found: 0
            })
        );
    }

    #[test]
    fn items_without_a_byte_end_a_list() {
        let refused = |field, offset| {
            Err(WireError::Truncated {
                field,
                offset,
                needed: 1,
                found: 0,
            })
        };
        let count = u32::MAX.to_le_bytes();
        let absent = Counted::<Option<u32>>::decode(&count).map(|_| ());
        assert_eq!(absent, refused("u32", 4));
        let empty = Counted::<Empty>::decode(&count).map(|_| ());
        assert_eq!(empty, refused("empty body", 4));
        let to_end = ToEnd::<Empty>::decode(&[1]).map(|_| ());
        assert_eq!(to_end, refused("empty body", 0));
    }

    #[test]
    fn length_prefix_must_fit_its_value() {
        assert_eq!(
            LengthPrefixed::<u32>::decode(&[4, 0, 0, 0, 7, 0, 0, 0]),
            Ok(LengthPrefixed(7))
        );
        assert_eq!(
            LengthPrefixed::<u32>::decode(&[5, 0, 0, 0, 7, 0, 0, 0, 9]),
            Err(WireError::Trailing {
                field: "u32",
                offset: 8,
                found: 1
            })
        );
        assert_eq!(
            LengthPrefixed::<u32>::decode(&[3, 0, 0, 0, 7, 0, 0, 0]),
            Err(WireError::Truncated {
                field: "u32",
                offset: 4,
                needed: 4,
                found: 3
            })
        );
    }
}
