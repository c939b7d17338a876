//! What stands on the other side of standard input and output: descriptors that do not block,
//! readers that stand still, names that are no text.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;

use crate::support::{Broker, Process, ringmain, run};

/// Two ends of a stream, of which the second does not block.
fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    theirs.set_nonblocking(true).expect("a flag");
    (ours, theirs)
}

/// Starts `command` with a standard output that does not block and has no room. Returns our end and
/// what fills it.
fn start_with_full_output(command: &mut Command) -> (Process, UnixStream, usize) {
    let (ours, mut theirs) = pair();
    let mut filled = 0;
    while let Ok(written) = theirs.write(&[b'.'; 4096]) {
        filled += written;
    }
    command.stdout(Stdio::from(OwnedFd::from(theirs)));
    let process = Process::start(command);
    // The command keeps its copy of the descriptor otherwise, and the stream would have no end.
    command.stdout(Stdio::null());
    (process, ours, filled)
}

#[test]
fn a_dump_goes_on_when_its_output_takes_more() {
    let broker = Broker::start();
    let input: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
    let ended = broker.run(&["send", "--create"], input.as_bytes());
    assert_eq!(ended.code, 0, "{}", ended.err);

    let (process, mut ours, filled) = start_with_full_output(&mut broker.command(&["dump"]));
    let reader = thread::spawn(move || {
        let mut out = Vec::new();
        ours.read_to_end(&mut out).expect("a stream");
        out
    });
    let ended = process.ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let out = reader.join().expect("the reader");
    assert!(out[filled..] == *input.as_bytes(), "{} bytes", out.len());
}

#[test]
fn the_output_of_every_command_waits_for_room() {
    for arguments in [&["--help"][..], &["send", "--help"], &["--version"]] {
        let (process, mut ours, filled) = start_with_full_output(&mut ringmain(arguments));
        process.wait_until_it_waits();
        let reader = thread::spawn(move || {
            let mut out = Vec::new();
            ours.read_to_end(&mut out).expect("a stream");
            out
        });
        let ended = process.ended();
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.err);
        let wanted = run(ringmain(arguments), b"").out;
        let out = reader.join().expect("the reader");
        assert!(out[filled..] == wanted, "{arguments:?}");
    }
}

#[test]
fn an_input_that_has_nothing_yet_is_waited_for() {
    let broker = Broker::start();
    let (mut ours, theirs) = pair();
    let mut command = broker.command(&["send", "--create"]);
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    let process = Process::start(&mut command);
    command.stdin(Stdio::null());
    ours.write_all(b"a\nb\n").expect("a reader");
    broker.wait_for(b"a\nb\n");
    ours.write_all(b"c\n").expect("a reader");
    drop(ours);
    let ended = process.ended();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(broker.run(&["dump"], b"").out, b"a\nb\nc\n");
}

#[test]
fn an_output_without_space_is_an_error() {
    for arguments in [
        &["--help"][..],
        &["bench", "--seconds", "1", "--sink"],
        &["broker", "--listen", "127.0.0.1:0"],
        &["send", "--stream", "s", "--topic", "t"],
    ] {
        let full = fs::File::create("/dev/full").expect("the device");
        let mut command = ringmain(arguments);
        command.stdout(full);
        let ended = run(command, b"a\n");
        assert_eq!(ended.code, 3, "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains("cannot write"), "{}", ended.err);
    }
}

#[test]
fn names_of_files_may_be_any_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |text: &[u8]| folder.path().join(OsStr::from_bytes(text));
    let (input, password, script) = (name(b"in\xff"), name(b"pw\xff"), name(b"sc\xff"));
    fs::write(&input, "a\n").expect("a file");
    fs::write(&password, "iggy").expect("a file");
    fs::write(&script, "").expect("a file");
    let broker = Broker::start();
    let send = |file: &OsStr| {
        let mut command = ringmain(&["send", "--stream", "s", "--topic", "t", "--create"]);
        command
            .args(["--server", &format!("iggy://iggy@{}", broker.address)])
            .arg("--password-file")
            .arg(&password)
            .arg(file);
        run(command, b"")
    };
    let ended = send(input.as_os_str());
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(broker.run(&["dump"], b"").out, b"a\n");
    let ended = send(name(b"missing\xff").as_os_str());
    assert_eq!(ended.code, 3, "{}", ended.err);

    let mut command = ringmain(&["broker", "--listen", "127.0.0.1:0", "--script"]);
    let mut process = Process::start(command.arg(&script));
    assert!(process.read_err_line().contains("broker in memory"));
    process.interrupt();
    assert_eq!(process.ended().code, 0);
}

#[test]
fn what_was_closed_is_an_error_and_what_leads_nowhere_is_not() {
    let broker = Broker::start();
    assert_eq!(broker.run(&["send", "--create"], b"a\n").code, 0);
    for (command, redirected, code, words) in [
        ("send", "<&-", 3, "standard input is closed"),
        ("dump", ">&-", 3, "standard output is closed"),
        ("send", "</dev/null", 0, ""),
        ("dump", ">/dev/null", 0, "1 records"),
    ] {
        let script = format!("exec \"$0\" {command} --stream s --topic t {redirected}");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script, env!("CARGO_BIN_EXE_ringmain")])
            .env("RINGMAIN_SERVER", broker.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ended = run(shell, b"b\n");
        assert_eq!(ended.code, code, "{command} {redirected}: {}", ended.err);
        assert!(
            ended.err.contains(words),
            "{command} {redirected}: {}",
            ended.err
        );
    }
    assert_eq!(broker.run(&["dump"], b"").out, b"a\n");
}
