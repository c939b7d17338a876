//! The three headers, and the rules that make a request legal.

use crate::check::CASES;
use bytemuck::{bytes_of, checked::try_pod_read_unaligned};
use iggy_binary_protocol::{
    Command, ConsensusHeader, EvictionHeader as TheirEviction, EvictionReason as TheirReason,
    Operation as TheirOperation, ReplyHeader as TheirReply, RequestHeader as TheirRequest,
    read_size_field,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ringmain_wire::header::{HEADER_BYTES, RawRequestHeader, ReplyFields, ReplyHeader};
use ringmain_wire::{
    CommandCode, ErrorCode, EvictionHeader, EvictionReason, FRAME_BYTES_MAX, Operation, Plane,
    RequestHeader,
};

fn their_operation(operation: Operation) -> TheirOperation {
    try_pod_read_unaligned(&[operation.as_u8()]).expect("both know the same operations")
}

fn client_operation() -> impl Strategy<Value = Operation> {
    let sent: Vec<_> = Operation::ALL
        .into_iter()
        .filter(|operation| !operation.is_internal())
        .collect();
    select(sent)
}

/// 0 as often as anything else.
fn maybe_zero<T: Arbitrary + Default + Clone>() -> impl Strategy<Value = T> {
    prop_oneof![Just(T::default()), any::<T>()]
}

/// A code that fits the operation.
fn code_of(operation: Operation, read: u32) -> CommandCode {
    match operation {
        Operation::Register => CommandCode::LOGIN_REGISTER,
        Operation::NonReplicated => [
            CommandCode::PING,
            CommandCode::POLL_MESSAGES,
            CommandCode(60_000 + read % 9),
        ][read as usize % 3],
        other => other.command_code().expect("every other one has a code"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4 * CASES))]

    #[test]
    fn requests_are_built_alike(
        operation in client_operation(), client in 1..=u128::MAX, session in 1..=u64::MAX, request in 1..=u64::MAX,
        timestamp in any::<u64>(), read in any::<u32>(), body in vec(any::<u8>(), 0..200),
    ) {
        let code = code_of(operation, read);
        let mut ours = RequestHeader::command(code, client, session, request, &body).unwrap();
        ours.set_timestamp(timestamp);
        let is_register = operation == Operation::Register;
        let stamp = match operation.plane() {
            Plane::Session | Plane::Metadata => u128::from(xxh3(&body)),
            Plane::NonReplicated | Plane::Partition => 0,
        };
        let mut reserved = [0; 60];
        if operation == Operation::NonReplicated {
            reserved[..4].copy_from_slice(&code.0.to_le_bytes());
        }
        let theirs = TheirRequest {
            size: (HEADER_BYTES + body.len()) as u32,
            command: Command::Request,
            client,
            request_checksum: stamp,
            timestamp,
            request: if is_register { 0 } else { request },
            operation: their_operation(operation),
            session: if is_register { 0 } else { session },
            reserved,
            ..TheirRequest::default()
        };
        prop_assert!(theirs.validate().is_ok());
        prop_assert_eq!(bytes_of(&theirs), &ours.as_bytes()[..]);
        prop_assert_eq!(read_size_field(ours.as_bytes()), Some(ours.raw().size()));
        let read: TheirRequest = try_pod_read_unaligned(ours.as_bytes()).unwrap();
        prop_assert_eq!(read.client, ours.raw().client());
        prop_assert_eq!(read.request, ours.raw().request());
        prop_assert_eq!(read.session, ours.raw().session());
        let raw = RawRequestHeader::from_bytes(bytes_of(&theirs)).unwrap();
        prop_assert_eq!(RequestHeader::from_raw(raw), Ok(ours));
    }

    #[test]
    fn requests_are_judged_alike(
        client in maybe_zero::<u128>(), session in maybe_zero::<u64>(), request in maybe_zero::<u64>(),
        operation in any::<u8>(), command in prop_oneof![4 => Just(5u8), 1 => any::<u8>()],
        size in prop_oneof![4 => 256..=FRAME_BYTES_MAX as u32, 1 => any::<u32>()],
    ) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[48..52].copy_from_slice(&size.to_le_bytes());
        bytes[60] = command;
        bytes[128..144].copy_from_slice(&client.to_le_bytes());
        bytes[168..176].copy_from_slice(&request.to_le_bytes());
        bytes[176] = operation;
        bytes[184..192].copy_from_slice(&session.to_le_bytes());
        let ours = RawRequestHeader::from_bytes(&bytes).unwrap().check();
        let theirs = try_pod_read_unaligned::<TheirRequest>(&bytes);
        let theirs = theirs.is_ok_and(|header| header.validate().is_ok() && header.operation.is_client_allowed());
        // The reference leaves the size to its transports.
        let size_is_right = (HEADER_BYTES..=FRAME_BYTES_MAX).contains(&(size as usize));
        prop_assert_eq!(ours.is_ok(), theirs && size_is_right, "{:?}", ours);
    }

    #[test]
    fn replies_are_built_alike(
        operation in select(Operation::ALL.to_vec()), wide in any::<[u128; 4]>(), large in any::<[u64; 4]>(),
        view in any::<u32>(), replica in any::<u8>(), status in maybe_zero::<u32>(), body_bytes in 0..FRAME_BYTES_MAX / 2,
    ) {
        let status = ErrorCode::new(status);
        let body_bytes = if status.is_some() { 0 } else { body_bytes };
        let fields = ReplyFields {
            cluster: wide[0],
            view,
            replica,
            request_checksum: wide[1],
            context: wide[2],
            client: wide[3],
            op: large[0],
            commit: large[1],
            timestamp: large[2],
            request: large[3],
            operation,
            status,
        };
        let ours = ReplyHeader::new(&fields, body_bytes).unwrap();
        let theirs = TheirReply {
            cluster: wide[0],
            size: (HEADER_BYTES + body_bytes) as u32,
            view,
            command: Command::Reply,
            replica,
            request_checksum: wide[1],
            context: wide[2],
            client: wide[3],
            op: large[0],
            commit: large[1],
            timestamp: large[2],
            request: large[3],
            operation: their_operation(operation),
            status: status.map_or(0, ErrorCode::get),
            ..TheirReply::default()
        };
        prop_assert_eq!(bytes_of(&theirs), &ours.as_bytes()[..]);
        let read = ReplyHeader::from_bytes(bytes_of(&theirs)).unwrap();
        prop_assert_eq!(read, &ours);
        prop_assert_eq!(read.check(), Ok(operation));
        let numbers = (read.op(), read.commit(), read.timestamp(), read.request(), read.view(), read.replica());
        prop_assert_eq!(numbers, (large[0], large[1], large[2], large[3], view, replica));
        let wide_read = [read.cluster(), read.request_checksum(), read.context(), read.client()];
        prop_assert_eq!((wide_read, read.status()), (wide, status));
    }

    #[test]
    fn replies_are_judged_alike(
        operation in any::<u8>(), command in prop_oneof![4 => Just(8u8), 1 => any::<u8>()],
        status in maybe_zero::<u32>(), size in prop_oneof![2 => Just(256u32), 2 => 256..4096u32, 1 => any::<u32>()],
    ) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[48..52].copy_from_slice(&size.to_le_bytes());
        bytes[60] = command;
        bytes[208] = operation;
        bytes[216..220].copy_from_slice(&status.to_le_bytes());
        let ours = ReplyHeader::from_bytes(&bytes).unwrap().check();
        let theirs = try_pod_read_unaligned::<TheirReply>(&bytes);
        let theirs = theirs.is_ok_and(|header| header.validate().is_ok());
        // What the reference documents and leaves to its readers.
        let size_is_right = (HEADER_BYTES..=FRAME_BYTES_MAX).contains(&(size as usize));
        let more = operation != 0 && size_is_right && (status == 0 || size as usize == HEADER_BYTES);
        prop_assert_eq!(ours.is_ok(), theirs && more, "{:?}", ours);
    }

    #[test]
    fn evictions_are_built_alike(
        byte in 1..=15u8, window in (1..=u32::MAX, 1..=u32::MAX), client in 1..=u128::MAX, cluster in any::<u128>(),
        view in any::<u32>(), replica in 0..32u8,
    ) {
        let (max, min) = match byte {
            14 => (window.0.max(window.1), window.0.min(window.1)),
            _ => (0, 0),
        };
        let reason = EvictionReason::from_wire(byte, max, min).unwrap();
        let ours = EvictionHeader::new(client, reason).unwrap().from_replica(cluster, view, replica);
        // The reference has a constructor for reasons that need no more, and one for reason 14; it
        // has 32 replicas.
        let mut theirs = match byte {
            14 => TheirEviction::incompatible_protocol(cluster, view, replica, client, max, min),
            _ => TheirEviction::new(cluster, view, replica, client, TheirReason::NoSession),
        };
        theirs.reason = try_pod_read_unaligned(&[byte]).expect("both know the same reasons");
        prop_assert!(theirs.validate().is_ok());
        prop_assert_eq!(bytes_of(&theirs), &ours.as_bytes()[..]);
        let read = EvictionHeader::from_bytes(bytes_of(&theirs)).unwrap();
        prop_assert_eq!((read.check(), read.client()), (Ok(reason), client));
        let read: TheirEviction = try_pod_read_unaligned(ours.as_bytes()).unwrap();
        prop_assert_eq!(bytes_of(&read), bytes_of(&theirs));
    }

    #[test]
    fn evictions_are_judged_alike(
        client in maybe_zero::<u128>(), reason in 0..=18u8, max in maybe_zero::<u32>(), min in maybe_zero::<u32>(),
        size in prop_oneof![4 => Just(256u32), 1 => any::<u32>()], command in prop_oneof![4 => Just(13u8), 1 => any::<u8>()],
        dirt in prop_oneof![3 => Just(None), 1 => (62..128usize).prop_map(Some), 1 => (152..255usize).prop_map(Some)],
    ) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[48..52].copy_from_slice(&size.to_le_bytes());
        bytes[60] = command;
        bytes[128..144].copy_from_slice(&client.to_le_bytes());
        bytes[144..148].copy_from_slice(&max.to_le_bytes());
        bytes[148..152].copy_from_slice(&min.to_le_bytes());
        bytes[255] = reason;
        if let Some(at) = dirt {
            bytes[at] = 1;
        }
        let ours = EvictionHeader::from_bytes(&bytes).unwrap();
        let theirs = try_pod_read_unaligned::<TheirEviction>(&bytes);
        let theirs = theirs.is_ok_and(|header| header.validate().is_ok());
        prop_assert_eq!(ours.check().is_ok(), theirs, "{:?}", ours.check());
        if let Ok(reason) = ours.check() {
            prop_assert_eq!(&EvictionHeader::new(client, reason).unwrap(), ours);
        }
    }
}

/// The checksum without the choice by length and processor that this crate makes.
fn xxh3(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[test]
fn operations_have_the_reference_rules() {
    for byte in 0..=u8::MAX {
        let Some(ours) = Operation::from_u8(byte) else {
            let known = TheirOperation::is_known_code(byte);
            assert_eq!(known, byte == 0, "operation {byte}");
            continue;
        };
        let theirs = their_operation(ours);
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        assert_eq!(ours.is_internal(), theirs.is_internal(), "{ours}");
        assert_eq!(!ours.is_internal(), theirs.is_client_allowed(), "{ours}");
        assert_eq!(
            ours.plane() == Plane::Partition,
            theirs.is_partition(),
            "{ours}"
        );
        // DeleteSegments is on no plane there, as its rewrite is what is applied; the register
        // reply's framing is left to SDKs there; logout has a code here.
        if ours != Operation::DeleteSegments {
            assert_eq!(
                ours.plane() == Plane::Metadata,
                theirs.is_metadata(),
                "{ours}"
            );
        }
        if ours != Operation::DeleteSegments && ours != Operation::Register {
            assert_eq!(ours.is_result_framed(), theirs.is_result_framed(), "{ours}");
        }
        if ours != Operation::Logout {
            assert_eq!(
                ours.command_code().map(|code| code.0),
                theirs.to_command_code(),
                "{ours}"
            );
        }
    }
}

#[test]
fn command_bytes_are_the_reference_ones() {
    use ringmain_wire::header::{
        COMMAND_ASSIGNED_MAX, COMMAND_EVICTION, COMMAND_REPLY, COMMAND_REQUEST,
    };
    for byte in 0..=u8::MAX {
        let is_assigned = try_pod_read_unaligned::<Command>(&[byte]).is_ok();
        assert_eq!(is_assigned, byte <= COMMAND_ASSIGNED_MAX, "command {byte}");
    }
    let commands = [Command::Request, Command::Reply, Command::Eviction].map(|it| it as u8);
    assert_eq!(commands, [COMMAND_REQUEST, COMMAND_REPLY, COMMAND_EVICTION]);
}

#[test]
fn command_codes_have_the_reference_operations() {
    let mut codes: Vec<_> = iggy_binary_protocol::COMMAND_TABLE
        .iter()
        .map(|meta| meta.code)
        .collect();
    codes.sort_unstable();
    let known: Vec<_> = CommandCode::KNOWN.iter().map(|code| code.0).collect();
    assert_eq!(codes, known);
    for meta in iggy_binary_protocol::COMMAND_TABLE {
        let ours = CommandCode(meta.code).operation();
        match meta.operation {
            Some(theirs) => assert_eq!(their_operation(ours), theirs, "{}", meta.name),
            None => {
                let session = [
                    CommandCode::LOGIN_REGISTER,
                    CommandCode::LOGIN_REGISTER_WITH_PAT,
                    CommandCode::LOGOUT_USER,
                ];
                let is_session = session.contains(&CommandCode(meta.code));
                assert_eq!(ours.plane() == Plane::Session, is_session, "{}", meta.name);
                assert_eq!(
                    ours == Operation::NonReplicated,
                    !is_session,
                    "{}",
                    meta.name
                );
            }
        }
    }
}

#[test]
fn protocol_version_is_the_reference_one() {
    use iggy_binary_protocol::{
        IGGY_PROTOCOL_VERSION, IGGY_PROTOCOL_VERSION_MIN, is_protocol_compatible,
    };
    use ringmain_wire::ProtocolVersion;
    let version = |packed| ProtocolVersion::from_packed("version", 0, packed).expect("30 bits");
    assert_eq!(ProtocolVersion::CURRENT.packed(), IGGY_PROTOCOL_VERSION);
    let (server, min) = (
        version(IGGY_PROTOCOL_VERSION),
        version(IGGY_PROTOCOL_VERSION_MIN),
    );
    for packed in (0..1 << 15).chain([1 << 20, (1 << 30) - 1]) {
        assert_eq!(
            version(packed).is_accepted_by(server, min),
            is_protocol_compatible(packed),
            "{packed}"
        );
    }
}
