//! The audit: the log, read back over an engine of its own, against what the receipts say.
//!
//! What is `Stored` is at its offset, what is `Rejected` or `NotSent` is not in the log, nothing is
//! in it twice.

use std::collections::HashMap;

use ringmain::{Engine, Outcome, PolledRecord, Receipt, Receipts, Record};

use super::{PATIENCE, Server, Start};

/// The payload of a numbered record: its number, then up to 300 bytes, and 40,000 in every 401st,
/// which travels by reference.
pub(crate) fn payload(number: u32) -> Vec<u8> {
    let large = if number % 401 == 400 { 40_000 } else { 0 };
    let mut payload = number.to_le_bytes().to_vec();
    payload.extend((0..number * 37 % 300 + large).map(|at| (at * 7 + number) as u8));
    payload
}

/// A record that the audit knows by its number.
pub(crate) fn numbered(number: u32) -> Record {
    Record::new(payload(number))
}

/// Every record of a partition, in order, with its offsets checked to be without gaps.
pub(crate) fn read_back(
    engine: &Engine,
    stream: &str,
    topic: &str,
    partition: u32,
) -> Vec<PolledRecord> {
    let mut records: Vec<PolledRecord> = Vec::new();
    loop {
        let next = records.last().map_or(0, |record| record.offset + 1);
        let polled = engine
            .poll(stream, topic, partition, next, 1000, PATIENCE)
            .expect("a poll of what was stored");
        if polled.records.is_empty() {
            return records;
        }
        for record in polled.records {
            let expected = records.last().map_or(0, |last| last.offset + 1);
            assert_eq!(record.offset, expected, "offsets without gaps");
            records.push(record);
        }
    }
}

/// What a topic of numbered records holds.
pub(crate) struct Log {
    /// Partition and offset of each number.
    pub(crate) found: HashMap<u32, (u32, u64)>,
    /// Whether numbers rise in every partition.
    pub(crate) is_sorted: bool,
}

impl Log {
    /// Reads all of topic `topic`; panics when a number is in it twice, or not with every byte it
    /// was sent with.
    pub(crate) fn read(server: &Server, stream: &str, partitions: u32) -> Self {
        let engine = server.engine().start();
        let (mut found, mut is_sorted) = (HashMap::new(), true);
        for partition in 0..partitions {
            let numbers: Vec<u32> = read_back(&engine, stream, "topic", partition)
                .iter()
                .map(|record| {
                    let number = record.payload.first_chunk().expect("four bytes");
                    let number = u32::from_le_bytes(*number);
                    assert!(
                        record.payload == payload(number),
                        "bytes of record {number}"
                    );
                    number
                })
                .collect();
            is_sorted &= numbers.is_sorted();
            for (offset, number) in (0_u64..).zip(numbers) {
                let twice = found.insert(number, (partition, offset));
                assert_eq!(twice, None, "record {number} is stored twice");
            }
        }
        Self { found, is_sorted }
    }

    /// Holds the outcomes of records `0..` against the log.
    pub(crate) fn check(&self, outcomes: &[Outcome]) {
        for (number, outcome) in (0..).zip(outcomes) {
            let at = self.found.get(&number).copied();
            match *outcome {
                Outcome::Stored { partition, offset } => {
                    assert_eq!(at, Some((partition, offset)), "record {number}");
                }
                Outcome::StoredOffsetUnknown { partition } => {
                    assert_eq!(
                        at.map(|(found, _)| found),
                        Some(partition),
                        "record {number}"
                    );
                }
                Outcome::Rejected { .. } | Outcome::NotSent { .. } => {
                    assert_eq!(at, None, "record {number}: {outcome}");
                }
                Outcome::Unknown { .. } => {}
            }
        }
        let sent = u32::try_from(outcomes.len()).expect("counted in u32");
        assert!(
            self.found.keys().all(|number| *number < sent),
            "nothing is in the log that was not sent"
        );
    }
}

/// Reads a topic back and holds the outcomes of records `0..` against it.
pub(crate) fn audit(server: &Server, stream: &str, partitions: u32, outcomes: &[Outcome]) -> Log {
    let log = Log::read(server, stream, partitions);
    log.check(outcomes);
    log
}

/// Where each record was stored, in the order of the records.
pub(crate) fn partitions_of(receipts: &Receipts) -> Vec<u32> {
    let partition_of = |receipt: Receipt| match receipt.outcome() {
        Some(Outcome::Stored { partition, .. }) => partition,
        other => panic!("{other:?}"),
    };
    receipts.iter().map(partition_of).collect()
}
