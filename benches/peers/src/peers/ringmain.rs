//! This project's engine, through its public API.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ringmain::CarriedBy;
use ringmain::{DriverChoice, Engine, Producer, Record, Stats};

use crate::failure::Failure;
use crate::machine;
use crate::measure::{Deadline, Stretch};
use crate::payloads::Payloads;
use crate::spec::{Driver, Order, Report, RingmainSetup, STREAM, Shape, TOPIC};

const PEER: &str = "ringmain";
/// Far longer than anything in flight takes.
const DRAIN: Duration = Duration::from_secs(30);
/// The large records of a mixed load.
const LARGE_BYTES: usize = 64 * 1024;

pub(crate) fn run(order: &Order, setup: RingmainSetup) -> Result<Report, Failure> {
    let rss_idle_bytes = machine::rss_bytes();
    // The process has one core, for the shard and the application alike: there is nothing to pin a
    // shard to.
    let mut engine = Engine::builder()
        .server(format!("iggy://iggy:iggy@{}", order.addr))
        .cores([])
        .busy_poll_us(setup.busy_poll_us)
        .connections(setup.connections);
    if let Some(bytes) = setup.memory_bytes_max {
        engine = engine.memory_bytes_max(bytes);
    }
    if let Some(path) = setup.write_path {
        engine = engine.write_path(path.on_ring());
    }
    engine = match setup.driver {
        Some(Driver::IoUring) => engine.driver(DriverChoice::IoUring),
        Some(Driver::Epoll) => engine.driver(DriverChoice::Epoll),
        None => engine,
    };
    let engine = engine.build().map_err(Failure::peer(PEER))?;
    let mut producer = engine.producer(STREAM, TOPIC).linger_us(setup.linger_us);
    if let Some(window) = setup.window {
        producer = producer.window_requests_max(window);
    }
    if let Some(records) = setup.batch_records_max {
        producer = producer.batch_records_max(records);
    }
    if let Some(bytes) = setup.copy_bytes_max {
        producer = producer.copy_bytes_max(bytes);
    }
    let producer = producer.build().map_err(Failure::peer(PEER))?;
    producer.warm();
    let mut sender = Sender {
        producer,
        payloads: Payloads::new(setup.record_bytes.unwrap_or(order.load.record_bytes)),
        shape: order.load.shape,
        payload_bytes: 0,
    };
    sender.send(order.warm_seconds, None)?;
    let warm_records = sender.drain()?;
    sender.payload_bytes = 0;
    let mut stretch = Stretch::begin(rss_idle_bytes);
    sender.send(order.seconds, Some(&mut stretch))?;
    let records = sender.drain()? - warm_records;
    let mut report = stretch.end(records, warm_records, sender.payload_bytes);
    engine.close(DRAIN);
    report.note = note(&engine.stats());
    Ok(report)
}

struct Sender {
    producer: Producer,
    payloads: Payloads,
    shape: Shape,
    payload_bytes: u64,
}

impl Sender {
    /// Hands records over until the time is over.
    fn send(&mut self, seconds: f64, stretch: Option<&mut Stretch>) -> Result<(), Failure> {
        match self.shape {
            Shape::OneByOne => self.one_by_one(seconds),
            Shape::Batches(records) => self.batches(seconds, records),
            Shape::RoundTrip => self.round_trips(seconds, stretch),
            Shape::Mixed { small } => self.mixed(seconds, small),
        }
    }

    fn record(&mut self) -> Record {
        let payload = self.payloads.take();
        self.payload_bytes += payload.len() as u64;
        Record::new(payload)
    }

    fn one_by_one(&mut self, seconds: f64) -> Result<(), Failure> {
        let mut deadline = Deadline::within(seconds);
        while !deadline.is_over_after(1) {
            let record = self.record();
            // The account at the end tells whether all are stored.
            drop(self.producer.send(record).map_err(Failure::peer(PEER))?);
        }
        Ok(())
    }

    fn batches(&mut self, seconds: f64, records: u32) -> Result<(), Failure> {
        let mut deadline = Deadline::within(seconds);
        let Self {
            producer,
            payloads,
            payload_bytes,
            ..
        } = self;
        while !deadline.is_over_after(records) {
            let batch = (0..records).map(|_| {
                let payload = payloads.take();
                *payload_bytes += payload.len() as u64;
                Record::new(payload)
            });
            drop(producer.send_batch(batch).map_err(Failure::peer(PEER))?);
        }
        Ok(())
    }

    fn round_trips(
        &mut self,
        seconds: f64,
        mut stretch: Option<&mut Stretch>,
    ) -> Result<(), Failure> {
        let deadline = Deadline::within(seconds);
        while !deadline.is_over() {
            let record = self.record();
            let started = Instant::now();
            let receipt = self.producer.send(record).map_err(Failure::peer(PEER))?;
            receipt.wait();
            if let Some(stretch) = &mut stretch {
                stretch.round_trip(started.elapsed());
            }
        }
        Ok(())
    }

    fn mixed(&mut self, seconds: f64, small: u32) -> Result<(), Failure> {
        let mut deadline = Deadline::within(seconds);
        loop {
            for _ in 0..small {
                if deadline.is_over_after(1) {
                    return Ok(());
                }
                let record = self.record();
                drop(self.producer.send(record).map_err(Failure::peer(PEER))?);
            }
            let large = Record::new(Bytes::from(vec![0xA5; LARGE_BYTES]));
            self.payload_bytes += LARGE_BYTES as u64;
            drop(self.producer.send(large).map_err(Failure::peer(PEER))?);
        }
    }

    /// Waits for every answer; returns the records stored since the engine began.
    fn drain(&self) -> Result<u64, Failure> {
        let is_drained = self.producer.flush(DRAIN);
        let account = self.producer.account();
        if is_drained && account.all_stored() {
            return Ok(account.accepted);
        }
        Err(Failure::Peer {
            peer: PEER,
            why: format!("not every record is stored: {account}"),
        })
    }
}

fn note(stats: &Stats) -> String {
    let written: u64 = stats.transport.write_bytes.iter().sum();
    let paths: Vec<_> = CarriedBy::ALL
        .iter()
        .map(|path| (path.name(), stats.transport.write_bytes[*path as usize]))
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(name, bytes)| format!("{name} {:.0} %", bytes as f64 * 100.0 / written as f64))
        .collect();
    format!(
        "{:.1} records a request, {:.2} enters a request, {:.1} requests a write, {} window waits, {}",
        stats.records_per_request(),
        stats.enters_per_request(),
        stats.requests as f64 / stats.transport.writes.max(1) as f64,
        stats.window_waits,
        paths.join(", ")
    )
}
