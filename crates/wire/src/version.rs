//! The protocol version: three numbers packed into a `u32`, 10 bits each, ordered like the versions
//! themselves.
//!
//! ```text
//! 31 30 | 29 ... 20 | 19 ... 10 | 9 ... 0
//!  0  0 |   major   |   minor   |  patch
//! ```

use crate::WireError;
use std::fmt;

/// Bits of each component.
const COMPONENT_BITS: u32 = 10;

/// Largest component.
pub const COMPONENT_MAX: u32 = (1 << COMPONENT_BITS) - 1;

/// A version of the protocol, which is not the version of a server or of an SDK.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProtocolVersion(u32);

impl ProtocolVersion {
    /// The version that this crate speaks: 0.11.0.
    pub const CURRENT: Self = match Self::new(0, 11, 0) {
        Some(version) => version,
        None => panic!("each component is below 1024"),
    };

    /// Packs a version; `None` when a component is above [`COMPONENT_MAX`].
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Option<Self> {
        if major > COMPONENT_MAX || minor > COMPONENT_MAX || patch > COMPONENT_MAX {
            return None;
        }
        Some(Self(
            major << (2 * COMPONENT_BITS) | minor << COMPONENT_BITS | patch,
        ))
    }

    /// A packed version as found at `offset`.
    ///
    /// # Errors
    ///
    /// [`WireError::OutOfRange`] when one of the top two bits is set.
    pub const fn from_packed(
        field: &'static str,
        offset: usize,
        packed: u32,
    ) -> Result<Self, WireError> {
        let max = (1 << (3 * COMPONENT_BITS)) - 1;
        if packed > max {
            return Err(WireError::OutOfRange {
                field,
                offset,
                found: packed as u64,
                min: 0,
                max: max as u64,
            });
        }
        Ok(Self(packed))
    }

    /// The packed form.
    #[must_use]
    pub const fn packed(self) -> u32 {
        self.0
    }

    /// First component.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.0 >> (2 * COMPONENT_BITS)
    }

    /// Second component.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.0 >> COMPONENT_BITS & COMPONENT_MAX
    }

    /// Third component.
    #[must_use]
    pub const fn patch(self) -> u32 {
        self.0 & COMPONENT_MAX
    }

    /// Whether a server of version `server` that takes clients from `server_min` on lets this
    /// client in: it must not be older than `server_min`, and its major and minor not newer than
    /// the server's. A patch never changes the wire, so a newer patch is let in.
    #[must_use]
    pub const fn is_accepted_by(self, server: Self, server_min: Self) -> bool {
        self.0 >= server_min.0 && self.0 >> COMPONENT_BITS <= server.0 >> COMPONENT_BITS
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major(), self.minor(), self.patch())
    }
}

impl fmt::Debug for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProtocolVersion({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(major: u32, minor: u32, patch: u32) -> ProtocolVersion {
        ProtocolVersion::new(major, minor, patch).expect("in range")
    }

    #[test]
    fn packs_and_unpacks() {
        assert_eq!(ProtocolVersion::CURRENT.packed(), 11 << 10);
        assert_eq!(version(1, 2, 3).packed(), 1 << 20 | 2 << 10 | 3);
        assert_eq!(version(1023, 1023, 1023).to_string(), "1023.1023.1023");
        assert_eq!(ProtocolVersion::new(1024, 0, 0), None);
        assert_eq!(ProtocolVersion::new(0, 1024, 0), None);
        assert_eq!(ProtocolVersion::new(0, 0, 1024), None);
        assert_eq!(
            ProtocolVersion::from_packed("version", 7, 1 << 30),
            Err(WireError::OutOfRange {
                field: "version",
                offset: 7,
                found: 1 << 30,
                min: 0,
                max: (1 << 30) - 1,
            })
        );
    }

    #[test]
    fn gate_ignores_newer_patches_only() {
        let server = version(0, 11, 4);
        let min = version(0, 11, 0);
        for (client, accepted) in [
            (version(0, 10, 1023), false),
            (version(0, 11, 0), true),
            (version(0, 11, 5), true),
            (version(0, 12, 0), false),
            (version(1, 0, 0), false),
        ] {
            assert_eq!(client.is_accepted_by(server, min), accepted, "{client}");
        }
    }
}
