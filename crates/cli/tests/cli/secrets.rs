//! A secret is planted wherever one can stand, and looked for in everything that the product
//! prints.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use crate::support::{Broker, Ended, refused_address, ringmain, run};

const SECRET: &str = "s3cr3t-p4ss";
const COMMANDS: [&str; 5] = ["bench", "send", "dump", "doctor", "broker"];

/// A URL with the secret in the place of the password.
fn url(address: &str) -> String {
    format!("iggy://iggy:{SECRET}@{address}")
}

/// Neither stream shows the secret, and nothing panics.
fn kept(ended: &Ended, case: &dyn std::fmt::Debug) {
    let out = String::from_utf8_lossy(&ended.out);
    for text in [&*out, &ended.err] {
        assert!(!text.contains(SECRET), "{case:?}: {text}");
        assert!(!text.contains("panicked"), "{case:?}: {text}");
    }
}

fn of(arguments: &[OsString]) -> Command {
    let mut command = ringmain(&[]);
    command.args(arguments);
    command
}

#[test]
fn wrong_arguments_of_every_command() {
    let url = url("127.0.0.1:1");
    let no_text = OsString::from_vec([SECRET.as_bytes(), b"\xff"].concat());
    let no_text_url = OsString::from_vec([url.as_bytes(), b"\xff"].concat());
    let mut wrong: Vec<Vec<OsString>> = vec![
        vec![OsString::from(&url)],
        vec![format!("--sever={url}").into()],
        vec!["--sever".into(), url.clone().into()],
        vec![format!("--password={SECRET}").into()],
        vec!["--password".into(), SECRET.into()],
        vec![format!("-p{SECRET}").into()],
        vec![SECRET.into(), SECRET.into()],
        vec!["--".into(), SECRET.into(), SECRET.into()],
        vec!["--server".into(), url.clone().into(), "--offset".into()],
        vec![
            "--server".into(),
            url.clone().into(),
            no_text.clone(),
            no_text.clone(),
        ],
        vec!["--server".into(), no_text_url],
        vec!["--stream".into(), no_text],
    ];
    for option in [
        "--timeout",
        "--seconds",
        "--partitions",
        "--ordering",
        "--profile",
        "--listen",
        "--password-file",
        "--key-delimiter",
        "--stats-seconds",
    ] {
        wrong.push(vec![option.into(), SECRET.into()]);
        wrong.push(vec![option.into(), url.clone().into()]);
        wrong.push(vec![format!("{option}={url}").into()]);
    }
    for command in COMMANDS {
        for arguments in &wrong {
            let arguments = [&[command.into()], &arguments[..]].concat();
            let ended = run(of(&arguments), b"");
            assert_ne!(ended.code, 0, "{arguments:?}");
            kept(&ended, &arguments);
        }
    }
    for arguments in &wrong {
        kept(&run(of(arguments), b""), arguments);
    }
}

#[test]
fn help_and_version_with_the_variable_set() {
    for command in COMMANDS {
        for help in [
            &[command, "--help"][..],
            &[command, "-h"],
            &["help", command],
            &["--version"],
        ] {
            let mut command = ringmain(help);
            command.env("RINGMAIN_SERVER", url("127.0.0.1:1"));
            let ended = run(command, b"");
            assert_eq!(ended.code, 0, "{}", ended.err);
            kept(&ended, &help);
        }
    }
}

#[test]
fn servers_that_cannot_be_used() {
    let broker = Broker::start();
    let servers = [
        url(&refused_address()),
        url(&broker.address),
        format!("iggy://{SECRET}@{}", broker.address),
        url("no-such-host.invalid:1"),
        url("127.0.0.1:0"),
        url("127.0.0.1:99999"),
        url("127.0.0.1:port"),
        url("127.0.0.1:1?colour=red"),
        url("127.0.0.1:1?nodelay=perhaps"),
        format!("iggy://iggy:{SECRET}"),
        format!("iggy://iggy:{SECRET}/@127.0.0.1:1"),
        format!("iggy://iggy:{SECRET}%@127.0.0.1:1"),
        format!("iggy:{SECRET}@127.0.0.1:1"),
        format!("iggy+quic://iggy:{SECRET}@127.0.0.1:1"),
        format!("iggy://iggy:{SECRET}@@127.0.0.1:1"),
        format!("{SECRET}@127.0.0.1"),
        SECRET.to_owned(),
    ];
    for server in &servers {
        for command in ["bench", "send", "dump", "doctor"] {
            let to = ["--stream", "s", "--topic", "t", "--timeout", "2"];
            for is_argument in [true, false] {
                let mut again = ringmain(&[command]);
                again.args(to);
                if is_argument {
                    again.args(["--server", server]);
                } else {
                    again.env("RINGMAIN_SERVER", server);
                }
                let ended = run(again, b"a\n");
                assert_ne!(ended.code, 0, "{server}");
                kept(&ended, &(command, server));
            }
        }
    }
}

#[test]
fn files_that_cannot_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let no_text = folder.path().join("password");
    fs::write(&no_text, [SECRET.as_bytes(), b"\xff"].concat()).expect("a file");
    let wrong = folder.path().join("wrong");
    fs::write(&wrong, SECRET).expect("a file");
    let broker = Broker::start();
    let server = format!("iggy://iggy@{}", broker.address);
    // The password itself in the place of its file is the likely slip.
    for file in [
        no_text.as_os_str(),
        wrong.as_os_str(),
        OsStr::from_bytes(SECRET.as_bytes()),
    ] {
        let mut command = ringmain(&["dump", "--stream", "s", "--topic", "t"]);
        command
            .args(["--server", &server, "--password-file"])
            .arg(file);
        let ended = run(command, b"");
        assert!([3, 5].contains(&ended.code), "{}", ended.err);
        kept(&ended, &file);
    }
    for arguments in [
        &["send", "--stream", "s", "--topic", "t", &url("127.0.0.1:1")][..],
        &[
            "broker",
            "--listen",
            "127.0.0.1:0",
            "--script",
            &url("127.0.0.1:1"),
        ],
        &["broker", "--listen", &url("127.0.0.1:1")],
    ] {
        let ended = run(ringmain(arguments), b"");
        assert_ne!(ended.code, 0, "{arguments:?}");
        kept(&ended, &arguments);
    }
}

/// A broker in this process, whose user has the secret for a password.
fn broker_with_secret(script: &str) -> ringmain_broker::Broker {
    ringmain_broker::Broker::builder()
        .user("user", SECRET)
        .script(ringmain_broker::Script::from_toml(script).expect("a script"))
        .start()
        .expect("a broker")
}

#[test]
fn runs_with_the_secret_whatever_becomes_of_their_connections() {
    for (script, code) in [
        ("", 0),
        (
            "[[fault]]\nrequest = 'SendMessages'\naction = 'commit_and_cut'\n",
            0,
        ),
        (
            "[[fault]]\nrequest = 'SendMessages'\naction = 'evict'\nreason = 13\n",
            0,
        ),
        (
            "[[fault]]\nrequest = 'SendMessages'\naction = 'refuse'\ncode = 41\n",
            1,
        ),
        (
            "[[fault]]\nrequest = 'Register'\naction = 'refuse'\ncode = 42\n",
            5,
        ),
        (
            "[[fault]]\nrequest = 'GetTopic'\naction = 'drop'\ntimes = 0\n",
            4,
        ),
    ] {
        let broker = broker_with_secret(script);
        let server = format!("iggy://user:{SECRET}@{}", broker.addr());
        let mut send = ringmain(&[
            "send",
            "--stream",
            "s",
            "--topic",
            "t",
            "--create",
            "--timeout",
            "3",
        ]);
        send.env("RINGMAIN_SERVER", &server);
        let ended = run(send, b"a\n");
        assert!(ended.code == code || code == 5, "{script}: {}", ended.err);
        kept(&ended, &script);
        if script.contains("cut") {
            assert!(
                ended.err.contains("warning: "),
                "the log was looked at: {}",
                ended.err
            );
        }
    }
    let broker = broker_with_secret("");
    let server = format!("iggy://user:{SECRET}@{}", broker.addr());
    let bench = [
        "bench",
        "--json",
        "--seconds",
        "1",
        "--rate",
        "10",
        "--server",
        &server,
    ];
    kept(&run(ringmain(&bench), b""), &bench);
}
