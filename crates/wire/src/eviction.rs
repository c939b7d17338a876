//! Why a server ended a session. Every reason is final for the session; what may be done next
//! differs.

use std::fmt;

/// The reason of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvictionReason {
    /// The server knows no session of this client.
    NoSession,
    /// The client's release is older than the cluster takes.
    ClientReleaseTooLow,
    /// The client's release is newer than the cluster takes.
    ClientReleaseTooHigh,
    /// The operation byte names nothing that a client may send.
    InvalidRequestOperation,
    /// The body was not valid.
    InvalidRequestBody,
    /// The body's length was not valid.
    InvalidRequestBodySize,
    /// The session epoch is older than one that the cluster has seen: another login took the client
    /// over.
    SessionTooLow,
    /// The session belongs to another release.
    SessionReleaseMismatch,
    /// Wrong user name or password.
    InvalidCredentials,
    /// Wrong personal access token.
    InvalidToken,
    /// The user is not active.
    UserInactive,
    /// The session failed on the server's side.
    SessionError,
    /// The client was silent for too long.
    StaleClient,
    /// The client's protocol version is outside the window that the server takes.
    IncompatibleProtocol {
        /// Newest version taken, packed. At least `min`.
        max: u32,
        /// Oldest version taken, packed. At least 1.
        min: u32,
    },
    /// The login body did not even have a readable version, or used a login command of old.
    MalformedLogin,
}

impl EvictionReason {
    /// The reason byte, 1 to 15.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        match self {
            Self::NoSession => 1,
            Self::ClientReleaseTooLow => 2,
            Self::ClientReleaseTooHigh => 3,
            Self::InvalidRequestOperation => 4,
            Self::InvalidRequestBody => 5,
            Self::InvalidRequestBodySize => 6,
            Self::SessionTooLow => 7,
            Self::SessionReleaseMismatch => 8,
            Self::InvalidCredentials => 9,
            Self::InvalidToken => 10,
            Self::UserInactive => 11,
            Self::SessionError => 12,
            Self::StaleClient => 13,
            Self::IncompatibleProtocol { .. } => 14,
            Self::MalformedLogin => 15,
        }
    }

    /// The reason of a header: the byte, and the version window that stands beside it.
    ///
    /// # Errors
    ///
    /// [`ReasonError::Unknown`] for 0 and bytes above 15, [`ReasonError::VersionWindow`] when
    /// reason 14 has no window with `1 <= min <= max`, or another reason has one.
    pub const fn from_wire(reason: u8, max: u32, min: u32) -> Result<Self, ReasonError> {
        let window_is_right = match reason {
            14 => min >= 1 && min <= max,
            _ => min == 0 && max == 0,
        };
        let value = match reason {
            1 => Self::NoSession,
            2 => Self::ClientReleaseTooLow,
            3 => Self::ClientReleaseTooHigh,
            4 => Self::InvalidRequestOperation,
            5 => Self::InvalidRequestBody,
            6 => Self::InvalidRequestBodySize,
            7 => Self::SessionTooLow,
            8 => Self::SessionReleaseMismatch,
            9 => Self::InvalidCredentials,
            10 => Self::InvalidToken,
            11 => Self::UserInactive,
            12 => Self::SessionError,
            13 => Self::StaleClient,
            14 => Self::IncompatibleProtocol { max, min },
            15 => Self::MalformedLogin,
            found => return Err(ReasonError::Unknown { found }),
        };
        if window_is_right {
            Ok(value)
        } else {
            Err(ReasonError::VersionWindow { reason, max, min })
        }
    }
}

/// Why a reason byte and the version window beside it are no reason: the peer's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasonError {
    /// The byte is 0 or not assigned.
    Unknown {
        /// The byte.
        found: u8,
    },
    /// The window is missing, upside down, or beside a reason that has none.
    VersionWindow {
        /// The reason byte.
        reason: u8,
        /// Upper end of the window, packed.
        max: u32,
        /// Lower end, packed.
        min: u32,
    },
}

impl fmt::Display for EvictionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NoSession => "the server knows no session of this client",
            Self::ClientReleaseTooLow => "the client's release is too old for the cluster",
            Self::ClientReleaseTooHigh => "the client's release is too new for the cluster",
            Self::InvalidRequestOperation => "an operation that clients may not send",
            Self::InvalidRequestBody => "a request body that is not valid",
            Self::InvalidRequestBodySize => "a request body of the wrong length",
            Self::SessionTooLow => "a newer login took this client over",
            Self::SessionReleaseMismatch => "the session belongs to another release",
            Self::InvalidCredentials => "wrong user name or password",
            Self::InvalidToken => "wrong personal access token",
            Self::UserInactive => "the user is not active",
            Self::SessionError => "the session failed on the server",
            Self::StaleClient => "the client was silent for too long",
            Self::IncompatibleProtocol { max, min } => {
                let [max, min] =
                    [max, min].map(|packed| (packed >> 20, packed >> 10 & 1023, packed & 1023));
                return write!(
                    f,
                    "the protocol version is outside {}.{}.{} to {}.{}.{}",
                    min.0, min.1, min.2, max.0, max.1, max.2
                );
            }
            Self::MalformedLogin => "a login that could not be read",
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_map_to_reasons_and_back() {
        for byte in 0..=u8::MAX {
            let (max, min) = if byte == 14 {
                (11 << 10, 10 << 10)
            } else {
                (0, 0)
            };
            match EvictionReason::from_wire(byte, max, min) {
                Ok(reason) => assert_eq!(reason.as_u8(), byte),
                Err(error) => {
                    assert!(byte == 0 || byte > 15, "reason {byte}");
                    assert_eq!(error, ReasonError::Unknown { found: byte });
                }
            }
        }
    }

    #[test]
    fn window_goes_with_reason_14_only() {
        for (reason, max, min) in [
            (14, 0, 0),
            (14, 5, 0),
            (14, 4, 5),
            (13, 5, 5),
            (1, 0, 1),
            (1, 1, 0),
        ] {
            assert_eq!(
                EvictionReason::from_wire(reason, max, min),
                Err(ReasonError::VersionWindow { reason, max, min })
            );
        }
        let reason = EvictionReason::from_wire(14, 11 << 10 | 2, 11 << 10).expect("a window");
        assert_eq!(
            reason.to_string(),
            "the protocol version is outside 0.11.0 to 0.11.2"
        );
    }
}
