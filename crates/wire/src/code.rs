//! Error codes, and the classes that decide what a producer does next.

use std::fmt;
use std::num::NonZeroU32;

/// A failure as a server numbers it, in the status of a reply header or in a result section. Never 0. Unknown
/// numbers are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(NonZeroU32);

/// What a code means for the request that got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeClass {
    /// Refused for good: the same request will be refused again. Also the class of every code that is not known,
    /// as no code but 57 leaves the outcome open.
    Permanent,
    /// 58: not admitted and not done; may be sent again, here or to another node.
    NotAdmitted,
    /// 57: may or may not be done; only the same number on the same client may be sent again.
    UnknownOutcome,
    /// 59: done before, and the reply is gone: a success without details.
    AlreadyApplied,
    /// 30 and 40: the session is gone and the request was not done; log in, then send again.
    SessionDead,
}

impl ErrorCode {
    /// The code of a number, `None` for 0, which is no failure.
    #[must_use]
    pub const fn new(code: u32) -> Option<Self> {
        match NonZeroU32::new(code) {
            Some(code) => Some(Self(code)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// What it means for the request that got it.
    #[must_use]
    pub const fn class(self) -> CodeClass {
        match self {
            Self::TRANSIENT_NOT_COMMITTED => CodeClass::UnknownOutcome,
            Self::TRANSIENT_NOT_ACCEPTED => CodeClass::NotAdmitted,
            Self::REQUEST_ALREADY_APPLIED => CodeClass::AlreadyApplied,
            Self::STALE_CLIENT | Self::UNAUTHENTICATED => CodeClass::SessionDead,
            _ => CodeClass::Permanent,
        }
    }
}

/// Declares the known codes once: number, constant, name.
macro_rules! error_codes {
    ($($number:literal $constant:ident $name:literal;)+) => {
        impl ErrorCode {
            $(#[doc = concat!("Code ", $number, ", ", $name, ".")]
            pub const $constant: Self = match Self::new($number) {
                Some(code) => code,
                None => panic!("no code is 0"),
            };)+

            /// Every known code, by rising number.
            pub const KNOWN: &'static [Self] = &[$(Self::$constant),+];

            /// What the code is called, `None` for one that this crate does not know.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.get() {
                    $($number => Some($name),)+
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    3 INVALID_COMMAND "InvalidCommand";
    20 RESOURCE_NOT_FOUND "ResourceNotFound";
    30 STALE_CLIENT "StaleClient";
    40 UNAUTHENTICATED "Unauthenticated";
    41 UNAUTHORIZED "Unauthorized";
    42 INVALID_CREDENTIALS "InvalidCredentials";
    57 TRANSIENT_NOT_COMMITTED "TransientNotCommitted";
    58 TRANSIENT_NOT_ACCEPTED "TransientNotAccepted";
    59 REQUEST_ALREADY_APPLIED "RequestAlreadyApplied";
    1009 STREAM_ID_NOT_FOUND "StreamIdNotFound";
    1010 STREAM_NAME_NOT_FOUND "StreamNameNotFound";
    1012 STREAM_NAME_ALREADY_EXISTS "StreamNameAlreadyExists";
    2010 TOPIC_ID_NOT_FOUND "TopicIdNotFound";
    2011 TOPIC_NAME_NOT_FOUND "TopicNameNotFound";
    2013 TOPIC_NAME_ALREADY_EXISTS "TopicNameAlreadyExists";
    3007 PARTITION_NOT_FOUND "PartitionNotFound";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({})",
            self.name().unwrap_or("unknown code"),
            self.get()
        )
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorCode({self})")
    }
}
