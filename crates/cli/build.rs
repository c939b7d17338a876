//! Tells the command line which commit it is built from; `unknown` outside a checkout of its own.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=RINGMAIN_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // It changes with each commit and each checkout.
    if let Some(log) = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn commit() -> Option<String> {
    // Sources that were unpacked inside the checkout of something else are not of its commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if Path::new(&top).canonicalize().ok()? != ours.canonicalize().ok()? {
        return None;
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_commit = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then_some(commit)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
