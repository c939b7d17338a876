//! Builders refuse what cannot work, when it is built and by name.

mod support;

use ringmain::{BuildError, Engine, Partitioning, limits};
use support::{Server, Start};

fn option_of(error: &BuildError) -> &'static str {
    match error {
        BuildError::OutOfRange { option, .. }
        | BuildError::Contradiction { option, .. }
        | BuildError::NotMultiple { option, .. } => option,
        other => panic!("{other}"),
    }
}

#[test]
fn options_of_an_engine_out_of_range_are_named() {
    let base = || {
        Engine::builder()
            .server("iggy://iggy:iggy@127.0.0.1:1")
            .cores([])
    };
    let cases = [
        (base().shards(0), "shards"),
        (base().shards(u16::MAX), "shards"),
        (base().connections(0), "connections"),
        (base().connections(u16::MAX), "connections"),
        (base().shards(2).connections(1), "connections"),
        (base().slot_bytes(0), "slot_bytes"),
        (base().slot_bytes(5000), "slot_bytes"),
        (base().slot_bytes(u32::MAX), "slot_bytes"),
        (base().memory_bytes_max(0), "memory_bytes_max"),
        (base().memory_bytes_max(u64::MAX), "memory_bytes_max"),
        (base().memory_bytes_max(64 << 10), "memory_bytes_max"),
        (base().busy_poll_us(u32::MAX), "busy_poll_us"),
        (base().request_timeout_us(0), "request_timeout_us"),
        (base().request_timeout_us(u64::MAX), "request_timeout_us"),
        (base().connect_timeout_us(0), "connect_timeout_us"),
        (base().partitions_max(0), "partitions_max"),
        (base().cores([0, 1, 2]), "cores"),
    ];
    for (builder, option) in cases {
        let error = builder.build().expect_err(option);
        assert_eq!(option_of(&error), option);
    }
    assert!(matches!(
        Engine::builder().build(),
        Err(BuildError::ServerMissing)
    ));
    assert!(matches!(
        Engine::builder().server("http://x").build(),
        Err(BuildError::ServerUrl(_))
    ));
}

#[test]
fn options_of_a_producer_out_of_range_are_named() {
    let server = Server::start();
    let engine = server.engine().start();
    let base = || {
        engine
            .producer("stream", "topic")
            .partitioning(Partitioning::Sticky)
    };
    let cases = [
        (base().window_requests_max(0), "window_requests_max"),
        (base().window_requests_max(33), "window_requests_max"),
        (base().batch_bytes_max(0), "batch_bytes_max"),
        (base().batch_bytes_max(u32::MAX), "batch_bytes_max"),
        (base().batch_records_max(0), "batch_records_max"),
        (base().copy_bytes_max(u32::MAX), "copy_bytes_max"),
        (base().linger_us(u64::MAX), "linger_us"),
        (base().delivery_timeout_us(0), "delivery_timeout_us"),
        (base().delivery_timeout_us(u64::MAX), "delivery_timeout_us"),
        (
            base().linger_us(10_000).delivery_timeout_us(5_000),
            "linger_us",
        ),
        (base().partitions_refresh_us(0), "partitions_refresh_us"),
        (base().create_if_missing(0), "create_if_missing"),
        (
            base().create_if_missing(limits::PARTITIONS_CREATE_MAX + 1),
            "create_if_missing",
        ),
    ];
    for (builder, option) in cases {
        let error = builder.build().expect_err(option);
        assert_eq!(option_of(&error), option);
    }
    for name in ["", &"x".repeat(256)] {
        let error = engine
            .producer(name, "topic")
            .build()
            .expect_err("a bad name");
        assert!(
            matches!(error, BuildError::NameLength { what: "stream", .. }),
            "{error}"
        );
    }
    let missing = engine
        .producer(server.stream("missing"), "topic")
        .build()
        .expect_err("no such stream");
    assert!(
        matches!(missing, BuildError::TopicMissing { .. }),
        "{missing}"
    );
}
