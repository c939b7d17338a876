//! Limits of the configuration, and queues that are too small.

use std::net::TcpListener;

use bytes::Bytes;
use ringmain_io::driver::Driver;
use ringmain_io::memory::{ArenaConfig, DriverMemory};
use ringmain_io::ring::SetupError;
use ringmain_io::transport::{ConnIndex, SocketOptions, Transport, TransportConfig, WritePath};

use super::support::*;

#[test]
fn a_full_submission_queue_is_flushed_and_counted() {
    for (_, features) in feature_sets() {
        let config = TransportConfig {
            submission_entries: 1,
            features,
            ..config(WritePath::Auto)
        };
        let mut rig = Rig::new(&config, &small_arena());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        (0..8).for_each(|index| {
            rig.transport
                .connect(ConnIndex(index), addr, &SocketOptions::default());
        });
        let served: Vec<_> = (0..8)
            .map(|_| {
                let (stream, _) = listener.accept_while_driving(&mut rig);
                std::thread::spawn(move || read_to_end(stream))
            })
            .collect();
        (0..8).for_each(|index| rig.drive_until_seen(Seen::Connected(ConnIndex(index))));
        for index in 0..8 {
            rig.write(
                ConnIndex(index),
                &[Piece::Bytes(Bytes::from(pattern(5, 10_000)))],
            );
        }
        (0..8).for_each(|index| rig.drive_until_seen(Seen::WriteDone(ConnIndex(index))));
        (0..8).for_each(|index| rig.transport.close(ConnIndex(index)));
        (0..8).for_each(|index| {
            rig.drive_until_closed(ConnIndex(index));
        });
        for thread in served {
            assert_eq!(thread.join().unwrap(), pattern(5, 10_000));
        }
        let stats = rig.finish();
        assert!(stats.submission_queue_full > 20, "{stats:?}");
    }
}

trait AcceptWhileDriving {
    fn accept_while_driving(&self, rig: &mut Rig) -> (std::net::TcpStream, std::net::SocketAddr);
}

impl AcceptWhileDriving for TcpListener {
    fn accept_while_driving(&self, rig: &mut Rig) -> (std::net::TcpStream, std::net::SocketAddr) {
        self.set_nonblocking(true).unwrap();
        let mut accepted = None;
        rig.drive_until("a connection to accept", |_| {
            accepted = self.accept().ok();
            accepted.is_some()
        });
        let (stream, addr) = accepted.unwrap();
        stream.set_nonblocking(false).unwrap();
        (stream, addr)
    }
}

#[test]
fn options_out_of_range_are_named_and_nothing_is_set_up() {
    type Change = fn(&mut TransportConfig);
    let cases: [(Change, &str); 9] = [
        (|config| config.connections_max = 0, "connections_max"),
        // More than the arena has receive buffers.
        (|config| config.connections_max = 9, "connections_max"),
        (
            |config| config.connections_max = u16::MAX,
            "connections_max",
        ),
        (|config| config.write_pieces_max = 0, "write_pieces_max"),
        (
            |config| config.write_pieces_max = u32::MAX,
            "write_pieces_max",
        ),
        (|config| config.writes_max = 0, "writes_max"),
        (|config| config.writes_max = 9, "writes_max"),
        (|config| config.submission_entries = 0, "submission_entries"),
        (
            |config| config.submission_entries = 5_000,
            "submission_entries",
        ),
    ];
    for (change, name) in cases {
        let mut config = config(WritePath::Auto);
        change(&mut config);
        let arena = DriverMemory::new(&small_arena()).unwrap();
        match Transport::new(&config, arena) {
            Err(SetupError::Option { option, .. }) => assert_eq!(option, name),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{config:?} was taken"),
        }
    }
}

#[test]
fn the_largest_configuration_starts_and_stops() {
    let arena = ArenaConfig {
        recv_buffers: 32_768,
        ..small_arena()
    };
    let config = TransportConfig {
        connections_max: 1024,
        submission_entries: 4096,
        write_pieces_max: 16,
        ..config(WritePath::Auto)
    };
    let mut rig = Rig::new(&config, &arena);
    assert_eq!(rig.transport.info().completion_entries, 65_536);
    rig.step(std::time::Duration::ZERO);
    rig.finish();
}

#[test]
fn features_that_were_switched_off_are_not_used() {
    for (name, features) in feature_sets() {
        let rig = Rig::new(
            &TransportConfig {
                features,
                ..config(WritePath::SendMsg)
            },
            &small_arena(),
        );
        let used = rig.transport.info().features;
        let pairs = [
            (features.single_issuer, used.single_issuer),
            (features.defer_taskrun, used.defer_taskrun),
            (features.multishot_recv, used.multishot_recv),
            (features.vectored_fixed, used.vectored_fixed),
            (features.send_zc, used.send_zc),
            (features.send_zc_wait_all, used.send_zc_wait_all),
        ];
        assert!(
            pairs.iter().all(|(wanted, used)| *wanted || !used),
            "{name}: {used:?}"
        );
        let stats = rig.finish();
        assert_eq!(
            stats.registered_bytes > 0,
            features.registered_arena,
            "{name}"
        );
    }
}
