//! Ctrl-C: stop accepting, drain, say what became of everything.

use crate::support::{Broker, Process, ringmain};

#[test]
fn send_drains_and_prints_the_account() {
    let broker = Broker::start();
    // Standard input stays open and silent: the wait for it must end too.
    let mut process = Process::start(&mut broker.command(&["send", "--create"]));
    process.write(b"a\nb\nunfinished");
    broker.wait_for(b"a\nb\n");
    process.interrupt();
    let ended = process.ended_with_input_open();
    assert_eq!(ended.code, 130, "{}", ended.err);
    let out = String::from_utf8(ended.out).expect("UTF-8");
    assert!(out.contains("accepted 2 = stored 2 "), "{out}");
    assert!(ended.err.contains("interrupted"), "{}", ended.err);
    assert_eq!(broker.run(&["dump"], b"").out, b"a\nb\n");
}

#[test]
fn bench_prints_its_table() {
    let mut process = Process::start(&mut ringmain(&[
        "bench",
        "--seconds",
        "3600",
        "--rate",
        "100",
    ]));
    // The first line of standard error comes when everything is set up and sending begins.
    process.read_err_line();
    process.interrupt();
    let ended = process.ended();
    assert_eq!(ended.code, 130, "{}", ended.err);
    let out = String::from_utf8(ended.out).expect("UTF-8");
    assert!(out.contains("latency p99"), "{out}");
    assert!(out.contains("rejected 0 + not sent 0 + unknown 0"), "{out}");
}

#[test]
fn the_broker_ends_well() {
    let mut process = Process::start(&mut ringmain(&["broker", "--listen", "127.0.0.1:0"]));
    process.read_err_line();
    process.interrupt();
    let ended = process.ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.starts_with(b"127.0.0.1:"));
}

#[test]
fn the_broker_prints_its_counters_at_an_interval() {
    let arguments = ["broker", "--listen", "127.0.0.1:0", "--stats-seconds", "1"];
    let mut process = Process::start(&mut ringmain(&arguments));
    let told = process.read_err_line();
    assert!(told.contains("Ctrl-C"), "{told}");
    for _ in 0..2 {
        let told = process.read_err_line();
        assert!(told.ends_with("the broker saw so far"), "{told}");
        let counters = process.read_err_line();
        assert!(counters.starts_with("connections  open 0"), "{counters}");
        // The other lines of the block, down to that of the requests.
        while !process.read_err_line().starts_with("requests") {}
    }
    process.interrupt();
    let ended = process.ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("the broker saw\n"), "{}", ended.err);
}
