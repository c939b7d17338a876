//! `ringmain bench`: sends generated records for a few seconds and shows what was reached.
//!
//! One application thread sends to all partitions in turn. Without a rate it sends as fast as the
//! engine accepts, so the engine's memory is full and latency is mostly time in the queue; with
//! `--rate` it sends on a schedule, and the latency of a record counts from the moment it was due,
//! whether or not it could be sent then.
//!
//! Sending ends by the clock, also in the middle of a wait for memory: what was due by then and not
//! accepted was never sent, and is said so.

mod latency;
mod load;
mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ringmain::CarriedBy;
use ringmain::{CloseReport, Engine, Partitioning, Producer, SendError, limits};

use crate::args::BenchArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::redact::shown;
use crate::say;
use crate::server::{LOGOUT, Server};

use latency::Latency;
use load::{CATCH_UP, Pace, Payloads};
use report::Report;

/// Time between two updates of the progress line.
const PROGRESS: Duration = Duration::from_millis(200);

/// Sends for the time given, drains, and prints the result.
///
/// # Errors
/// [`Failure::NotAllStored`] when a record is not known to be stored, [`Failure::Interrupted`]
/// after Ctrl-C, [`Failure::RateMissed`] when the rate was not held; the result is printed in all
/// these cases. And those of setting up.
pub(crate) fn run(args: BenchArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let server = Server::given_or_embedded(&args.server, args.sink)?;
    let engine = engine(&args, &server)?;
    let partition = Arc::new(AtomicU32::new(0));
    let producer = producer(&engine, &args, &server, &partition)?;
    let timeout = Duration::from_secs(args.timeout);
    // Before the line that says what begins: a reader of that line gets the result after a signal.
    interrupt.drain_within(timeout);
    introduce(&args, &server);
    producer.warm();
    let mut bench = Bench {
        payloads: Payloads::new(args.record_bytes),
        latency: Latency::new(args.partitions),
        progress: ProgressBar::new_spinner(),
        producer,
        partition,
        args: &args,
    };
    let stopped = bench.send(interrupt);
    bench.producer.close(timeout);
    // Asked for before the connections are closed, which counts as well.
    let is_connection_lost = engine.stats().disconnects > 0;
    let CloseReport { account, .. } = engine.close(LOGOUT);
    let stats = engine.stats();
    bench.latency.finish();
    bench.progress.finish_and_clear();
    let stopped = stopped?;
    let report = Report {
        record_bytes: args.record_bytes,
        stopped,
        last_resolved: bench.latency.last_resolved(),
        rate: args.rate,
        account,
        latency_ns: bench.latency.histogram(),
        requests: stats.requests,
        retries: stats.retries,
        written: CarriedBy::ALL.map(|path| {
            let bytes = stats.transport.write_bytes[path as usize];
            (path.name(), bytes)
        }),
    };
    // Printed first and looked at last: a reader that has gone is no reason to call lost records
    // stored.
    let printed = if args.json {
        say::result(format_args!("{}", report.json(&stats.to_json())))
    } else {
        say::result(format_args!("{}", report.table()))
    };
    if !server.is_embedded() {
        say::note(format_args!(
            "the records stay in topic {}/{} of {}",
            shown(&args.stream),
            shown(&args.topic),
            server.shown()
        ));
    }
    match (bench.latency.lost(), report.missed_rate()) {
        (Some(first), _) => {
            let lost_at = is_connection_lost.then(|| server.shown());
            Err(Failure::not_all_stored(&account, lost_at, first))
        }
        (None, _) if interrupt.raised() => Err(Failure::Interrupted),
        (None, Some(missed)) => Err(Failure::RateMissed(missed)),
        (None, None) => printed,
    }
}

/// Says what is about to be measured, so that the figures are not taken for more than they are.
fn introduce(args: &BenchArgs, server: &Server) {
    let server = match (server.is_embedded(), args.sink) {
        (true, false) => "an embedded broker in this process, on loopback".to_owned(),
        (true, true) => "an embedded broker that answers without storing, on loopback".to_owned(),
        (false, _) => server.shown(),
    };
    let rate = match args.rate {
        None => "as many as possible".to_owned(),
        Some(rate) => format!("{rate} a second"),
    };
    say::note(format_args!(
        "records of {} bytes, {rate}, for {} s, to {} partitions of {server}",
        args.record_bytes, args.seconds, args.partitions
    ));
}

fn engine(args: &BenchArgs, server: &Server) -> Result<Engine, Failure> {
    let mut builder = Engine::builder();
    if let Some(driver) = args.driver {
        builder = builder.driver(driver.choice());
    }
    builder
        .server(server.url())
        .connect_timeout_us(args.timeout * 1_000_000)
        .shards(args.shards)
        .connections(args.connections.unwrap_or(args.shards))
        .memory_bytes_max(args.memory_bytes)
        .slot_bytes(args.batch_bytes.next_multiple_of(limits::SLOT_BYTES_MIN))
        .build()
        .map_err(|error| Failure::from_build(error, &server.shown()))
}

/// A producer that sends to the partition that stands in `partition` at the time.
fn producer(
    engine: &Engine,
    args: &BenchArgs,
    server: &Server,
    partition: &Arc<AtomicU32>,
) -> Result<Producer, Failure> {
    let partition = Arc::clone(partition);
    let chosen = move |_: &[u8], _: Option<&[u8]>, _: u32| partition.load(Ordering::Relaxed);
    let producer = engine
        .producer(&args.stream, &args.topic)
        .partitioning(Partitioning::Custom(Arc::new(chosen)))
        .window_requests_max(args.window)
        .batch_bytes_max(args.batch_bytes)
        .linger_us(args.linger_us)
        .create_if_missing(args.partitions)
        .build()
        .map_err(|error| Failure::from_build(error, &server.shown()))?;
    let found = producer.partitions_count();
    if found < args.partitions {
        return Err(Failure::Partitions {
            stream: args.stream.clone(),
            topic: args.topic.clone(),
            found,
            wanted: args.partitions,
        });
    }
    Ok(producer)
}

/// Starts the thread that closes the producer at `end` or at a signal, so that a send that waits
/// for memory ends, too.
fn close_at(
    end: Instant,
    producer: &Producer,
    interrupt: &Interrupt,
    timeout: Duration,
) -> Result<(), Failure> {
    let (producer, interrupt) = (producer.clone(), interrupt.clone());
    thread::Builder::new()
        .name("ringmain-stop".to_owned())
        .spawn(move || {
            interrupt.wait_until(Some(end));
            producer.close(timeout);
        })
        .map(drop)
        .map_err(|error| Failure::Machine {
            cause: format!("cannot start a thread: {error}"),
        })
}

struct Bench<'a> {
    payloads: Payloads,
    latency: Latency,
    progress: ProgressBar,
    producer: Producer,
    /// Where the producer's partitioner looks.
    partition: Arc<AtomicU32>,
    args: &'a BenchArgs,
}

impl Bench<'_> {
    /// Sends until the time is over, a signal comes or a record is lost. Returns how long it was
    /// sent.
    fn send(&mut self, interrupt: &Interrupt) -> Result<Duration, Failure> {
        let time = Duration::from_secs(self.args.seconds);
        let clock = Instant::now();
        let end = clock + time;
        let pace = Pace::new(self.args.rate, clock, end);
        let mut progress_next = PROGRESS;
        self.latency.start(clock);
        let timeout = Duration::from_secs(self.args.timeout);
        close_at(end + CATCH_UP, &self.producer, interrupt, timeout)?;
        for number in 0.. {
            let Some((start_ns, now_ns)) = pace.start_ns(number, interrupt) else {
                break;
            };
            if self.latency.lost().is_some() {
                break;
            }
            let partition = (number % u64::from(self.args.partitions)) as u32;
            self.partition.store(partition, Ordering::Relaxed);
            match self.payloads.send(&self.producer, number) {
                Ok(receipt) => self.latency.sent(partition, number, start_ns, receipt),
                Err(SendError::Closed) => break,
                Err(error) => return Err(self.refused(error)),
            }
            if now_ns >= progress_next.as_nanos() as u64 {
                self.latency.collect();
                self.show_progress(now_ns);
                progress_next = Duration::from_nanos(now_ns) + PROGRESS;
            }
        }
        Ok(clock.elapsed().min(time))
    }

    fn refused(&self, error: SendError) -> Failure {
        match error {
            SendError::PayloadTooLarge { .. } | SendError::SlotTooSmall { .. } => {
                Failure::RecordBytes {
                    bytes: self.args.record_bytes,
                    error,
                }
            }
            error => Failure::Machine {
                cause: error.to_string(),
            },
        }
    }

    fn show_progress(&self, now_ns: u64) {
        let seconds = now_ns as f64 / 1e9;
        let account = self.producer.account();
        let stored = account.stored + account.stored_offset_unknown;
        let bytes = stored * u64::from(self.args.record_bytes);
        let p99_us = report::quantile_us(self.latency.histogram(), 100);
        self.progress.set_message(format!(
            "{seconds:.1} s  {} records stored  {:.0} records/s  {:.1} MB/s{}",
            report::grouped(stored),
            stored as f64 / seconds,
            bytes as f64 / 1e6 / seconds,
            p99_us.map_or_else(String::new, |us| format!("  p99 {us:.1} us")),
        ));
    }
}
