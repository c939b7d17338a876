//! What findings are worth on this host: two ways of doing one thing, in turn, several rounds.
//!
//! Needs no rights and changes nothing that outlives a thread of its own. The engine sends to a
//! server that only answers, so that the sender is what is measured.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use ringmain::{Engine, EngineBuilder, ServerUrl, WritePath};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::{Host, Report, clock_cost_ns};

/// Bytes of a record that is sent.
const RECORD_BYTES: usize = 1000;
/// Records sent between two looks at the clock.
const RECORDS_A_LOOK: u32 = 64;
/// How long the last answers may take.
const DRAIN: Duration = Duration::from_secs(10);

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds of each comparison, at least 1. Default 5.
    pub rounds: usize,
    /// How long one side of a round sends. Default 300 ms.
    pub send: Duration,
    /// Round trips and hand-overs of one side of a round, at least 1. Default 2000.
    pub exchanges: u32,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            rounds: 5,
            send: Duration::from_millis(300),
            exchanges: 2000,
        }
    }
}

/// Measures beside `report`, sending to `server`, which is to answer without storing.
pub fn measure(report: &mut Report, host: &Host, server: &ServerUrl, effort: &Effort) {
    let throughput = |configure: fn(EngineBuilder) -> EngineBuilder| {
        throughput(configure(Engine::builder().server(server.clone())), effort)
    };
    let round_trip = |busy_poll_us| {
        let builder = Engine::builder().server(server.clone());
        round_trip_us(builder.busy_poll_us(busy_poll_us), effort)
    };
    let rounds = effort.rounds;
    let clocks: Vec<f64> = (0..rounds).map(|_| clock_cost_ns()).collect();
    note(report, "clock_cost", format!("{} ns", spread(clocks)));
    let registered = compare(
        rounds,
        "records/s",
        ("registered", &|| {
            throughput(|engine| engine.write_path(WritePath::WritevFixed))
        }),
        ("plain", &|| {
            throughput(|engine| engine.write_path(WritePath::SendMsg))
        }),
    );
    note(report, "registered_arena", registered);
    let huge = compare(
        rounds,
        "records/s",
        // One path on both sides: the engine's own trial of paths would be measured with it.
        ("huge pages", &|| {
            throughput(|engine| engine.huge_pages(true).write_path(WritePath::SendMsg))
        }),
        ("none", &|| {
            throughput(|engine| engine.huge_pages(false).write_path(WritePath::SendMsg))
        }),
    );
    note(report, "huge_pages", huge);
    let spinning = compare(
        rounds,
        "us a round trip",
        ("sleeping", &|| round_trip(0)),
        ("busy_poll_us(1000)", &|| round_trip(1000)),
    );
    note(report, "busy_polling", spinning);
    note(report, "cores", hand_overs(host, effort));
}

fn note(report: &mut Report, id: &str, text: String) {
    let mut checks = report.checks.iter_mut();
    let check = checks.find(|check| check.id == id);
    check.expect("a check of that name").measured = Some(text);
}

/// A way of doing something, and its name.
type Side<'a> = (&'a str, &'a dyn Fn() -> Result<f64, String>);

/// Both sides in turn. The first round of each is not counted: it meets cold caches.
fn compare(rounds: usize, unit: &str, first: Side<'_>, second: Side<'_>) -> String {
    let mut found = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (side, found) in [first, second].iter().zip(&mut found) {
            match side.1() {
                Ok(_) if round == 0 => {}
                Ok(value) => found.push(value),
                Err(cause) => return format!("not measured: {cause}"),
            }
        }
    }
    let pairs = found[0].iter().zip(&found[1]);
    let ratios: Vec<f64> = pairs.map(|(first, second)| first / second).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let told = if least <= 1.0 && most >= 1.0 {
        ", which is within the spread"
    } else {
        ""
    };
    let [one, other] = found.map(spread);
    format!(
        "{} {one}, {} {other} {unit}, ratio {}{told}",
        first.0,
        second.0,
        spread(ratios)
    )
}

/// Median, and the least and most.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let shown = |value: Option<&f64>| match value {
        None => "-".to_owned(),
        Some(value) if *value >= 1000.0 => format!("{value:.0}"),
        Some(value) if *value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    };
    format!(
        "{} ({} to {})",
        shown(values.get(values.len() / 2)),
        shown(values.first()),
        shown(values.last())
    )
}

/// Records a second of one application thread.
fn throughput(builder: EngineBuilder, effort: &Effort) -> Result<f64, String> {
    let engine = builder.build().map_err(|error| error.to_string())?;
    let producer = engine
        .producer("doctor", "measure")
        .create_if_missing(1)
        .build()
        .map_err(|error| error.to_string())?;
    producer.warm();
    let payload = [b'x'; RECORD_BYTES];
    let started = Instant::now();
    while started.elapsed() < effort.send {
        for _ in 0..RECORDS_A_LOOK {
            let sent = producer.send_slice(&payload, None);
            drop(sent.map_err(|error| error.to_string())?);
        }
    }
    let account = producer.close(DRAIN).account;
    let elapsed = started.elapsed();
    engine.close(Duration::from_secs(1));
    let stored = account.stored + account.stored_offset_unknown;
    if stored == account.accepted {
        Ok(stored as f64 / elapsed.as_secs_f64())
    } else {
        Err(format!("{stored} of {} records arrived", account.accepted))
    }
}

/// The median of sends with one record in flight.
fn round_trip_us(builder: EngineBuilder, effort: &Effort) -> Result<f64, String> {
    let engine = builder.build().map_err(|error| error.to_string())?;
    let producer = engine
        .producer("doctor", "measure")
        .create_if_missing(1)
        .build()
        .map_err(|error| error.to_string())?;
    let mut trips = Vec::with_capacity(effort.exchanges as usize);
    for _ in 0..effort.exchanges {
        let started = Instant::now();
        let receipt = producer.send_slice(&[b'x'; RECORD_BYTES], None);
        let receipt = receipt.map_err(|error| error.to_string())?;
        if !receipt.wait().is_stored() {
            return Err("a record was not stored".to_owned());
        }
        trips.push(started.elapsed().as_nanos() as f64 / 1000.0);
    }
    engine.close(Duration::from_secs(1));
    trips.sort_by(f64::total_cmp);
    Ok(trips[trips.len() / 2])
}

/// A thread wakes another on its own core, and on another one.
fn hand_overs(host: &Host, effort: &Effort) -> String {
    let cpus = host.cpus_allowed.as_deref().unwrap_or(&[]);
    let (Some(first), Some(last)) = (cpus.first(), cpus.last().filter(|_| cpus.len() > 1)) else {
        return "not measured: two cores are needed".to_owned();
    };
    compare(
        effort.rounds,
        "us a hand-over",
        ("across cores", &|| hand_over_us(*first, *last, effort)),
        ("on one core", &|| hand_over_us(*last, *last, effort)),
    )
}

/// Microseconds of one hand-over between two threads, each pinned.
fn hand_over_us(one: u32, other: u32, effort: &Effort) -> Result<f64, String> {
    let (there, arrives) = sync_channel::<()>(1);
    let (back, returns) = sync_channel::<()>(1);
    let echo = spawn(other, move || {
        while arrives.recv().is_ok() && back.send(()).is_ok() {}
        0.0
    })?;
    let exchanges = effort.exchanges;
    let asker = spawn(one, move || exchange(there, returns, exchanges))?;
    let joined = asker.join().map_err(|_| "a thread panicked".to_owned())?;
    echo.join().map_err(|_| "a thread panicked".to_owned())??;
    joined
}

fn exchange(there: SyncSender<()>, returns: Receiver<()>, exchanges: u32) -> f64 {
    let started = Instant::now();
    for _ in 0..exchanges {
        if there.send(()).is_err() || returns.recv().is_err() {
            break;
        }
    }
    started.elapsed().as_secs_f64() * 1e6 / f64::from(2 * exchanges)
}

type Thread = std::thread::JoinHandle<Result<f64, String>>;

/// Runs `work` on a thread of its own that stays on `cpu`.
fn spawn(cpu: u32, work: impl FnOnce() -> f64 + Send + 'static) -> Result<Thread, String> {
    let pinned = move || {
        let mut set = CpuSet::new();
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(format!(
                "core {cpu} is beyond what a thread can be pinned to"
            ));
        }
        set.set(cpu as usize);
        sched_setaffinity(None, &set).map_err(|error| format!("core {cpu}: {error}"))?;
        Ok(work())
    };
    let builder = std::thread::Builder::new();
    builder.spawn(pinned).map_err(|error| error.to_string())
}
