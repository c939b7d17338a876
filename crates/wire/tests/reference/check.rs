//! The property that every payload is held to.

use proptest::prelude::*;
use proptest::sample::Index;
use ringmain_wire::WireError;

/// Cases of each property.
pub(crate) const CASES: u32 = 2000;

/// Where and how encoded bytes are damaged.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    pub(crate) cut: Index,
    pub(crate) at: Index,
    pub(crate) byte: u8,
}

/// Any damage.
pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    (any::<Index>(), any::<Index>(), any::<u8>()).prop_map(|(cut, at, byte)| Damage {
        cut,
        at,
        byte,
    })
}

impl Damage {
    /// The bytes cut short, and the bytes with one of them changed. Nothing can be done to no
    /// bytes.
    pub(crate) fn apply(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        if bytes.is_empty() {
            return Vec::new();
        }
        let cut = bytes[..self.cut.index(bytes.len())].to_vec();
        let mut changed = bytes.to_vec();
        changed[self.at.index(bytes.len())] = self.byte;
        vec![cut, changed]
    }
}

/// Whether this crate refuses on purpose what the reference takes. Anything else that it refuses is
/// legal.
pub(crate) fn is_stricter(error: &WireError) -> bool {
    use WireError::{InvalidUtf8, Mismatch, OutOfRange, Truncated, UnknownKind};
    match error {
        // The reference looks at keys and lengths only.
        UnknownKind { field, .. } => *field == "user_headers.value.kind",
        // It reads every byte but 1 as false, ignores values that have no meaning, and leaves the
        // top bits of a version to its gate.
        Mismatch { field, .. } | OutOfRange { field, .. } => [
            "auto_commit",
            "partition",
            "strategy",
            "protocol_version",
            "server_protocol_version",
            "user_headers.value",
            "user_headers.value.length",
        ]
        .contains(field),
        // It puts replacement characters into descriptions.
        InvalidUtf8 { field, .. } => ["description", "user_headers.value"].contains(field),
        // It reads the front of a poll reply alone.
        Truncated { field, .. } => *field == "batches",
        _ => false,
    }
}

/// Holds a value of this crate against the same value of the reference.
macro_rules! agree {
    ($ours:expr => $Ours:ty, $theirs:expr => $Theirs:ty, $damage:expr) => {{
        use iggy_binary_protocol::{WireDecode, WireEncode};
        use ringmain_wire::WireError;
        use ringmain_wire::codec::{Decode, Encode};

        let (ours, theirs): ($Ours, $Theirs) = ($ours, $theirs);
        let bytes = ours.to_vec();
        prop_assert_eq!(ours.encoded_len(), bytes.len());
        prop_assert_eq!(&theirs.to_bytes()[..], &bytes[..], "what each writes");

        let read = <$Theirs as WireDecode>::decode(&bytes);
        let (read, consumed) = read.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(consumed, bytes.len());
        prop_assert_eq!(
            &read.to_bytes()[..],
            &bytes[..],
            "what the reference reads of ours"
        );
        prop_assert_eq!(
            <$Ours>::decode(&bytes),
            Ok(ours.clone()),
            "what we read of the reference"
        );

        let mut small = vec![0; bytes.len().saturating_sub(1)];
        if !bytes.is_empty() {
            let is_room_error = matches!(ours.encode(&mut small), Err(WireError::Room { .. }));
            prop_assert!(is_room_error, "a buffer one byte short is refused");
        }

        for damaged in $damage.apply(&bytes) {
            let theirs = <$Theirs as WireDecode>::decode(&damaged);
            match <$Ours>::decode(&damaged) {
                Ok(value) => {
                    prop_assert_eq!(value.to_vec(), &damaged[..], "what we take we write back");
                    prop_assert!(theirs.is_ok());
                }
                Err(error) => {
                    let they_take_it = theirs.is_ok_and(|(_, consumed)| consumed == damaged.len());
                    prop_assert!(
                        !they_take_it || $crate::check::is_stricter(&error),
                        "only we refuse: {error}"
                    );
                }
            }
        }
    }};
}

pub(crate) use agree;
