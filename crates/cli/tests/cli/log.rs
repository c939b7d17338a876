//! What the engine has to report while a command runs reaches standard error.

use crate::support::{Broker, ringmain, run};

#[test]
fn a_connection_that_is_lost_and_made_again() {
    let broker = Broker::start_with_fault("request = 'SendMessages'\naction = 'commit_and_cut'\n");
    let ended = broker.run(&["send", "--create"], b"a\n");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let said = ended.said();
    let warnings: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("ringmain: warning: "))
        .collect();
    assert!(warnings[0].contains("connection lost"), "{}", ended.err);
    assert!(warnings[1].contains("logged in again"), "{}", ended.err);
}

#[test]
fn nothing_is_said_when_nothing_is_amiss() {
    let broker = Broker::start();
    let ended = broker.run(&["send", "--create"], b"a\n");
    assert_eq!((ended.code, ended.said().as_str()), (0, ""));
}

#[test]
fn a_reader_that_stands_still_does_not_hold_the_records() {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    let broker = Broker::start_with_fault(
        "request = 'SendMessages'\naction = 'commit_and_cut'\nevery = 2\ntimes = 0\n",
    );
    let (_ours, mut theirs) = UnixStream::pair().expect("a socket pair");
    theirs.set_nonblocking(true).expect("a flag");
    while theirs.write(&[b'.'; 4096]).is_ok() {}
    theirs.set_nonblocking(false).expect("a flag");
    let mut command = ringmain(&["send", "--stream", "s", "--topic", "t", "--create"]);
    command.env("RINGMAIN_SERVER", broker.url());
    command.stderr(Stdio::from(OwnedFd::from(theirs)));
    let ended = run(command, &b"line\n".repeat(100_000));
    assert_eq!(ended.code, 0);
}

#[test]
fn the_level_decides_what_is_said() {
    let broker = Broker::start_with_fault("request = 'SendMessages'\naction = 'commit_and_cut'\n");
    let ended = broker.run(&["send", "--create", "--log", "error"], b"a\n");
    assert_eq!(
        (ended.code, ended.err.contains("warning: ")),
        (0, false),
        "{}",
        ended.err
    );
    let ended = broker.run(&["send", "--log", "info"], b"a\n");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("info: logged in"), "{}", ended.err);
    let mut command = broker.command(&["send"]);
    command.env("RINGMAIN_LOG", "debug");
    let ended = run(command, b"a\n");
    assert!(ended.err.contains("debug: connecting"), "{}", ended.err);
}

#[test]
fn a_level_that_there_is_not_is_an_error_without_its_text() {
    for (variable, arguments) in [
        ("s3cr3t", &["bench", "--seconds", "1"][..]),
        ("", &["bench", "--log", "s3cr3t"][..]),
    ] {
        let mut command = ringmain(arguments);
        command.env("RINGMAIN_LOG", variable);
        let ended = run(command, b"");
        assert_eq!(ended.code, 2, "{}", ended.err);
        assert!(!ended.err.contains("s3cr3t"), "{}", ended.err);
    }
}
