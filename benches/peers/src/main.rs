//! ringmain side by side with its peers: the official SDK in its two modes and raw loops over
//! prebuilt frames.
//!
//! ```text
//! cargo run --release -p ringmain-bench-peers [-- --case NAME]... [--rounds N] [--seconds S]
//! ```
//!
//! This process only directs: for every single measurement it starts a broker in a process pinned
//! to one core and a client in a process pinned to another, and compares what the client claims
//! with what the broker counted. The peers of a case take turns within every round; the table shows
//! medians over the rounds.
//!
//! What it does not do: assert a time. Nothing here runs in a test but the arithmetic and one short
//! case for show.
#![forbid(unsafe_code)]

mod args;
mod broker;
mod cases;
mod client;
mod failure;
mod machine;
mod measure;
mod payloads;
mod peers;
mod rounds;
mod spec;
mod statistics;
mod sweep;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

fn main() -> ExitCode {
    let done = match Args::parse() {
        Args {
            command: Some(Command::Broker { sink, core }),
            ..
        } => broker::serve(sink, core),
        Args {
            command: Some(Command::Client { order, core }),
            ..
        } => client::run(&order, core),
        args => direct(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ringmain-bench-peers: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases asked for and prints the table.
fn direct(args: &Args) -> Result<(), Failure> {
    let cores = machine::cores()?;
    if matches!(args.command, Some(Command::Sweep)) {
        return sweep::run(args, cores);
    }
    let mut chosen = cases::chosen(&args.cases)?;
    for setting in &args.settings {
        cases::set(&mut chosen, setting)?;
    }
    if let Some(Command::Once { label }) = &args.command {
        return rounds::once(&chosen, label, args, cores);
    }
    println!("{}\n\n{}", machine::facts(), table::HEAD);
    let mut others = Vec::new();
    for case in chosen {
        let rounds = rounds::run(&case, args, cores)?;
        others.extend(rounds.iter().flatten().map(|outcome| outcome.others_busy));
        for row in table::rows(&case, &rounds) {
            println!("{row}");
        }
    }
    println!(
        "\nOther work on the two cores during a measurement: {:.0} % of one core in the median, {:.0} % at most.",
        statistics::median(others.iter().copied()) * 100.0,
        others.iter().copied().fold(0.0, f64::max) * 100.0,
    );
    Ok(())
}
