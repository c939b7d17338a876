//! Every write path and every fallback on this kernel, with tiny socket buffers so that writes come back short.

mod support;

use bytes::Bytes;
use ringmain::{BuildError, EngineBuilder, Features, Record, SocketOptions, WritePath};
use support::{PATIENCE, Server, unique};

/// Sends records around every threshold and checks each byte on the way back.
fn check(what: &str, builder: EngineBuilder, server: &Server) {
    let sockets = SocketOptions {
        send_buffer_bytes: Some(8192),
        ..SocketOptions::default()
    };
    let engine = match builder.socket_options(sockets).build() {
        Ok(engine) => engine,
        Err(BuildError::Setup(cause)) => {
            println!("skipped on this kernel: {what}: {cause}");
            return;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    let stream = unique("paths");
    let producer = engine
        .producer(&stream, "topic")
        .create_if_missing(1)
        .build()
        .expect("a new topic");
    let payloads: Vec<Bytes> = (0..120_usize)
        .map(|index| {
            let size = [0, 1, 100, 3000, 40_000, 150_000][index % 6];
            Bytes::from(
                (0..size)
                    .map(|at| (at * 7 + index) as u8)
                    .collect::<Vec<u8>>(),
            )
        })
        .collect();
    let receipts = producer
        .send_batch(payloads.iter().cloned().map(Record::new))
        .expect("accepted");
    let account = receipts.wait_deadline(std::time::Instant::now() + PATIENCE);
    assert!(account.all_stored(), "{what}: {account}");
    let reader = server.engine().build().expect("a healthy server");
    let records = support::read_back(&reader, &stream, "topic", 0);
    assert_eq!(records.len(), payloads.len(), "{what}");
    for (index, (record, payload)) in records.iter().zip(&payloads).enumerate() {
        assert!(record.payload == payload, "{what}: record {index}");
    }
    let stats = engine.stats();
    assert_eq!(stats.transport.completion_overflows, 0, "{what}");
    assert_eq!(stats.transport.stale_completions, 0, "{what}");
    assert!(engine.close(PATIENCE).drained, "{what}");
    assert_eq!(engine.stats().slots_free, engine.stats().slots, "{what}");
}

#[test]
fn every_write_path_delivers_every_byte() {
    let server = Server::start();
    for path in [
        WritePath::Auto,
        WritePath::WritevFixed,
        WritePath::SendMsg,
        WritePath::SendZc,
    ] {
        check(
            &format!("{path:?}"),
            server.engine().write_path(path),
            &server,
        );
    }
}

/// Switches one feature off.
type Switch = fn(&mut Features);

#[test]
fn every_feature_can_be_missing() {
    let server = Server::start();
    // Each switch alone, and all of them together.
    let switches: [(&str, Switch); 7] = [
        ("single issuer", |features| {
            // Deferred work needs it.
            features.single_issuer = false;
            features.defer_taskrun = false;
        }),
        ("deferred work", |features| {
            features.defer_taskrun = false;
        }),
        ("registered arena", |features| {
            features.registered_arena = false;
        }),
        ("multishot receive", |features| {
            features.multishot_recv = false;
        }),
        ("vectored fixed", |features| {
            features.vectored_fixed = false;
        }),
        ("zero copy", |features| {
            features.send_zc = false;
        }),
        ("waiting sends", |features| {
            features.send_zc_wait_all = false;
        }),
    ];
    let mut none = Features::default();
    for (name, switch_off) in switches {
        let mut features = Features::default();
        switch_off(&mut features);
        switch_off(&mut none);
        check(
            &format!("no {name}"),
            server.engine().features(features),
            &server,
        );
    }
    check("no feature at all", server.engine().features(none), &server);
}
