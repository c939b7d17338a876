//! Ctrl-C: stop accepting, drain, say what became of everything.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use ringmain_broker::{Broker as InProcess, Script};

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
    assert!(out.contains("records/s"), "{out}");
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

#[test]
fn before_the_first_record_it_is_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let fifo = fifo.to_str().expect("UTF-8");
    // Somebody who takes connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = format!("iggy://iggy:iggy@{}", silent.local_addr().expect("bound"));
    let to = ["--stream", "s", "--topic", "t"];
    for signal in ["INT", "TERM"] {
        for (arguments, is_connecting) in [
            (vec!["send", fifo], false),
            (
                vec!["send", "--server", &server, "--password-file", fifo],
                false,
            ),
            (vec!["send", "--server", &server], true),
            (vec!["bench", "--server", &server], true),
            (vec!["dump", "--server", &server], true),
        ] {
            let process = Process::start(ringmain(&arguments).args(to));
            process.wait_until_it_watches();
            let connection = is_connecting.then(|| silent.accept().expect("it connects"));
            process.signal(signal);
            let ended = process.ended_with_input_open();
            assert_eq!(ended.code, 130, "{arguments:?}: {}", ended.err);
            assert!(ended.err.contains("interrupted"), "{}", ended.err);
            drop(connection);
        }
    }
}

/// A broker that takes records and never answers, and a `send` with one of them on its way.
fn send_without_answers(timeout: &str) -> (InProcess, Process) {
    let script = "[[fault]]\nrequest = 'SendMessages'\ntimes = 0\naction = 'drop'\n";
    let broker = InProcess::builder()
        .script(Script::from_toml(script).expect("a script"))
        .start()
        .expect("a broker");
    let server = format!("iggy://iggy:iggy@{}", broker.addr());
    let arguments = [
        "send",
        "--stream",
        "s",
        "--topic",
        "t",
        "--create",
        "--timeout",
        timeout,
    ];
    let mut process = Process::start(ringmain(&arguments).env("RINGMAIN_SERVER", server));
    process.write(b"a\n");
    while broker.stats().faults == 0 {
        std::thread::yield_now();
    }
    (broker, process)
}

#[test]
fn send_gives_up_after_its_drain_time() {
    for signal in ["INT", "TERM"] {
        let (_broker, process) = send_without_answers("2");
        process.signal(signal);
        let ended = process.ended_with_input_open();
        assert_eq!(ended.code, 1, "{}", ended.err);
        let out = String::from_utf8(ended.out).expect("UTF-8");
        assert!(out.contains("accepted 1 = stored 0 "), "{out}");
        assert!(ended.err.contains("line 1 is the first"), "{}", ended.err);
    }
}

#[test]
fn a_second_signal_ends_the_drain() {
    let (_broker, process) = send_without_answers("3600");
    let ended = process.ended_by_signals();
    assert_eq!(ended.code, 130, "{}", ended.err);
}

#[test]
fn readers_that_stand_still_do_not_keep_the_process() {
    for is_error in [false, true] {
        let (_ours, theirs) = UnixStream::pair().expect("a socket pair");
        theirs.set_nonblocking(true).expect("a flag");
        while std::io::Write::write(&mut &theirs, &[b'.'; 4096]).is_ok() {}
        theirs.set_nonblocking(false).expect("a flag");
        let full = Stdio::from(OwnedFd::from(theirs));
        let mut command = ringmain(&[
            "bench",
            "--seconds",
            "3600",
            "--rate",
            "100",
            "--timeout",
            "1",
        ]);
        if is_error {
            // It waits for room for its first line.
            let process = Process::start(command.stderr(full));
            process.wait_until_it_watches();
            process.signal("TERM");
            assert_eq!(process.ended().code, 130);
        } else {
            // It waits for room for its table.
            let mut process = Process::start(command.stdout(full));
            process.read_err_line();
            process.interrupt();
            assert_eq!(process.ended().code, 130);
        }
    }
}

#[test]
fn terminate_is_like_interrupt() {
    let broker = Broker::start();
    let mut process = Process::start(&mut broker.command(&["send", "--create"]));
    process.write(b"a\n");
    broker.wait_for(b"a\n");
    process.signal("TERM");
    let ended = process.ended_with_input_open();
    assert_eq!(ended.code, 130, "{}", ended.err);
    let out = String::from_utf8(ended.out).expect("UTF-8");
    assert!(out.contains("accepted 1 = stored 1 "), "{out}");
}
