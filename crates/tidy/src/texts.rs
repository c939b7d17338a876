//! What no text file of the project contains.

use crate::report::Report;

/// Absolute paths of one machine, and hosts of a registry.
pub(crate) const MACHINE_TEXTS: [&str; 7] = [
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tm", "p/rm"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
];

pub(crate) fn machine_texts(text: &str, report: &mut Report<'_>) {
    for (index, line) in text.lines().enumerate() {
        for wanted in MACHINE_TEXTS {
            let found = line.match_indices(wanted).any(|(at, _)| {
                // `target/work/x` is a relative path, and `example.net/root/` a part of a URL.
                !wanted.starts_with('/')
                    || !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-".contains(c))
            });
            if found {
                report.add(index + 1, "machine path", format!("{wanted} in the tree"));
            }
        }
    }
}
