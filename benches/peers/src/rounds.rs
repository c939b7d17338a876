//! Rounds: every contender once, each with a broker of its own, and what each claims checked with
//! that broker.

use std::net::SocketAddr;
use std::time::Instant;

use crate::args::Args;
use crate::broker::BrokerProcess;
use crate::cases::{Case, Contender, Measure};
use crate::client;
use crate::failure::Failure;
use crate::machine::{self, Cores};
use crate::peers::frames;
use crate::spec::{BrokerReport, Order, Report};

/// Other work that a measurement bears, as a part of one core. The kernel's ticks alone make up a
/// few hundredths.
const OTHERS_BUSY_MAX: f64 = 0.1;
/// Measurements until the least disturbed one is taken as it is.
const ATTEMPTS: u32 = 3;

/// One measurement.
pub(crate) struct Outcome {
    pub(crate) report: Report,
    /// Processor time of the broker for a gigabyte of payload, warm-up included.
    broker_cpu_per_gb: f64,
    /// What else the two cores did meanwhile, as a part of one core: 0 on a quiet machine.
    pub(crate) others_busy: f64,
}

impl Outcome {
    pub(crate) fn value(&self, measure: Measure) -> f64 {
        let Report {
            records,
            payload_bytes,
            elapsed_s,
            cpu_s,
            ..
        } = self.report;
        let nanoseconds = |value: Option<u64>| value.map_or(f64::NAN, |value| value as f64);
        match measure {
            Measure::RecordsPerSecond => records as f64 / elapsed_s,
            Measure::BytesPerSecond => payload_bytes as f64 / elapsed_s,
            Measure::CpuPerGb => cpu_s / payload_bytes as f64 * 1e9,
            Measure::P50 => nanoseconds(self.report.p50_ns),
            Measure::P99 => nanoseconds(self.report.p99_ns),
        }
    }

    /// How much of its core the client used, 0 to 1.
    pub(crate) fn client_busy(&self) -> f64 {
        self.report.cpu_s / self.report.elapsed_s
    }

    /// The same of the broker, by what a gigabyte costs it.
    pub(crate) fn broker_busy(&self) -> f64 {
        self.broker_cpu_per_gb * self.value(Measure::BytesPerSecond) / 1e9
    }
}

/// Outcomes by contender, then by round.
pub(crate) type Rounds = Vec<Vec<Outcome>>;

/// Runs a case. The order turns around with every round, so that no contender always follows the
/// same one.
pub(crate) fn run(case: &Case, args: &Args, cores: Cores) -> Result<Rounds, Failure> {
    let mut rounds: Rounds = case.contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds {
        let mut order: Vec<_> = (0..case.contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let contender = &case.contenders[index];
            let outcome = undisturbed(case, contender, args, cores)?;
            log(case.name, round, contender, &outcome);
            rounds[index].push(outcome);
        }
    }
    Ok(rounds)
}

/// Measures until nothing else disturbs the two cores, a few times at most; the least disturbed
/// counts, whatever its result is.
fn undisturbed(
    case: &Case,
    contender: &Contender,
    args: &Args,
    cores: Cores,
) -> Result<Outcome, Failure> {
    let mut best = measure(contender, case.sink, args, cores)?;
    for _ in 1..ATTEMPTS {
        if best.others_busy <= OTHERS_BUSY_MAX {
            break;
        }
        let again = measure(contender, case.sink, args, cores)?;
        if again.others_busy < best.others_busy {
            best = again;
        }
    }
    Ok(best)
}

/// One contender of each case, once; what it reached goes to the log.
pub(crate) fn once(cases: &[Case], label: &str, args: &Args, cores: Cores) -> Result<(), Failure> {
    for case in cases {
        for contender in case.contenders.iter().filter(|one| one.label == label) {
            let outcome = measure(contender, case.sink, args, cores)?;
            log(case.name, 0, contender, &outcome);
        }
    }
    Ok(())
}

/// One measurement.
pub(crate) fn measure(
    contender: &Contender,
    sink: bool,
    args: &Args,
    cores: Cores,
) -> Result<Outcome, Failure> {
    if let Some(server) = args.server {
        frames::create_topic(server, contender.load.partitions)?;
        return Ok(Outcome {
            report: client::start(&order(contender, server, args.seconds), cores.client)?,
            broker_cpu_per_gb: 0.0,
            others_busy: 0.0,
        });
    }
    let mut broker = BrokerProcess::start(sink, cores.broker)?;
    frames::create_topic(broker.addr, contender.load.partitions)?;
    let order = order(contender, broker.addr, args.seconds);
    let before = broker.report()?;
    let (started, busy_s) = (Instant::now(), machine::busy_seconds(cores));
    let report = client::start(&order, cores.client)?;
    let busy_s = machine::busy_seconds(cores) - busy_s;
    let took_s = started.elapsed().as_secs_f64();
    let after = broker.report()?;
    check(contender, &report, &after)?;
    let broker_cpu_s = after.cpu_s - before.cpu_s;
    let others_s = (busy_s - broker_cpu_s - report.cpu_total_s).max(0.0);
    let bytes_of_records =
        report.payload_bytes as f64 * report.records_total as f64 / report.records as f64;
    Ok(Outcome {
        report,
        broker_cpu_per_gb: broker_cpu_s / bytes_of_records * 1e9,
        others_busy: others_s / took_s,
    })
}

fn order(contender: &Contender, addr: SocketAddr, seconds: f64) -> Order {
    Order {
        addr,
        load: contender.load,
        peer: contender.peer,
        warm_seconds: seconds / 4.0,
        seconds,
    }
}

/// A record counts only when the broker has it.
fn check(contender: &Contender, report: &Report, broker: &BrokerReport) -> Result<(), Failure> {
    if report.records > 0 && report.records_total == broker.records && broker.irregular == 0 {
        return Ok(());
    }
    Err(Failure::NotStored {
        label: contender.label.clone(),
        claimed: report.records_total,
        counted: broker.records,
        broker: broker.text.replace('\n', "; "),
    })
}

fn log(case: &str, round: u32, contender: &Contender, outcome: &Outcome) {
    let latency = outcome.report.p50_ns.map_or_else(String::new, |p50| {
        format!(", p50 {:.1} us", p50 as f64 / 1e3)
    });
    eprintln!(
        "{case} {} {:<26} {:>10.0} records/s {:>7.1} MB/s, {:.3} s/GB, client {:.0} %, broker {:.0} %, others {:.0} %{latency}, peak {} MiB; {}",
        round + 1,
        contender.label,
        outcome.value(Measure::RecordsPerSecond),
        outcome.value(Measure::BytesPerSecond) / 1e6,
        outcome.value(Measure::CpuPerGb),
        outcome.client_busy() * 100.0,
        outcome.broker_busy() * 100.0,
        outcome.others_busy * 100.0,
        outcome.report.rss_peak_bytes >> 20,
        outcome.report.note,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_come_from_what_was_measured() {
        let outcome = Outcome {
            report: Report {
                records: 1_000,
                records_total: 1_200,
                payload_bytes: 500_000_000,
                elapsed_s: 0.5,
                cpu_s: 0.25,
                cpu_total_s: 0.5,
                p50_ns: Some(7_000),
                p99_ns: None,
                rss_peak_bytes: 0,
                rss_idle_bytes: 0,
                note: String::new(),
            },
            broker_cpu_per_gb: 0.8,
            others_busy: 0.0,
        };
        assert_eq!(outcome.value(Measure::RecordsPerSecond), 2_000.0);
        assert_eq!(outcome.value(Measure::BytesPerSecond), 1e9);
        assert_eq!(outcome.value(Measure::CpuPerGb), 0.5);
        assert_eq!(outcome.value(Measure::P50), 7_000.0);
        assert!(outcome.value(Measure::P99).is_nan());
        assert_eq!(outcome.client_busy(), 0.5);
        assert_eq!(outcome.broker_busy(), 0.8);
    }
}
