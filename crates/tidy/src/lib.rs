//! The house rules, held against every file of the workspace. A finding names file, line and rule.
//!
//! ```text
//!  code       lengths, module docs, unsafe and its reasons, unfinished work
//!  texts      paths of one machine
//!  manifests  reasons of dependencies, arrows between packages
//!  circles    modules of one crate that import each other
//! ```
//!
//! The rules themselves are tested on small inputs, so that each one is known to be able to fail.
//!
//! Not checked here: formatting and lints, which rustfmt and clippy check better.

#![forbid(unsafe_code)]

mod circles;
mod code;
mod manifests;
mod report;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use code::UNSAFE_ELSEWHERE;
pub use report::Finding;
use report::Report;

/// No file is larger: a repository is cloned whole, for ever.
const FILE_BYTES_MAX: u64 = 512 * 1024;

/// Crates whose circles are not opened yet. A crate leaves the list for good.
const CIRCLES_LEFT: [&str; 1] = ["engine"];

/// Every place of the workspace at `root` that breaks a rule.
///
/// # Panics
/// When the walk itself goes wrong: a check that looks at nothing would pass.
pub fn check_workspace(root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rust_files = 0;
    let mut unsafe_seen = Vec::new();
    let mut sources: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for path in files(root) {
        let name = relative(root, &path);
        let mut report = Report::new(&name);
        let bytes = fs::metadata(&path).expect("a listed file").len();
        if bytes > FILE_BYTES_MAX {
            let note = format!("{bytes} bytes, at most {FILE_BYTES_MAX}");
            report.add(1, "file size", note);
        }
        let text = fs::read(&path).expect("a readable file");
        // A file that is no text has no lines to look at.
        if let Ok(text) = String::from_utf8(text) {
            texts::machine_texts(&text, &mut report);
            if name.ends_with(".rs") {
                rust_files += 1;
                if code::check_rust(&text, &mut report) {
                    unsafe_seen.push(name.clone());
                }
                if let Some((package, _)) = name
                    .strip_prefix("crates/")
                    .and_then(|rest| rest.split_once("/src/"))
                {
                    let files = sources.entry(package.to_owned()).or_default();
                    files.push((name.clone(), text));
                }
            }
        }
        findings.append(&mut report.findings);
    }
    assert!(rust_files >= 10, "only {rust_files} Rust files found");
    for (path, reason) in UNSAFE_ELSEWHERE {
        assert!(!reason.is_empty(), "{path} is excepted without a reason");
        assert!(
            unsafe_seen.iter().any(|seen| seen == path),
            "{path} is excepted from the unsafe rule and does not need it"
        );
    }
    manifests::manifests(root, &mut findings);
    for (package, files) in &sources {
        let mut circles = circles::circles(package, files);
        if CIRCLES_LEFT.contains(&package.as_str()) {
            assert!(!circles.is_empty(), "{package} has no circle left: say so");
        } else {
            findings.append(&mut circles);
        }
    }
    findings
}

/// Every file below `root` that belongs to the project, in order.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a file type");
            let name = entry.file_name();
            // In a linked work tree `.git` is a file.
            let is_foreign = name == "target" || name == ".git";
            if kind.is_dir() && !is_foreign {
                folders.push(entry.path());
            } else if kind.is_file() && !is_foreign {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).expect("below the root");
    path.to_str()
        .expect("names of the project are UTF-8")
        .to_owned()
}
