//! `ringmain send`: every line of the input becomes one record, in order.
//!
//! Lines go from the block they were read in straight into the engine's registered memory; only a
//! line that is put together from several blocks has memory of its own, and a large one is handed
//! to the engine as it is. What is read but not answered is bounded by the engine's memory and a
//! few blocks.
//!
//! The first record that is not stored ends the run: going on would put later lines before it when
//! it is sent again. It is noticed by a thread that looks at the account, because the thread that
//! sends may be waiting for input or for memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Order};
use std::thread;
use std::time::{Duration, Instant};

use ringmain::{
    Engine, Ordering, Partitioning, Producer, Receipt, Receipts, Record, SendError, limits,
};

use crate::args::{OrderingArg, SendArgs};
use crate::exit::{Failure, FirstLost};
use crate::input::{Blocks, Next, Waker};
use crate::interrupt::Interrupt;
use crate::lines::{Line, LineSplitter, TooLong, field};
use crate::say;
use crate::server::{LOGOUT, Server};

/// How often the account is looked at for records that are not stored. An answer arrives at no
/// known moment, and a look costs less than a callback for each batch.
const LOOK: Duration = Duration::from_millis(20);

/// Runs until the end of the input, the first failure, or a signal; then drains and prints the
/// account.
///
/// # Errors
/// Everything in [`Failure`] but the failures of a benchmark. The account is printed even so, once
/// there is one.
pub(crate) fn run(args: SendArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    // Before anything else is started, because it is the likeliest to fail.
    let input = Blocks::open(args.file.as_deref())?;
    let server = Server::given_or_embedded(&args.server, false)?;
    if server.is_embedded() {
        say::note(format_args!(
            "no --server given: using an embedded broker, which forgets the records when this command ends"
        ));
    }
    let mut builder = Engine::builder();
    if let Some(driver) = args.driver {
        builder = builder.driver(driver.choice());
    }
    let engine = builder
        .server(server.url())
        .connect_timeout_us(args.timeout * 1_000_000)
        .partitions_max(args.partitions_max)
        .build()
        .map_err(|error| Failure::from_build(error, &server.shown()))?;
    let producer = producer(&engine, &args, &server)?;
    let timeout = Duration::from_secs(args.timeout);
    interrupt.drain_within(timeout);
    let stopping = stop_early(&producer, input.waker(), interrupt, timeout)?;

    let started = Instant::now();
    let mut sender = Sender::new(producer, &args, stopping);
    let sent = sender.send_all(&input);
    // A slow server is waited for as long as it makes progress: each record ends by itself without.
    // A signal or a lost record closes the producer from the other thread, which ends this wait.
    let _all = sent.is_ok() && sender.producer.flush(Duration::MAX);
    sender.producer.close(timeout);
    // Asked for before the connections are closed, which counts as well.
    let is_connection_lost = engine.stats().disconnects > 0;
    let report = engine.close(LOGOUT);
    // Printed first and looked at last: a reader that has gone is no reason to call lost records
    // stored.
    let printed = say::result(format_args!(
        "{} lines, {} bytes in {:.1} s\n{}",
        sender.lines,
        sender.payload_bytes,
        started.elapsed().as_secs_f64(),
        report.account
    ));
    sent?;
    sender.settle();
    if let Some(first) = sender.lost {
        let lost_at = is_connection_lost.then(|| server.shown());
        return Err(Failure::not_all_stored(&report.account, lost_at, first));
    }
    if interrupt.raised() {
        return Err(Failure::Interrupted);
    }
    printed
}

fn producer(engine: &Engine, args: &SendArgs, server: &Server) -> Result<Producer, Failure> {
    let partitioning = match (args.partition, args.key_field) {
        (Some(partition), _) => Partitioning::Partition(partition),
        (None, Some(_)) => Partitioning::Key,
        (None, None) => Partitioning::Balanced,
    };
    let ordering = match args.ordering {
        OrderingArg::Strict => Ordering::Strict,
        OrderingArg::Pipelined => Ordering::Pipelined,
    };
    let mut builder = engine
        .producer(&args.target.stream, &args.target.topic)
        .partitioning(partitioning)
        .ordering(ordering)
        .delivery_timeout_us(args.timeout * 1_000_000);
    // An embedded broker is empty, so that there is nothing a forgotten --create could protect.
    if args.create || server.is_embedded() {
        builder = builder.create_if_missing(args.partitions);
    }
    let producer = builder
        .build()
        .map_err(|error| Failure::from_build(error, &server.shown()))?;
    let count = producer.partitions_count();
    match args.partition {
        Some(partition) if partition >= count => {
            Err(Failure::PartitionMissing { partition, count })
        }
        // Before the first line, not at the line that meets one partition too many.
        None if count > args.partitions_max => Err(Failure::PartitionsMax {
            found: Some(count),
            max: args.partitions_max,
        }),
        _ => Ok(producer),
    }
}

/// Starts the thread that closes the producer, and wakes the thread that waits for input, at a
/// signal or at the first record that is not stored. From then on no line is accepted, and a send
/// that waits for memory ends. The flag tells that it was done.
fn stop_early(
    producer: &Producer,
    input: Waker,
    interrupt: &Interrupt,
    timeout: Duration,
) -> Result<Arc<AtomicBool>, Failure> {
    let (producer, interrupt) = (producer.clone(), interrupt.clone());
    let stopping = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stopping);
    thread::Builder::new()
        .name("ringmain-stop".to_owned())
        .spawn(move || {
            while !interrupt.wait_until(Some(Instant::now() + LOOK)) && !has_lost(&producer) {}
            told.store(true, Order::Relaxed);
            input.wake();
            producer.close(timeout);
        })
        .map_err(|error| Failure::Machine {
            cause: format!("cannot start a thread: {error}"),
        })?;
    Ok(stopping)
}

/// Whether a record has ended otherwise than stored.
fn has_lost(producer: &Producer) -> bool {
    let account = producer.account();
    account.rejected + account.not_sent + account.unknown > 0
}

/// The receipts of consecutive lines.
struct Pending {
    /// Number of the first of them, from 1.
    first_line: u64,
    receipts: Receipts,
}

/// Sends lines and watches what becomes of them.
struct Sender {
    producer: Producer,
    /// Field and delimiter, when lines are keyed.
    key: Option<(usize, u8)>,
    /// Lines accepted so far.
    lines: u64,
    /// Their bytes, without line ends.
    payload_bytes: u64,
    /// Lines accepted and not known to be answered, oldest first.
    pending: VecDeque<Pending>,
    /// The first line that is known not to be stored.
    lost: Option<FirstLost>,
    /// Nothing more is to be read: a signal came, or a record is not stored.
    stopping: Arc<AtomicBool>,
}

/// Why sending stopped before the end of a block.
enum Stop {
    /// For good, and it is the command's failure.
    Failure(Failure),
    /// The producer was closed, by [`stop_early`].
    Closed,
    /// A line is too long.
    TooLong,
}

impl From<TooLong> for Stop {
    fn from(TooLong: TooLong) -> Self {
        Stop::TooLong
    }
}

impl Sender {
    fn new(producer: Producer, args: &SendArgs, stopping: Arc<AtomicBool>) -> Self {
        Sender {
            producer,
            key: args
                .key_field
                .map(|field| (field as usize, args.key_delimiter)),
            lines: 0,
            payload_bytes: 0,
            pending: VecDeque::new(),
            lost: None,
            stopping,
        }
    }

    /// Sends line after line until the end of the input, a signal, or the first line known not to
    /// be stored.
    fn send_all(&mut self, input: &Blocks) -> Result<(), Failure> {
        let mut splitter = LineSplitter::new(
            limits::PAYLOAD_BYTES_MAX,
            limits::COPY_BYTES_DEFAULT as usize,
        );
        while !self.stopping.load(Order::Relaxed) {
            let block = match input.next()? {
                Next::Block(block) => block,
                Next::Woken => continue,
                Next::End => {
                    self.begin_pending();
                    let sent = splitter.finish(|line| self.send(line));
                    return self.stopped(sent);
                }
            };
            self.begin_pending();
            let sent = splitter.feed(block.bytes(), |line| self.send(line));
            input.give_back(block);
            if sent.is_err() {
                return self.stopped(sent);
            }
            self.settle();
        }
        Ok(())
    }

    fn stopped(&self, sent: Result<(), Stop>) -> Result<(), Failure> {
        match sent {
            Ok(()) | Err(Stop::Closed) => Ok(()),
            Err(Stop::Failure(failure)) => Err(failure),
            Err(Stop::TooLong) => Err(Failure::LineTooLong {
                line: self.lines + 1,
                bytes_max: limits::PAYLOAD_BYTES_MAX,
            }),
        }
    }

    /// Sends one line, waiting for memory as long as it takes.
    fn send(&mut self, line: Line<'_>) -> Result<(), Stop> {
        let bytes = line.bytes().len();
        let receipt = self.accept(&line)?;
        let pending = self.pending.back_mut().expect("begun before the block");
        pending.receipts.push(receipt);
        self.lines += 1;
        self.payload_bytes += bytes as u64;
        Ok(())
    }

    fn accept(&self, line: &Line<'_>) -> Result<Receipt, Stop> {
        let key = self.key(line.bytes()).map_err(Stop::Failure)?;
        let sent = match line {
            Line::Borrowed(payload) => self.producer.send_slice(payload, key),
            Line::Owned(payload) => self.producer.send(Record {
                key: key.map(|key| payload.slice_ref(key)),
                ..Record::new(payload.clone())
            }),
        };
        sent.map_err(|error| match error {
            SendError::Closed => Stop::Closed,
            SendError::Partition { partition, count } => {
                Stop::Failure(Failure::PartitionMissing { partition, count })
            }
            SendError::PartitionsMax { max } => {
                Stop::Failure(Failure::PartitionsMax { found: None, max })
            }
            SendError::PayloadTooLarge { .. } | SendError::Key { .. } => {
                Stop::Failure(Failure::Refused {
                    line: self.lines + 1,
                    error,
                })
            }
            // The others say nothing of the line.
            error => Stop::Failure(Failure::Machine {
                cause: error.to_string(),
            }),
        })
    }

    /// The key of a line; `None` when lines are not keyed.
    fn key<'a>(&self, line: &'a [u8]) -> Result<Option<&'a [u8]>, Failure> {
        let Some((number, delimiter)) = self.key else {
            return Ok(None);
        };
        let key = field(line, delimiter, number).ok_or(Failure::KeyMissing {
            line: self.lines + 1,
            field: number,
        })?;
        match key.len() {
            1..=255 => Ok(Some(key)),
            bytes => Err(Failure::KeyLength {
                line: self.lines + 1,
                field: number,
                bytes,
            }),
        }
    }

    fn begin_pending(&mut self) {
        self.pending.push_back(Pending {
            first_line: self.lines + 1,
            receipts: Receipts::default(),
        });
    }

    /// Drops the receipts of lines that are stored, oldest first, up to the first that is not
    /// answered. Notes the first that is answered and not stored.
    fn settle(&mut self) {
        while let Some(pending) = self.pending.front() {
            for (index, receipt) in pending.receipts.iter().enumerate() {
                match receipt.outcome() {
                    None => return,
                    Some(outcome) if outcome.is_stored() => {}
                    Some(outcome) => {
                        self.lost.get_or_insert(FirstLost {
                            what: "line",
                            number: pending.first_line + index as u64,
                            outcome,
                        });
                    }
                }
            }
            self.pending.pop_front();
        }
    }
}
