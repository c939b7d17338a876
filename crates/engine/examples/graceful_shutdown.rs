//! Graceful shutdown: SIGINT or SIGTERM ends the intake, what was accepted is drained, the account
//! is printed.
//!
//! `cargo run -p ringmain --example graceful_shutdown [iggy://user:password@host:port]`; without a
//! server it starts the embedded broker. Left alone it sends itself SIGTERM after a second, so that
//! it also runs unattended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringmain::{Engine, Record};
use ringmain_broker::Broker;
use signal_hook::consts::{SIGINT, SIGTERM};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The first signal asks, a second one ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }

    let broker = Broker::builder().start()?;
    let server = std::env::args()
        .nth(1)
        .unwrap_or_else(|| format!("iggy://iggy:iggy@{}", broker.addr()));
    let engine = Engine::builder().server(server).build()?;
    let producer = engine
        .producer("logs", "lines")
        .create_if_missing(2)
        .build()?;

    let started = Instant::now();
    let mut signalled = false;
    while !stop.load(Ordering::Relaxed) {
        drop(producer.send(Record::new("a line of a log"))?);
        if !signalled && started.elapsed() > Duration::from_secs(1) {
            signalled = true;
            signal_hook::low_level::raise(SIGTERM)?;
        }
    }

    // No record is accepted from here on. Those on their way have ten seconds.
    let report = engine.close(Duration::from_secs(10));
    println!("{}", report.account);
    if !report.drained {
        // Not stored for sure; the account says how many may be.
        std::process::exit(1);
    }
    Ok(())
}
