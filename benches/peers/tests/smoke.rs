//! One short case from end to end: processes, sockets, the check with the broker, the table. No
//! time is asserted.

use std::process::Command;

#[test]
fn a_short_case_gives_a_row_for_each_peer() {
    let output = Command::new(env!("CARGO_BIN_EXE_ringmain-bench-peers"))
        .args(["--case", "round-trip", "--case", "sink-1000"])
        .args(["--rounds", "1", "--seconds", "0.1"])
        .output()
        .expect("the program starts");
    let (table, log) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        assert!(!output.status.success());
        assert!(
            log.contains("a broker and a client that share one"),
            "{log}"
        );
        return;
    }
    assert!(output.status.success(), "{log}");
    let rows = |start: &str| table.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(rows("| round-trip | p50 "), 2, "{table}");
    assert_eq!(rows("| round-trip | p99 "), 2, "{table}");
    assert_eq!(rows("| sink-1000 | MB/s "), 4, "{table}");
}

#[test]
fn an_unknown_case_is_refused_with_the_names_of_all() {
    let output = Command::new(env!("CARGO_BIN_EXE_ringmain-bench-peers"))
        .args(["--case", "none"])
        .output()
        .expect("the program starts");
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    let is_refused = log.contains("no case is called `none`") && log.contains("send-1000");
    assert!(is_refused || log.contains("share one"), "{log}");
}
