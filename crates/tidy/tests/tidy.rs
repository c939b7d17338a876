//! The workspace keeps the house rules.

#![forbid(unsafe_code)]

use std::path::Path;

#[test]
fn the_workspace_is_tidy() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("crates/tidy lies two below");
    assert!(root.join("Cargo.lock").is_file(), "{}", root.display());
    let findings = ringmain_tidy::check_workspace(root);
    let listed: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        listed.is_empty(),
        "{} findings:\n{}",
        listed.len(),
        listed.join("\n")
    );
}
