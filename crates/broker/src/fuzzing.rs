//! Whole connections out of arbitrary bytes: the body of the fuzz target, and of the test that
//! replays its corpus.
//!
//! Nothing here is of use to a user of the broker.
//!
//! ```text
//! input:  flags u8 | read size u8 | what the client sends
//!
//! flags   bit 0  profile Edge5 instead of Release      bit 3  the client is logged in already
//!         bit 1  sink mode                             bit 4  stream s with topic t of 2 partitions exists
//!         bit 2  commits take 1 ms                     bit 5  checksums of sends are made right
//! ```
//!
//! After the input these must hold, whatever it was: every frame that came out is one that a client
//! can decode, no bound on memory is passed, and another client that was there before is still
//! served.

use std::net::SocketAddr;

use ringmain_wire::batch::{
    BATCH_HEADER_BYTES, MESSAGE_HEADER_BYTES, SendMessagesRef, Stamp, stamp,
};
use ringmain_wire::codec::Encode;
use ringmain_wire::frame::FrameDecoder;
use ringmain_wire::header::{FRAME_BYTES_MAX, HEADER_BYTES, RequestHeader};
use ringmain_wire::name::Name;
use ringmain_wire::operation::{CommandCode, Operation};
use ringmain_wire::options::Options;
use ringmain_wire::payload::login::{ClientVersion, LoginRegister};
use ringmain_wire::payload::stream::CreateStream;
use ringmain_wire::payload::topic::CreateTopic;
use ringmain_wire::text::{Secret, Text};
use ringmain_wire::version::ProtocolVersion;
use ringmain_wire::{Identifier, hash};

use crate::commands;
use crate::config::{Config, Now};
use crate::frame::Frame;
use crate::limits::{OUTBOX_BYTES_MAX, REPLIES_CACHED_BYTES_MAX};
use crate::net::Assembler;
use crate::profile::Profile;
use crate::script::Script;
use crate::state::{ConnectionKey, Outgoing, State};

/// Records that the broker of a run may keep.
const MEMORY_BYTES_MAX: u64 = 1 << 20;

/// Reads of the size that the input asks for; the rest comes in one. Cuts matter where a frame
/// begins, and thousands of reads of one byte would leave no time for other inputs.
const CUT_READS_MAX: usize = 64;

/// Client id of the attacker when it is logged in before its bytes count.
const ATTACKER: u128 = 0xA77A;

/// Client id of the one who must not notice.
const WITNESS: u128 = 0x0517;

/// Runs one input. Panics when a promise is broken.
pub fn drive_connection(input: &[u8]) {
    let [flags, read_size, stream @ ..] = input else {
        return;
    };
    let mut run = Run::new(*flags);
    let witness = run.connect(WITNESS);
    if flags & 0x10 != 0 {
        run.create_topic(witness);
    }
    let attacker = if flags & 0x08 != 0 {
        run.connect(ATTACKER)
    } else {
        run.open()
    };
    run.feed(
        attacker,
        stream,
        usize::from(*read_size) * 16 + 1,
        flags & 0x20 != 0,
    );
    run.check_bounds();
    run.check_witness(witness);
    run.state.disconnect(attacker);
    run.check_witness(witness);
}

struct Run {
    state: State,
    now: Now,
}

impl Run {
    fn new(flags: u8) -> Self {
        let config = Config {
            profile: if flags & 0x01 != 0 {
                Profile::Edge5
            } else {
                Profile::Release
            },
            sink: flags & 0x02 != 0,
            commit_delay_us: if flags & 0x04 != 0 { 1_000 } else { 0 },
            memory_bytes_max: MEMORY_BYTES_MAX,
            topic_bytes_max: MEMORY_BYTES_MAX / 2,
            ..Config::default()
        };
        let now = Now {
            monotonic_us: 0,
            wall_us: 1_700_000_000_000_000,
        };
        Self {
            state: State::new(config, Script::new(), now),
            now,
        }
    }

    fn open(&mut self) -> ConnectionKey {
        let address = SocketAddr::from(([127, 0, 0, 1], 8090));
        self.state
            .connect(address, address, self.now)
            .expect("there are two connections")
    }

    /// Opens a connection and logs in.
    fn connect(&mut self, client: u128) -> ConnectionKey {
        let key = self.open();
        let name = |text| Name::new(text).expect("a short name");
        let client_version = ClientVersion {
            protocol_version: ProtocolVersion::CURRENT,
            sdk_name: name("fuzz"),
            sdk_version: name("1"),
        };
        let (username, password) = (name("iggy"), Secret::new("iggy").expect("a short password"));
        let body = LoginRegister {
            client_version,
            username,
            password,
            context: Text::EMPTY,
        }
        .to_vec();
        let header = RequestHeader::register(client, &body).expect("a client id");
        self.give(key, header.as_bytes(), &body);
        assert_eq!(self.drain(key), 1, "a login is answered");
        key
    }

    fn create_topic(&mut self, key: ConnectionKey) {
        let (s, t) = (
            Name::new("s").expect("a name"),
            Name::new("t").expect("a name"),
        );
        let stream = CreateStream {
            name: s,
            options: Options::EMPTY,
        }
        .to_vec();
        let stream_id = Identifier::String(s);
        let topic = CreateTopic {
            stream_id,
            partitions_count: 2,
            name: t,
            options: Options::EMPTY,
        }
        .to_vec();
        for (operation, request, body) in [
            (Operation::CreateStream, 1, stream),
            (Operation::CreateTopic, 2, topic),
        ] {
            let header =
                RequestHeader::metadata(operation, WITNESS, 1, request, &body).expect("a header");
            self.give(key, header.as_bytes(), &body);
            assert_eq!(self.drain(key), 1, "a metadata operation is answered");
        }
    }

    fn give(&mut self, key: ConnectionKey, header: &[u8], body: &[u8]) {
        let frame = [header, body].concat();
        commands::receive(&mut self.state, key, Frame::Borrowed(&frame), self.now);
    }

    /// What the socket's reader does, in reads that begin with at most `read_size` bytes.
    fn feed(&mut self, key: ConnectionKey, stream: &[u8], read_size: usize, fix_checksums: bool) {
        let mut assembler = Assembler::new(FRAME_BYTES_MAX, self.state.config.sink);
        let mut rest = stream;
        let mut reads = 0;
        while !rest.is_empty() && !self.state.is_closing(key) {
            let mut target = assembler.read_target();
            let wanted = if reads < CUT_READS_MAX {
                read_size
            } else {
                rest.len()
            };
            let taken = wanted.min(target.room).min(rest.len());
            reads += 1;
            target.buffer.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            assembler.filled(target.buffer, taken);
            self.take_frames(key, &mut assembler, fix_checksums);
            self.now.monotonic_us += 300;
            self.now.wall_us += 300;
            self.state.tick(self.now);
            self.drain(key);
        }
        // A frame buffer begins with 257 KiB, or with a spare of up to twice that.
        let allowed = 2 * stream.len() + (514 << 10);
        assert!(
            assembler.partial_bytes() <= allowed,
            "memory follows what arrived"
        );
    }

    fn take_frames(&mut self, key: ConnectionKey, assembler: &mut Assembler, fix_checksums: bool) {
        loop {
            match assembler.next_frame(|bytes| self.state.allocate(bytes)) {
                Ok(None) => return,
                Ok(Some(frame)) if fix_checksums => {
                    let frame = with_right_checksums(frame);
                    commands::receive(&mut self.state, key, frame, self.now);
                }
                Ok(Some(frame)) => commands::receive(&mut self.state, key, frame, self.now),
                Err(_) => {
                    self.state.framing_lost(key);
                    return;
                }
            }
            assert!(self.state.outgoing_bytes(key) <= OUTBOX_BYTES_MAX + FRAME_BYTES_MAX);
            if self.state.is_closing(key) {
                return;
            }
        }
    }

    /// Takes what was queued for a connection: whole frames that a client understands. Returns how
    /// many.
    fn drain(&mut self, key: ConnectionKey) -> usize {
        let mut decoder = FrameDecoder::new();
        let mut frames = 0;
        while let Some(outgoing) = self.state.next_outgoing(key) {
            let (Outgoing::Bytes(bytes) | Outgoing::Pieces(bytes, _)) = outgoing else {
                continue;
            };
            let mut input = &bytes[..];
            while decoder
                .next_inbound(&mut input)
                .expect("replies and evictions keep the rules")
                .is_some()
            {
                frames += 1;
            }
        }
        assert_eq!(decoder.pending_bytes(), 0, "frames are queued whole");
        frames
    }

    fn check_bounds(&self) {
        assert!(self.state.charged_bytes() <= MEMORY_BYTES_MAX);
        assert!(self.state.clients.replies_bytes() <= REPLIES_CACHED_BYTES_MAX);
        assert_eq!(self.state.stats.connections_open, 2);
    }

    /// The other client gets its ping answered, under its own session.
    fn check_witness(&mut self, key: ConnectionKey) {
        self.drain(key);
        let header =
            RequestHeader::non_replicated(CommandCode::GET_ME, WITNESS, 1, 1, 0).expect("a header");
        self.give(key, header.as_bytes(), &[]);
        let Some(Outgoing::Bytes(reply)) = self.state.next_outgoing(key) else {
            panic!("the other client is not answered");
        };
        assert!(
            reply.len() > HEADER_BYTES,
            "the other client is still logged in"
        );
    }
}

/// A send whose checksums fit its bytes, so that the fuzzer gets past them. Other frames stay as
/// they are.
fn with_right_checksums(frame: Frame<'_>) -> Frame<'_> {
    let mut bytes = frame.bytes().to_vec();
    if bytes[176] != Operation::SendMessages.as_u8() {
        return frame;
    }
    let Ok(batch_at) =
        SendMessagesRef::decode(frame.body()).map(|send| HEADER_BYTES + send.batch_at())
    else {
        return frame;
    };
    let mut at = batch_at + BATCH_HEADER_BYTES;
    while let Some(lengths) = bytes.get(at + 32..at + 40) {
        let length = |from: usize| {
            u32::from_le_bytes(lengths[from..from + 4].try_into().expect("4 bytes")) as usize
        };
        let end = at + MESSAGE_HEADER_BYTES + length(0) + length(4);
        let Some(message) = bytes.get(at + 8..end) else {
            break;
        };
        let checksum = hash::checksum(message).to_le_bytes();
        bytes[at..at + 8].copy_from_slice(&checksum);
        at = end;
    }
    if let Some(batch) = bytes.get_mut(batch_at..) {
        // What does not lay out as a batch stays wrong.
        let _ = stamp(
            batch,
            &Stamp {
                partition_id: 0,
                base_offset: 0,
                base_timestamp_us: 0,
            },
        );
    }
    Frame::Owned(bytes)
}
