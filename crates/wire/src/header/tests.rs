//! Illegal headers cannot be built, and headers read back as they were written.

use super::*;
use crate::code::ErrorCode;
use crate::eviction::EvictionReason;
use crate::hash::stamp;
use crate::operation::{CommandCode, Operation, Plane};

const CLIENT: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;

/// The constructor of an operation's plane, with a body of no bytes.
fn build(
    operation: Operation,
    client: u128,
    session: u64,
    request: u64,
) -> Result<RequestHeader, HeaderError> {
    match operation {
        Operation::Register => RequestHeader::register(client, &[]),
        Operation::Logout => RequestHeader::logout(client, session, request),
        Operation::NonReplicated => {
            RequestHeader::non_replicated(CommandCode::PING, client, session, request, 0)
        }
        _ if operation.plane() == Plane::Partition => {
            RequestHeader::partition(operation, client, session, request, 0)
        }
        _ => RequestHeader::metadata(operation, client, session, request, &[]),
    }
}

/// A legal header of an operation.
fn legal(operation: Operation) -> RequestHeader {
    build(operation, CLIENT, 7, 9).expect("legal")
}

/// `header` with bytes changed behind the back of the constructors.
fn tampered(header: &RequestHeader, offset: usize, bytes: &[u8]) -> [u8; HEADER_BYTES] {
    let mut raw = *header.as_bytes();
    raw[offset..offset + bytes.len()].copy_from_slice(bytes);
    raw
}

#[test]
fn client_session_and_request_are_zero_or_not_as_the_operation_demands() {
    for operation in Operation::ALL {
        for (client, session, request) in [
            (CLIENT, 7, 9),
            (CLIENT, 0, 9),
            (CLIENT, 7, 0),
            (CLIENT, 0, 0),
            (0, 7, 9),
        ] {
            let expected = match operation {
                _ if operation.is_internal() => {
                    Err(HeaderError::OperationInternal { found: operation })
                }
                _ if client == 0 => Err(HeaderError::ClientZero { offset: 128 }),
                Operation::Register | Operation::NonReplicated => Ok(()),
                _ if session == 0 => Err(HeaderError::SessionZero { operation }),
                _ if request == 0 => Err(HeaderError::RequestZero { operation }),
                _ => Ok(()),
            };
            let built = build(operation, client, session, request);
            assert_eq!(
                built.map(|_| ()),
                expected,
                "{operation} {client} {session} {request}"
            );
        }
    }
}

#[test]
fn constructors_take_operations_of_their_plane_only() {
    for operation in Operation::ALL {
        let plane = operation.plane();
        let metadata = RequestHeader::metadata(operation, CLIENT, 7, 9, &[]);
        let partition = RequestHeader::partition(operation, CLIENT, 7, 9, 0);
        let wrong = |expected| {
            Err(HeaderError::OperationPlane {
                found: operation,
                expected,
            })
        };
        if plane != Plane::Metadata {
            assert_eq!(metadata, wrong(Plane::Metadata));
        }
        if plane != Plane::Partition {
            assert_eq!(partition, wrong(Plane::Partition));
        }
    }
    for code in CommandCode::KNOWN {
        let built = RequestHeader::non_replicated(*code, CLIENT, 7, 9, 0);
        let operation = code.operation();
        if operation == Operation::NonReplicated {
            assert_eq!(built.expect("legal").raw().code(), *code);
        } else {
            let code = *code;
            assert_eq!(built, Err(HeaderError::CodeReplicated { code, operation }));
        }
    }
}

#[test]
fn setters_keep_the_rules_and_the_header_when_they_refuse() {
    let mut send = legal(Operation::SendMessages);
    let before = send;
    let operation = Operation::SendMessages;
    assert_eq!(
        send.set_request(0),
        Err(HeaderError::RequestZero { operation })
    );
    assert_eq!(
        send.set_session(0),
        Err(HeaderError::SessionZero { operation })
    );
    let found = BODY_BYTES_MAX + 1;
    assert_eq!(
        send.set_body_bytes(found),
        Err(HeaderError::BodyTooLarge { found })
    );
    assert_eq!(send, before);
    send.set_request(10).expect("legal");
    send.set_session(8).expect("legal");
    send.set_body_bytes(BODY_BYTES_MAX).expect("legal");
    assert_eq!((send.raw().request(), send.raw().session()), (10, 8));
    assert_eq!(send.raw().size() as usize, FRAME_BYTES_MAX);

    let mut register = legal(Operation::Register);
    let before = register;
    assert_eq!(
        register.set_request(1),
        Err(HeaderError::RequestNotZero { found: 1 })
    );
    assert_eq!(
        register.set_session(1),
        Err(HeaderError::SessionNotZero { found: 1 })
    );
    let operation = Operation::Register;
    assert_eq!(
        register.set_body_bytes(0),
        Err(HeaderError::StampNeedsBody { operation })
    );
    assert_eq!(register, before);
}

#[test]
fn stamps_cover_the_body_of_session_and_metadata_operations_only() {
    for operation in Operation::ALL {
        if operation.is_internal() {
            continue;
        }
        let mut header = legal(operation);
        header.set_body(b"body").expect("fits");
        let expected = if operation.is_stamped() {
            stamp(b"body")
        } else {
            0
        };
        assert_eq!(header.raw().request_checksum(), expected, "{operation}");
        assert_eq!(header.raw().check_stamp(b"body"), Ok(()));
        let other = header.raw().check_stamp(b"bodY");
        assert_eq!(other.is_err(), operation.is_stamped(), "{operation}");
        header.clear_stamp();
        assert_eq!(header.raw().check_stamp(b"bodY"), Ok(()));
    }
}

#[test]
fn a_new_body_never_keeps_the_stamp_of_another() {
    for operation in Operation::ALL {
        if operation.is_internal() {
            continue;
        }
        let foreign = tampered(&legal(operation), 144, &stamp(b"before").to_le_bytes());
        let raw = RawRequestHeader::from_bytes(&foreign).expect("256 bytes");
        let header = RequestHeader::from_raw(raw).expect("any operation may be stamped");
        assert_eq!(header.raw().check_stamp(b"before"), Ok(()));
        let (mut with_body, mut with_length) = (header, header);
        with_body.set_body(b"after").expect("fits");
        assert_eq!(with_body.raw().check_stamp(b"after"), Ok(()), "{operation}");
        let is_set = with_length.set_body_bytes(5).is_ok();
        assert_eq!(is_set, !operation.is_stamped(), "{operation}");
        if is_set {
            assert_eq!(with_length, with_body, "{operation}");
        }
    }
}

#[test]
fn commands_find_their_constructor() {
    for code in CommandCode::KNOWN {
        let header = RequestHeader::command(*code, CLIENT, 7, 9, b"body").expect("legal");
        assert_eq!(header.operation(), code.operation());
        assert_eq!(header.raw().size() as usize, HEADER_BYTES + 4);
        let numbers = (header.raw().session(), header.raw().request());
        let register = header.operation() == Operation::Register;
        assert_eq!(numbers, if register { (0, 0) } else { (7, 9) });
    }
}

/// Holds what is found in a header with bytes changed against the rule that they break.
fn check_refused(header: &RequestHeader, offset: usize, bytes: &[u8], error: HeaderError) {
    let raw = tampered(header, offset, bytes);
    let raw = RawRequestHeader::from_bytes(&raw).expect("256 bytes");
    assert_eq!(raw.check(), Err(error));
    assert_eq!(RequestHeader::from_raw(raw), Err(error));
}

#[test]
fn every_broken_rule_of_a_request_is_found_on_reading() {
    use HeaderError::*;
    let send = legal(Operation::SendMessages);
    let operation = Operation::SendMessages;
    let internal = Operation::CreateTopicWithAssignments;
    let unknown = |found| OperationUnknown { offset: 176, found };
    check_refused(
        &send,
        60,
        &[8],
        Command {
            found: 8,
            expected: 5,
        },
    );
    check_refused(&send, 48, &[255, 0, 0, 0], SizeTooSmall { found: 255 });
    let (max, found) = (FRAME_BYTES_MAX as u32, FRAME_BYTES_MAX as u32 + 1);
    check_refused(&send, 48, &found.to_le_bytes(), SizeTooLarge { found, max });
    check_refused(&send, 176, &[0], unknown(0));
    check_refused(&send, 176, &[250], unknown(250));
    check_refused(&send, 176, &[64], OperationInternal { found: internal });
    check_refused(&send, 128, &[0; 16], ClientZero { offset: 128 });
    check_refused(&send, 184, &[0; 8], SessionZero { operation });
    check_refused(&send, 168, &[0; 8], RequestZero { operation });
    let register = legal(Operation::Register);
    check_refused(&register, 168, &[5], RequestNotZero { found: 5 });
    check_refused(&register, 184, &[5], SessionNotZero { found: 5 });
}

#[test]
fn reserved_bytes_of_a_request_are_found_one_by_one() {
    for operation in [Operation::SendMessages, Operation::NonReplicated] {
        let header = legal(operation);
        let used = [48..52, 60..61, 128..177, 184..192];
        let code = 196..200;
        for offset in 0..HEADER_BYTES {
            let is_used = used.iter().any(|range| range.contains(&offset))
                || (operation == Operation::NonReplicated && code.contains(&offset));
            if is_used {
                continue;
            }
            let raw = tampered(&header, offset, &[0x5a]);
            let raw = RawRequestHeader::from_bytes(&raw).expect("256 bytes");
            assert_eq!(
                raw.check(),
                Ok(operation),
                "servers pass over byte {offset}"
            );
            match raw.check_reserved() {
                Err(HeaderError::ReservedNotZero {
                    offset: at, found, ..
                }) => {
                    assert_eq!((at, found), (offset, 0x5a));
                }
                other => panic!("byte {offset}: {other:?}"),
            }
            assert_eq!(
                RequestHeader::from_raw(raw).map(|_| ()),
                raw.check_reserved()
            );
        }
    }
}

#[test]
fn a_replicated_code_cannot_hide_in_a_read() {
    let raw = tampered(&legal(Operation::NonReplicated), 196, &202u32.to_le_bytes());
    let raw = RawRequestHeader::from_bytes(&raw).expect("256 bytes");
    assert_eq!(raw.check(), Ok(Operation::NonReplicated));
    let code = CommandCode::CREATE_STREAM;
    let operation = Operation::CreateStream;
    let refused = Err(HeaderError::CodeReplicated { code, operation });
    assert_eq!(RequestHeader::from_raw(raw), refused);
}

#[test]
fn headers_are_read_where_they_lie() {
    let mut bytes = vec![0; HEADER_BYTES + 16];
    for shift in 0..16 {
        let header = legal(Operation::CreateStream);
        bytes[shift..shift + HEADER_BYTES].copy_from_slice(header.as_bytes());
        let raw = RawRequestHeader::from_bytes(&bytes[shift..shift + HEADER_BYTES]);
        assert_eq!(RequestHeader::from_raw(raw.expect("256 bytes")), Ok(header));
    }
    for found in [0, 255, 257] {
        let slice = vec![0; found];
        let length = HeaderError::Length { found };
        assert_eq!(RawRequestHeader::from_bytes(&slice), Err(length));
        assert_eq!(ReplyHeader::from_bytes(&slice), Err(length));
        assert_eq!(EvictionHeader::from_bytes(&slice), Err(length));
    }
}

#[test]
fn a_reply_with_a_status_has_no_body() {
    let request = legal(Operation::CreateStream);
    let mut fields = ReplyFields::answering(request.raw(), Operation::CreateStream);
    let plain = ReplyHeader::new(&fields, 4).expect("legal");
    assert_eq!(plain.check(), Ok(Operation::CreateStream));
    assert_eq!((plain.client(), plain.request()), (CLIENT, 9));
    assert_eq!(plain.request_checksum(), stamp(&[]));
    fields.status = Some(ErrorCode::UNAUTHENTICATED);
    let with_body = HeaderError::StatusWithBody {
        status: 40,
        body_bytes: 4,
    };
    assert_eq!(ReplyHeader::new(&fields, 4), Err(with_body));
    let refused = ReplyHeader::new(&fields, 0).expect("legal");
    assert_eq!(refused.status(), Some(ErrorCode::UNAUTHENTICATED));

    let mut raw = *refused.as_bytes();
    raw[48..52].copy_from_slice(&260u32.to_le_bytes());
    assert_eq!(
        ReplyHeader::from_bytes(&raw).expect("256 bytes").check(),
        Err(with_body)
    );
    raw[208] = 63;
    let unknown = HeaderError::OperationUnknown {
        offset: 208,
        found: 63,
    };
    assert_eq!(
        ReplyHeader::from_bytes(&raw).expect("256 bytes").check(),
        Err(unknown)
    );
    raw[60] = 5;
    let command = HeaderError::Command {
        found: 5,
        expected: 8,
    };
    assert_eq!(
        ReplyHeader::from_bytes(&raw).expect("256 bytes").check(),
        Err(command)
    );
}

#[test]
fn evictions_are_checked_to_the_last_byte() {
    let reason = EvictionReason::IncompatibleProtocol {
        max: 11 << 10,
        min: 10 << 10,
    };
    let header = EvictionHeader::new(CLIENT, reason)
        .expect("legal")
        .from_replica(1, 2, 3);
    assert_eq!(header.check(), Ok(reason));
    assert_eq!(
        EvictionHeader::new(0, EvictionReason::NoSession),
        Err(HeaderError::ClientZero { offset: 128 })
    );
    assert!(matches!(
        EvictionHeader::new(
            CLIENT,
            EvictionReason::IncompatibleProtocol { max: 1, min: 2 }
        ),
        Err(HeaderError::VersionWindow {
            reason: 14,
            max: 1,
            min: 2
        })
    ));
    let tampered = |offset: usize, byte: u8| {
        let mut raw = *header.as_bytes();
        raw[offset] = byte;
        EvictionHeader::from_bytes(&raw).expect("256 bytes").check()
    };
    for offset in (62..128).chain(152..255) {
        assert!(
            matches!(tampered(offset, 1), Err(HeaderError::ReservedNotZero { offset: at, found: 1, .. }) if at == offset)
        );
    }
    assert_eq!(
        tampered(48, 1),
        Err(HeaderError::SizeMismatch {
            found: 257,
            expected: 256
        })
    );
    assert_eq!(
        tampered(255, 0),
        Err(HeaderError::ReasonUnknown { found: 0 })
    );
    assert_eq!(
        tampered(255, 16),
        Err(HeaderError::ReasonUnknown { found: 16 })
    );
    assert!(matches!(
        tampered(255, 13),
        Err(HeaderError::VersionWindow { reason: 13, .. })
    ));
    assert_eq!(
        tampered(60, 8),
        Err(HeaderError::Command {
            found: 8,
            expected: 13
        })
    );
}
