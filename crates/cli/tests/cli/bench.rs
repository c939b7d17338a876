//! `bench` as a user runs it: small sizes, every figure there, and the figures agree.

use crate::support::{Broker, ringmain, run};

/// The value after `"name":` in one JSON object of numbers.
fn figure(json: &str, name: &str) -> f64 {
    let after = json.split(&format!("\"{name}\":")).nth(1).expect(name);
    let end = after.find([',', '}']).expect("an end");
    after[..end].parse().expect(name)
}

fn bench(arguments: &[&str]) -> String {
    let mut command = ringmain(&["bench", "--seconds", "1"]);
    command.args(arguments);
    let ended = run(command, b"");
    assert_eq!(ended.code, 0, "{}", ended.err);
    String::from_utf8(ended.out).expect("UTF-8")
}

#[test]
fn the_table_of_the_default_run() {
    let table = bench(&[]);
    for name in [
        "records ",
        "bytes",
        "records/s",
        "MB/s",
        "requests",
        "records per request",
        "retries",
        "latency p50",
        "latency p90",
        "latency p99 ",
        "latency p99.9 ",
        "latency p99.99",
        "latency max",
        "accepted ",
    ] {
        assert!(
            table.lines().any(|line| line.starts_with(name)),
            "{name}: {table}"
        );
    }
}

#[test]
fn a_rate_is_kept_and_the_figures_agree() {
    let json = bench(&[
        "--json",
        "--rate",
        "2000",
        "--record-bytes",
        "64",
        "--partitions",
        "2",
        "--connections",
        "2",
    ]);
    assert_eq!(figure(&json, "records"), 2_000.0);
    assert_eq!(figure(&json, "bytes"), 128_000.0);
    assert_eq!(figure(&json, "stored"), 2_000.0);
    assert!(figure(&json, "requests") >= 2.0);
    assert!(figure(&json, "requests") <= 2_000.0);
    assert!(figure(&json, "p50") > 0.0);
    assert!(figure(&json, "p50") <= figure(&json, "p99.99"));
    assert!(figure(&json, "p99.99") <= figure(&json, "max") * 1.001);
    assert!(figure(&json, "seconds") >= 0.999);
}

#[test]
fn large_records_travel_by_reference() {
    let json = bench(&["--json", "--rate", "20", "--record-bytes", "1000000"]);
    assert_eq!(figure(&json, "records"), 20.0);
    assert_eq!(figure(&json, "bytes"), 20_000_000.0);
}

#[test]
fn a_topic_with_other_partitions_is_not_bent() {
    let broker = Broker::start();
    let bench = |partitions: &str| {
        let arguments = [
            "bench",
            "--seconds",
            "1",
            "--rate",
            "100",
            "--partitions",
            partitions,
        ];
        broker.run(&arguments, b"")
    };
    let ended = bench("2");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(
        ended.err.contains("the records stay in topic s/t"),
        "{}",
        ended.err
    );
    let ended = bench("3");
    assert_eq!(ended.code, 2, "{}", ended.err);
    assert!(ended.err.contains("--partitions 2"), "{}", ended.err);
}
