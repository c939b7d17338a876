//! The contract of a driver, case by case. Each case runs on every variant of every driver.
//!
//! A new driver implements [`Implementation`] and adds a line at the end of this file.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain_io::driver::{ConnIndex, Gather, LostCause, SocketOptions};
use ringmain_io::memory::DriverMemory;

use super::support::*;

fn a_refused_connect_says_so_and_frees_the_index<D: Implementation>() {
    for mut rig in rigs::<D>() {
        for _ in 0..3 {
            rig.seen.clear();
            rig.transport
                .connect(CONN, unused_addr(), &SocketOptions::default());
            rig.drive_until_seen(Seen::ConnectFailed(CONN, LostCause::Refused));
        }
        assert_eq!(rig.finish().connect_failures, 3);
    }
}

fn both_address_families_connect<D: Implementation>() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(bind) else {
            println!("skipped: this host has no {bind}");
            continue;
        };
        let addr = listener.local_addr().unwrap();
        for mut rig in rigs::<D>() {
            let listener = listener.try_clone().unwrap();
            let served = std::thread::spawn(move || read_to_end(listener.accept().unwrap().0));
            rig.connect(CONN, addr, &SocketOptions::default());
            rig.write_all(CONN, &[Piece::Bytes(Bytes::from_static(b"over"))]);
            rig.transport.close(CONN);
            rig.drive_until_closed(CONN);
            assert_eq!(served.join().unwrap(), b"over");
            rig.finish();
        }
    }
}

fn a_connect_nobody_answers_ends_when_it_is_closed<D: Implementation>() {
    let (listener, _filler) = full_listener();
    for mut rig in rigs::<D>() {
        let addr = listener.local_addr().unwrap();
        rig.transport.connect(CONN, addr, &SocketOptions::default());
        for _ in 0..3 {
            rig.step(Duration::from_millis(10));
        }
        assert_eq!(rig.seen, [], "still connecting");
        assert!(!rig.can_write(CONN));
        rig.transport.close(CONN);
        assert_eq!(rig.drive_until_closed(CONN), (LostCause::Local, None));
        rig.finish();
    }
}

fn a_connect_nobody_answers_times_out_by_itself<D: Implementation>() {
    let (listener, _filler) = full_listener();
    for mut rig in rigs::<D>() {
        let addr = listener.local_addr().unwrap();
        rig.transport.connect(CONN, addr, &short_user_timeout());
        rig.drive_until_seen(Seen::ConnectFailed(CONN, LostCause::TimedOut));
        rig.finish();
    }
}

fn writes_arrive_and_are_done_in_their_order<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (addr, served) = peer(read_to_end);
        rig.connect(CONN, addr, &SocketOptions::default());
        let frames: Vec<_> = (0..7)
            .map(|n| Frame::new(&rig.arena, n, 1000 * n as usize))
            .collect();
        let mut sent = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            rig.drive_until("room for a write", |rig| rig.can_write(CONN));
            let done = rig.count(Seen::WriteDone(CONN));
            // What is not done is lent, what is done is free, and the oldest is done first.
            for (other, frame) in frames[..index].iter().enumerate() {
                assert_eq!(
                    frame.is_lent(),
                    other >= done,
                    "write {other} of {done} done"
                );
            }
            rig.write(CONN, &frame.pieces());
            assert!(frame.is_lent(), "lent from the push on");
            sent.extend_from_slice(&wire_bytes(&frame.pieces()));
        }
        rig.drive_until("every write", |rig| {
            rig.count(Seen::WriteDone(CONN)) == frames.len()
        });
        for frame in frames {
            assert!(!frame.is_lent(), "free with its event");
            frame.release(&rig.arena);
        }
        rig.finish_sent(served, &sent);
    }
}

fn a_peer_that_closes_is_reported_after_its_last_bytes<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (addr, served) = peer(|mut stream| stream.write_all(&pattern(4, 100_000)).unwrap());
        rig.connect(CONN, addr, &SocketOptions::default());
        assert_eq!(rig.drive_until_closed(CONN), (LostCause::PeerClosed, None));
        assert!(rig.received[&0] == pattern(4, 100_000));
        served.join().unwrap();
        rig.finish();
    }
}

fn a_peer_that_dies_in_the_middle_of_a_write_ends_it_with_its_progress<D: Implementation>() {
    for mut rig in rigs::<D>() {
        // Dropped with unread bytes: the kernel resets.
        let (addr, served) = peer(|mut stream| stream.read_exact(&mut [0; 100_000]).unwrap());
        rig.connect(CONN, addr, &SocketOptions::default());
        let frame = Frame::new(&rig.arena, 1, 16_384);
        let payload = Bytes::from(vec![7; MORE_THAN_BUFFERS]);
        let [header, body] = frame.pieces();
        rig.write(CONN, &[header, body, Piece::Bytes(payload.clone())]);
        let (cause, progress) = rig.drive_until_closed(CONN);
        assert!(
            matches!(
                cause,
                LostCause::PeerReset | LostCause::PeerClosed | LostCause::Broken
            ),
            "{cause:?}"
        );
        let progress = progress.expect("the write was unfinished");
        assert!(
            (100_000..MORE_THAN_BUFFERS as u64).contains(&progress),
            "{progress}"
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

fn the_last_words_of_a_peer_are_delivered_although_writing_failed<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (addr, served) = peer(|mut stream| {
            stream.read_exact(&mut [0; 10]).unwrap();
            stream.write_all(&pattern(6, 50_000)).unwrap();
        });
        rig.connect(CONN, addr, &SocketOptions::default());
        rig.write_all(CONN, &[Piece::Bytes(Bytes::from_static(&[0; 10]))]);
        served.join().unwrap();
        // The peer is gone. Whether this write or the receive notices first, the words come before
        // the end.
        rig.write(
            CONN,
            &[Piece::Bytes(Bytes::from(vec![0; MORE_THAN_BUFFERS]))],
        );
        rig.drive_until_closed(CONN);
        assert!(rig.received[&0] == pattern(6, 50_000));
        rig.finish();
    }
}

fn a_black_hole_is_given_up_and_every_piece_is_free<D: Implementation>() {
    for mut rig in rigs::<D>() {
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
        assert_eq!(rig.count(Seen::WriteDone(CONN)), 0, "nobody reads");
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

fn a_black_hole_is_given_up_by_the_kernel_after_the_user_timeout<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (release_peer, addr, served) = black_hole();
        rig.connect(CONN, addr, &short_user_timeout());
        let payload = Bytes::from(vec![7; MORE_THAN_BUFFERS]);
        rig.write(CONN, &[Piece::Bytes(payload.clone())]);
        let (cause, progress) = rig.drive_until_closed(CONN);
        // A send that waits for all of it hides the errno that cut it short.
        assert!(
            matches!(cause, LostCause::TimedOut | LostCause::Broken),
            "{cause:?}"
        );
        assert!(progress.is_some_and(|bytes| bytes < MORE_THAN_BUFFERS as u64));
        assert!(payload.is_unique());
        drop(release_peer);
        served.join().unwrap();
        rig.finish();
    }
}

fn dropping_a_driver_in_full_flight_leaves_nothing_behind<D: Implementation>() {
    let (full, _filler) = full_listener();
    for mut rig in rigs::<D>() {
        let (release_peer, addr, served) = black_hole();
        rig.connect(CONN, addr, &SocketOptions::default());
        let full = full.local_addr().unwrap();
        rig.transport
            .connect(ConnIndex(1), full, &SocketOptions::default());
        let frame = Frame::new(&rig.arena, 1, 16_384);
        let payload = Bytes::from(vec![7; MORE_THAN_BUFFERS]);
        let [header, body] = frame.pieces();
        rig.write(CONN, &[header, body, Piece::Bytes(payload.clone())]);
        rig.step(Duration::ZERO);
        assert!(frame.is_lent() && !payload.is_unique(), "in flight");
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

fn an_index_lives_many_lives<D: Implementation>() {
    const LIVES: u64 = 100;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    for mut rig in rigs::<D>() {
        let listener = listener.try_clone().unwrap();
        let served = std::thread::spawn(move || {
            for life in 0..LIVES {
                let (mut stream, _) = listener.accept().unwrap();
                // Every other time the peer leaves first.
                if life % 2 == 0 {
                    drop(stream.read(&mut [0; 64]));
                }
            }
        });
        let frame = Frame::new(&rig.arena, 1, 100);
        for life in 0..LIVES {
            rig.seen.clear();
            rig.connect(CONN, addr, &SocketOptions::default());
            if rig.can_write(CONN) {
                rig.write(CONN, &frame.pieces());
            }
            if life % 3 == 0 {
                rig.transport.close(CONN);
            }
            rig.drive_until_closed(CONN);
        }
        frame.release(&rig.arena);
        served.join().unwrap();
        let stats = rig.finish();
        assert_eq!((stats.connects, stats.closes), (LIVES, LIVES));
    }
}

fn closing_twice_or_a_free_connection_does_nothing<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (addr, served) = peer(read_to_end);
        rig.transport.close(CONN);
        rig.connect(CONN, addr, &SocketOptions::default());
        rig.transport.close(CONN);
        rig.transport.close(CONN);
        rig.drive_until_closed(CONN);
        rig.transport.close(CONN);
        rig.step(Duration::ZERO);
        assert_eq!(rig.count(Seen::Closed(CONN, LostCause::Local, None)), 1);
        assert!(!rig.can_write(CONN));
        served.join().unwrap();
        rig.finish();
    }
}

fn a_wake_up_before_the_wait_ends_it_at_once<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let handle = rig.transport.wake_handle();
        (0..10).for_each(|_| handle.wake());
        let started = Instant::now();
        rig.step(PATIENCE);
        assert_eq!(rig.seen, [Seen::Woken], "many calls, one event");
        assert!(started.elapsed() < PATIENCE / 2);
        rig.step(Duration::ZERO);
        assert_eq!(rig.seen, [Seen::Woken]);
        drop(rig.transport);
        handle.wake();
    }
}

fn a_wake_up_from_another_thread_ends_a_wait<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let handle = rig.transport.wake_handle();
        let started = Instant::now();
        let waker = std::thread::spawn(move || handle.wake());
        rig.drive_until_seen(Seen::Woken);
        assert!(started.elapsed() < PATIENCE / 2);
        waker.join().unwrap();
        rig.finish();
    }
}

fn a_wait_ends_when_its_time_is_over<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let started = Instant::now();
        rig.step(Duration::from_millis(20));
        rig.step(Duration::from_millis(20));
        assert!(started.elapsed() >= Duration::from_millis(40));
        assert_eq!(rig.seen, []);
        rig.finish();
    }
}

fn a_block_of_another_arena_is_refused<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (addr, served) = peer(read_to_end);
        rig.connect(CONN, addr, &SocketOptions::default());
        let other = DriverMemory::new(&small_arena()).unwrap();
        let foreign = other.arena().slots().acquire().unwrap();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut write = rig.transport.gather(CONN).unwrap();
            write.push_slot(&foreign, 0..10);
        }));
        assert!(refused.is_err());
        assert!(rig.can_write(CONN), "the connection is as before");
        other.arena().slots().release(foreign);
        drop(rig.transport);
        served.join().unwrap();
    }
}

fn a_gather_that_is_dropped_lends_nothing_and_writes_nothing<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (addr, served) = peer(read_to_end);
        rig.connect(CONN, addr, &SocketOptions::default());
        let frame = Frame::new(&rig.arena, 1, 100);
        let mut gather = rig.transport.gather(CONN).unwrap();
        let room = gather.room_pieces();
        gather.push_slot(&frame.header, 0..256);
        gather.push_slot(&frame.header, 7..7);
        gather.push_bytes(Bytes::new());
        assert_eq!((gather.room_pieces(), gather.bytes()), (room - 1, 256));
        assert!(frame.header.is_lent());
        drop(gather);
        assert!(!frame.is_lent());
        let mut leaked = rig.transport.gather(CONN).unwrap();
        leaked.push_slot(&frame.body, 0..100);
        std::mem::forget(leaked);
        rig.write_all(CONN, &[Piece::Bytes(Bytes::from_static(b"only this"))]);
        assert!(!frame.is_lent());
        frame.release(&rig.arena);
        rig.finish_sent(served, b"only this");
    }
}

fn connections_are_independent<D: Implementation>() {
    for mut rig in rigs::<D>() {
        let (release_peer, stuck, served_stuck) = black_hole();
        let (addr, served) = peer(read_to_end);
        let other = ConnIndex(1);
        rig.connect(other, stuck, &SocketOptions::default());
        rig.connect(CONN, addr, &SocketOptions::default());
        rig.write(
            other,
            &[Piece::Bytes(Bytes::from(vec![0; MORE_THAN_BUFFERS]))],
        );
        rig.write_all(CONN, &[Piece::Bytes(Bytes::from(pattern(9, 300_000)))]);
        rig.transport.close(other);
        rig.drive_until_closed(other);
        rig.write_all(CONN, &[Piece::Bytes(Bytes::from_static(b"and on"))]);
        drop(release_peer);
        served_stuck.join().unwrap();
        let sent = [&pattern(9, 300_000)[..], b"and on"].concat();
        rig.finish_sent(served, &sent);
    }
}

/// A connect, or a write without an acknowledgement, is given up after half a second.
fn short_user_timeout() -> SocketOptions {
    SocketOptions {
        user_timeout: Some(Duration::from_millis(500)),
        ..SocketOptions::default()
    }
}

/// Makes a module of tests, one for each case, for a driver.
macro_rules! contract {
    ($($case:ident)*) => {
        macro_rules! contract_of {
            ($driver:ident: $implementation:ty) => {
                mod $driver {
                    $(
                        #[test]
                        fn $case() {
                            super::$case::<$implementation>();
                        }
                    )*
                }
            };
        }
    };
}

contract! {
    a_refused_connect_says_so_and_frees_the_index
    both_address_families_connect
    a_connect_nobody_answers_ends_when_it_is_closed
    a_connect_nobody_answers_times_out_by_itself
    writes_arrive_and_are_done_in_their_order
    a_peer_that_closes_is_reported_after_its_last_bytes
    a_peer_that_dies_in_the_middle_of_a_write_ends_it_with_its_progress
    the_last_words_of_a_peer_are_delivered_although_writing_failed
    a_black_hole_is_given_up_and_every_piece_is_free
    a_black_hole_is_given_up_by_the_kernel_after_the_user_timeout
    dropping_a_driver_in_full_flight_leaves_nothing_behind
    an_index_lives_many_lives
    closing_twice_or_a_free_connection_does_nothing
    a_wake_up_before_the_wait_ends_it_at_once
    a_wake_up_from_another_thread_ends_a_wait
    a_wait_ends_when_its_time_is_over
    a_block_of_another_arena_is_refused
    a_gather_that_is_dropped_lends_nothing_and_writes_nothing
    connections_are_independent
}

contract_of!(io_uring: ringmain_io::transport::Transport);
contract_of!(epoll: ringmain_io::epoll::Epoll);
