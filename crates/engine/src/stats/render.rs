//! A snapshot as text: JSON for programs, the Prometheus format for scrapers.
//!
//! Both are written from one list of named numbers, so that they cannot disagree. Names carry their unit; counters end
//! in `_total` in the Prometheus text, as its conventions ask.

use std::fmt::Write;

use super::{Latencies, Stats};
use ringmain_io::transport::CarriedBy;

/// Percentiles shown.
const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p999", 99.9),
    ("p9999", 99.99),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

use Kind::{Counter, Gauge};

impl Stats {
    /// One JSON object: every counter by its name, the write paths by theirs, latencies in microseconds by part.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::from("{");
        for (name, _, value) in self.numbers() {
            write_json(&mut text, name, value);
        }
        text.push_str("\"write_paths\":{");
        for path in CarriedBy::ALL {
            let index = path as usize;
            let (operations, bytes) = (
                self.transport.write_operations[index],
                self.transport.write_bytes[index],
            );
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\"{}\":{{\"operations\":{operations},\"bytes\":{bytes}}},",
                path.name()
            );
        }
        end_object(&mut text);
        text.push_str(",\"latency_us\":{");
        for (part, latency) in self.latencies.parts() {
            let _ = write!(text, "\"{part}\":{{\"count\":{},", latency.count());
            for (name, percent) in PERCENTILES {
                write_json(&mut text, name, latency.percentile_us(percent));
            }
            let _ = write!(text, "\"max\":{}}},", latency.max_us());
        }
        end_object(&mut text);
        text.push('}');
        text
    }

    /// The Prometheus text format, version 0.0.4, every name with the prefix `ringmain_`.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for (name, kind, value) in self.numbers() {
            let (suffix, kind) = match kind {
                Counter => ("_total", "counter"),
                Gauge => ("", "gauge"),
            };
            let _ = writeln!(
                text,
                "# TYPE ringmain_{name}{suffix} {kind}\nringmain_{name}{suffix} {value}"
            );
        }
        for (name, values) in [
            ("write_operations", &self.transport.write_operations),
            ("write_bytes", &self.transport.write_bytes),
        ] {
            let _ = writeln!(text, "# TYPE ringmain_{name}_total counter");
            for path in CarriedBy::ALL {
                let value = values[path as usize];
                let _ = writeln!(
                    text,
                    "ringmain_{name}_total{{path=\"{}\"}} {value}",
                    path.name()
                );
            }
        }
        write_summaries(&mut text, &self.latencies);
        text
    }

    /// Every plain number with its name.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, Kind, u64)> + use<> {
        let [account, engine, ring] = [
            self.account_numbers(),
            self.engine_numbers(),
            self.ring_numbers(),
        ];
        account.into_iter().chain(engine).chain(ring)
    }

    fn account_numbers(&self) -> Vec<(&'static str, Kind, u64)> {
        let account = &self.account;
        vec![
            ("records_accepted", Counter, account.accepted),
            ("records_stored", Counter, account.stored),
            ("records_rejected", Counter, account.rejected),
            ("records_not_sent", Counter, account.not_sent),
            ("records_unknown", Counter, account.unknown),
            ("records_in_flight", Gauge, account.in_flight),
        ]
    }

    fn engine_numbers(&self) -> Vec<(&'static str, Kind, u64)> {
        vec![
            ("records_resolved", Counter, self.records),
            ("payload_bytes", Counter, self.payload_bytes),
            ("requests", Counter, self.requests),
            ("retries", Counter, self.retries),
            ("retries_after_silence", Counter, self.retries_after_silence),
            ("retries_not_admitted", Counter, self.retries_not_admitted),
            ("requests_overtaken", Counter, self.overtaken),
            ("window_waits", Counter, self.window_waits),
            ("span_waits", Counter, self.span_waits),
            ("replies_late", Counter, self.replies_late),
            ("replies_foreign", Counter, self.replies_foreign),
            ("logins", Counter, self.logins),
            ("evictions", Counter, self.evictions),
            ("disconnects", Counter, self.disconnects),
            ("coverage_losses", Counter, self.coverage_losses),
            ("write_stalls", Counter, self.write_stalls),
            ("heartbeats", Counter, self.heartbeats),
            ("sessions_active", Gauge, self.sessions_active),
            ("slots_free", Gauge, self.slots_free),
            ("slots", Gauge, self.slots),
            ("arena_bytes", Gauge, self.arena_bytes),
            ("shard_turns", Counter, self.turns),
        ]
    }

    fn ring_numbers(&self) -> Vec<(&'static str, Kind, u64)> {
        let ring = &self.transport;
        vec![
            ("arena_bytes_registered", Gauge, ring.registered_bytes),
            ("ring_enters", Counter, ring.enters),
            ("ring_submissions", Counter, ring.submissions),
            ("ring_completions", Counter, ring.completions),
            ("ring_stale_completions", Counter, ring.stale_completions),
            ("ring_sleeps", Counter, ring.sleeps),
            ("ring_wakes", Counter, ring.wakes),
            ("connects", Counter, ring.connects),
            ("connect_failures", Counter, ring.connect_failures),
            ("writes", Counter, ring.writes),
            ("short_writes", Counter, ring.short_writes),
            ("write_fallbacks", Counter, ring.write_fallbacks),
            ("zero_copy_copied", Counter, ring.zero_copy_copied),
            ("receives", Counter, ring.receives),
            ("receive_bytes", Counter, ring.receive_bytes),
            ("receive_buffers_empty", Counter, ring.receive_buffers_empty),
        ]
    }
}

fn write_json(text: &mut String, name: &str, value: u64) {
    let _ = write!(text, "\"{name}\":{value},");
}

/// Closes an object behind its last entry's comma.
fn end_object(text: &mut String) {
    if text.ends_with(',') {
        text.pop();
    }
    text.push('}');
}

fn write_summaries(text: &mut String, latencies: &Latencies) {
    let _ = writeln!(text, "# TYPE ringmain_batch_latency_us summary");
    for (part, latency) in latencies.parts() {
        for (_, percent) in PERCENTILES {
            let quantile = percent / 100.0;
            let value = latency.percentile_us(percent);
            let _ = writeln!(
                text,
                "ringmain_batch_latency_us{{part=\"{part}\",quantile=\"{quantile}\"}} {value}"
            );
        }
        let sum = latency.mean_us() * latency.count() as f64;
        let _ = writeln!(
            text,
            "ringmain_batch_latency_us_sum{{part=\"{part}\"}} {sum:.0}"
        );
        let _ = writeln!(
            text,
            "ringmain_batch_latency_us_count{{part=\"{part}\"}} {}",
            latency.count()
        );
    }
}
