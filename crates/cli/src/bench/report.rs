//! The result of a run, as a table and as JSON. Formats and nothing else.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;
use ringmain::Account;
use ringmain::WRITE_PATHS;

/// The quantiles shown, with their names.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Everything a run found out.
pub(super) struct Report<'a> {
    /// Payload of each record.
    pub(super) record_bytes: u32,
    /// From the first record to the last answer.
    pub(super) elapsed: Duration,
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

    /// `count` a second.
    fn per_second(&self, count: f64) -> f64 {
        ratio(count, self.elapsed.as_secs_f64())
    }

    /// Name and latency in microseconds of every quantile, and of the maximum.
    fn latencies_us(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let us = |ns: u64| ns as f64 / 1e3;
        QUANTILES
            .into_iter()
            .map(move |(name, quantile)| (name, us(self.latency_ns.value_at_quantile(quantile))))
            .chain([("max", us(self.latency_ns.max()))])
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
        row("seconds", format!("{:.3}", self.elapsed.as_secs_f64()));
        row("records/s", grouped(self.per_second(records) as u64));
        row("MB/s", format!("{:.1}", self.per_second(bytes / 1e6)));
        row("requests", grouped(self.requests));
        row(
            "records per request",
            format!("{:.1}", ratio(records, self.requests as f64)),
        );
        row("retries", grouped(self.retries));
        for (name, us) in self.latencies_us() {
            row(&format!("latency {name}"), format!("{us:.1} us"));
        }
        for (name, bytes) in self.written {
            if bytes > 0 {
                row(&format!("bytes by {name}"), grouped(bytes));
            }
        }
        write!(table, "{}", self.account).expect("a String takes everything");
        table
    }

    /// One JSON object. Units are in the names; latencies are those of stored records. `stats` is the engine's own
    /// object, which goes in as it is.
    pub(super) fn json(&self, stats: &str) -> String {
        let latencies: Vec<String> = self
            .latencies_us()
            .map(|(name, us)| format!("\"{name}\":{us:.3}"))
            .collect();
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
             \"requests\":{},\"records_per_request\":{:.3},\"retries\":{},\"latency_us\":{{{}}},\
             \"account\":{{\"accepted\":{accepted},\"stored\":{stored},\
             \"stored_offset_unknown\":{stored_offset_unknown},\"rejected\":{rejected},\
             \"not_sent\":{not_sent},\"unknown\":{unknown},\"in_flight\":{in_flight}}},\"stats\":{stats}}}",
            self.stored(),
            self.bytes(),
            self.elapsed.as_secs_f64(),
            self.per_second(self.stored() as f64),
            self.per_second(self.bytes() as f64 / 1e6),
            self.requests,
            ratio(self.stored() as f64, self.requests as f64),
            self.retries,
            latencies.join(","),
        )
    }
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
            elapsed: Duration::from_millis(500),
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
        latency_ns.record_n(1_500, 2_000).expect("in range");
        let table = report(&latency_ns, 2_000).table();
        let row = |name: &str| {
            let line = table.lines().find(|line| line.starts_with(name));
            line.expect(name)[name.len()..].trim().to_owned()
        };
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
        assert!(report.table().contains("latency max"));
        let json = report.json("{}");
        assert!(json.contains("\"records_per_request\":0.000"), "{json}");
        assert!(!json.contains("NaN") && !json.contains("inf"), "{json}");
        assert_eq!(json.matches('{').count(), json.matches('}').count());
    }
}
