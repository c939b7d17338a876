//! Options of a topic: which keys there are, what the server fills in, and what of it the broker obeys.
//!
//! All known keys are checked, stored and reported. Only `max_topic_size` has an effect: it lowers the topic's
//! retention. Expiry, compression, segments and durability have none in a broker without a clock or a disk.

use std::collections::BTreeMap;

use ringmain_wire::user_headers::{HeaderKind, HeaderValue};

use super::catalog::Refused;
use crate::profile::Profile;

/// No such option.
const UNSUPPORTED_OPTION_KEY: Refused = Refused(4041);
/// The value is not one that the option can have.
const INVALID_OPTION_VALUE: Refused = Refused(4042);
/// The topic would be smaller than one of its segments.
const INVALID_TOPIC_SIZE: Refused = Refused(1019);

/// "Never" and "no limit" in the options that are numbers.
const UNLIMITED: u64 = u64::MAX;
/// "What the server is configured to".
const SERVER_DEFAULT: u64 = 0;
/// Default and largest segment size.
const SEGMENT_BYTES: u64 = 1 << 30;
/// Smallest segment size.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// What a value of an option may look like.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// One of these words.
    Words(&'static [&'static str]),
    /// A truth value, or `true` or `false` as text.
    Truth,
    /// A `u32`.
    Count,
    /// A `u64`, or text that spells a size or a time.
    Quantity,
}

/// One known option: key, shape, and the value that the server fills in; `None` where it fills in nothing.
struct Known {
    key: &'static str,
    shape: Shape,
    release: Option<Filled>,
    edge5: Option<Filled>,
}

#[derive(Debug, Clone, Copy)]
enum Filled {
    Word(&'static str),
    Truth(bool),
    Count(u32),
    Quantity(u64),
}

/// By rising key, which is the order on the wire.
const KNOWN: [Known; 10] = [
    Known::both(
        "compression_algorithm",
        Shape::Words(&["none", "gzip"]),
        Filled::Word("none"),
    ),
    Known::release(
        "consumer_offset_durability",
        DURABILITY,
        Filled::Word("replicated"),
    ),
    Known::release("durability", DURABILITY, Filled::Word("replicated")),
    Known {
        key: "enforce_fsync",
        shape: Shape::Truth,
        release: None,
        edge5: Some(Filled::Truth(false)),
    },
    Known::both(
        "max_topic_size",
        Shape::Quantity,
        Filled::Quantity(UNLIMITED),
    ),
    Known::both(
        "message_expiry",
        Shape::Quantity,
        Filled::Quantity(UNLIMITED),
    ),
    Known::both(
        "messages_required_to_save",
        Shape::Count,
        Filled::Count(1024),
    ),
    Known::both("preallocate_segments", Shape::Truth, Filled::Truth(false)),
    Known::both(
        "segment_size",
        Shape::Quantity,
        Filled::Quantity(SEGMENT_BYTES),
    ),
    Known::both(
        "size_of_messages_required_to_save",
        Shape::Quantity,
        Filled::Quantity(1 << 20),
    ),
];

const DURABILITY: Shape = Shape::Words(&["replicated", "persisted"]);

impl Known {
    const fn both(key: &'static str, shape: Shape, value: Filled) -> Self {
        Self {
            key,
            shape,
            release: Some(value),
            edge5: Some(value),
        }
    }

    const fn release(key: &'static str, shape: Shape, value: Filled) -> Self {
        Self {
            key,
            shape,
            release: Some(value),
            edge5: None,
        }
    }
}

/// A value as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionValue {
    pub(crate) kind: HeaderKind,
    pub(crate) bytes: Box<[u8]>,
}

/// The options of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TopicOptions {
    /// Keys that the client sent.
    explicit: BTreeMap<Box<str>, OptionValue>,
    /// Keys that the server filled in.
    derived: BTreeMap<Box<str>, OptionValue>,
}

impl TopicOptions {
    /// Checks the options of a request.
    pub(crate) fn parse<'a>(
        pairs: impl Iterator<Item = (&'a str, HeaderValue<'a>)>,
    ) -> Result<Self, Refused> {
        let mut explicit = BTreeMap::new();
        for (key, value) in pairs {
            let known = KNOWN
                .iter()
                .find(|known| known.key == key)
                .ok_or(UNSUPPORTED_OPTION_KEY)?;
            if !known.shape.admits(&value) {
                return Err(INVALID_OPTION_VALUE);
            }
            explicit.insert(key.into(), OptionValue::of(&value));
        }
        Ok(Self {
            explicit,
            derived: BTreeMap::new(),
        })
    }

    /// Fills in what the client left out, and checks sizes against each other.
    pub(crate) fn complete(mut self, profile: Profile) -> Result<Self, Refused> {
        for known in &KNOWN {
            let filled = match profile {
                Profile::Release => known.release,
                Profile::Edge5 => known.edge5,
            };
            if let Some(filled) = filled
                && !self.explicit.contains_key(known.key)
            {
                self.derived
                    .insert(known.key.into(), OptionValue::filled(filled));
            }
        }
        let segment = self.quantity("segment_size").unwrap_or(SEGMENT_BYTES);
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES).contains(&segment) || segment % 512 != 0 {
            return Err(INVALID_OPTION_VALUE);
        }
        let size = self.max_topic_size();
        if size != SERVER_DEFAULT && size < segment {
            return Err(INVALID_TOPIC_SIZE);
        }
        Ok(self)
    }

    /// Takes over the keys that `changes` holds.
    pub(crate) fn change(&mut self, changes: Self) {
        for (key, value) in changes.explicit {
            self.derived.remove(&key);
            self.explicit.insert(key, value);
        }
    }

    /// Largest size of the topic in bytes.
    pub(crate) fn max_topic_size(&self) -> u64 {
        self.quantity("max_topic_size").unwrap_or(UNLIMITED)
    }

    /// Largest memory of the topic's records, as its size asks for.
    pub(crate) fn retained_bytes_max(&self) -> u64 {
        match self.max_topic_size() {
            SERVER_DEFAULT => UNLIMITED,
            bytes => bytes,
        }
    }

    /// Microseconds that a message is kept: reported, not obeyed.
    pub(crate) fn message_expiry(&self) -> u64 {
        self.quantity("message_expiry").unwrap_or(UNLIMITED)
    }

    /// Number of the compression algorithm: 1 none, 2 gzip. Reported, not obeyed.
    pub(crate) fn compression_algorithm(&self) -> u8 {
        match self.value("compression_algorithm") {
            Some(value) if &*value.bytes == b"gzip" => 2,
            _ => 1,
        }
    }

    /// The pairs that the client sent, by rising key.
    pub(crate) fn explicit(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.explicit.iter().map(|(key, value)| (&**key, value))
    }

    /// The pairs that the server filled in, by rising key.
    pub(crate) fn derived(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.derived.iter().map(|(key, value)| (&**key, value))
    }

    fn value(&self, key: &str) -> Option<&OptionValue> {
        self.explicit.get(key).or_else(|| self.derived.get(key))
    }

    fn quantity(&self, key: &str) -> Option<u64> {
        self.value(key).and_then(OptionValue::quantity)
    }
}

impl OptionValue {
    fn of(value: &HeaderValue<'_>) -> Self {
        let bytes: Box<[u8]> = match *value {
            HeaderValue::String(text) => text.as_bytes().into(),
            HeaderValue::Bool(truth) => Box::new([u8::from(truth)]),
            HeaderValue::Uint32(number) => Box::new(number.to_le_bytes()),
            HeaderValue::Uint64(number) => Box::new(number.to_le_bytes()),
            // No shape admits the other kinds.
            _ => Box::default(),
        };
        Self {
            kind: value.kind(),
            bytes,
        }
    }

    fn filled(value: Filled) -> Self {
        Self::of(&match value {
            Filled::Word(word) => HeaderValue::String(word),
            Filled::Truth(truth) => HeaderValue::Bool(truth),
            Filled::Count(count) => HeaderValue::Uint32(count),
            Filled::Quantity(quantity) => HeaderValue::Uint64(quantity),
        })
    }

    fn quantity(&self) -> Option<u64> {
        match self.kind {
            HeaderKind::Uint64 => self.bytes.as_ref().try_into().ok().map(u64::from_le_bytes),
            HeaderKind::String => std::str::from_utf8(&self.bytes).ok().and_then(parse_bytes),
            _ => None,
        }
    }
}

impl Shape {
    fn admits(self, value: &HeaderValue<'_>) -> bool {
        match (self, value) {
            (Self::Words(words), HeaderValue::String(word)) => {
                words.iter().any(|known| known.eq_ignore_ascii_case(word))
            }
            (Self::Truth, HeaderValue::Bool(_)) => true,
            (Self::Truth, HeaderValue::String(text)) => matches!(*text, "true" | "false"),
            (Self::Count, HeaderValue::Uint32(count)) => *count != 0,
            (Self::Quantity, HeaderValue::Uint64(_) | HeaderValue::String(_)) => true,
            _ => false,
        }
    }
}

/// A size in text: a whole number, then an optional unit (decimal or binary).
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.to_ascii_lowercase().as_str() {
        "unlimited" | "none" | "never" => return Some(UNLIMITED),
        "server_default" | "default" => return Some(SERVER_DEFAULT),
        _ => {}
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "kib" => 1 << 10,
        "mb" => 1_000_000,
        "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "gib" => 1 << 30,
        "tb" => 1_000_000_000_000,
        "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&'static str, HeaderValue<'static>)]) -> Result<TopicOptions, Refused> {
        TopicOptions::parse(pairs.iter().copied())?.complete(Profile::Release)
    }

    #[test]
    fn what_is_left_out_is_filled_in_by_rising_key() {
        let options = parse(&[]).expect("no options are legal");
        let keys: Vec<_> = options.derived().map(|(key, _)| key).collect();
        assert!(keys.is_sorted());
        assert_eq!((keys.len(), options.explicit().count()), (9, 0));
        assert_eq!(
            (options.max_topic_size(), options.compression_algorithm()),
            (UNLIMITED, 1)
        );
    }

    #[test]
    fn sizes_are_read_as_numbers_and_as_text() {
        let size = HeaderValue::String("2 GiB");
        let options = parse(&[("max_topic_size", size)]).expect("a size");
        assert_eq!(options.max_topic_size(), 2 << 30);
        let options = parse(&[("max_topic_size", HeaderValue::Uint64(3 << 30))]).expect("a size");
        assert_eq!(options.max_topic_size(), 3 << 30);
        assert_eq!(parse_bytes("10 parsecs"), None);
        assert_eq!(parse_bytes("99999999999999999999"), None);
    }

    #[test]
    fn unknown_keys_and_impossible_values_are_refused() {
        assert_eq!(
            parse(&[("color", HeaderValue::Bool(true))]),
            Err(UNSUPPORTED_OPTION_KEY)
        );
        assert_eq!(
            parse(&[("durability", HeaderValue::String("maybe"))]),
            Err(INVALID_OPTION_VALUE)
        );
        assert_eq!(
            parse(&[("segment_size", HeaderValue::Uint64(1000))]),
            Err(INVALID_OPTION_VALUE)
        );
        assert_eq!(
            parse(&[("max_topic_size", HeaderValue::Uint64(5))]),
            Err(INVALID_TOPIC_SIZE)
        );
    }

    #[test]
    fn a_change_keeps_the_other_keys() {
        let mut options = parse(&[]).expect("no options are legal");
        let change = TopicOptions::parse(
            [("compression_algorithm", HeaderValue::String("gzip"))].into_iter(),
        );
        options.change(change.expect("a known word"));
        assert_eq!(options.compression_algorithm(), 2);
        assert_eq!(
            (options.derived().count(), options.explicit().count()),
            (8, 1)
        );
    }
}
