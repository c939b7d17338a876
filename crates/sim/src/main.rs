//! The command line of the simulator.
//!
//! Role: runs seeds, prints draws, coverage and rates, and for a failure the command that replays
//! it and a readable trace. Does not: simulate; the library does.

#![forbid(unsafe_code)]

use clap::Parser;
use ringmain_proto::Stats;
use ringmain_sim::{Coverage, Draws, Fault, Options, Summary, run_seed};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Runs seeds of the simulator until one fails or all passed.
#[derive(Parser)]
#[command(name = "ringmain-sim", version)]
struct Args {
    /// First seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds, each one more than the one before.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Threads; a run uses one. 0 for as many as there are processors.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Lines of the trace that a failure prints.
    #[arg(long, default_value_t = 80)]
    trace: usize,
    /// Leave the laws of the window unchecked on the wire: judge outcomes alone.
    #[arg(long)]
    no_laws: bool,
    /// Go on after a failure, and list all failing seeds at the end.
    #[arg(long)]
    keep_going: bool,
}

/// A counter of a client, by name.
type Counter = (&'static str, fn(&Stats) -> u64);

/// What the clients went through, beside the faults: a path that no run takes is not tested.
const COUNTERS: [Counter; 14] = [
    ("batches resent", |stats| stats.batches_resent),
    ("silences", |stats| stats.silences),
    ("overtaken", |stats| stats.overtaken),
    ("span waits (W1)", |stats| stats.span_waits),
    ("late replies", |stats| stats.replies_late),
    ("foreign replies", |stats| stats.replies_foreign),
    ("logins", |stats| stats.logins),
    ("coverage losses", |stats| stats.coverage_losses),
    ("evictions", |stats| stats.evictions),
    ("disconnects", |stats| stats.disconnects),
    ("session timeouts", |stats| stats.session_timeouts),
    ("heartbeats", |stats| stats.pings_sent),
    ("heartbeat timeouts", |stats| stats.heartbeat_timeouts),
    ("write stalls", |stats| stats.write_stalls),
];

/// What all runs came to.
#[derive(Default)]
struct Totals {
    runs: u64,
    events: u64,
    virtual_us: u64,
    records: u64,
    unknown: u64,
    swallowed_after_give_up: u64,
    coverage: Coverage,
    runs_with: Vec<u64>,
    counters: [u64; COUNTERS.len()],
    failures: Vec<(u64, String)>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let started = Instant::now();
    if args.runs == 1 {
        println!("{}", Draws::of(args.seed));
    }
    let mut totals = run_all(&args);
    totals.failures.sort();
    report(&totals, started.elapsed().as_secs_f64());
    let Some((seed, first)) = totals.failures.first() else {
        return ExitCode::SUCCESS;
    };
    if args.keep_going {
        for (seed, failure) in &totals.failures {
            println!("seed {seed}: {failure}");
        }
    }
    explain(*seed, first, &args);
    ExitCode::FAILURE
}

fn run_all(args: &Args) -> Totals {
    let jobs = match args.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let next = AtomicU64::new(0);
    let totals = Mutex::new(Totals {
        runs_with: vec![0; Fault::COUNT],
        ..Totals::default()
    });
    let options = Options {
        laws: !args.no_laws,
        ..Options::default()
    };
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= args.runs {
                return;
            }
            let seed = args.seed.wrapping_add(index);
            let summary = run_seed(seed, &options);
            if summary.violation.is_some() && !args.keep_going {
                next.store(args.runs, Ordering::Relaxed);
            }
            let mut totals = totals
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            totals.add(seed, &summary);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(worker);
        }
    });
    totals
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Totals {
    fn add(&mut self, seed: u64, summary: &Summary) {
        self.runs += 1;
        self.events += summary.events;
        self.virtual_us += summary.virtual_us;
        self.records += summary.account.accepted;
        self.unknown += summary.account.unknown;
        self.swallowed_after_give_up += summary.swallowed_after_give_up;
        self.coverage.add(&summary.coverage);
        for &fault in Fault::ALL {
            self.runs_with[fault as usize] += u64::from(summary.coverage.fired(fault) > 0);
        }
        for (total, (_, counter)) in self.counters.iter_mut().zip(COUNTERS) {
            *total += summary.stats.iter().map(counter).sum::<u64>();
        }
        if let Some(violation) = &summary.violation {
            self.failures.push((seed, violation.to_string()));
        }
    }
}

fn report(totals: &Totals, seconds: f64) {
    println!("fault                    fired       in runs");
    for &fault in Fault::ALL {
        println!(
            "{:<22} {:>9} {:>13}",
            fault.name(),
            totals.coverage.fired(fault),
            totals.runs_with[fault as usize]
        );
    }
    for (total, (name, _)) in totals.counters.iter().zip(COUNTERS) {
        println!("{name:<22} {total:>9}");
    }
    let Totals {
        runs,
        events,
        records,
        unknown,
        swallowed_after_give_up,
        ..
    } = totals;
    let virtual_s = totals.virtual_us as f64 / 1e6;
    println!(
        "records {records}, of them unknown {unknown}; swallowed after they were given up {swallowed_after_give_up}"
    );
    println!(
        "{runs} runs, {events} events, {virtual_s:.0} virtual s in {seconds:.1} s: {:.0} runs/s, {:.0} virtual s/s; {} failed",
        *runs as f64 / seconds,
        virtual_s / seconds,
        totals.failures.len()
    );
}

/// Runs a failing seed again, with a trace.
fn explain(seed: u64, failure: &str, args: &Args) {
    let options = Options {
        laws: !args.no_laws,
        trace_lines: args.trace,
        ..Options::default()
    };
    let summary = run_seed(seed, &options);
    println!("\n{}\n", Draws::of(seed));
    for line in &summary.trace {
        println!("{line}");
    }
    println!("\nseed {seed} failed: {failure}");
    let laws = if args.no_laws { " --no-laws" } else { "" };
    println!("replay: cargo run --release -p ringmain-sim -- --seed {seed} --runs 1{laws}");
}
