//! The checks: pure functions over facts, one subject a file.

mod cores;
mod memory;
mod network;
mod ring;
mod server;
mod time;

use crate::{Check, Facts, Report};

/// Looks at `facts` with every check, in the order of the report.
#[must_use]
pub fn check(facts: &Facts) -> Report {
    let mut checks = ring::all(facts);
    checks.extend(memory::all(facts));
    checks.extend(cores::all(facts));
    checks.extend(time::all(facts));
    checks.extend(network::all(facts));
    checks.extend(server::all(facts));
    Report::new(checks)
}

/// The cores that the engine takes for its shards by itself: the last ones, and none when that
/// would leave none to the application.
pub(super) fn shard_cores(facts: &Facts) -> Option<&[u32]> {
    let cpus = facts.host.cpus_allowed.as_deref()?;
    let shards = usize::from(facts.asked.shards);
    Some(match cpus.len().checked_sub(shards) {
        Some(first) if first > 0 => &cpus[first..],
        _ => &[],
    })
}

/// Several numbers as a list.
pub(super) fn list(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// A check of something that this host does not show.
pub(super) fn unreadable(id: &'static str, what: &str) -> Check {
    Check::unknown(id, format!("{what} cannot be read here"))
}
