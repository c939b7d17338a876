//! The result of a run, as a table and as JSON. Formats and nothing else.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;
use ringmain::Account;
use ringmain::WRITE_PATHS;

use super::load::due_count;
use crate::exit::MissedRate;

/// The quantiles shown: their names, and one record in how many is slower.
const QUANTILES: [(&str, u64); 5] = [
    ("p50", 2),
    ("p90", 10),
    ("p99", 100),
    ("p99.9", 1_000),
    ("p99.99", 10_000),
];
/// Records that must be slower than a quantile for it to be shown: fewer say more of chance than of
/// the run.
const SLOWER_MIN: u64 = 10;

/// A rate is held when this much of it was reached.
const HELD: f64 = 0.99;
/// What the answers of a run may come late at its end beyond the median latency: one pause of a
/// busy machine.
const PAUSE: Duration = Duration::from_millis(200);

/// Everything a run found out.
pub(super) struct Report<'a> {
    /// Payload of each record.
    pub(super) record_bytes: u32,
    /// From the start to the end of sending.
    pub(super) stopped: Duration,
    /// From the start to the last answer; zero when there was none.
    pub(super) last_resolved: Duration,
    /// Records a second that were asked for.
    pub(super) rate: Option<u64>,
    /// What became of the records.
    pub(super) account: Account,
    /// Requests answered.
    pub(super) requests: u64,
    /// Frames written again.
    pub(super) retries: u64,
    /// Latency of each stored record.
    pub(super) latency_ns: &'a Histogram<u64>,
    /// Bytes the kernel took on each write path, by the path's name.
    pub(super) written: [(&'static str, u64); WRITE_PATHS],
}

impl Report<'_> {
    fn stored(&self) -> u64 {
        self.account.stored + self.account.stored_offset_unknown
    }

    fn bytes(&self) -> u64 {
        self.stored() * u64::from(self.record_bytes)
    }

    /// The time that rates count: all of sending, and the wait for the last answer. Not from the
    /// first record to the last, which is one interval less than there were.
    fn elapsed(&self) -> Duration {
        self.stopped.max(self.last_resolved)
    }

    /// `count` a second.
    fn per_second(&self, count: f64) -> f64 {
        ratio(count, self.elapsed().as_secs_f64())
    }

    /// Records that were due while it was sent; `None` without a rate.
    fn offered(&self) -> Option<u64> {
        self.rate.map(|rate| due_count(rate, self.stopped))
    }

    /// Records that were due and not accepted in time; `None` without a rate.
    fn never_sent(&self) -> Option<u64> {
        let offered = self.offered()?;
        Some(offered.saturating_sub(self.account.accepted))
    }

    /// What fell short of the rate that was asked for, if more than a hundredth did.
    pub(super) fn missed_rate(&self) -> Option<MissedRate> {
        let (offered, never_sent) = (self.offered()?, self.never_sent()?);
        let median = Duration::from_nanos(self.latency_ns.value_at_quantile(0.5));
        // A steady run has its last answers the usual latency after its end. A growing queue has
        // them far later.
        let late = self.last_resolved.saturating_sub(median + PAUSE);
        let seconds = self.stopped.max(late).as_secs_f64();
        let due = offered as f64 * ratio(seconds, self.stopped.as_secs_f64());
        let is_held = (self.stored() as f64) >= due * HELD
            && (never_sent as f64) <= offered as f64 * (1.0 - HELD);
        (!is_held).then(|| MissedRate {
            rate: self.rate.unwrap_or_default(),
            reached: self.per_second(self.stored() as f64),
            never_sent,
        })
    }

    /// Name and latency in microseconds of every quantile and of the maximum; `None` when too few
    /// records tell.
    fn latencies_us(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        let max = (!self.latency_ns.is_empty()).then(|| self.latency_ns.max() as f64 / 1e3);
        QUANTILES
            .into_iter()
            .map(|(name, one_in)| (name, quantile_us(self.latency_ns, one_in)))
            .chain([("max", max)])
    }

    /// Lines of a name and a figure. Rates are those of stored records.
    pub(super) fn table(&self) -> String {
        let mut table = String::new();
        let mut row = |name: &str, figure: String| {
            writeln!(table, "{name:<24} {figure:>18}").expect("a String takes everything");
        };
        let (records, bytes) = (self.stored() as f64, self.bytes() as f64);
        row("records", grouped(self.stored()));
        row("bytes", grouped(self.bytes()));
        row("seconds", format!("{:.3}", self.elapsed().as_secs_f64()));
        if let (Some(rate), Some(offered), Some(never_sent)) =
            (self.rate, self.offered(), self.never_sent())
        {
            row("offered records/s", grouped(rate));
            row("offered", grouped(offered));
            row("never sent", grouped(never_sent));
        }
        row("records/s", grouped(self.per_second(records) as u64));
        row("MB/s", format!("{:.1}", self.per_second(bytes / 1e6)));
        row("requests", grouped(self.requests));
        row(
            "records per request",
            format!("{:.1}", ratio(records, self.requests as f64)),
        );
        row("retries", grouped(self.retries));
        for (name, us) in self.latencies_us() {
            if let Some(us) = us {
                row(&format!("latency {name}"), format!("{us:.1} us"));
            }
        }
        for (name, bytes) in self.written {
            if bytes > 0 {
                row(&format!("bytes by {name}"), grouped(bytes));
            }
        }
        write!(table, "{}", self.account).expect("a String takes everything");
        table
    }

    /// One JSON object. Units are in the names; latencies are those of stored records, `null` where
    /// too few tell. What is offered and never sent is `null` without a rate. `stats` is the
    /// engine's own object, which goes in as it is.
    pub(super) fn json(&self, stats: &str) -> String {
        let latencies: Vec<String> = self
            .latencies_us()
            .map(|(name, us)| match us {
                Some(us) => format!("\"{name}\":{us:.3}"),
                None => format!("\"{name}\":null"),
            })
            .collect();
        let or_null = |number: Option<u64>| number.map_or("null".to_owned(), |n| n.to_string());
        let Account {
            accepted,
            stored,
            stored_offset_unknown,
            rejected,
            not_sent,
            unknown,
            in_flight,
        } = self.account;
        format!(
            "{{\"records\":{},\"bytes\":{},\"seconds\":{:.6},\"records_per_s\":{:.1},\"mb_per_s\":{:.3},\
             \"offered_per_s\":{},\"offered\":{},\"never_sent\":{},\
             \"requests\":{},\"records_per_request\":{:.3},\"retries\":{},\"latency_us\":{{{}}},\
             \"account\":{{\"accepted\":{accepted},\"stored\":{stored},\
             \"stored_offset_unknown\":{stored_offset_unknown},\"rejected\":{rejected},\
             \"not_sent\":{not_sent},\"unknown\":{unknown},\"in_flight\":{in_flight}}},\"stats\":{stats}}}",
            self.stored(),
            self.bytes(),
            self.elapsed().as_secs_f64(),
            self.per_second(self.stored() as f64),
            self.per_second(self.bytes() as f64 / 1e6),
            or_null(self.rate),
            or_null(self.offered()),
            or_null(self.never_sent()),
            self.requests,
            ratio(self.stored() as f64, self.requests as f64),
            self.retries,
            latencies.join(","),
        )
    }
}

/// The latency, in microseconds, that one record in `one_in` exceeds; `None` when too few are
/// slower for it to mean anything.
pub(super) fn quantile_us(latency_ns: &Histogram<u64>, one_in: u64) -> Option<f64> {
    let quantile = 1.0 - 1.0 / one_in as f64;
    (latency_ns.len() >= one_in * SLOWER_MIN)
        .then(|| latency_ns.value_at_quantile(quantile) as f64 / 1e3)
}

/// `count / of`, 0 when there is nothing to divide by: JSON has no NaN.
fn ratio(count: f64, of: f64) -> f64 {
    if of > 0.0 { count / of } else { 0.0 }
}

/// A number with a comma every three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (123_456, "123,456"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    fn report(latency_ns: &Histogram<u64>, stored: u64) -> Report<'_> {
        Report {
            record_bytes: 1_000,
            stopped: Duration::from_millis(500),
            last_resolved: Duration::from_millis(400),
            rate: None,
            account: Account {
                accepted: stored,
                stored,
                ..Account::default()
            },
            requests: stored / 10,
            retries: 3,
            latency_ns,
            written: [("writev_fixed", 2_100_000), ("sendmsg", 0), ("send_zc", 7)],
        }
    }

    #[test]
    fn the_table_has_every_figure() {
        let mut latency_ns = Histogram::new(3).expect("digits in range");
        latency_ns.record_n(1_500, 200_000).expect("in range");
        let table = report(&latency_ns, 2_000).table();
        let row = |name: &str| {
            let line = table.lines().find(|line| line.starts_with(name));
            line.expect(name)[name.len()..].trim().to_owned()
        };
        assert!(!table.contains("offered") && !table.contains("never sent"));
        assert_eq!(row("records "), "2,000");
        assert_eq!(row("bytes"), "2,000,000");
        assert_eq!(row("seconds"), "0.500");
        assert_eq!(row("records/s"), "4,000");
        assert_eq!(row("MB/s"), "4.0");
        assert_eq!(row("requests"), "200");
        assert_eq!(row("records per request"), "10.0");
        assert_eq!(row("retries"), "3");
        for name in ["p50", "p90", "p99 ", "p99.9 ", "p99.99", "max"] {
            assert_eq!(row(&format!("latency {name}")), "1.5 us", "{name}");
        }
        assert_eq!(row("bytes by writev_fixed"), "2,100,000");
        assert_eq!(row("bytes by send_zc"), "7");
        assert!(!table.contains("sendmsg"), "a path that carried nothing");
        assert!(table.ends_with(&report(&latency_ns, 2_000).account.to_string()));
    }

    #[test]
    fn an_empty_run_is_still_a_table_and_json() {
        let latency_ns = Histogram::new(3).expect("digits in range");
        let report = report(&latency_ns, 0);
        assert!(!report.table().contains("latency"), "nothing was measured");
        let json = report.json("{}");
        assert!(json.contains("\"max\":null"), "{json}");
        assert!(json.contains("\"records_per_request\":0.000"), "{json}");
        assert!(!json.contains("NaN") && !json.contains("inf"), "{json}");
        assert_eq!(json.matches('{').count(), json.matches('}').count());
    }

    #[test]
    fn a_quantile_is_shown_when_ten_records_are_slower() {
        for (name, one_in) in QUANTILES {
            let needed = one_in * SLOWER_MIN;
            for (count, is_shown) in [(0, false), (needed - 1, false), (needed, true)] {
                let mut latency_ns = Histogram::new(3).expect("digits in range");
                latency_ns.record_n(1_500, count).expect("in range");
                let report = report(&latency_ns, count);
                let row = format!("latency {name} ");
                assert_eq!(report.table().contains(&row), is_shown, "{name} of {count}");
                let none = format!("\"{name}\":null");
                assert_eq!(
                    report.json("{}").contains(&none),
                    !is_shown,
                    "{name} of {count}"
                );
            }
        }
    }

    /// A run of two seconds at a rate: how many records were accepted and stored, and when the last
    /// answer came.
    fn rated(latency_ns: &Histogram<u64>, rate: u64, stored: u64, last_ms: u64) -> Report<'_> {
        Report {
            rate: Some(rate),
            stopped: Duration::from_secs(2),
            last_resolved: Duration::from_millis(last_ms),
            ..report(latency_ns, stored)
        }
    }

    #[test]
    fn a_rate_is_held_or_said_not_to_be() {
        // Half of the answers took up to 50 ms.
        let mut latency_ns = Histogram::new(3).expect("digits in range");
        latency_ns.record_n(50_000_000, 9).expect("in range");
        for (stored, last_ms, is_held, why) in [
            (2_000, 1_990, true, "all of it"),
            (
                2_000,
                2_049,
                true,
                "the last answers take what answers take",
            ),
            (2_000, 2_250, true, "and a pause"),
            (2_000, 2_300, false, "the queue had grown"),
            (2_000, 9_000, false, "far"),
            (1_981, 2_000, true, "a hundredth is the machine's"),
            (1_979, 2_000, false, "more is not"),
            (0, 0, false, "nothing was accepted"),
        ] {
            let report = rated(&latency_ns, 1_000, stored, last_ms);
            assert_eq!(
                report.missed_rate().is_none(),
                is_held,
                "{stored}, {last_ms} ms: {why}"
            );
            assert_eq!(report.never_sent(), Some(2_000 - stored));
        }
        let table = rated(&latency_ns, 1_000, 1_500, 2_000).table();
        for (name, figure) in [
            ("offered records/s", "1,000"),
            ("offered  ", "2,000"),
            ("never sent", "500"),
        ] {
            let row = table
                .lines()
                .find(|line| line.starts_with(name))
                .expect(name);
            assert!(row.ends_with(&format!(" {figure}")), "{row}");
        }
        assert_eq!(
            report(&latency_ns, 5).missed_rate(),
            None,
            "no rate, nothing missed"
        );
    }

    #[test]
    fn a_rate_counts_the_whole_time_and_not_the_intervals_between_records() {
        let latency_ns = Histogram::new(3).expect("digits in range");
        // Due at 0 and 1 s, answered at once.
        let report = rated(&latency_ns, 1, 2, 1_000);
        assert!(
            report.json("{}").contains("\"records_per_s\":1.0,"),
            "{}",
            report.json("{}")
        );
    }
}
