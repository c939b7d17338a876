//! Error codes, and the classes that decide what a producer does next.

mod table;

use std::fmt;
use std::num::NonZeroU32;

/// A failure as a server numbers it, in the status of a reply header or in a result section.
/// Never 0. Unknown numbers are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(NonZeroU32);

/// What a code means for the request that got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeClass {
    /// Refused for good: the same request will be refused again. Also the class of every code that
    /// is not known, as no code but 57 leaves the outcome open.
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

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.meaning()) {
            (Some(name), Some(meaning)) => write!(f, "{name} ({}): {meaning}", self.get()),
            _ => write!(f, "unknown code {}", self.get()),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ErrorCode({} {})",
            self.get(),
            self.name().unwrap_or("unknown")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(number: u32) -> ErrorCode {
        ErrorCode::new(number).expect("not zero")
    }

    #[test]
    fn known_codes_rise_and_have_names_of_their_own() {
        assert!(ErrorCode::KNOWN.is_sorted());
        let mut names: Vec<_> = ErrorCode::KNOWN.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::KNOWN.len());
        assert!(names.iter().all(Option::is_some));
    }

    #[test]
    fn unknown_numbers_are_kept() {
        let unknown = code(4_000_000_000);
        assert_eq!(unknown.get(), 4_000_000_000);
        assert_eq!(unknown.name(), None);
        assert_eq!(unknown.class(), CodeClass::Permanent);
        assert_eq!(unknown.to_string(), "unknown code 4000000000");
        assert_eq!(ErrorCode::new(0), None);
    }

    #[test]
    fn classes_are_those_of_the_protocol() {
        for (numbers, class) in [
            (&[57][..], CodeClass::UnknownOutcome),
            (&[58], CodeClass::NotAdmitted),
            (&[59], CodeClass::AlreadyApplied),
            (&[30, 40], CodeClass::SessionDead),
            (
                &[20, 41, 42, 1009, 1010, 2010, 2011, 3007, 1012, 3],
                CodeClass::Permanent,
            ),
        ] {
            for number in numbers {
                assert_eq!(code(*number).class(), class, "{number}");
            }
        }
    }
}
