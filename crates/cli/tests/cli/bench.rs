//! `bench` as a user runs it: small sizes, every figure there, and the figures agree.

use crate::support::{Broker, ringmain, run};

/// The value after `"name":` in one JSON object of numbers.
fn figure(json: &str, name: &str) -> f64 {
    let after = json.split(&format!("\"{name}\":")).nth(1).expect(name);
    let end = after.find([',', '}']).expect("an end");
    after[..end].parse().expect(name)
}

/// Runs it to its end, which is well, or says that the rate was not held: a test must not depend on
/// the machine.
fn bench(arguments: &[&str]) -> (String, bool) {
    let mut command = ringmain(&["bench"]);
    command.args(arguments);
    if !arguments.contains(&"--seconds") {
        command.args(["--seconds", "1"]);
    }
    let ended = run(command, b"");
    assert!([0, 10].contains(&ended.code), "{}", ended.err);
    let is_held = ended.code == 0;
    assert_eq!(
        ended.err.contains("was not held"),
        !is_held,
        "{}",
        ended.err
    );
    (String::from_utf8(ended.out).expect("UTF-8"), is_held)
}

#[test]
fn the_table_of_the_default_run() {
    let (table, _) = bench(&[]);
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
    let (json, is_held) = bench(&[
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
    let records = figure(&json, "records");
    assert_eq!(figure(&json, "offered"), 2_000.0);
    assert_eq!(figure(&json, "offered_per_s"), 2_000.0);
    assert_eq!(records + figure(&json, "never_sent"), 2_000.0);
    assert!(!is_held || records >= 1_980.0, "{json}");
    assert_eq!(figure(&json, "bytes"), records * 64.0);
    assert_eq!(figure(&json, "stored"), records);
    assert!(figure(&json, "requests") >= 2.0);
    assert!(figure(&json, "requests") <= 2_000.0);
    assert!(figure(&json, "p50") > 0.0);
    assert!(figure(&json, "p50") <= figure(&json, "p90"));
    assert!(figure(&json, "p90") <= figure(&json, "max") * 1.001);
    assert!(
        json.contains("\"p99.99\":null"),
        "of 2000 records nobody can tell: {json}"
    );
    assert!(figure(&json, "seconds") >= 1.0);
    assert!(figure(&json, "records_per_s") <= 2_000.0, "{json}");
}

#[test]
fn large_records_travel_by_reference() {
    let (json, is_held) = bench(&["--json", "--rate", "20", "--record-bytes", "1000000"]);
    assert_eq!(figure(&json, "records") + figure(&json, "never_sent"), 20.0);
    assert!(is_held == (figure(&json, "records") == 20.0), "{json}");
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
    assert!([0, 10].contains(&ended.code), "{}", ended.err);
    assert!(
        ended.err.contains("the records stay in topic s/t"),
        "{}",
        ended.err
    );
    let ended = bench("3");
    assert_eq!(ended.code, 2, "{}", ended.err);
    assert!(ended.err.contains("--partitions 2"), "{}", ended.err);
}

#[test]
fn a_rate_the_server_cannot_take_is_said_not_to_be_held() {
    // Ten requests a second of 64 KiB at most, and a thousand records of 10 KB offered.
    let broker = Broker::start_with_fault(
        "request = 'SendMessages'\ntimes = 0\naction = 'delay'\nus = 100000\n",
    );
    let arguments = [
        "bench",
        "--json",
        "--seconds",
        "1",
        "--rate",
        "1000",
        "--record-bytes",
        "8000",
        "--partitions",
        "1",
        "--window",
        "1",
        "--memory-bytes",
        "1048576",
        "--batch-bytes",
        "65536",
    ];
    let ended = broker.run(&arguments, b"");
    assert_eq!(ended.code, 10, "{}", ended.err);
    let json = String::from_utf8(ended.out).expect("UTF-8");
    assert_eq!(figure(&json, "offered"), 1_000.0);
    let never_sent = figure(&json, "never_sent");
    assert!(never_sent > 0.0, "sending ends by the clock: {json}");
    assert_eq!(figure(&json, "records") + never_sent, 1_000.0);
    assert!(figure(&json, "records_per_s") < 990.0, "{json}");
    let told = format!("{never_sent} records were never sent");
    assert!(ended.err.contains(&told), "{}", ended.err);
}

#[test]
fn one_record_a_second_is_one_record_a_second() {
    let (json, _) = bench(&["--json", "--rate", "1", "--seconds", "2"]);
    assert_eq!(figure(&json, "offered"), 2.0);
    assert!(figure(&json, "records_per_s") <= 1.0, "{json}");
}

#[test]
fn a_sink_goes_before_the_server_of_the_environment() {
    let mut command = ringmain(&["bench", "--sink", "--seconds", "1"]);
    command.env("RINGMAIN_SERVER", "no server at all");
    let ended = run(command, b"");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(
        ended.err.contains("answers without storing"),
        "{}",
        ended.err
    );
}
