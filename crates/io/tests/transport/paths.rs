//! Every write path carries every byte, in order, whatever the pieces and the buffers are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use bytes::Bytes;
use proptest::prelude::*;
use ringmain_io::driver::Driver;
use ringmain_io::memory::ArenaConfig;
use ringmain_io::transport::{CarriedBy, Features, SocketOptions, TransportConfig, WritePath};

use super::support::*;

const PATHS: [(WritePath, CarriedBy); 3] = [
    (WritePath::WritevFixed, CarriedBy::WritevFixed),
    (WritePath::SendMsg, CarriedBy::SendMsg),
    (WritePath::SendZc, CarriedBy::SendZc),
];

/// The smallest send buffer the kernel gives, so that writes come back short. The peer's receive
/// buffer stays as it is: a tiny one makes TCP itself wait between segments.
fn tiny_send_buffer() -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: Some(1),
        ..SocketOptions::default()
    }
}

#[test]
fn every_path_carries_frames_under_every_feature_set() {
    for (write_path, carried_by) in PATHS {
        for (_, features) in feature_sets() {
            let config = TransportConfig {
                features,
                ..config(write_path)
            };
            let Some(mut rig) = Rig::try_new(&config, &small_arena()) else {
                continue;
            };
            let (addr, served) = peer(read_to_end);
            rig.connect(CONN, addr, &SocketOptions::default());
            let mut sent = Vec::new();
            for round in 0..20 {
                let frames: Vec<_> = (0..4)
                    .map(|n| Frame::new(&rig.arena, round * 10 + n, 100 + n as usize * 5_000))
                    .collect();
                rig.write_all(CONN, &pieces_of(&frames));
                sent.extend(wire_bytes(&pieces_of(&frames)));
                frames
                    .into_iter()
                    .for_each(|frame| frame.release(&rig.arena));
            }
            let stats = rig.finish_sent(served, &sent);
            assert_carried(&stats, carried_by, sent.len());
            assert_eq!(
                stats.zero_copy_notifications,
                stats.write_operations[CarriedBy::SendZc as usize]
            );
        }
    }
}

#[test]
fn bytes_by_reference_travel_between_slots_and_are_let_go_only_when_done() {
    for (write_path, carried_by) in PATHS {
        let Some(mut rig) = Rig::try_new(&config(write_path), &small_arena()) else {
            continue;
        };
        let (addr, served) = peer(read_to_end);
        rig.connect(CONN, addr, &SocketOptions::default());
        let frame = Frame::new(&rig.arena, 1, 3_000);
        let payload = Bytes::from(pattern(9, 300_000));
        let pieces = [
            Piece::Slot(&frame.header, 0..256),
            Piece::Bytes(payload.clone()),
            Piece::Slot(&frame.body, 10..3_000),
            Piece::Bytes(payload.clone()),
        ];
        rig.write(CONN, &pieces);
        assert!(frame.header.is_lent() && frame.body.is_lent());
        rig.drive_until_seen(Seen::WriteDone(CONN));
        assert!(!frame.is_lent());
        let sent = wire_bytes(&pieces);
        drop(pieces);
        assert!(payload.is_unique(), "the transport holds nothing any more");
        frame.release(&rig.arena);
        let stats = rig.finish_sent(served, &sent);
        // The registered path cannot carry bytes outside its buffer; `sendmsg` does it for it.
        let foreign = if carried_by == CarriedBy::WritevFixed {
            CarriedBy::SendMsg
        } else {
            carried_by
        };
        assert_carried(&stats, foreign, sent.len());
    }
}

#[test]
fn short_writes_resume_where_they_stopped() {
    let arena = ArenaConfig {
        slot_bytes: 256 * 1024,
        ..small_arena()
    };
    let features = Features {
        send_zc_wait_all: false,
        ..Features::default()
    };
    for (write_path, carried_by) in PATHS {
        let config = TransportConfig {
            features,
            ..config(write_path)
        };
        let Some(mut rig) = Rig::try_new(&config, &arena) else {
            continue;
        };
        let (go, gone) = mpsc::channel();
        let (addr, served) = peer(move |stream| {
            gone.recv().expect("the word to begin");
            read_to_end(stream)
        });
        rig.connect(CONN, addr, &tiny_send_buffer());
        let frames: Vec<_> = (0..10)
            .map(|n| Frame::new(&rig.arena, n, 256 * 1024))
            .collect();
        rig.write(CONN, &pieces_of(&frames));
        // The peer does not read until the socket has taken a part and no more.
        rig.drive_until("a short write", |rig| {
            rig.transport.stats().short_writes > 0
        });
        go.send(()).expect("the peer waits");
        rig.drive_until_seen(Seen::WriteDone(CONN));
        let sent = wire_bytes(&pieces_of(&frames));
        frames
            .into_iter()
            .for_each(|frame| frame.release(&rig.arena));
        let stats = rig.finish_sent(served, &sent);
        assert!(stats.short_writes > 10, "{carried_by:?} {stats:?}");
        assert!(
            stats.write_operations.iter().sum::<u64>() > stats.short_writes,
            "{stats:?}"
        );
    }
}

#[test]
fn a_write_of_more_pieces_than_the_kernel_takes_is_split() {
    for (write_path, carried_by) in PATHS {
        let config = TransportConfig {
            write_pieces_max: 4096,
            ..config(write_path)
        };
        let Some(mut rig) = Rig::try_new(&config, &small_arena()) else {
            continue;
        };
        let (addr, served) = peer(read_to_end);
        rig.connect(CONN, addr, &SocketOptions::default());
        let len = 16_384;
        let frame = Frame::new(&rig.arena, 3, len);
        let pieces: Vec<_> = (0..3_000)
            .map(|n| Piece::Slot(&frame.body, n..len.min(n + 1 + n % 50)))
            .collect();
        rig.write_all(CONN, &pieces);
        let sent = wire_bytes(&pieces);
        drop(pieces);
        frame.release(&rig.arena);
        let stats = rig.finish_sent(served, &sent);
        assert!(
            stats.write_operations.iter().sum::<u64>() >= 3 && stats.writes == 1,
            "{stats:?}"
        );
        assert_carried(&stats, carried_by, sent.len());
    }
}

#[test]
fn frames_of_tens_of_megabytes_by_slot_and_by_reference() {
    const BODY_BYTES: usize = 24 << 20;
    let arena = ArenaConfig {
        slot_bytes: BODY_BYTES as u32,
        slots: 1,
        ..small_arena()
    };
    for (write_path, carried_by) in PATHS {
        let Some(mut rig) = Rig::try_new(&config(write_path), &arena) else {
            continue;
        };
        let (addr, served) = peer(read_to_end);
        rig.connect(CONN, addr, &SocketOptions::default());
        let frame = Frame::new(&rig.arena, 5, BODY_BYTES);
        rig.write_all(CONN, &frame.pieces());
        assert_carried(&rig.transport.stats(), carried_by, 256 + BODY_BYTES);
        let by_reference = [
            Piece::Slot(&frame.header, 0..256),
            Piece::Bytes(Bytes::from(pattern(8, 20_000_000))),
        ];
        rig.write_all(CONN, &by_reference);
        let sent = [wire_bytes(&frame.pieces()), wire_bytes(&by_reference)].concat();
        drop(by_reference);
        frame.release(&rig.arena);
        rig.finish_sent(served, &sent);
    }
}

/// Sends back what it gets, in pieces of odd length.
fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 777];
    while let len @ 1.. = stream.read(&mut buffer).expect("readable") {
        stream.write_all(&buffer[..len]).expect("writable");
    }
}

#[test]
fn thousands_of_small_frames_come_back_from_an_echo() {
    for (write_path, carried_by) in PATHS {
        let Some(mut rig) = Rig::try_new(&config(write_path), &small_arena()) else {
            continue;
        };
        let (addr, served) = peer(echo);
        rig.connect(CONN, addr, &SocketOptions::default());
        let mut frame = Frame::new(&rig.arena, 7, 64);
        let mut sent = Vec::new();
        for round in 0u32..2_000 {
            frame.header.as_mut()[..4].copy_from_slice(&round.to_le_bytes());
            let pieces = [
                Piece::Slot(&frame.header, 0..40),
                Piece::Slot(&frame.body, 0..64),
            ];
            sent.extend(wire_bytes(&pieces));
            rig.write_all(CONN, &pieces);
        }
        rig.drive_until("the whole echo", |rig| {
            rig.received
                .get(&0)
                .is_some_and(|got| got.len() >= sent.len())
        });
        assert!(rig.received[&0] == sent, "{write_path:?}");
        frame.release(&rig.arena);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        served.join().expect("the echo ends well");
        let stats = rig.finish();
        assert_eq!(stats.writes, 2_000);
        assert_carried(&stats, carried_by, sent.len());
    }
}

#[test]
fn auto_measures_decides_and_loses_nothing() {
    let (addr, served) = peer(read_to_end);
    let mut rig = Rig::new(&config(WritePath::Auto), &small_arena());
    rig.connect(CONN, addr, &SocketOptions::default());
    let is_undecided = |rig: &Rig| rig.transport.info().paths.iter().any(Option::is_none);
    if !is_undecided(&rig) {
        println!("this kernel leaves no choice: {:?}", rig.transport.info());
    }
    let frames: Vec<_> = (0..4).map(|n| Frame::new(&rig.arena, n, 16_384)).collect();
    let foreign: Vec<_> = (0..4)
        .map(|n| Piece::Bytes(Bytes::from(pattern(n, 20_000))))
        .collect();
    let mut sent = Vec::new();
    for _ in 0..5_000 {
        if !is_undecided(&rig) {
            break;
        }
        for pieces in [&pieces_of(&frames)[..], &pieces_of(&frames[..1]), &foreign] {
            rig.write_all(CONN, pieces);
            sent.extend(wire_bytes(pieces));
        }
    }
    let info = rig.transport.info();
    assert!(!is_undecided(&rig), "{info:?} {:?}", rig.transport.stats());
    println!(
        "measured: {:?} costs in ns/MiB: {:?}",
        info.paths, info.path_costs
    );
    drop(foreign);
    frames
        .into_iter()
        .for_each(|frame| frame.release(&rig.arena));
    let stats = rig.finish_sent(served, &sent);
    for path in CarriedBy::ALL {
        let is_measured = info
            .path_costs
            .iter()
            .any(|costs| costs[path as usize].is_some());
        assert!(
            !is_measured || stats.write_operations[path as usize] > 0,
            "{path:?} {stats:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_pieces_on_any_path_through_any_buffers_arrive_unchanged(
        path in 0usize..3,
        wait_all: bool,
        registered: bool,
        tiny: bool,
        writes_max in 1u8..=8,
        reads in prop::collection::vec(1usize..3_000, 1..20),
        writes in prop::collection::vec(prop::collection::vec((0usize..3, 0usize..9_000, 1usize..7_000), 1..12), 1..8),
    ) {
        let (write_path, _) = PATHS[path];
        let features = Features { send_zc_wait_all: wait_all, registered_arena: registered, ..Features::default() };
        let config = TransportConfig { features, writes_max, ..config(write_path) };
        let Some(mut rig) = Rig::try_new(&config, &small_arena()) else { return Ok(()) };
        let (addr, served) = peer(move |mut stream| {
            let mut all = Vec::new();
            let mut buffer = [0; 3_000];
            for len in reads.into_iter().cycle() {
                match stream.read(&mut buffer[..len]).expect("readable") {
                    0 => break,
                    len => all.extend_from_slice(&buffer[..len]),
                }
            }
            all
        });
        rig.connect(CONN, addr, &if tiny { tiny_send_buffer() } else { SocketOptions::default() });
        let frame = Frame::new(&rig.arena, 1, 16_384);
        let mut sent = Vec::new();
        let writes_count = writes.len();
        for write in writes {
            let pieces: Vec<_> = write
                .into_iter()
                .map(|(kind, start, len)| match kind {
                    0 => Piece::Slot(&frame.header, start % 256..256),
                    1 => Piece::Slot(&frame.body, start..start + len),
                    _ => Piece::Bytes(Bytes::from(pattern(start as u64, len))),
                })
                .collect();
            rig.drive_until("room for a write", |rig| rig.transport.can_write(CONN));
            rig.write(CONN, &pieces);
            sent.extend(wire_bytes(&pieces));
        }
        rig.drive_until("every write", |rig| rig.count(Seen::WriteDone(CONN)) == writes_count);
        frame.release(&rig.arena);
        rig.finish_sent(served, &sent);
    }
}
