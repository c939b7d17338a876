//! How connections begin and end: refused, closed, reset, cut, given up, dropped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use ringmain_io::driver::Driver;
use ringmain_io::transport::{
    CarriedBy, ConnIndex, LostCause, SocketOptions, TransportConfig, WritePath,
};

use super::support::*;

const PATHS: [WritePath; 3] = [
    WritePath::WritevFixed,
    WritePath::SendMsg,
    WritePath::SendZc,
];

/// More than any socket buffers hold.
const MORE_THAN_BUFFERS: usize = 64 << 20;

/// A port of loopback that nobody listens on.
fn unused_addr() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// A listener that takes one connection at a time and never accepts: once it is full, connects hang.
fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: listen takes no memory of ours; on a listening socket it changes the length of the queue.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let addr = listener.local_addr().unwrap();
    let filler = TcpStream::connect(addr).expect("a queue of length 0 takes one connection");
    (listener, vec![filler])
}

#[test]
fn a_refused_connect_says_so_and_frees_the_index() {
    let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
    for _ in 0..3 {
        rig.seen.clear();
        rig.transport
            .connect(CONN, unused_addr(), &SocketOptions::default());
        rig.drive_until_seen(Seen::ConnectFailed(CONN, LostCause::Refused));
    }
    assert_eq!(rig.finish().connect_failures, 3);
}

#[test]
fn both_address_families_connect() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(bind) else {
            println!("skipped: this host has no {bind}");
            continue;
        };
        let addr = listener.local_addr().unwrap();
        let served = std::thread::spawn(move || read_to_end(listener.accept().unwrap().0));
        let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
        rig.connect(CONN, addr, &SocketOptions::default());
        rig.write_all(CONN, &[Piece::Bytes(Bytes::from_static(b"over"))]);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        assert_eq!(served.join().unwrap(), b"over");
        rig.finish();
    }
}

#[test]
fn a_connect_nobody_answers_ends_when_it_is_closed() {
    let (listener, _filler) = full_listener();
    let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
    rig.transport.connect(
        CONN,
        listener.local_addr().unwrap(),
        &SocketOptions::default(),
    );
    for _ in 0..3 {
        rig.step(Duration::from_millis(10));
    }
    assert_eq!(rig.seen, [], "still connecting");
    rig.transport.close(CONN);
    assert_eq!(rig.drive_until_closed(CONN), (LostCause::Local, None));
    rig.finish();
}

#[test]
fn a_connect_nobody_answers_times_out_by_itself() {
    let (listener, _filler) = full_listener();
    let options = SocketOptions {
        user_timeout: Some(Duration::from_millis(500)),
        ..SocketOptions::default()
    };
    let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
    rig.transport
        .connect(CONN, listener.local_addr().unwrap(), &options);
    rig.drive_until_seen(Seen::ConnectFailed(CONN, LostCause::TimedOut));
    rig.finish();
}

#[test]
fn a_peer_that_closes_is_reported_after_its_last_bytes() {
    let (addr, served) = peer(|mut stream| stream.write_all(&pattern(4, 100_000)).unwrap());
    let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
    rig.connect(CONN, addr, &SocketOptions::default());
    assert_eq!(rig.drive_until_closed(CONN), (LostCause::PeerClosed, None));
    assert!(rig.received[&0] == pattern(4, 100_000));
    served.join().unwrap();
    rig.finish();
}

#[test]
fn a_peer_that_dies_in_the_middle_of_a_write_ends_it_with_its_progress() {
    for write_path in PATHS {
        let Some(mut rig) = Rig::try_new(&config(write_path), &small_arena()) else {
            continue;
        };
        // Dropped with unread bytes: the kernel resets.
        let (addr, served) = peer(|mut stream| stream.read_exact(&mut [0; 100_000]).unwrap());
        rig.connect(CONN, addr, &SocketOptions::default());
        let frame = Frame::new(&rig.arena, 1, 16_384);
        let payload = Bytes::from(vec![7; MORE_THAN_BUFFERS]);
        let [header, body] = frame.pieces();
        rig.write(CONN, &[header, body, Piece::Bytes(payload.clone())]);
        let (cause, progress) = rig.drive_until_closed(CONN);
        assert!(
            matches!(cause, LostCause::PeerReset | LostCause::PeerClosed),
            "{cause:?}"
        );
        let progress = progress.expect("the write was unfinished");
        assert!(
            (100_000..MORE_THAN_BUFFERS as u64).contains(&progress),
            "{write_path:?}: {progress}"
        );
        assert!(
            payload.is_unique() && !frame.is_lent(),
            "everything is free"
        );
        frame.release(&rig.arena);
        served.join().unwrap();
        rig.finish();
    }
}

#[test]
fn the_last_words_of_a_peer_are_delivered_although_writing_failed() {
    for (_, features) in feature_sets() {
        let (addr, served) = peer(|mut stream| {
            stream.read_exact(&mut [0; 10]).unwrap();
            stream.write_all(&pattern(6, 50_000)).unwrap();
        });
        let mut rig = Rig::new(
            &TransportConfig {
                features,
                ..config(WritePath::SendMsg)
            },
            &small_arena(),
        );
        rig.connect(CONN, addr, &SocketOptions::default());
        rig.write_all(CONN, &[Piece::Bytes(Bytes::from_static(&[0; 10]))]);
        served.join().unwrap();
        // The peer is gone; whether this write or the receive notices first, the words come before the end.
        rig.write(
            CONN,
            &[Piece::Bytes(Bytes::from(vec![0; MORE_THAN_BUFFERS]))],
        );
        rig.drive_until_closed(CONN);
        assert!(rig.received[&0] == pattern(6, 50_000));
        rig.finish();
    }
}

/// A peer that neither reads nor writes until the sender of the pair is dropped.
fn black_hole() -> (mpsc::Sender<()>, SocketAddr, std::thread::JoinHandle<()>) {
    let (release, hold) = mpsc::channel();
    let (addr, served) = peer(move |stream| {
        let _ = hold.recv();
        drop(stream);
    });
    (release, addr, served)
}

#[test]
fn a_black_hole_is_given_up_and_every_piece_is_free() {
    for write_path in PATHS {
        let Some(mut rig) = Rig::try_new(&config(write_path), &small_arena()) else {
            continue;
        };
        let (release_peer, addr, served) = black_hole();
        rig.connect(CONN, addr, &SocketOptions::default());
        let frames: Vec<_> = (0..16).map(|n| Frame::new(&rig.arena, n, 16_384)).collect();
        let payload = Bytes::from(vec![7; MORE_THAN_BUFFERS]);
        let mut pieces = pieces_of(&frames);
        pieces.push(Piece::Bytes(payload.clone()));
        rig.write(CONN, &pieces);
        drop(pieces);
        for _ in 0..20 {
            rig.step(Duration::from_millis(5));
        }
        assert_eq!(
            rig.count(Seen::WriteDone(CONN)),
            0,
            "{write_path:?}: nobody reads"
        );
        rig.transport.close(CONN);
        let (cause, progress) = rig.drive_until_closed(CONN);
        assert_eq!(cause, LostCause::Local);
        assert!(progress.expect("unfinished") < MORE_THAN_BUFFERS as u64);
        assert!(payload.is_unique() && !frames.iter().any(Frame::is_lent));
        frames
            .into_iter()
            .for_each(|frame| frame.release(&rig.arena));
        drop(release_peer);
        served.join().unwrap();
        rig.finish();
    }
}

#[test]
fn a_black_hole_is_given_up_by_the_kernel_after_the_user_timeout() {
    let options = SocketOptions {
        user_timeout: Some(Duration::from_millis(500)),
        ..SocketOptions::default()
    };
    let (release_peer, addr, served) = black_hole();
    let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
    rig.connect(CONN, addr, &options);
    let payload = Bytes::from(vec![7; MORE_THAN_BUFFERS]);
    rig.write(CONN, &[Piece::Bytes(payload.clone())]);
    let (cause, progress) = rig.drive_until_closed(CONN);
    assert_eq!(cause, LostCause::TimedOut);
    assert!(progress.is_some_and(|bytes| bytes < MORE_THAN_BUFFERS as u64) && payload.is_unique());
    drop(release_peer);
    served.join().unwrap();
    rig.finish();
}

#[test]
fn a_zero_copy_write_is_done_only_when_its_memory_is_free() {
    let Some(mut rig) = Rig::try_new(&config(WritePath::SendZc), &small_arena()) else {
        return;
    };
    let (addr, served) = peer(read_to_end);
    rig.connect(CONN, addr, &SocketOptions::default());
    let frame = Frame::new(&rig.arena, 2, 16_384);
    for writes in 1..=50 {
        rig.write(CONN, &frame.pieces());
        assert!(frame.is_lent());
        rig.drive_until("a write", |rig| rig.count(Seen::WriteDone(CONN)) == writes);
        let stats = rig.transport.stats();
        assert_eq!(
            stats.zero_copy_notifications,
            stats.write_operations[CarriedBy::SendZc as usize]
        );
        assert!(!frame.is_lent());
    }
    let sent = wire_bytes(&frame.pieces()).repeat(50);
    frame.release(&rig.arena);
    rig.finish_sent(served, &sent);
}

/// Writes to a peer that does not read until the kernel takes no more, whole writes of 60,000 bytes each by reference;
/// gives their payloads and the most that were out at a time.
fn write_until_full(rig: &mut Rig) -> (Vec<Bytes>, usize) {
    let mut payloads = Vec::new();
    let mut out_most = 0;
    let mut quiet_rounds = 0;
    while quiet_rounds < 20 {
        quiet_rounds += 1;
        if rig.transport.can_write(CONN) {
            quiet_rounds = 0;
            let payload = Bytes::from(pattern(payloads.len() as u64, 60_000));
            rig.write(CONN, &[Piece::Bytes(payload.clone())]);
            payloads.push(payload);
        }
        rig.step(Duration::from_millis(5));
        let done = rig.count(Seen::WriteDone(CONN));
        out_most = out_most.max(payloads.len() - done);
        // Done means free, and in order.
        assert!(
            payloads[..done].iter().all(Bytes::is_unique),
            "a write that is done is held"
        );
        assert!(
            !payloads[done..].iter().any(Bytes::is_unique),
            "a write that is out is not held"
        );
    }
    (payloads, out_most)
}

fn large_send_buffer() -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: Some(4 << 20),
        ..SocketOptions::default()
    }
}

#[test]
fn zero_copy_writes_overlap_while_their_memory_is_with_the_kernel() {
    let config = TransportConfig {
        writes_max: 4,
        ..config(WritePath::SendZc)
    };
    let Some(mut rig) = Rig::try_new(&config, &small_arena()) else {
        return;
    };
    let (go, gone) = mpsc::channel::<()>();
    let (addr, served) = peer(move |stream| {
        gone.recv().unwrap();
        read_to_end(stream)
    });
    rig.connect(CONN, addr, &large_send_buffer());
    let (payloads, out_most) = write_until_full(&mut rig);
    assert!(
        (2..=4).contains(&out_most),
        "{out_most} {:?}",
        rig.transport.stats()
    );
    go.send(()).unwrap();
    rig.drive_until("every write", |rig| {
        rig.count(Seen::WriteDone(CONN)) == payloads.len()
    });
    rig.finish_sent(served, &payloads.concat());
}

#[test]
fn overlapping_writes_are_all_freed_when_the_connection_ends() {
    let config = TransportConfig {
        writes_max: 8,
        ..config(WritePath::SendZc)
    };
    let Some(mut rig) = Rig::try_new(&config, &small_arena()) else {
        return;
    };
    let (release_peer, addr, served) = black_hole();
    rig.connect(CONN, addr, &large_send_buffer());
    let (payloads, out_most) = write_until_full(&mut rig);
    assert!(
        (2..=8).contains(&out_most),
        "{out_most} {:?}",
        rig.transport.stats()
    );
    rig.transport.close(CONN);
    let (cause, progress) = rig.drive_until_closed(CONN);
    assert!(
        cause == LostCause::Local && progress.is_some_and(|bytes| bytes <= 60_000),
        "{cause:?} {progress:?}"
    );
    assert!(payloads.iter().all(Bytes::is_unique));
    drop(release_peer);
    served.join().unwrap();
    rig.finish();
}

#[test]
fn dropping_a_transport_in_full_flight_leaves_nothing_behind() {
    let (full, _filler) = full_listener();
    for write_path in PATHS {
        for (name, features) in feature_sets() {
            let config = TransportConfig {
                features,
                ..config(write_path)
            };
            let Some(mut rig) = Rig::try_new(&config, &small_arena()) else {
                continue;
            };
            let (release_peer, addr, served) = black_hole();
            rig.connect(CONN, addr, &SocketOptions::default());
            rig.transport.connect(
                ConnIndex(1),
                full.local_addr().unwrap(),
                &SocketOptions::default(),
            );
            let frame = Frame::new(&rig.arena, 1, 16_384);
            let payload = Bytes::from(vec![7; MORE_THAN_BUFFERS]);
            let [header, body] = frame.pieces();
            rig.write(CONN, &[header, body, Piece::Bytes(payload.clone())]);
            rig.step(Duration::ZERO);
            assert!(
                frame.is_lent() && !payload.is_unique(),
                "{write_path:?}, {name}: in flight"
            );
            let Rig {
                transport, arena, ..
            } = rig;
            drop(transport);
            assert!(payload.is_unique() && !frame.is_lent());
            frame.release(&arena);
            arena.assert_all_free();
            drop(release_peer);
            served.join().unwrap();
        }
    }
}

#[test]
fn an_index_lives_many_lives_without_a_stale_completion() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        for round in 0..200 {
            let (mut stream, _) = listener.accept().unwrap();
            // Every other time the peer leaves first.
            if round % 2 == 0 {
                let _ = stream.read(&mut [0; 64]);
            }
        }
    });
    let mut rig = Rig::new(&config(WritePath::Auto), &small_arena());
    let frame = Frame::new(&rig.arena, 1, 100);
    for round in 0..200 {
        rig.seen.clear();
        rig.connect(CONN, addr, &SocketOptions::default());
        if rig.transport.can_write(CONN) {
            rig.write(CONN, &frame.pieces());
        }
        if round % 3 == 0 {
            rig.transport.close(CONN);
        }
        rig.drive_until_closed(CONN);
    }
    frame.release(&rig.arena);
    served.join().unwrap();
    let stats = rig.finish();
    assert_eq!((stats.connects, stats.closes), (200, 200));
}

#[test]
fn closing_twice_or_a_free_connection_does_nothing() {
    let (addr, served) = peer(read_to_end);
    let mut rig = Rig::new(&config(WritePath::SendMsg), &small_arena());
    rig.transport.close(CONN);
    rig.connect(CONN, addr, &SocketOptions::default());
    rig.transport.close(CONN);
    rig.transport.close(CONN);
    rig.drive_until_closed(CONN);
    rig.transport.close(CONN);
    rig.step(Duration::ZERO);
    assert_eq!(rig.count(Seen::Closed(CONN, LostCause::Local, None)), 1);
    assert!(!rig.transport.can_write(CONN) && rig.transport.gather(CONN).is_none());
    served.join().unwrap();
    rig.finish();
}
