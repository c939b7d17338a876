//! What holds for every snapshot of an engine's statistics, in its fields and in both texts.

use std::collections::BTreeMap;

use ringmain::Stats;

/// The answers that a record can get, as the texts name them.
const ANSWERS: [&str; 6] = [
    "records_stored",
    "records_stored_offset_unknown",
    "records_rejected",
    "records_not_sent",
    "records_unknown",
    "records_in_flight",
];

/// Checks a snapshot, whether shards run or not: accounts balance, no part is larger than its
/// whole.
pub(crate) fn check(stats: &Stats) {
    assert!(stats.account.balances(), "{}", stats.account);
    let writes: u64 = stats.transport.write_operations.iter().sum();
    let of_causes =
        stats.retries_after_silence + stats.retries_not_admitted + stats.retries_outcome_unknown;
    let zero_copy = &stats.transport;
    for (part, whole, names) in [
        (stats.requests, stats.records, "requests, records"),
        (stats.records, stats.account.resolved(), "records, answers"),
        (of_causes, stats.retries, "retries by cause, retries"),
        (
            stats.retries_after_silence,
            stats.silences,
            "after silence, silences",
        ),
        (stats.slots_free, stats.slots, "slots free, slots"),
        (
            zero_copy.zero_copy_copied,
            zero_copy.zero_copy_notifications,
            "zero copy copied, notifications",
        ),
        (stats.transport.short_writes, writes, "short writes, writes"),
        (
            stats.transport.registered_bytes,
            stats.transport.registered_bytes_wanted,
            "registered, worth it",
        ),
    ] {
        assert!(part <= whole, "{names}: {part} > {whole}");
    }
    for (part, latency) in stats.latencies.parts() {
        let count = latency.count();
        assert!(
            count <= stats.requests,
            "{part}: {count} > {}",
            stats.requests
        );
    }
    let json: serde_json::Value = serde_json::from_str(&stats.to_json()).expect("JSON");
    let of_json = |name: &str| json[name].as_u64().expect("a number");
    let text = stats.to_prometheus();
    let samples: BTreeMap<&str, f64> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name, value.parse().expect("a number")))
        .collect();
    let of_prometheus = |name: &str| {
        let counter = samples.get(&*format!("ringmain_{name}_total"));
        *counter.unwrap_or_else(|| &samples[&*format!("ringmain_{name}")]) as u64
    };
    let accepted = stats.account.accepted;
    for number in [&of_json as &dyn Fn(&str) -> u64, &of_prometheus] {
        let sum: u64 = ANSWERS.iter().map(|name| number(name)).sum();
        assert_eq!(sum, number("records_accepted"));
        assert_eq!(sum, accepted);
    }
}
