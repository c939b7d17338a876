//! Text snapshots beside the code, for tests: a change of a table shows up in review as a change of
//! a file. `RINGMAIN_UPDATE_SNAPSHOTS=1` writes them anew.

use std::path::Path;

/// Panics unless the snapshot holds exactly `actual`.
pub(crate) fn check_snapshot(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/snapshots")
        .join(name);
    if std::env::var_os("RINGMAIN_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, actual).expect("the source tree is writable");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "{name} differs; if that is meant, run again with RINGMAIN_UPDATE_SNAPSHOTS=1. Now:\n{actual}"
    );
}
