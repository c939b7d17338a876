//! The files of `tuning/` are what they say: the seccomp profile is loaded and the command runs
//! under it, the unit is verified by systemd.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{ringmain, run};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tuning")
        .join(name)
}

/// The system calls that the profile allows; everything else is refused with EPERM.
fn allowed() -> Vec<String> {
    let text = fs::read_to_string(file("seccomp/ringmain.json")).expect("the profile");
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(profile["defaultErrnoRet"], 1);
    let groups = profile["syscalls"].as_array().expect("groups");
    let names = groups.iter().flat_map(|group| {
        assert_eq!(group["action"], "SCMP_ACT_ALLOW");
        group["names"].as_array().expect("names").clone()
    });
    names
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

/// Forbids this thread what the profile forbids, without `less`, and becomes `ringmain`.
fn become_ringmain(less: &str, arguments: &[&str]) -> ! {
    let names = allowed().into_iter().filter(|name| name != less);
    let rules: Vec<Value> = names.map(|name| json!({ "syscall": name })).collect();
    let filter = json!({ "main": {
        "mismatch_action": { "errno": 1 },
        "match_action": "allow",
        "filter": rules,
    } });
    let machine = std::env::consts::ARCH.try_into().expect("a known machine");
    let filters = seccompiler::compile_from_json(filter.to_string().as_bytes(), machine);
    let filters = filters.expect("names that the kernel knows");
    seccompiler::apply_filter(&filters["main"]).expect("a filter of one's own");
    let error = Command::new(env!("CARGO_BIN_EXE_ringmain"))
        .args(arguments)
        .exec();
    panic!("{error}");
}

const LESS: &str = "RINGMAIN_TEST_LESS";
const DRIVER: &str = "RINGMAIN_TEST_PROFILE_DRIVER";

#[test]
#[cfg(target_arch = "x86_64")]
fn the_command_runs_under_the_seccomp_profile() {
    let bench = [
        "bench",
        "--seconds",
        "1",
        "--shards",
        "2",
        "--memory-bytes",
        "8388608",
        "--json",
    ];
    if let Some(less) = std::env::var_os(LESS) {
        let driver = std::env::var_os(DRIVER).expect("set with the other");
        become_ringmain(
            less.to_str().expect("text"),
            &[&bench[..], &["--driver", driver.to_str().expect("text")]].concat(),
        );
    }
    // Without the ring epoll is allowed as well. Without sockets nothing works: there is a filter.
    for (less, driver, code) in [
        ("none", "epoll", 0),
        ("none", "auto", 0),
        ("io_uring_setup", "auto", 0),
        ("io_uring_setup", "io_uring", 8),
        ("socket", "auto", 8),
    ] {
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "tuning::the_command_runs_under_the_seccomp_profile",
            ])
            .args(["--nocapture", "--test-threads=1"])
            .env(LESS, less)
            .env(DRIVER, driver)
            .env_remove("RINGMAIN_SERVER")
            .output()
            .expect("a process");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "without {less}: {err}");
        let out = String::from_utf8_lossy(&output.stdout);
        let is_on_epoll = out.contains("\"driver\":\"epoll\"");
        let is_refused = less == "io_uring_setup" && driver == "auto";
        if driver == "epoll" || is_refused {
            assert!(is_on_epoll, "{less} {driver}: {out}");
        }
        // Once, however many shards there are.
        let said = err.matches("no io_uring here").count();
        assert_eq!(said, usize::from(is_refused), "{less} {driver}: {err}");
    }
    let allowed = allowed();
    for never in [
        "ptrace",
        "mount",
        "bpf",
        "unshare",
        "setns",
        "kexec_load",
        "keyctl",
    ] {
        assert!(!allowed.iter().any(|name| name == never), "{never}");
    }
}

#[test]
fn systemd_takes_the_unit() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("systemd-analyze is not installed: the unit is not verified");
        return;
    }
    let unit = fs::read_to_string(file("systemd/ringmain-send.service")).expect("the unit");
    assert!(unit.contains("LimitMEMLOCK=infinity") && unit.contains("CPUAffinity="));
    let installed = "/usr/local/bin/ringmain";
    assert!(unit.contains(installed));
    let folder = tempfile::tempdir().expect("a folder");
    let verify = |text: String| {
        let place = folder.path().join("ringmain-send.service");
        fs::write(&place, text).expect("a file");
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["verify", "--man=no"]).arg(&place).output();
        let output = output.expect("systemd-analyze");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let ours = err.lines().filter(|line| line.contains("ringmain-send"));
        ours.map(str::to_owned).collect::<Vec<_>>()
    };
    let unit = unit.replace(installed, env!("CARGO_BIN_EXE_ringmain"));
    assert_eq!(verify(unit.clone()), [""; 0]);
    let wrong = unit.replace("CPUAffinity=0 1", "CPUAffinity=none");
    assert!(!verify(wrong).is_empty(), "systemd notices a mistake");
}

/// The arguments of the unit are arguments of the command.
#[test]
fn the_unit_calls_a_command_that_there_is() {
    let unit = fs::read_to_string(file("systemd/ringmain-send.service")).expect("the unit");
    let mut lines = unit.lines();
    let line = lines
        .find_map(|line| line.strip_prefix("ExecStart="))
        .expect("a command");
    let mut arguments: Vec<&str> = line.split(' ').skip(1).collect();
    arguments.push("--help");
    assert_eq!(run(ringmain(&arguments), b"").code, 0, "{line}");
}
