//! Statistics without an engine: parts of a latency, both text forms, sums over shards.

use ringmain_proto::Micros;

use super::{BatchTimes, Latencies, LatencySamples, ShardStats, Stats};
use crate::receipt::BatchOutcome;

fn times(parts: [u64; 4]) -> BatchTimes {
    let mut moments = [Micros(1000); 5];
    for (index, part) in parts.into_iter().enumerate() {
        moments[index + 1] = moments[index].after(part);
    }
    let [
        opened_at,
        sealed_at,
        transmitted_at,
        written_at,
        resolved_at,
    ] = moments;
    BatchTimes {
        opened_at,
        sealed_at,
        transmitted_at,
        written_at,
        resolved_at,
    }
}

#[test]
fn the_parts_of_a_latency_are_told_apart_and_add_up() {
    let mut samples = LatencySamples::new();
    samples.push(&times([10, 20, 30, 40]));
    let mut latencies = Latencies::new();
    assert_eq!(samples.drain_into(&mut latencies), 0);
    let values: Vec<_> = latencies
        .parts()
        .map(|(name, latency)| (name, latency.max_us()))
        .into();
    assert_eq!(
        values,
        [
            ("queue", 10),
            ("window", 20),
            ("wire", 30),
            ("server", 40),
            ("total", 100)
        ]
    );
}

#[test]
fn samples_that_find_no_place_are_counted() {
    let mut samples = LatencySamples::new();
    let mut pushed = 0;
    while !samples.is_full() {
        samples.push(&times([1; 4]));
        pushed += 1;
    }
    samples.push(&times([1; 4]));
    let mut latencies = Latencies::new();
    assert_eq!(samples.drain_into(&mut latencies), 1);
    assert_eq!(latencies.total.count(), pushed);
}

#[test]
fn shards_add_up_in_a_snapshot() {
    let mut stats = Stats::new();
    for requests in [2, 3] {
        let shard = ShardStats::default();
        shard.requests.add(requests);
        shard.records.add(requests * 10);
        let outcome = BatchOutcome::StoredOffsetUnknown { partition: 0 };
        shard.count_outcome(&outcome, 7);
        shard.add_to(&mut stats);
    }
    assert_eq!((stats.requests, stats.records), (5, 50));
    assert!((stats.records_per_request() - 10.0).abs() < f64::EPSILON);
    assert_eq!(stats.account.stored_offset_unknown, 14);
}

#[test]
fn json_is_one_object_and_names_every_part() {
    let mut stats = Stats::new();
    stats.account.accepted = 12;
    let json = stats.to_json();
    assert!(
        json.starts_with("{\"records_accepted\":12,") && json.ends_with("}}"),
        "{json}"
    );
    assert!(
        !json.contains(",}") && !json.contains(",,") && !json.contains("}{"),
        "{json}"
    );
    assert_eq!(json.matches('{').count(), json.matches('}').count());
    for part in [
        "\"queue\"",
        "\"window\"",
        "\"wire\"",
        "\"server\"",
        "\"total\"",
        "\"writev_fixed\"",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
}

#[test]
fn every_line_of_the_prometheus_text_is_a_type_or_a_sample() {
    let mut stats = Stats::new();
    stats.account.stored = 3;
    let text = stats.to_prometheus();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# TYPE ") {
            assert!(comment.starts_with("ringmain_"), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("ringmain_"), "{line}");
        value.parse::<f64>().expect("a number");
    }
    assert!(
        text.contains("\nringmain_records_stored_total 3\n"),
        "{text}"
    );
    assert!(text.contains("# TYPE ringmain_slots_free gauge"), "{text}");
}
