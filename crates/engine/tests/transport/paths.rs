//! Every write path carries every byte, in order, whatever the pieces and the buffers are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use bytes::Bytes;
use proptest::prelude::*;
use ringmain::memory::ArenaConfig;
use ringmain::transport::{CarriedBy, Features, SocketOptions, TransportConfig, WritePath};

use super::support::*;

const PATHS: [(WritePath, CarriedBy); 3] = [
    (WritePath::WritevFixed, CarriedBy::WritevFixed),
    (WritePath::SendMsg, CarriedBy::SendMsg),
    (WritePath::SendZc, CarriedBy::SendZc),
];

/// The smallest send buffer the kernel gives, so that writes come back short. The peer's receive buffer stays as it
/// is: a tiny one makes TCP itself wait between segments.
fn tiny_send_buffer() -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: Some(1),
        ..SocketOptions::default()
    }
}

#[test]
fn every_path_carries_frames_under_every_feature_set() {
    for (write_path, carried_by) in PATHS {
        for (name, features) in feature_sets() {
            if write_path == WritePath::WritevFixed && !features.registered_arena {
                continue;
            }
            let (addr, served) = peer(read_to_end);
            let mut rig = Rig::new(
                &TransportConfig {
                    features,
                    ..config(write_path)
                },
                &small_arena(),
            );
            rig.connect(CONN, addr, &SocketOptions::default());
            let mut sent = Vec::new();
            for round in 0..20 {
                let frames: Vec<_> = (0..4)
                    .map(|n| frame(&rig.arena, round * 10 + n, 100 + n as usize * 5_000))
                    .collect();
                let pieces: Vec<_> = frames
                    .iter()
                    .flat_map(|(header, body, len)| {
                        [Piece::Slot(header, 0..256), Piece::Slot(body, 0..*len)]
                    })
                    .collect();
                rig.write_all(CONN, &pieces);
                sent.extend(wire_bytes(&pieces));
                release(
                    &rig.arena,
                    frames
                        .into_iter()
                        .flat_map(|(header, body, _)| [header, body]),
                );
            }
            rig.transport.close(CONN);
            rig.drive_until_closed(CONN);
            assert_eq!(served.join().unwrap(), sent, "{write_path:?}, {name}");
            let stats = rig.finish();
            assert_eq!(
                stats.write_bytes[carried_by as usize],
                sent.len() as u64,
                "{write_path:?}, {name}: {stats:?}"
            );
            assert_eq!(stats.write_bytes.iter().sum::<u64>(), sent.len() as u64);
            if carried_by == CarriedBy::SendZc {
                assert_eq!(
                    stats.zero_copy_notifications,
                    stats.write_operations[carried_by as usize]
                );
            }
        }
    }
}

#[test]
fn bytes_by_reference_travel_between_slots_and_are_let_go_only_when_done() {
    for (write_path, _) in PATHS {
        let (addr, served) = peer(read_to_end);
        let mut rig = Rig::new(&config(write_path), &small_arena());
        rig.connect(CONN, addr, &SocketOptions::default());
        let (header, body, len) = frame(&rig.arena, 1, 3_000);
        let payload = Bytes::from(pattern(9, 300_000));
        let pieces = [
            Piece::Slot(&header, 0..256),
            Piece::Bytes(payload.clone()),
            Piece::Slot(&body, 10..len),
            Piece::Bytes(payload.clone()),
        ];
        rig.write(CONN, &pieces);
        assert!(header.is_lent() && body.is_lent());
        rig.drive_until_seen(Seen::WriteDone(CONN));
        assert!(!header.is_lent() && !body.is_lent());
        let sent = wire_bytes(&pieces);
        drop(pieces);
        assert!(payload.is_unique(), "the transport holds nothing any more");
        release(&rig.arena, [header, body]);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        assert_eq!(served.join().unwrap(), sent, "{write_path:?}");
        // The registered path cannot carry bytes outside its buffer; `sendmsg` does it for it.
        let stats = rig.finish();
        let carried_by = if write_path == WritePath::SendZc {
            CarriedBy::SendZc
        } else {
            CarriedBy::SendMsg
        };
        assert_eq!(
            stats.write_bytes[carried_by as usize],
            sent.len() as u64,
            "{stats:?}"
        );
    }
}

#[test]
fn short_writes_resume_where_they_stopped() {
    for (write_path, carried_by) in PATHS {
        let features = Features {
            send_wait_all: false,
            ..Features::default()
        };
        let (go, gone) = mpsc::channel();
        let (addr, served) = peer(move |stream| {
            gone.recv().expect("the word to begin");
            read_to_end(stream)
        });
        let mut rig = Rig::new(
            &TransportConfig {
                features,
                ..config(write_path)
            },
            &ArenaConfig {
                slot_bytes: 256 * 1024,
                ..small_arena()
            },
        );
        rig.connect(CONN, addr, &tiny_send_buffer());
        let frames: Vec<_> = (0..10).map(|n| frame(&rig.arena, n, 256 * 1024)).collect();
        let pieces: Vec<_> = frames
            .iter()
            .flat_map(|(header, body, len)| {
                [Piece::Slot(header, 0..256), Piece::Slot(body, 0..*len)]
            })
            .collect();
        rig.write(CONN, &pieces);
        // The peer does not read until the socket has taken a part and no more.
        rig.drive_until("a short write", |rig| {
            rig.transport.stats().short_writes > 0
        });
        go.send(()).expect("the peer waits");
        rig.drive_until_seen(Seen::WriteDone(CONN));
        let sent = wire_bytes(&pieces);
        drop(pieces);
        release(
            &rig.arena,
            frames
                .into_iter()
                .flat_map(|(header, body, _)| [header, body]),
        );
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        assert_eq!(served.join().unwrap(), sent, "{write_path:?}");
        let stats = rig.finish();
        assert!(
            stats.short_writes > 10 && stats.write_operations[carried_by as usize] > 10,
            "{stats:?}"
        );
    }
}

#[test]
fn a_write_of_more_pieces_than_the_kernel_takes_is_split() {
    for (write_path, carried_by) in PATHS {
        let (addr, served) = peer(read_to_end);
        let config = TransportConfig {
            write_pieces_max: 4096,
            ..config(write_path)
        };
        let mut rig = Rig::new(&config, &small_arena());
        rig.connect(CONN, addr, &SocketOptions::default());
        let (header, body, len) = frame(&rig.arena, 3, 16_384);
        let pieces: Vec<_> = (0..3_000)
            .map(|n| Piece::Slot(&body, n % len..len.min(n % len + 1 + n % 50)))
            .collect();
        rig.write_all(CONN, &pieces);
        let sent = wire_bytes(&pieces);
        drop(pieces);
        release(&rig.arena, [header, body]);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        assert_eq!(served.join().unwrap(), sent, "{write_path:?}");
        let stats = rig.finish();
        assert!(
            stats.write_operations[carried_by as usize] >= 3,
            "{stats:?}"
        );
        assert_eq!(stats.writes, 1);
    }
}

#[test]
fn frames_of_tens_of_megabytes_by_slot_and_by_reference() {
    let arena = ArenaConfig {
        slot_bytes: 24 << 20,
        slots: 2,
        ..small_arena()
    };
    for (write_path, carried_by) in PATHS {
        let (addr, served) = peer(read_to_end);
        let mut rig = Rig::new(&config(write_path), &arena);
        rig.connect(CONN, addr, &SocketOptions::default());
        let (header, body, len) = frame(&rig.arena, 5, 24 << 20);
        let by_slot = [Piece::Slot(&header, 0..256), Piece::Slot(&body, 0..len)];
        rig.write_all(CONN, &by_slot);
        let carried = rig.transport.stats().write_bytes[carried_by as usize];
        assert_eq!(carried, 256 + len as u64, "{write_path:?}");
        let by_reference = [
            Piece::Slot(&header, 0..256),
            Piece::Bytes(Bytes::from(pattern(8, 20_000_000))),
        ];
        rig.write_all(CONN, &by_reference);
        let sent = [wire_bytes(&by_slot), wire_bytes(&by_reference)].concat();
        release(&rig.arena, [header, body]);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        assert!(served.join().unwrap() == sent, "{write_path:?}");
        rig.finish();
    }
}

#[test]
fn thousands_of_small_frames_come_back_from_an_echo() {
    for (write_path, _) in PATHS {
        let (addr, served) = peer(|mut stream| {
            let mut buffer = [0; 777];
            let mut total = 0;
            loop {
                match stream.read(&mut buffer).expect("readable") {
                    0 => return total,
                    len => stream.write_all(&buffer[..len]).expect("writable"),
                }
                total += 1;
            }
        });
        let mut rig = Rig::new(&config(write_path), &small_arena());
        rig.connect(CONN, addr, &SocketOptions::default());
        let (mut header, body, _) = frame(&rig.arena, 7, 64);
        let mut sent = Vec::new();
        for round in 0u32..2_000 {
            header.as_mut()[..4].copy_from_slice(&round.to_le_bytes());
            let pieces = [Piece::Slot(&header, 0..40), Piece::Slot(&body, 0..64)];
            sent.extend(wire_bytes(&pieces));
            rig.write_all(CONN, &pieces);
        }
        rig.drive_until("the whole echo", |rig| {
            rig.received
                .get(&0)
                .is_some_and(|got| got.len() >= sent.len())
        });
        assert!(rig.received[&0] == sent, "{write_path:?}");
        release(&rig.arena, [header, body]);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        assert!(served.join().unwrap() > 0);
        assert_eq!(rig.finish().writes, 2_000);
    }
}

#[test]
fn auto_measures_decides_and_loses_nothing() {
    let (addr, served) = peer(read_to_end);
    let mut rig = Rig::new(&config(WritePath::Auto), &small_arena());
    rig.connect(CONN, addr, &SocketOptions::default());
    let undecided = rig
        .transport
        .info()
        .paths
        .iter()
        .filter(|path| path.is_none())
        .count();
    assert!(undecided > 0, "this kernel offers a choice");
    let frames: Vec<_> = (0..4).map(|n| frame(&rig.arena, n, 16_384)).collect();
    let large: Vec<_> = frames
        .iter()
        .flat_map(|(header, body, len)| [Piece::Slot(header, 0..256), Piece::Slot(body, 0..*len)])
        .collect();
    let small = &large[..2];
    let foreign: Vec<_> = (0..4)
        .map(|_| Piece::Bytes(Bytes::from(pattern(1, 20_000))))
        .collect();
    let mut sent = Vec::new();
    let is_undecided = |rig: &Rig| rig.transport.info().paths.iter().any(Option::is_none);
    for _ in 0..5_000 {
        if !is_undecided(&rig) {
            break;
        }
        for pieces in [&large[..], small, &foreign[..]] {
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
    drop((large, foreign));
    release(
        &rig.arena,
        frames
            .into_iter()
            .flat_map(|(header, body, _)| [header, body]),
    );
    rig.transport.close(CONN);
    rig.drive_until_closed(CONN);
    assert!(served.join().unwrap() == sent);
    let stats = rig.finish();
    assert!(
        stats
            .write_operations
            .iter()
            .all(|operations| *operations > 0),
        "each was tried: {stats:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_pieces_on_any_path_through_any_buffers_arrive_unchanged(
        path in 0usize..3,
        wait_all: bool,
        registered: bool,
        tiny: bool,
        reads in prop::collection::vec(1usize..3_000, 1..20),
        writes in prop::collection::vec(prop::collection::vec((0usize..3, 0usize..9_000, 1usize..7_000), 1..12), 1..8),
    ) {
        let (write_path, _) = PATHS[path];
        let registered = registered || write_path == WritePath::WritevFixed;
        let features = Features { send_wait_all: wait_all, registered_arena: registered, ..Features::default() };
        let serve = move |mut stream: TcpStream| {
            let mut all = Vec::new();
            let mut buffer = [0; 3_000];
            for len in reads.into_iter().cycle() {
                match stream.read(&mut buffer[..len]).expect("readable") {
                    0 => break,
                    len => all.extend_from_slice(&buffer[..len]),
                }
            }
            all
        };
        let (addr, served) = peer(serve);
        let mut rig = Rig::new(&TransportConfig { features, ..config(write_path) }, &small_arena());
        rig.connect(CONN, addr, &if tiny { tiny_send_buffer() } else { SocketOptions::default() });
        let (header, body, _) = frame(&rig.arena, 1, 16_384);
        let mut sent = Vec::new();
        for write in writes {
            let pieces: Vec<_> = write
                .into_iter()
                .map(|(kind, start, len)| match kind {
                    0 => Piece::Slot(&header, start % 256..256),
                    1 => Piece::Slot(&body, start..start + len),
                    _ => Piece::Bytes(Bytes::from(pattern(start as u64, len))),
                })
                .collect();
            rig.write_all(CONN, &pieces);
            sent.extend(wire_bytes(&pieces));
        }
        release(&rig.arena, [header, body]);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        prop_assert!(served.join().unwrap() == sent);
        rig.finish();
    }
}
