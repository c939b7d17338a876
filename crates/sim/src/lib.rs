//! Seeded simulation of ringmain against a model broker, in virtual time.
//!
//! Under test is the production engine: producers, lanes, gates, receipts and shards of `ringmain`
//! with the state machines of `ringmain-proto`; the bytes between it and the broker are real frames
//! of `ringmain-wire`. Everything else is simulated: applications, kernel, network, clocks and the
//! server. One thread, one seed, no clock and no entropy: a seed is a run, and a failing seed is a
//! reproduction. Application threads are steps, and so are the turns of a shard; each may come
//! between two steps of the other.
//!
//! ```text
//!   application -> engine, shard -> driver -> kernel -> network -> model broker -> logs
//!        ^            |    ^                    |          |            |
//!        +-- answers -+    +------ virtual time, faults by seed --------+
//!                 \_______________________ oracle ______________________/
//! ```
//!
//! Role: proof, by search. Does not: measure speed, or test a driver's use of the kernel.
//!
//! What the oracle checks, and what it does not check yet, stands in the documentation of the
//! module `oracle` (`cargo doc --document-private-items`, or the head of `src/oracle/mod.rs`).

#![forbid(unsafe_code)]

mod broker;
mod codec;
mod draws;
mod faults;
mod kernel;
mod network;
mod oracle;
mod queue;
mod rng;
pub mod seeds;
mod trace;
mod world;

pub use broker::{PREPARES_MAX, QUEUE_MAX, REPLIES_CACHED, WINDOW_IDS};
pub use draws::{BrokerDraws, ClientDraws, Draws, NetworkDraws};
pub use faults::{Coverage, Fault, FaultPlan, Strike};
pub use oracle::{Fate, Kind, Violation};

use ringmain_proto::{Account, Config, Stats};
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// How a run is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether the laws of the window are checked on the wire, beside outcomes. Default true.
    pub laws: bool,
    /// Lines of the trace that are kept, 0 for none, default 0. A trace makes a run about ten times
    /// slower.
    pub trace_lines: usize,
    /// Last changes to the settings of every client, default none. Must leave the settings legal.
    pub tune: fn(&mut Config),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            laws: true,
            trace_lines: 0,
            tune: |_| {},
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The first thing that was wrong, `None` when nothing was.
    pub violation: Option<Violation>,
    /// Length of the run in virtual microseconds.
    pub virtual_us: u64,
    /// Events that happened.
    pub events: u64,
    /// Two runs with one digest had the same events at the same instants.
    pub digest: u64,
    /// What became of the records of all clients.
    pub account: Account,
    /// How often the duplicate window answered for a batch that was given up before.
    pub swallowed_after_give_up: u64,
    /// The counters of every client.
    pub stats: Vec<Stats>,
    /// How often each fault fired.
    pub coverage: Coverage,
    /// What became of every batch, in the order of acceptance over all clients.
    pub fates: Vec<Fate>,
    /// The last events, if a trace was asked for.
    pub trace: Vec<String>,
}

/// Runs one seed with the parameters that it draws.
#[must_use]
pub fn run_seed(seed: u64, options: &Options) -> Summary {
    run(&Draws::of(seed), Vec::new(), options)
}

/// Runs with given parameters and scripted faults. A panic of the engine under test is a violation
/// too.
#[must_use]
pub fn run(draws: &Draws, script: Vec<Strike>, options: &Options) -> Summary {
    let mut world = World::new(draws, script, options);
    let panicked = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    let mut summary = world.summary();
    if let Some(payload) = panicked {
        // What panicked once may do so again while it is dropped.
        std::mem::forget(world);
        let detail = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| {
                payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
            })
            .unwrap_or_else(|| "a panic without a message".to_owned());
        summary.violation = Some(Violation {
            kind: asserted(&detail),
            detail,
        });
    }
    summary
}

/// What an assertion of the engine found, by its words.
fn asserted(detail: &str) -> Kind {
    let has = |words| str::contains(detail, words);
    if has("only after the kernel is done with it") || has("while the kernel may read it") {
        Kind::FreedWhileWriting
    } else if has("has one outcome") || has("resolved twice") {
        Kind::ReceiptTwice
    } else {
        Kind::Panicked
    }
}
