//! `ringmain dump`: every record of a topic, one line each, on standard output.
//!
//! Reads up to what is there when it gets there: a topic that is written to faster than it is read
//! is never finished. Commits no consumer offset.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use ringmain::{Engine, PolledRecord};

use crate::args::DumpArgs;
use crate::exit::Failure;
use crate::say;
use crate::server::Server;
use crate::stdio::{Output, was_closed};

/// Bytes of payload that one poll asks for, by the size of the records seen so far. The reply is
/// held in memory.
const POLL_BYTES_WANTED: u64 = 4 * 1024 * 1024;
/// Records of one poll at most: small records would make a reply of many megabytes otherwise.
const POLL_RECORDS_MAX: u64 = 4096;
/// Bytes gathered before standard output is written to.
const OUTPUT_BYTES: usize = 256 * 1024;

/// Writes all partitions, or the one asked for.
///
/// # Errors
/// [`Failure::ServerMissing`], [`Failure::TopicMissing`], [`Failure::PartitionMissing`], those of a
/// server that cannot be reached or refuses, and those of standard output.
pub(crate) fn run(args: DumpArgs) -> Result<(), Failure> {
    if was_closed(rustix::stdio::stdout()) {
        return Err(Failure::NoOutput);
    }
    let server = Server::given(&args.server)?;
    let mut builder = Engine::builder();
    if let Some(driver) = args.driver {
        builder = builder.driver(driver.choice());
    }
    let engine = builder
        .server(server.url())
        // One answer after the other: a core would be taken from those who send.
        .cores([])
        .connect_timeout_us(args.timeout * 1_000_000)
        .build()
        .map_err(|error| Failure::from_build(error, &server.shown()))?;
    let timeout = Duration::from_secs(args.timeout);
    let topic = engine
        .topic(&args.target.stream, &args.target.topic, timeout)
        .map_err(|error| Failure::from_call(error, &server.shown()))?
        .ok_or_else(|| Failure::TopicMissing {
            stream: args.target.stream.clone(),
            topic: args.target.topic.clone(),
            remedy: "give the names of one that does",
        })?;
    let count = topic.partitions_count;
    let partitions = match args.partition {
        None => 0..count,
        Some(partition) if partition < count => partition..partition + 1,
        Some(partition) => return Err(Failure::PartitionMissing { partition, count }),
    };
    let mut dump = Dump {
        engine: &engine,
        server: server.shown(),
        args: &args,
        timeout,
        out: Lines::new(args.offsets, args.no_final_newline),
        records: 0,
    };
    for partition in partitions {
        dump.partition(partition)?;
    }
    dump.out.finish().map_err(Failure::from_output)?;
    say::note(format_args!("{} records", dump.records));
    Ok(())
}

struct Dump<'a> {
    engine: &'a Engine,
    /// For messages.
    server: String,
    args: &'a DumpArgs,
    timeout: Duration,
    out: Lines,
    records: u64,
}

impl Dump<'_> {
    fn partition(&mut self, partition: u32) -> Result<(), Failure> {
        let mut offset = 0;
        // One record at first: nothing is known of their size, and each can have 64 MB.
        let mut count = 1;
        loop {
            let polled = self
                .engine
                .poll(
                    &self.args.target.stream,
                    &self.args.target.topic,
                    partition,
                    offset,
                    count,
                    self.timeout,
                )
                .map_err(|error| Failure::from_call(error, &self.server))?;
            let Some(last) = polled.records.last() else {
                if offset == 0 && polled.current_offset > 0 {
                    say::note(format_args!(
                        "partition {partition} is empty; its records up to offset {} are no longer there",
                        polled.current_offset
                    ));
                }
                return Ok(());
            };
            missing(partition, offset, &polled.records);
            offset = last.offset + 1;
            count = next_count(&polled.records);
            for record in &polled.records {
                self.out
                    .write(partition, record)
                    .map_err(Failure::from_output)?;
            }
            self.records += polled.records.len() as u64;
        }
    }
}

/// Says which offsets from `wanted` on are not among `records`: the server forgets the oldest
/// records of a log.
fn missing(partition: u32, mut wanted: u64, records: &[PolledRecord]) {
    for record in records {
        let found = record.offset;
        if found > wanted && wanted == 0 {
            say::note(format_args!(
                "partition {partition} begins at offset {found}; its older records are no longer there"
            ));
        } else if found > wanted {
            say::note(format_args!(
                "partition {partition}: records {wanted} to {} are no longer there",
                found - 1
            ));
        }
        wanted = found + 1;
    }
}

/// How many records to ask for after these: as many of their average size as are wanted, but at
/// most twice as many as there were, because the next may be larger.
fn next_count(records: &[PolledRecord]) -> u32 {
    let found = records.len() as u64;
    let bytes: u64 = records
        .iter()
        .map(|record| record.payload.len() as u64 + 1)
        .sum();
    let fitting = POLL_BYTES_WANTED * found / bytes;
    let count = fitting.min(found * 2).clamp(1, POLL_RECORDS_MAX);
    u32::try_from(count).expect("clamped")
}

/// Standard output, as lines.
struct Lines {
    out: BufWriter<Output>,
    offsets: bool,
    no_final_newline: bool,
    /// Whether a record was written whose newline was not.
    open: bool,
}

impl Lines {
    fn new(offsets: bool, no_final_newline: bool) -> Self {
        Lines {
            out: BufWriter::with_capacity(OUTPUT_BYTES, Output),
            offsets,
            no_final_newline,
            open: false,
        }
    }

    fn write(&mut self, partition: u32, record: &PolledRecord) -> io::Result<()> {
        self.end_line()?;
        if self.offsets {
            write!(self.out, "{partition}\t{}\t", record.offset)?;
        }
        self.open = true;
        self.out.write_all(&record.payload)
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.no_final_newline {
            self.end_line()?;
        }
        self.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if self.open {
            self.out.write_all(b"\n")?;
            self.open = false;
        }
        Ok(())
    }
}
