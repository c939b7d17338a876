//! Version, completions and manual page, as scripts get them.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{ringmain, run};

fn printed(arguments: &[&str]) -> String {
    let ended = run(ringmain(arguments), b"");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arguments:?}");
    String::from_utf8(ended.out).expect("text")
}

#[test]
fn the_version_names_commit_and_drivers() {
    let text = printed(&["--version"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("ringmain {}", env!("CARGO_PKG_VERSION")));
    let commit = lines[1].strip_prefix("commit ").expect("a commit");
    let is_commit = commit.len() >= 12 && commit.chars().all(|c| c.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown", "{commit}");
    assert!(lines[2].starts_with("drivers "), "{text}");
}

/// A shell reads what was made for it, where this machine has that shell.
#[test]
fn shells_take_their_completions() {
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let text = printed(&["completions", shell]);
        for word in ["ringmain", "doctor", "password-file"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
        let child = Command::new(shell).arg(check).stdin(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            println!("{shell} is not installed: not tried");
            continue;
        };
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("a reader");
        drop(input);
        assert!(child.wait().expect("an end").success(), "{shell}");
    }
    assert_eq!(run(ringmain(&["completions", "tcsh"]), b"").code, 2);
}

#[test]
fn the_manual_page_is_one() {
    let text = printed(&["man"]);
    assert!(text.contains(".TH ringmain 1"), "{text}");
    assert!(text.contains("RINGMAIN DOCTOR"), "{text}");
}
