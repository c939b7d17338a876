//! Zero-copy writes: free only with their notification, overlapping, given up. What every driver
//! does is in [`super::contract`].

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use ringmain_io::driver::Driver;
use ringmain_io::transport::{CarriedBy, LostCause, SocketOptions, TransportConfig, WritePath};

use super::support::*;

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

/// Writes to a peer that does not read until the kernel takes no more, whole writes of 60,000 bytes
/// each by reference; gives their payloads and the most that were out at a time.
fn write_until_full(rig: &mut Rig) -> (Vec<Bytes>, usize) {
    let mut payloads = Vec::new();
    let mut out_most = 0;
    let mut quiet_rounds = 0;
    while quiet_rounds < 20 {
        quiet_rounds += 1;
        if rig.can_write(CONN) {
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
