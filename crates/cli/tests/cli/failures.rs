//! Every way in which a command fails for a reason outside of it: one sentence, the documented exit
//! code, no password.

use std::fs;
use std::process::Command;

use crate::support::{Broker, Ended, Process, refused_address, ringmain, run};

const SECRET: &str = "s3cr3t-p4ss";

/// The command failed with `code` and one sentence that contains `words`.
fn failed(ended: &Ended, code: i32, words: &str) {
    assert_eq!(ended.code, code, "{}", ended.err);
    let sentence = ended.err.lines().last().expect("a message");
    assert!(sentence.starts_with("ringmain: "), "{sentence}");
    assert!(sentence.contains(words), "{sentence}");
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    assert!(!ended.err.contains(SECRET), "{}", ended.err);
}

fn send(server: &str) -> Command {
    ringmain(&[
        "send",
        "--server",
        server,
        "--stream",
        "s",
        "--topic",
        "t",
        "--timeout",
        "3",
    ])
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    for path in [missing.as_path(), folder.path()] {
        let path = path.to_str().expect("UTF-8");
        let ended = run(
            ringmain(&["send", "--stream", "s", "--topic", "t", path]),
            b"",
        );
        failed(&ended, 3, path);
    }
    let mut command = send("iggy://iggy@127.0.0.1:1");
    command.arg("--password-file").arg(&missing);
    failed(&run(command, b""), 3, "password file");
}

#[test]
fn arguments_that_make_no_sense() {
    let broker = Broker::start();
    for arguments in [
        &["send", "--partition", "0", "--key-field", "1"][..],
        &["send", "--partitions", "2"],
        &["send", "--key-delimiter", ","],
        &["dump", "--offset"],
    ] {
        let ended = broker.run(arguments, b"");
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.err);
    }
    let ended = run(ringmain(&["dump", "--stream", "s", "--topic", "t"]), b"");
    failed(&ended, 2, "--server");
    for (arguments, words) in [
        (
            ["--connections", "3", "--shards", "5"],
            "--connections is 3",
        ),
        (
            ["--memory-bytes", "1000000", "--batch-bytes", "262144"],
            "--memory-bytes contradicts",
        ),
    ] {
        let mut command = ringmain(&["bench", "--seconds", "1"]);
        command.args(arguments);
        failed(&run(command, b""), 2, words);
    }
    let long = "x".repeat(256);
    let ended = broker.run(&["send", "--create"], b"");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let mut command = ringmain(&["send", "--stream", &long, "--topic", "t", "--create"]);
    command.env("RINGMAIN_SERVER", broker.url());
    failed(&run(command, b""), 2, "256 bytes");
}

#[test]
fn server_urls_that_cannot_be_used() {
    for (options, words) in [
        ("?colour=red", "unknown option 'colour'"),
        ("?tls=true", "TLS"),
        ("?nodelay=perhaps", "true or false"),
        ("0", "port"),
    ] {
        let url = format!("iggy://iggy:{SECRET}@127.0.0.1:8090{options}");
        failed(&run(send(&url), b""), 2, words);
    }
    for url in [
        format!("iggy://iggy:{SECRET}@h@127.0.0.1:1"),
        format!("iggy://iggy:{SECRET}"),
        format!("iggy+quic://iggy:{SECRET}@127.0.0.1:1"),
        format!("iggy:{SECRET}@127.0.0.1:1"),
    ] {
        failed(&run(send(&url), b""), 2, "server URL");
        let mut command = ringmain(&["dump", "--stream", "s", "--topic", "t"]);
        command.env("RINGMAIN_SERVER", &url);
        failed(&run(command, b""), 2, "server URL");
        for misplaced in [
            &["dump", &url][..],
            &["send", "--stream", "s", "--topic", "t", &url],
        ] {
            let ended = run(ringmain(misplaced), b"");
            assert_eq!(ended.code, 2);
            assert!(!ended.err.contains(SECRET), "{}", ended.err);
        }
    }
}

#[test]
fn nobody_listens_at_the_address() {
    let address = refused_address();
    let url = format!("iggy://iggy:{SECRET}@{address}");
    failed(&run(send(&url), b"a\n"), 4, &address);
    let mut command = ringmain(&["dump", "--stream", "s", "--topic", "t"]);
    command.env("RINGMAIN_SERVER", &url);
    failed(&run(command, b""), 4, &address);
}

#[test]
fn the_host_is_unknown() {
    // A name that can have no address, however the machine resolves names: labels end at 63 bytes
    // on the wire, and a resolver refuses it before it asks anybody.
    let url = format!("iggy://iggy:{SECRET}@no-such-host.invalid:8090");
    failed(&run(send(&url), b"a\n"), 4, "no-such-host.invalid");
}

#[test]
fn the_login_is_refused() {
    let broker = Broker::start();
    for credentials in [
        format!("iggy:{SECRET}"),
        format!("nobody:{SECRET}"),
        SECRET.to_owned(),
    ] {
        let url = format!("iggy://{credentials}@{}", broker.address);
        failed(&run(send(&url), b"a\n"), 5, "login");
    }
}

#[test]
fn a_password_file_takes_the_place_of_the_password() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    let url = format!("iggy://iggy@{}", broker.address);
    let login = |password: &str| {
        fs::write(&file, password).expect("a file");
        let mut command = send(&url);
        command.arg("--create").arg("--password-file").arg(&file);
        run(command, b"a\n")
    };
    for right in ["iggy", "iggy\n", "iggy\r\n"] {
        assert_eq!(login(right).code, 0, "{right:?}");
    }
    failed(&login(SECRET), 5, "login");
    failed(&login(""), 2, "empty");
    fs::write(&file, "iggy").expect("a file");
    let mut command = ringmain(&["dump", "--stream", "s", "--topic", "t"]);
    command.env("RINGMAIN_SERVER", &url);
    command.arg("--password-file").arg(&file);
    let ended = run(command, b"");
    assert_eq!((ended.code, ended.out.as_slice()), (0, &b"a\na\na\n"[..]));
}

#[test]
fn the_topic_or_the_partition_is_missing() {
    let broker = Broker::start();
    failed(&broker.run(&["send"], b"a\n"), 6, "--create");
    failed(
        &broker.run(&["dump"], b""),
        6,
        "s/t does not exist; give the names",
    );
    assert_eq!(broker.run(&["send", "--create"], b"").code, 0);
    failed(
        &broker.run(&["send", "--partition", "1"], b"a\n"),
        6,
        "partition 1",
    );
    failed(
        &broker.run(&["dump", "--partition", "1"], b""),
        6,
        "partition 1",
    );
}

#[test]
fn lines_that_cannot_be_records() {
    let broker = Broker::start();
    let mut input = b"short\n".to_vec();
    input.resize(64_000_000 + b"short\n".len() + 1, b'x');
    let ended = broker.run(&["send", "--create"], &input);
    failed(&ended, 7, "line 2 is longer than 64000000 bytes");
    let out = String::from_utf8(ended.out).expect("UTF-8");
    assert!(out.contains("accepted 1 = stored 1 "), "{out}");

    let keyed = |input: &[u8]| broker.run(&["send", "--key-field", "2"], input);
    failed(&keyed(b"a\tk\nb\n"), 7, "line 2 has no field 2");
    failed(&keyed(b"a\t\n"), 7, "line 1 has a key of 0 bytes");
    let long = ["a\t", &"k".repeat(256), "\n"].concat();
    failed(&keyed(long.as_bytes()), 7, "line 1 has a key of 256 bytes");
}

#[test]
fn the_server_refuses_a_record_for_good() {
    let broker =
        Broker::start_with_fault("request = 'SendMessages'\naction = 'refuse'\ncode = 41\n");
    let ended = broker.run(&["send", "--create"], b"a\n");
    failed(&ended, 1, "line 1 is the first: rejected by the server");
    let out = String::from_utf8(ended.out).expect("UTF-8");
    assert!(out.contains("accepted 1 = stored 0 "), "{out}");
    assert!(out.contains("rejected 1 "), "{out}");
}

#[test]
fn a_cut_connection_is_no_failure() {
    let broker = Broker::start_with_fault("request = 'SendMessages'\naction = 'commit_and_cut'\n");
    let ended = broker.run(&["send", "--create"], b"a\nb\n");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let out = String::from_utf8(ended.out).expect("UTF-8");
    assert!(out.contains("rejected 0 + not sent 0 + unknown 0"), "{out}");
    assert_eq!(broker.run(&["dump"], b"").out, b"a\nb\n");
}

#[test]
fn scripts_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script.toml");
    let broker = || {
        let mut command = ringmain(&["broker", "--listen", "127.0.0.1:0", "--script"]);
        command.arg(&script);
        run(command, b"")
    };
    failed(&broker(), 3, "script");
    fs::write(&script, "[[fault]]\naction = 'explode'\n").expect("a file");
    failed(&broker(), 2, "explode");
}

#[test]
fn the_server_goes_away_in_the_middle() {
    let broker = Broker::start();
    let mut process = Process::start(&mut broker.command(&["send", "--create", "--timeout", "2"]));
    process.write(b"a\nb\n");
    broker.wait_for(b"a\nb\n");
    drop(broker);
    process.write(b"c\n");
    let ended = process.ended();
    failed(&ended, 1, "line 3 is the first");
    assert!(
        ended.err.contains("the connection to 127.0.0.1:"),
        "{}",
        ended.err
    );
    let out = String::from_utf8(ended.out).expect("UTF-8");
    assert!(out.contains("accepted 3 = stored 2 "), "{out}");
}

#[test]
fn the_address_of_the_broker_is_taken() {
    let broker = Broker::start();
    let ended = run(ringmain(&["broker", "--listen", &broker.address]), b"");
    failed(&ended, 8, "--listen");
}

#[test]
fn addresses_that_are_none() {
    for address in [
        "",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:99999",
        "127.0.0.1:port",
        ":0",
        "[::1",
        "iggy://h:1",
    ] {
        let ended = run(ringmain(&["broker", "--listen", address]), b"");
        failed(&ended, 2, "--listen takes host:port");
    }
}

#[test]
fn more_partitions_than_may_be_sent_to() {
    let broker = Broker::start();
    let ended = broker.run(&["send", "--create", "--partitions", "20"], b"");
    assert_eq!(ended.code, 0, "{}", ended.err);
    for by_key in [&[][..], &["--key-field", "1"]] {
        let arguments = [&["send", "--partitions-max", "19"], by_key].concat();
        let ended = broker.run(&arguments, b"a\n");
        failed(
            &ended,
            2,
            "has 20 partitions and --partitions-max is 19: raise it to 20",
        );
        assert!(ended.out.is_empty(), "refused before the first line");
    }
    for arguments in [
        &["--partitions-max", "20"][..],
        &["--partitions-max", "1", "--partition", "0"],
    ] {
        let ended = broker.run(&[&["send"], arguments].concat(), b"a\n");
        assert_eq!(ended.code, 0, "{}", ended.err);
    }
}

#[test]
fn an_argument_goes_before_the_environment_and_blank_is_unset() {
    let broker = Broker::start();
    let mut command = send(&broker.url());
    command
        .arg("--create")
        .env("RINGMAIN_SERVER", "no server at all");
    let ended = run(command, b"a\n");
    assert_eq!(ended.code, 0, "{}", ended.err);
    for blank in ["", " \t"] {
        let mut command = ringmain(&["send", "--stream", "s", "--topic", "t"]);
        command.env("RINGMAIN_SERVER", blank);
        let ended = run(command, b"a\n");
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(ended.err.contains("embedded broker"), "{}", ended.err);
        let mut command = ringmain(&["dump", "--stream", "s", "--topic", "t"]);
        command.env("RINGMAIN_SERVER", blank);
        failed(&run(command, b""), 2, "no server to read from");
    }
    let mut command = ringmain(&["dump", "--stream", "s", "--topic", "t"]);
    command.args(["--password-file", "some"]);
    failed(&run(command, b""), 2, "--password-file has no server");
}

#[test]
fn a_call_that_is_never_answered_blames_nobody_for_sure() {
    let broker = Broker::start_with_fault("request = 'GetStream'\naction = 'drop'\ntimes = 0\n");
    let ended = broker.run(&["dump", "--timeout", "5"], b"");
    failed(&ended, 4, "no final answer to GetStream in time");
    assert!(ended.err.contains("the node that leads"), "{}", ended.err);
}
