//! A snapshot as text: JSON for programs, the Prometheus format for scrapers.
//!
//! Both are written from one list of named numbers, so that they cannot disagree, and every struct
//! is taken apart without `..`, so that a new field does not build before it is in both. Names
//! carry their unit; counters end in `_total` in the Prometheus text, as its conventions ask.

use std::fmt::Write;

use super::{Latencies, Stats};
use crate::outcome::Account;
use ringmain_io::ring::Features;
use ringmain_io::transport::{CarriedBy, Traffic, TransportInfo, TransportStats};

/// Percentiles shown: the name in JSON, the quantile of the Prometheus text, and the number that
/// both mean.
const PERCENTILES: [(&str, &str, f64); 5] = [
    ("p50", "0.5", 50.0),
    ("p90", "0.9", 90.0),
    ("p99", "0.99", 99.0),
    ("p999", "0.999", 99.9),
    ("p9999", "0.9999", 99.99),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// One number of a snapshot.
struct Number {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: u64,
}

/// The fields of a struct as [`Number`]s, a row each; the fields behind `beside` are shown
/// elsewhere. Takes the struct apart without `..`: a field without a row does not build.
macro_rules! numbers {
    (
        $source:expr, $Type:ident;
        $($field:ident $($name:literal)?: $kind:ident $help:literal)*;
        beside $($beside:ident)*
    ) => {{
        let $Type { $($field,)* $($beside: _,)* } = $source;
        vec![$(Number {
            name: name!($field $($name)?),
            kind: Kind::$kind,
            help: $help,
            value: *$field,
        }),*]
    }};
}

/// The name of a number: that of its field, or one of its own.
macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

impl Stats {
    /// One JSON object: every number by its name, the write paths by theirs, latencies in
    /// microseconds by part, and what each shard's kernel side uses.
    ///
    /// `records_accepted` is the sum of `records_stored`, `records_stored_offset_unknown`,
    /// `records_rejected`, `records_not_sent`, `records_unknown` and `records_in_flight`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::from("{");
        for number in self.numbers() {
            write_json(&mut text, number.name, number.value);
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
        end_list(&mut text, '}');
        text.push_str(",\"latency_us\":{");
        for (part, latency) in self.latencies.parts() {
            let _ = write!(text, "\"{part}\":{{\"count\":{},", latency.count());
            for (name, _, percent) in PERCENTILES {
                write_json(&mut text, name, latency.percentile_us(percent));
            }
            let _ = write!(text, "\"max\":{}}},", latency.max_us());
        }
        end_list(&mut text, '}');
        text.push_str(",\"shards\":[");
        for shard in &self.shards {
            write_json_shard(&mut text, shard);
        }
        end_list(&mut text, ']');
        text.push_str(",\"cores\":[");
        for core in &self.cores {
            let core = core.map_or("null".to_owned(), |core| core.to_string());
            let _ = write!(text, "{core},");
        }
        end_list(&mut text, ']');
        text.push('}');
        text
    }

    /// The Prometheus text format, version 0.0.4, every name with the prefix `ringmain_`.
    ///
    /// Latencies are a summary by part, with the quantiles 0.5, 0.9, 0.99, 0.999 and 0.9999 since
    /// the start of the engine.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for number in self.numbers() {
            let (suffix, kind) = match number.kind {
                Kind::Counter => ("_total", "counter"),
                Kind::Gauge => ("", "gauge"),
            };
            let name = format!("{}{suffix}", number.name);
            write_head(&mut text, &name, kind, number.help);
            let _ = writeln!(text, "ringmain_{name} {}", number.value);
        }
        let ring = &self.transport;
        for (name, help, values) in [
            (
                "write_operations_total",
                "Send operations by path, resumed ones included.",
                &ring.write_operations,
            ),
            (
                "write_bytes_total",
                "Bytes the kernel took, by path.",
                &ring.write_bytes,
            ),
        ] {
            write_head(&mut text, name, "counter", help);
            for path in CarriedBy::ALL {
                let (path, value) = (path.name(), values[path as usize]);
                let _ = writeln!(text, "ringmain_{name}{{path=\"{path}\"}} {value}");
            }
        }
        write_summaries(&mut text, &self.latencies);
        write_shards(&mut text, &self.shards);
        write_head(
            &mut text,
            "shard_core",
            "gauge",
            "The core that a shard is pinned to.",
        );
        for (shard, core) in self.cores.iter().enumerate() {
            if let Some(core) = core {
                let _ = writeln!(text, "ringmain_shard_core{{shard=\"{shard}\"}} {core}");
            }
        }
        text
    }

    /// Every plain number, account first.
    fn numbers(&self) -> impl Iterator<Item = Number> + use<> {
        let numbers = [
            account_numbers(&self.account),
            engine_numbers(self),
            ring_numbers(&self.transport),
        ];
        numbers.into_iter().flatten()
    }
}

#[rustfmt::skip]
fn account_numbers(account: &Account) -> Vec<Number> {
    numbers! { account, Account;
        accepted "records_accepted": Counter "Records taken by send and its siblings."
        stored "records_stored": Counter "Records in the log at a known offset."
        stored_offset_unknown "records_stored_offset_unknown": Counter
            "Records in the log at an offset that the server did not tell."
        rejected "records_rejected": Counter "Records refused for good."
        not_sent "records_not_sent": Counter "Records never sent, or never admitted."
        unknown "records_unknown": Counter "Records that may or may not be stored."
        in_flight "records_in_flight": Gauge "Records without an answer yet.";
        beside
    }
}

#[rustfmt::skip]
fn engine_numbers(stats: &Stats) -> Vec<Number> {
    numbers! { stats, Stats;
        records "records_resolved": Counter "Records whose answer is known."
        payload_bytes: Counter "Payload bytes of records whose answer is known."
        requests: Counter "Requests (batches) whose answer is known."
        requests_sent: Counter "Requests written for the first time."
        retries: Counter "Requests written again, for whatever reason."
        retries_after_silence: Counter
            "Of the retries, those because no answer came for the request timeout."
        retries_not_admitted: Counter
            "Of the retries, those after a refusal as not admitted (code 58)."
        retries_outcome_unknown: Counter
            "Of the retries, those after a refusal with an unknown outcome (code 57)."
        silences: Counter "Requests and calls unanswered for the request timeout."
        refusals_not_admitted: Counter "Requests refused as not admitted (58)."
        refusals_outcome_unknown: Counter "Requests refused, outcome unknown (57)."
        calls_sent: Counter "Control calls written, repetitions included."
        overtaken "requests_overtaken": Counter "Requests confirmed after a later one, at most."
        window_waits: Counter "Times a request waited for room in the window of its partition."
        span_waits: Counter "Times a partition was 127 numbers ahead of its oldest request."
        replies_late: Counter "Replies to requests that were settled before."
        replies_foreign: Counter "Replies to requests that were never sent."
        logins: Counter "Logins accepted, the first of each connection included."
        logins_postponed: Counter "Logins that the server refused for now."
        evictions: Counter "Sessions ended by the server."
        disconnects: Counter "Connections lost or not made."
        coverage_losses: Counter "Times the server's memory of duplicates was lost."
        session_timeouts: Counter "Connections given up: a login or logout took too long."
        heartbeat_timeouts: Counter "Connections given up: nothing heard after a heartbeat."
        write_stalls: Counter "Connections given up: a write made no progress."
        heartbeats: Counter "Heartbeats sent."
        sessions_active: Gauge "Sessions that are logged in."
        slots_free: Gauge "Slots for batches that are free."
        slots: Gauge "Slots for batches."
        by_reference_bytes_free: Gauge "Bytes left for records by reference."
        arena_bytes: Gauge "Bytes of all arenas."
        tables_bytes: Gauge "Bytes of the tables of protocol clients and shards."
        callbacks_waiting: Gauge "Receipt callbacks that have not run."
        turns "shard_turns": Counter "Turns of the loops of the shards.";
        beside account transport shards cores latencies
    }
}

#[rustfmt::skip]
fn ring_numbers(ring: &TransportStats) -> Vec<Number> {
    numbers! { ring, TransportStats;
        enters "ring_enters": Counter "Calls of io_uring_enter."
        submissions "ring_submissions": Counter "Operations handed to the kernel."
        completions "ring_completions": Counter 
            "Completions taken from the kernel, notifications included."
        submission_queue_full "ring_submission_queue_full": Counter
            "Times the submission queue was full and was flushed early."
        completion_overflows "ring_completion_overflows": Counter
            "Times the completion queue was full. A defect when it is not 0."
        stale_completions "ring_stale_completions": Counter
            "Completions of no operation in flight. A defect when it is not 0."
        enter_retries "ring_enter_retries": Counter "Enters refused for a moment and repeated."
        enter_interrupts "ring_enter_interrupts": Counter "Enters ended early by a signal."
        sleeps "ring_sleeps": Counter "Times a shard slept in its ring."
        wakes "ring_wakes": Counter "Times another thread woke a shard from there."
        connects: Counter "Connections made."
        connect_failures: Counter "Connections that could not be made."
        closes: Counter "Connections closed, for any cause."
        writes: Counter "Writes handed over, of many requests each."
        short_writes: Counter "Send operations that took less than they were given."
        write_fallbacks: Counter "Send operations repeated on a plainer path."
        zero_copy_notifications: Counter "Notifications that zero-copy memory is free again."
        zero_copy_copied: Counter "Of the notifications: the kernel copied after all."
        receives: Counter "Receive completions with data."
        receive_bytes: Counter "Bytes received."
        receive_requests: Counter "Receive requests submitted."
        receive_buffers_empty: Counter "Times the kernel found no receive buffer."
        registered_bytes "arena_bytes_registered": Gauge "Arena bytes registered with the rings."
        registered_bytes_wanted "arena_bytes_registered_wanted": Gauge
            "Bytes of the arenas that were worth registering.";
        beside write_operations write_bytes
    }
}

/// The kernel features in use, by name.
fn features(features: &Features) -> [(&'static str, bool); 7] {
    let Features {
        single_issuer,
        defer_taskrun,
        registered_arena,
        multishot_recv,
        vectored_fixed,
        send_zc,
        send_zc_wait_all,
    } = *features;
    [
        ("single_issuer", single_issuer),
        ("defer_taskrun", defer_taskrun),
        ("registered_arena", registered_arena),
        ("multishot_recv", multishot_recv),
        ("vectored_fixed", vectored_fixed),
        ("send_zc", send_zc),
        ("send_zc_wait_all", send_zc_wait_all),
    ]
}

fn write_json(text: &mut String, name: &str, value: u64) {
    let _ = write!(text, "\"{name}\":{value},");
}

/// Closes an object or a list behind its last entry's comma.
fn end_list(text: &mut String, with: char) {
    if text.ends_with(',') {
        text.pop();
    }
    text.push(with);
}

/// A cost that was measured. A path that stalled is left out of the trial with an endless one,
/// which is no number of JSON.
fn measured(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| cost.is_finite())
}

fn write_json_shard(text: &mut String, shard: &TransportInfo) {
    let TransportInfo {
        driver,
        features: in_use,
        paths,
        path_costs,
        submission_entries,
        completion_entries,
        page_kind,
    } = shard;
    let (driver, pages) = (driver.name(), page_kind.name());
    let _ = write!(text, "{{\"driver\":\"{driver}\",\"pages\":\"{pages}\",");
    write_json(text, "submission_entries", u64::from(*submission_entries));
    write_json(text, "completion_entries", u64::from(*completion_entries));
    text.push_str("\"features\":{");
    for (name, is_used) in features(in_use) {
        let _ = write!(text, "\"{name}\":{is_used},");
    }
    end_list(text, '}');
    text.push_str(",\"traffic\":{");
    for traffic in Traffic::ALL {
        let path =
            paths[traffic as usize].map_or("null".into(), |path| format!("\"{}\"", path.name()));
        let _ = write!(
            text,
            "\"{}\":{{\"path\":{path},\"cost_ns_per_mib\":{{",
            traffic.name()
        );
        for path in CarriedBy::ALL {
            if let Some(cost) = measured(path_costs[traffic as usize][path as usize]) {
                let _ = write!(text, "\"{}\":{cost:.0},", path.name());
            }
        }
        end_list(text, '}');
        text.push_str("},");
    }
    end_list(text, '}');
    text.push_str("},");
}

fn write_head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(
        text,
        "# HELP ringmain_{name} {help}\n# TYPE ringmain_{name} {kind}"
    );
}

fn write_summaries(text: &mut String, latencies: &Latencies) {
    write_head(
        text,
        "batch_latency_us",
        "summary",
        "Where the time of a request went, in microseconds, by part.",
    );
    for (part, latency) in latencies.parts() {
        for (_, quantile, percent) in PERCENTILES {
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

fn write_shards(text: &mut String, shards: &[TransportInfo]) {
    write_head(
        text,
        "shard_info",
        "gauge",
        "What a shard's kernel side uses, always 1; a path is empty while it is measured.",
    );
    for (shard, info) in shards.iter().enumerate() {
        let TransportInfo {
            driver,
            features: in_use,
            paths,
            path_costs: _,
            submission_entries,
            completion_entries,
            page_kind,
        } = info;
        let _ = write!(
            text,
            "ringmain_shard_info{{shard=\"{shard}\",driver=\"{}\",pages=\"{}\",\
             submission_entries=\"{submission_entries}\",\
             completion_entries=\"{completion_entries}\"",
            driver.name(),
            page_kind.name()
        );
        for (name, is_used) in features(in_use) {
            let _ = write!(text, ",{name}=\"{is_used}\"");
        }
        for traffic in Traffic::ALL {
            let path = paths[traffic as usize].map_or("", CarriedBy::name);
            let _ = write!(text, ",{}=\"{path}\"", traffic.name());
        }
        text.push_str("} 1\n");
    }
    write_head(
        text,
        "shard_path_cost_ns_per_mib",
        "gauge",
        "Processor time of a write path for each MiB, where it was measured.",
    );
    for (shard, info) in shards.iter().enumerate() {
        for traffic in Traffic::ALL {
            for path in CarriedBy::ALL {
                if let Some(cost) = measured(info.path_costs[traffic as usize][path as usize]) {
                    let (traffic, path) = (traffic.name(), path.name());
                    let _ = writeln!(
                        text,
                        "ringmain_shard_path_cost_ns_per_mib{{shard=\"{shard}\",\
                         traffic=\"{traffic}\",path=\"{path}\"}} {cost:.0}"
                    );
                }
            }
        }
    }
}
