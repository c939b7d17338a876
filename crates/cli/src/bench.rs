//! `ringmain bench`: sends generated records for a few seconds and shows what was reached.
//!
//! One application thread sends to all partitions in turn. Without a rate it sends as fast as the engine accepts, so the
//! engine's memory is full and latency is mostly time in the queue; with `--rate` it sends on a schedule, and the
//! latency of a record counts from the moment it was due, whether or not it could be sent then.

mod latency;
mod load;
mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use ringmain::CarriedBy;
use ringmain::{CloseReport, Engine, Partitioning, Producer, SendError, limits};

use crate::args::BenchArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::say;
use crate::server::Server;

use latency::Latency;
use load::{Pace, Payloads};
use report::Report;

/// How long to wait for answers after the last record was sent.
const DRAIN: Duration = Duration::from_secs(30);
/// Time between two updates of the progress line.
const PROGRESS: Duration = Duration::from_millis(200);

/// Sends for the time given, drains, and prints the result.
///
/// # Errors
/// [`Failure::NotAllStored`] when a record is not known to be stored, [`Failure::Interrupted`] after Ctrl-C; the result
/// is printed in both cases. And those of setting up.
pub(crate) fn run(args: BenchArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::install()?;
    let server = Server::given_or_embedded(&args.server, args.sink)?;
    let engine = engine(&args, &server)?;
    let partition = Arc::new(AtomicU32::new(0));
    let producer = producer(&engine, &args, &server, &partition)?;
    introduce(&args, &server);
    producer.warm();
    let closing = producer.clone();
    interrupt.on_raised(move || {
        // A send that waits for memory ends with this.
        closing.close(DRAIN);
    })?;
    let mut bench = Bench {
        payloads: Payloads::new(args.record_bytes),
        latency: Latency::new(args.partitions),
        progress: ProgressBar::new_spinner(),
        producer,
        partition,
        args: &args,
    };
    let sent = bench.send(&interrupt);
    let CloseReport { account, .. } = engine.close(DRAIN);
    let stats = engine.stats();
    bench.latency.finish();
    bench.progress.finish_and_clear();
    sent?;
    let report = Report {
        record_bytes: args.record_bytes,
        elapsed: bench.latency.last_resolved(),
        account,
        latency_ns: bench.latency.histogram(),
        requests: stats.requests,
        retries: stats.retries,
        written: CarriedBy::ALL.map(|path| {
            let bytes = stats.transport.write_bytes[path as usize];
            (path.name(), bytes)
        }),
    };
    // Printed first and looked at last: a reader that has gone is no reason to call lost records stored.
    let printed = if args.json {
        say::result(format_args!("{}", report.json(&stats.to_json())))
    } else {
        say::result(format_args!("{}", report.table()))
    };
    if !server.is_embedded() {
        say::note(format_args!(
            "the records stay in topic {}/{} of {}",
            args.stream,
            args.topic,
            server.shown()
        ));
    }
    match bench.latency.lost() {
        Some(first) => Err(Failure::not_all_stored(&engine, &server.shown(), first)),
        None if interrupt.raised() => Err(Failure::Interrupted),
        None => printed,
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
    Engine::builder()
        .server(server.url())
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
    /// Sends until the time is over, a signal comes or a record is lost.
    fn send(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let end_ns = self.args.seconds * 1_000_000_000;
        let pace = Pace::new(self.args.rate);
        let mut progress_next = PROGRESS;
        self.latency.start(Instant::now());
        for number in 0.. {
            let (start_ns, now_ns) = pace.start_ns(number, self.latency.clock());
            if start_ns >= end_ns || interrupt.raised() || self.latency.lost().is_some() {
                break;
            }
            let partition = (number % u64::from(self.args.partitions)) as u32;
            self.partition.store(partition, Ordering::Relaxed);
            match self.payloads.send(&self.producer, number) {
                Ok(receipt) => self.latency.sent(partition, number, start_ns, receipt),
                Err(SendError::Closed) if interrupt.raised() => break,
                Err(SendError::EngineFailed) => {
                    return Err(Failure::Machine {
                        cause: SendError::EngineFailed.to_string(),
                    });
                }
                Err(error) => {
                    return Err(Failure::RecordBytes {
                        bytes: self.args.record_bytes,
                        error,
                    });
                }
            }
            if now_ns >= progress_next.as_nanos() as u64 {
                self.latency.collect();
                self.show_progress(now_ns);
                progress_next = Duration::from_nanos(now_ns) + PROGRESS;
            }
        }
        Ok(())
    }

    fn show_progress(&self, now_ns: u64) {
        let seconds = now_ns as f64 / 1e9;
        let account = self.producer.account();
        let stored = account.stored + account.stored_offset_unknown;
        let bytes = stored * u64::from(self.args.record_bytes);
        self.progress.set_message(format!(
            "{seconds:.1} s  {} records stored  {:.0} records/s  {:.1} MB/s  p99 {:.1} us",
            report::grouped(stored),
            stored as f64 / seconds,
            bytes as f64 / 1e6 / seconds,
            self.latency.histogram().value_at_quantile(0.99) as f64 / 1e3,
        ));
    }
}
