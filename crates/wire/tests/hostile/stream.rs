//! Any stream in any pieces into the frame decoder.

use proptest::collection::vec;
use proptest::prelude::*;
use ringmain_wire::header::{HEADER_BYTES, HeaderError, RawRequestHeader, offset};
use ringmain_wire::{FrameDecoder, Inbound, InboundRequest};

/// A frame of a size that is right, with a command and a body of any kind.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let command = prop_oneof![Just(5u8), Just(8u8), Just(13u8), any::<u8>()];
    (command, any::<u8>(), vec(any::<u8>(), 0..600)).prop_map(|(command, operation, body)| {
        let mut frame = vec![0; HEADER_BYTES];
        frame.extend_from_slice(&body);
        let size = frame.len() as u32;
        frame[offset::SIZE..offset::SIZE + 4].copy_from_slice(&size.to_le_bytes());
        frame[offset::COMMAND] = command;
        frame[176] = operation;
        frame[208] = operation;
        frame
    })
}

/// Reads a stream that comes in pieces of these sizes, over and over.
fn read(stream: &[u8], pieces: &[usize]) -> Result<Vec<Vec<u8>>, HeaderError> {
    let mut decoder = FrameDecoder::new();
    let mut frames = Vec::new();
    let mut rest = stream;
    for size in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (mut piece, behind) = rest.split_at((*size).min(rest.len()));
        rest = behind;
        while let Some(frame) = decoder.next_frame(&mut piece)? {
            frames.push(frame.to_vec());
        }
    }
    Ok(frames)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn frames_do_not_depend_on_the_cuts(sent in vec(frame(), 0..6), pieces in vec(1..900usize, 1..8)) {
        prop_assert_eq!(read(&sent.concat(), &pieces), Ok(sent));
    }

    #[test]
    fn garbage_ends_in_frames_or_one_lasting_error(
        garbage in vec(any::<u8>(), 0..2000), small_sizes in any::<bool>(), pieces in vec(1..300usize, 1..8),
    ) {
        let mut garbage = garbage;
        if small_sizes {
            // Sizes that could be meant: the stream goes on for a while.
            for header in garbage.chunks_mut(300) {
                if let Some(size) = header.get_mut(offset::SIZE..offset::SIZE + 4) {
                    size.copy_from_slice(&300u32.to_le_bytes());
                }
            }
        }
        let whole = read(&garbage, &[garbage.len().max(1)]);
        prop_assert_eq!(read(&garbage, &pieces).is_ok(), whole.is_ok());
        if let Err(error) = whole {
            prop_assert!(error.loses_framing());
        }
    }

    #[test]
    fn whole_frames_are_typed_or_refused_from_both_ends(frame in frame()) {
        match Inbound::decode(&frame) {
            Ok(Inbound::Reply(reply)) => {
                prop_assert_eq!([&reply.header().as_bytes()[..], reply.body()].concat(), &frame[..]);
                let _ = reply.outcome();
            }
            Ok(Inbound::Eviction(eviction)) => {
                prop_assert_eq!(&eviction.header().as_bytes()[..], &frame[..]);
            }
            Ok(Inbound::Foreign { command, .. }) => prop_assert!(command != 8 && command != 13),
            Err(error) => prop_assert!(!error.loses_framing()),
        }
        match InboundRequest::decode(&frame) {
            Ok(InboundRequest::Request(request)) => {
                prop_assert_eq!([request.header.as_bytes(), request.body].concat(), &frame[..]);
                prop_assert!(request.operation().is_err(), "its client is zero");
            }
            Ok(InboundRequest::Foreign { command, .. }) => prop_assert!(command != 5),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn any_header_is_judged(bytes in vec(any::<u8>(), HEADER_BYTES)) {
        let raw = RawRequestHeader::from_bytes(&bytes).expect("256 bytes");
        let _ = (raw.check(), raw.check_reserved(), raw.check_stamp(&bytes), format!("{raw:?}"));
    }
}
