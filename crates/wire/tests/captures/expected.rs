//! What the recorded server answered, scenario by scenario: the README's list as a table.

use ringmain_wire::{CodeClass, ErrorCode, EvictionReason, ProtocolVersion};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A success with a payload of the request's type.
    Success,
    /// A refusal in the header's status.
    Status(ErrorCode),
    /// A refusal in the result section.
    Result(ErrorCode),
    /// The end of the session.
    Evicted(EvictionReason),
    /// No reply, or a close.
    Silence,
}

/// The answer to the request at `index` of the line with this note.
pub(crate) fn expected(scenario: &str, note: &str, index: usize) -> Expected {
    use Expected::{Evicted, Result, Silence, Status, Success};
    let window = ProtocolVersion::CURRENT.packed();
    match (scenario, note) {
        ("login-bad-password" | "login-unknown-user", _) => {
            Evicted(EvictionReason::InvalidCredentials)
        }
        ("login-pat-invalid", _) => Evicted(EvictionReason::InvalidToken),
        ("login-malformed" | "login-empty-body", _) => Evicted(EvictionReason::MalformedLogin),
        ("login-old-protocol" | "login-new-protocol", _) => {
            Evicted(EvictionReason::IncompatibleProtocol {
                max: window,
                min: window,
            })
        }
        ("send-before-login", _) => Evicted(EvictionReason::NoSession),
        (_, "create stream on the first connection") => Evicted(EvictionReason::SessionTooLow),
        (_, "operation_internal") => Evicted(EvictionReason::InvalidRequestOperation),

        ("read-before-login", _) | (_, "get streams after logout") => {
            Status(ErrorCode::UNAUTHENTICATED)
        }
        (_, "unknown stream" | "unknown topic" | "unknown partition" | "partitioning kind 9") => {
            Status(ErrorCode::RESOURCE_NOT_FOUND)
        }
        ("pipeline-mixed", note) if note.starts_with("send, ping") && index == 2 => {
            Status(ErrorCode::RESOURCE_NOT_FOUND)
        }
        (_, "unknown_code") => Status(ErrorCode::INVALID_COMMAND),

        (_, "create stream again") => Result(ErrorCode::STREAM_NAME_ALREADY_EXISTS),
        (_, "create topic again") => Result(ErrorCode::TOPIC_NAME_ALREADY_EXISTS),
        (_, "delete missing stream") => Result(ErrorCode::STREAM_ID_NOT_FOUND),
        (_, "request id below the watermark, never used") => {
            Result(ErrorCode::REQUEST_ALREADY_APPLIED)
        }

        ("login-nonzero-request" | "login-zero-client", _)
        | (
            _,
            "request id zero" | "request id 0" | "session 0" | "operation_zero"
            | "operation_unknown",
        )
        | (_, "last payload byte flipped" | "batch checksum flipped" | "batch reserved byte set")
        | (
            _,
            "batch cut by 7 bytes"
            | "5 bytes after the batch"
            | "metadata says 3 messages"
            | "zero messages",
        ) => Silence,
        (scenario, "ping afterwards") if scenario.starts_with("header-size-") => Silence,
        ("header-command-unknown", "ping afterwards") => Silence,
        _ => Success,
    }
}

#[test]
fn recorded_codes_have_the_class_that_a_producer_acts_on() {
    for (code, class) in [
        (ErrorCode::UNAUTHENTICATED, CodeClass::SessionDead),
        (ErrorCode::RESOURCE_NOT_FOUND, CodeClass::Permanent),
        (
            ErrorCode::REQUEST_ALREADY_APPLIED,
            CodeClass::AlreadyApplied,
        ),
        (ErrorCode::STREAM_NAME_ALREADY_EXISTS, CodeClass::Permanent),
    ] {
        assert_eq!(code.class(), class);
    }
}
