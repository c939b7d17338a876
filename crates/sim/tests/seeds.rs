//! Seeds: a few hundred drawn ones, those that once failed, and that a seed is a run.

use ringmain_sim::{Coverage, Fault, Options, Summary, run_seed, seeds};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that every test run simulates.
const SEEDS: u64 = 300;

/// Runs the seeds on all processors.
fn run_all(seeds: &[u64]) -> Vec<(u64, Summary)> {
    let (next, done) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let summary = run_seed(seed, &Options::default());
            done.lock().expect("no worker panics").push((seed, summary));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    done.into_inner().expect("no worker panics")
}

fn failures(runs: &[(u64, Summary)]) -> Vec<String> {
    let failed = runs
        .iter()
        .filter_map(|(seed, summary)| Some((seed, summary.violation.as_ref()?)));
    let replay = |(seed, violation)| {
        format!(
            "{violation}; replay: cargo run --release -p ringmain-sim -- --seed {seed} --runs 1"
        )
    };
    failed.map(replay).collect()
}

#[test]
fn drawn_seeds_pass_and_every_fault_fires() {
    let drawn: Vec<u64> = (1..=SEEDS).collect();
    let runs = run_all(&drawn);
    let failures = failures(&runs);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let mut coverage = Coverage::default();
    for (_, summary) in &runs {
        coverage.add(&summary.coverage);
    }
    let silent: Vec<&str> = Fault::ALL
        .iter()
        .filter(|fault| coverage.fired(**fault) == 0)
        .map(|fault| fault.name())
        .collect();
    assert!(
        silent.is_empty(),
        "a fault that never fires does not exist: {silent:?}"
    );
}

#[test]
fn seeds_that_once_failed_pass() {
    let kept = seeds::parse(seeds::KEPT).expect("the list of kept seeds is well formed");
    let numbers: Vec<u64> = kept.iter().map(|kept| kept.seed).collect();
    assert!(!numbers.is_empty());
    let failures = failures(&run_all(&numbers));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_seed_is_a_run() {
    for seed in 1..=20 {
        let quiet = run_seed(seed, &Options::default());
        let traced = run_seed(
            seed,
            &Options {
                trace_lines: 50,
                ..Options::default()
            },
        );
        assert_eq!(
            (quiet.digest, quiet.events),
            (traced.digest, traced.events),
            "seed {seed}"
        );
        assert_eq!(quiet.fates, traced.fates, "seed {seed}");
    }
}
