//! Statistics without an engine: parts of a latency, both text forms, sums over shards.

use std::cell::Cell;
use std::collections::BTreeMap;

use ringmain_io::driver::DriverKind;
use ringmain_io::memory::PageKind;
use ringmain_io::ring::Features;
use ringmain_io::transport::{CarriedBy, TransportInfo, TransportStats};
use ringmain_proto::Micros;
use serde_json::Value;

use super::{BatchTimes, Latencies, LatencySamples, ShardStats, Stats};
use crate::outcome::Account;

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
    samples.drain_into(&mut latencies);
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
fn no_sample_is_lost_however_long_nobody_takes_them() {
    let (mut samples, mut latencies) = (LatencySamples::new(), Latencies::new());
    let mut sum_us = 0;
    for round in 1..=2_u64 {
        for index in 0..10_000 {
            let wire_us = index % 100 + 1;
            samples.push(&times([0, 0, wire_us, 0]));
            sum_us += wire_us;
        }
        samples.drain_into(&mut latencies);
        assert_eq!(latencies.total.count(), round * 10_000);
    }
    assert_eq!(latencies.wire.count(), 20_000);
    let mean_us = sum_us as f64 / 20_000.0;
    assert!((latencies.wire.mean_us() - mean_us).abs() < 0.5);
    // What was taken is not taken again.
    samples.drain_into(&mut latencies);
    assert_eq!(latencies.total.count(), 20_000);
}

#[test]
fn shards_add_up_in_a_snapshot() {
    let mut stats = Stats::new();
    for requests in [2, 3] {
        let shard = ShardStats::default();
        for _ in 0..requests {
            shard.count_request(10, 70);
        }
        shard.add_to(&mut stats);
    }
    assert_eq!((stats.requests, stats.records), (5, 50));
    assert_eq!(stats.payload_bytes, 350);
    assert!((stats.records_per_request() - 10.0).abs() < f64::EPSILON);
}

/// A snapshot in which every plain number is another one, from 1 on; and how many there are.
///
/// Without `..`: a field that is new has to be put in here, and is then looked for in both texts.
fn all_different() -> (Stats, u64) {
    let last = Cell::new(0);
    let next = &|| {
        last.set(last.get() + 1);
        last.get()
    };
    let account = Account {
        accepted: next(),
        stored: next(),
        stored_offset_unknown: next(),
        rejected: next(),
        not_sent: next(),
        unknown: next(),
        in_flight: next(),
    };
    let transport = all_different_transport(next);
    let stats = Stats {
        account,
        records: next(),
        payload_bytes: next(),
        requests: next(),
        requests_sent: next(),
        retries: next(),
        retries_after_silence: next(),
        retries_not_admitted: next(),
        retries_outcome_unknown: next(),
        silences: next(),
        refusals_not_admitted: next(),
        refusals_outcome_unknown: next(),
        calls_sent: next(),
        overtaken: next(),
        window_waits: next(),
        span_waits: next(),
        replies_late: next(),
        replies_foreign: next(),
        logins: next(),
        logins_postponed: next(),
        evictions: next(),
        disconnects: next(),
        coverage_losses: next(),
        session_timeouts: next(),
        heartbeat_timeouts: next(),
        write_stalls: next(),
        heartbeats: next(),
        sessions_active: next(),
        slots_free: next(),
        slots: next(),
        by_reference_bytes_free: next(),
        arena_bytes: next(),
        tables_bytes: next(),
        callbacks_waiting: next(),
        turns: next(),
        transport,
        shards: vec![shard_info()],
        cores: vec![Some(7), None],
        latencies: latencies(),
    };
    (stats, last.get())
}

fn all_different_transport(next: &dyn Fn() -> u64) -> TransportStats {
    TransportStats {
        enters: next(),
        submissions: next(),
        completions: next(),
        submission_queue_full: next(),
        completion_overflows: next(),
        stale_completions: next(),
        enter_retries: next(),
        enter_interrupts: next(),
        sleeps: next(),
        wakes: next(),
        connects: next(),
        connect_failures: next(),
        closes: next(),
        writes: next(),
        write_operations: [next(), next(), next()],
        write_bytes: [next(), next(), next()],
        short_writes: next(),
        write_fallbacks: next(),
        zero_copy_notifications: next(),
        zero_copy_copied: next(),
        receives: next(),
        receive_bytes: next(),
        receive_requests: next(),
        receive_buffers_empty: next(),
        registered_bytes: next(),
        registered_bytes_wanted: next(),
    }
}

fn shard_info() -> TransportInfo {
    let mut path_costs = [[None; 3]; 4];
    // The last path stalled and was left out of the trial: that is no cost.
    path_costs[1] = [Some(1001.0), Some(1002.0), Some(f64::INFINITY)];
    TransportInfo {
        driver: DriverKind::Epoll,
        features: Features {
            send_zc: false,
            ..Features::default()
        },
        paths: [
            Some(CarriedBy::SendMsg),
            None,
            None,
            Some(CarriedBy::SendZc),
        ],
        path_costs,
        submission_entries: 1003,
        completion_entries: 1004,
        page_kind: PageKind::Base,
    }
}

/// 10,000 batches whose parts take 1, 2, 3 and 4 times 1 to 100 microseconds.
fn latencies() -> Latencies {
    let (mut samples, mut latencies) = (LatencySamples::new(), Latencies::new());
    for index in 0..10_000 {
        let us = index % 100 + 1;
        samples.push(&times([us, 2 * us, 3 * us, 4 * us]));
    }
    samples.drain_into(&mut latencies);
    latencies
}

#[test]
fn json_has_every_number_under_its_name() {
    let (stats, count) = all_different();
    let json: Value = serde_json::from_str(&stats.to_json()).expect("JSON");
    for (name, value) in [
        ("records_accepted", stats.account.accepted),
        ("records_stored", stats.account.stored),
        (
            "records_stored_offset_unknown",
            stats.account.stored_offset_unknown,
        ),
        ("records_rejected", stats.account.rejected),
        ("records_not_sent", stats.account.not_sent),
        ("records_unknown", stats.account.unknown),
        ("records_in_flight", stats.account.in_flight),
        ("records_resolved", stats.records),
        ("requests", stats.requests),
        ("retries_outcome_unknown", stats.retries_outcome_unknown),
        ("by_reference_bytes_free", stats.by_reference_bytes_free),
        ("shard_turns", stats.turns),
        ("ring_enters", stats.transport.enters),
        (
            "arena_bytes_registered_wanted",
            stats.transport.registered_bytes_wanted,
        ),
    ] {
        assert_eq!(json[name], value, "{name}");
    }
    let paths = &json["write_paths"];
    assert_eq!(
        paths["send_zc"]["operations"],
        stats.transport.write_operations[2]
    );
    assert_eq!(
        paths["writev_fixed"]["bytes"],
        stats.transport.write_bytes[0]
    );
    let plain = json.as_object().expect("an object").values();
    let of_paths = paths.as_object().expect("an object").values();
    let mut values: Vec<u64> = plain
        .chain(of_paths.flat_map(|path| path.as_object().expect("an object").values()))
        .filter_map(Value::as_u64)
        .collect();
    values.sort_unstable();
    assert_eq!(values, (1..=count).collect::<Vec<_>>(), "each field once");

    let server = &json["latency_us"]["server"];
    assert_eq!(server["count"], 10_000);
    for (name, expected_us) in [
        ("p50", 200_u64),
        ("p90", 360),
        ("p99", 396),
        ("p9999", 400),
        ("max", 400),
    ] {
        let us = server[name].as_u64().expect("a number");
        assert!(us.abs_diff(expected_us) <= 4, "{name}: {us}");
    }
    assert_eq!(json["cores"], serde_json::json!([7, null]));
    let shard = &json["shards"][0];
    assert_eq!(shard["pages"], "base");
    assert_eq!(shard["completion_entries"], 1004);
    assert_eq!(shard["features"]["send_zc"], false);
    assert_eq!(shard["features"]["single_issuer"], true);
    assert_eq!(shard["traffic"]["large_foreign"]["path"], "send_zc");
    assert_eq!(shard["traffic"]["large_registered"]["path"], Value::Null);
    let costs = &shard["traffic"]["large_registered"]["cost_ns_per_mib"];
    assert_eq!(costs["sendmsg"], 1002);
    assert_eq!(costs["send_zc"], Value::Null);
}

/// Samples by name and labels, as they stand in the text, each behind the head of its family.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let mut family = None;
    let mut samples = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            let (name, help) = head.split_once(' ').expect("a name and a text");
            assert!(help.ends_with('.') && help.len() > 5, "{line}");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            let (typed, kind) = kind.and_then(|kind| kind.split_once(' ')).expect("a type");
            assert_eq!(typed, name);
            assert!(["counter", "gauge", "summary"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(name.starts_with("ringmain_"), "{name}");
            family = Some(name);
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a name and a value");
        let name = sample.split('{').next().expect("a name");
        let of_summary = name.strip_suffix("_sum").or(name.strip_suffix("_count"));
        assert!(
            family == Some(name) || of_summary.is_some() && family == of_summary,
            "{line}"
        );
        let twice = samples.insert(sample, value.parse().expect("a number"));
        assert_eq!(twice, None, "{sample}");
    }
    samples
}

#[test]
fn the_prometheus_text_has_the_numbers_of_the_json() {
    let (stats, count) = all_different();
    let text = stats.to_prometheus();
    let samples = samples(&text);
    let json: Value = serde_json::from_str(&stats.to_json()).expect("JSON");
    let mut plain = 0;
    for (name, value) in json.as_object().expect("an object") {
        let Some(value) = value.as_f64() else {
            continue;
        };
        let found = [format!("ringmain_{name}_total"), format!("ringmain_{name}")];
        let found = found.iter().find_map(|name| samples.get(&**name));
        assert_eq!(found, Some(&value), "{name}");
        plain += 1;
    }
    assert_eq!(plain + 6, count, "three paths have two numbers each");
    let value = |name: &str| samples[name] as u64;
    assert_eq!(
        value("ringmain_write_bytes_total{path=\"sendmsg\"}"),
        stats.transport.write_bytes[1]
    );
    assert_eq!(
        value("ringmain_records_stored_offset_unknown_total"),
        stats.account.stored_offset_unknown
    );
    assert_eq!(value("ringmain_slots_free"), stats.slots_free);
}

/// `99.99 / 100.0` is not a number that people write.
#[test]
fn quantiles_are_written_as_people_write_them() {
    let stats = all_different().0;
    let text = stats.to_prometheus();
    let samples = samples(&text);
    for (part, latency) in stats.latencies.parts() {
        for (quantile, percent) in [
            ("0.5", 50.0),
            ("0.9", 90.0),
            ("0.99", 99.0),
            ("0.999", 99.9),
            ("0.9999", 99.99),
        ] {
            let sample =
                format!("ringmain_batch_latency_us{{part=\"{part}\",quantile=\"{quantile}\"}}");
            let expected = latency.percentile_us(percent);
            assert_eq!(samples[&*sample] as u64, expected, "{sample}");
        }
        let count = format!("ringmain_batch_latency_us_count{{part=\"{part}\"}}");
        assert_eq!(samples[&*count] as u64, 10_000);
    }
    let quantiles = samples.keys().filter(|name| name.contains("quantile="));
    assert_eq!(quantiles.count(), 5 * 5);
    let info = samples
        .keys()
        .find(|name| name.starts_with("ringmain_shard_info"));
    let info = info.expect("one shard");
    for label in [
        "pages=\"base\"",
        "send_zc=\"false\"",
        "small_registered=\"sendmsg\"",
    ] {
        assert!(info.contains(label), "{label} in {info}");
    }
}
