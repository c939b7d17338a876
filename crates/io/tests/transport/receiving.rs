//! The receive side: multishot and single, few buffers, many connections.

use std::io::Write;
use std::net::TcpListener;

use ringmain_io::memory::ArenaConfig;
use ringmain_io::transport::{ConnIndex, Features, SocketOptions, TransportConfig, WritePath};

use super::support::*;

#[test]
fn a_stream_larger_than_all_buffers_arrives_in_order() {
    for (name, features) in feature_sets() {
        let (addr, served) = peer(|mut stream| stream.write_all(&pattern(2, 3_000_000)).unwrap());
        let mut rig = Rig::new(
            &TransportConfig {
                features,
                ..config(WritePath::SendMsg)
            },
            &small_arena(),
        );
        rig.connect(CONN, addr, &SocketOptions::default());
        rig.drive_until_closed(CONN);
        assert!(rig.received[&0] == pattern(2, 3_000_000), "{name}");
        served.join().unwrap();
        let stats = rig.finish();
        assert_eq!(stats.receive_bytes, 3_000_000);
        if features.multishot_recv {
            assert!(
                stats.receive_requests <= stats.receives / 2,
                "one request, many completions: {stats:?}"
            );
        } else {
            assert!(stats.receive_requests >= stats.receives, "{stats:?}");
        }
    }
}

#[test]
fn running_out_of_receive_buffers_delays_and_loses_nothing() {
    let arena = ArenaConfig {
        recv_buffers: 1,
        ..small_arena()
    };
    let config = TransportConfig {
        connections_max: 1,
        ..config(WritePath::SendMsg)
    };
    let (addr, served) = peer(|mut stream| stream.write_all(&pattern(3, 500_000)).unwrap());
    let mut rig = Rig::new(&config, &arena);
    rig.connect(CONN, addr, &SocketOptions::default());
    rig.drive_until_closed(CONN);
    assert!(rig.received[&0] == pattern(3, 500_000));
    served.join().unwrap();
    let stats = rig.finish();
    assert!(stats.receive_buffers_empty > 0, "{stats:?}");
}

#[test]
fn streams_of_many_connections_do_not_mix() {
    for multishot_recv in [true, false] {
        let features = Features {
            multishot_recv,
            ..Features::default()
        };
        let mut rig = Rig::new(
            &TransportConfig {
                features,
                ..config(WritePath::SendMsg)
            },
            &small_arena(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let mut served = Vec::new();
        for index in 0..8u16 {
            rig.connect(ConnIndex(index), addr, &SocketOptions::default());
            let (mut stream, _) = listener.accept().unwrap();
            served.push(std::thread::spawn(move || {
                stream
                    .write_all(&pattern(u64::from(index), 400_000))
                    .unwrap();
            }));
        }
        for index in 0..8u16 {
            rig.drive_until_closed(ConnIndex(index));
            assert!(
                rig.received[&index] == pattern(u64::from(index), 400_000),
                "connection {index}"
            );
        }
        served.into_iter().for_each(|thread| thread.join().unwrap());
        rig.finish();
    }
}
