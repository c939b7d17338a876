//! Options of a topic: which keys there are, what the server fills in, and what of it the broker
//! obeys.
//!
//! All known keys are checked, stored and reported. Only `max_topic_size` has an effect: it lowers
//! the topic's retention. Expiry, compression, segments and durability have none in a broker
//! without a clock or a disk.

use std::collections::BTreeMap;

use ringmain_wire::options::Options;
use ringmain_wire::user_headers::{HeaderValue, UserHeadersWriter};

use super::refused::Refused;
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

/// One known option: key, shape, and the value that the server fills in; `None` where it fills in
/// nothing.
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

/// The options of a topic. Each block holds its pairs by rising key, which is the order on the
/// wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopicOptions {
    /// Keys that the client sent.
    explicit: UserHeadersWriter,
    /// Keys that the server filled in.
    derived: UserHeadersWriter,
}

impl TopicOptions {
    /// Checks the options of a request.
    pub(crate) fn parse(options: &Options<'_>) -> Result<Self, Refused> {
        let mut pairs: Vec<_> = options.iter().collect();
        pairs.sort_unstable_by_key(|(key, _)| *key);
        let mut explicit = UserHeadersWriter::new();
        for (key, value) in pairs {
            let known = KNOWN
                .iter()
                .find(|known| known.key == key)
                .ok_or(UNSUPPORTED_OPTION_KEY)?;
            if !known.shape.admits(&value) {
                return Err(INVALID_OPTION_VALUE);
            }
            set(&mut explicit, key, &value);
        }
        Ok(Self {
            explicit,
            derived: UserHeadersWriter::new(),
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
                && self.explicit.headers().get(known.key).is_none()
            {
                set(&mut self.derived, known.key, &filled.value());
            }
        }
        let segment = self.quantity("segment_size").unwrap_or(SEGMENT_BYTES);
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES).contains(&segment) || !segment.is_multiple_of(512) {
            return Err(INVALID_OPTION_VALUE);
        }
        let size = self.max_topic_size();
        if size != SERVER_DEFAULT && size < segment {
            return Err(INVALID_TOPIC_SIZE);
        }
        Ok(self)
    }

    /// Takes over the keys that `changes` holds.
    pub(crate) fn change(&mut self, changes: &Self) {
        let mut explicit: BTreeMap<&str, HeaderValue<'_>> =
            self.explicit.headers().iter().collect();
        explicit.extend(&changes.explicit.headers());
        let mut changed = UserHeadersWriter::new();
        for (key, value) in &explicit {
            set(&mut changed, key, value);
            self.derived.remove(key);
        }
        self.explicit = changed;
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
            Some(HeaderValue::String(name)) if name.eq_ignore_ascii_case("gzip") => 2,
            _ => 1,
        }
    }

    /// The pairs that the client sent.
    pub(crate) fn explicit(&self) -> Options<'_> {
        block(&self.explicit)
    }

    /// The pairs that the server filled in.
    pub(crate) fn derived(&self) -> Options<'_> {
        block(&self.derived)
    }

    fn value(&self, key: &str) -> Option<HeaderValue<'_>> {
        self.explicit
            .headers()
            .get(key)
            .or_else(|| self.derived.headers().get(key))
    }

    fn quantity(&self, key: &str) -> Option<u64> {
        match self.value(key)? {
            HeaderValue::Uint64(number) => Some(number),
            HeaderValue::String(text) => parse_bytes(text),
            _ => None,
        }
    }
}

fn set(block: &mut UserHeadersWriter, key: &str, value: &HeaderValue<'_>) {
    block
        .set(key, value)
        .expect("known keys with values off the wire fit a block");
}

fn block(block: &UserHeadersWriter) -> Options<'_> {
    Options::new(block.headers()).expect("a block is built key by key")
}

impl Filled {
    fn value(self) -> HeaderValue<'static> {
        match self {
            Self::Word(word) => HeaderValue::String(word),
            Self::Truth(truth) => HeaderValue::Bool(truth),
            Self::Count(count) => HeaderValue::Uint32(count),
            Self::Quantity(quantity) => HeaderValue::Uint64(quantity),
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

    fn block_of(pairs: &[(&str, HeaderValue<'_>)]) -> UserHeadersWriter {
        let mut block = UserHeadersWriter::new();
        for (key, value) in pairs {
            block.set(key, value).expect("a short pair");
        }
        block
    }

    fn parse(pairs: &[(&str, HeaderValue<'_>)]) -> Result<TopicOptions, Refused> {
        let block = block_of(pairs);
        let options = Options::new(block.headers()).expect("keys differ");
        TopicOptions::parse(&options)?.complete(Profile::Release)
    }

    fn refusal(pairs: &[(&str, HeaderValue<'_>)]) -> Option<Refused> {
        parse(pairs).err()
    }

    #[test]
    fn what_is_left_out_is_filled_in_by_rising_key() {
        let options = parse(&[]).expect("no options are legal");
        let derived = options.derived();
        let keys: Vec<_> = derived.iter().map(|(key, _)| key).collect();
        assert!(keys.is_sorted());
        assert_eq!((keys.len(), options.explicit().is_empty()), (9, true));
        assert_eq!(
            (options.max_topic_size(), options.compression_algorithm()),
            (UNLIMITED, 1)
        );
    }

    #[test]
    fn sizes_are_read_as_numbers_and_as_text() {
        let options = parse(&[("max_topic_size", HeaderValue::String("2 GiB"))]).expect("a size");
        assert_eq!(options.max_topic_size(), 2 << 30);
        let options = parse(&[("max_topic_size", HeaderValue::Uint64(3 << 30))]).expect("a size");
        assert_eq!(options.max_topic_size(), 3 << 30);
        assert_eq!(parse_bytes("10 parsecs"), None);
        assert_eq!(parse_bytes("99999999999999999999"), None);
    }

    #[test]
    fn unknown_keys_and_impossible_values_are_refused() {
        assert_eq!(
            refusal(&[("color", HeaderValue::Bool(true))]),
            Some(UNSUPPORTED_OPTION_KEY)
        );
        assert_eq!(
            refusal(&[("durability", HeaderValue::String("maybe"))]),
            Some(INVALID_OPTION_VALUE)
        );
        assert_eq!(
            refusal(&[("segment_size", HeaderValue::Uint64(1000))]),
            Some(INVALID_OPTION_VALUE)
        );
        assert_eq!(
            refusal(&[("max_topic_size", HeaderValue::Uint64(5))]),
            Some(INVALID_TOPIC_SIZE)
        );
    }

    #[test]
    fn a_change_keeps_the_other_keys() {
        let mut options =
            parse(&[("max_topic_size", HeaderValue::Uint64(1 << 30))]).expect("a size");
        let block = block_of(&[("compression_algorithm", HeaderValue::String("gzip"))]);
        let change = TopicOptions::parse(&Options::new(block.headers()).expect("one key"));
        options.change(&change.expect("a known word"));
        assert_eq!(
            (options.compression_algorithm(), options.max_topic_size()),
            (2, 1 << 30)
        );
        assert_eq!(
            (
                options.derived().iter().count(),
                options.explicit().iter().count()
            ),
            (7, 2)
        );
    }
}
