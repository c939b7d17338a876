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
