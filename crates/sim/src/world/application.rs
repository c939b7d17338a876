//! The applications: what they ask of their clients, and when.

use super::{Event, World};
use crate::codec::{self, SendView};
use crate::driver::CallOut;
use crate::oracle::Kind;
use ringmain_proto::{Deadline, LaneKey, Micros};
use ringmain_wire::{CommandCode, Operation};

/// Records of a batch at most.
const RECORDS_MAX: u64 = 4;

/// What an application waits at least when it has no memory left, in microseconds.
const BLOCKED_US: u64 = 2_000;

/// Chances in a million that an application resumes a halted lane in one step.
const RESUME_PPM: u32 = 100_000;

/// Metadata operations that applications call. To the model broker they are all alike.
const METADATA: [Operation; 4] = [
    Operation::CreateStream,
    Operation::CreateTopic,
    Operation::CreatePartitions,
    Operation::DeleteTopic,
];

impl World {
    /// One step of an application.
    pub(super) fn work(&mut self, client: usize) {
        let now_us = self.now_us();
        let driver = &mut self.drivers[client];
        if driver.paused_us > now_us {
            return self.queue.push(driver.paused_us, Event::Work { client });
        }
        driver.work_done |= driver.has_ended()
            || driver.batches_submitted >= driver.draws.batches
            || self.faults.stopped();
        if driver.work_done {
            return self.close_early(client);
        }
        self.resume_some(client);
        let driver = &mut self.drivers[client];
        let (calls_ppm, purge_ppm) = (driver.draws.calls_ppm, driver.draws.purge_ppm);
        if driver.rng.chance(calls_ppm) {
            let deadline = self.draw_deadline(client);
            let read = self.drivers[client].rng.chance(400_000);
            self.call(client, deadline, read);
        } else {
            self.burst(client);
        }
        if self.drivers[client].rng.chance(purge_ppm) {
            self.purge(client);
        }
        self.drain(client);
        let driver = &mut self.drivers[client];
        let mut pause_us = driver.rng.scaled(0, driver.draws.pause_us_max);
        if driver.slots.free_key().is_none() {
            pause_us += BLOCKED_US;
        }
        self.queue.push_after(pause_us, Event::Work { client });
    }

    /// Sooner or later an application goes on behind what it lost in strict order.
    fn resume_some(&mut self, client: usize) {
        for lane in 0..self.drivers[client].draws.lanes.len() {
            let driver = &mut self.drivers[client];
            let is_halted = driver.client.is_lane_halted(LaneKey(lane as u32));
            if is_halted && driver.rng.chance(RESUME_PPM) {
                self.resume(client, lane);
            }
        }
    }

    fn resume(&mut self, client: usize, lane: usize) {
        self.trace.note(self.queue.now_us(), || {
            format!("client {client}: resume lane {lane}")
        });
        self.oracle.resumed(client, lane);
        self.drivers[client]
            .client
            .resume_lane(LaneKey(lane as u32))
            .expect("lanes stay open");
    }

    fn draw_deadline(&mut self, client: usize) -> Micros {
        let now_us = self.now_us();
        let driver = &mut self.drivers[client];
        let clock = driver.clock(now_us);
        if driver.rng.chance(driver.draws.patient_ppm) {
            return Micros::MAX;
        }
        let (low, high) = driver.draws.delivery_us;
        clock.after(driver.rng.scaled(low, high))
    }

    fn burst(&mut self, client: usize) {
        let driver = &mut self.drivers[client];
        let count = driver.rng.between(1, u64::from(driver.draws.burst));
        let lanes = driver.draws.lanes.len() as u64;
        for _ in 0..count {
            let driver = &mut self.drivers[client];
            if driver.batches_submitted >= driver.draws.batches {
                break;
            }
            let lane = driver.rng.below(lanes) as usize;
            let records = driver.rng.between(1, RECORDS_MAX) as u32;
            let deadline = self.draw_deadline(client);
            if !self.submit(client, lane, records, deadline, false) {
                break;
            }
            self.drivers[client].batches_submitted += 1;
        }
    }

    /// Submits a batch. Says whether there was memory for it and the client took it.
    fn submit(
        &mut self,
        client: usize,
        lane: usize,
        records: u32,
        deadline: Micros,
        probe: bool,
    ) -> bool {
        let now_us = self.now_us();
        let driver = &mut self.drivers[client];
        let Some(key) = driver.slots.free_key() else {
            return false;
        };
        let (topic, partition) = driver.draws.lanes[lane];
        let batch = self.oracle.batch_next();
        let send = SendView {
            topic,
            partition,
            batch,
            records,
        };
        let body_bytes = codec::write_send(driver.slots.memory(key), send);
        let progress_us = match deadline {
            at if driver.draws.delivery_waits && at != Micros::MAX => {
                at.since(driver.clock(now_us))
            }
            _ => 0,
        };
        let until = Deadline {
            at: deadline,
            progress_us,
        };
        match driver
            .client
            .submit(LaneKey(lane as u32), key, records, until)
        {
            Ok(()) => {}
            Err(_) if driver.has_ended() => return false,
            Err(error) => {
                self.oracle.blame(Kind::DriverRefused, || {
                    format!("client {client} refuses a batch: {error}")
                });
                return false;
            }
        }
        driver.slots.fill(key, batch, body_bytes);
        self.trace.note(now_us, || {
            format!("client {client}: submitted batch {batch}, {records} records, {deadline:?}")
        });
        let deadline_us = (deadline != Micros::MAX).then_some(deadline.0);
        self.oracle
            .submitted(client, lane, records, deadline_us, progress_us, probe);
        true
    }

    fn call(&mut self, client: usize, deadline: Micros, read: bool) {
        let driver = &mut self.drivers[client];
        let Some(key) = driver.free_call() else {
            return;
        };
        let (operation, code) = if read {
            (Operation::NonReplicated, CommandCode::GET_TOPIC)
        } else {
            let operation = *driver.rng.pick(&METADATA);
            (
                operation,
                operation
                    .command_code()
                    .expect("metadata operations have codes"),
            )
        };
        if let Err(error) = driver.client.call(key, operation, code, deadline) {
            if !driver.has_ended() {
                self.oracle.blame(Kind::DriverRefused, || {
                    format!("client {client} refuses a call: {error}")
                });
            }
            return;
        }
        let unique = (client as u64 + 1) << 32 | u64::from(driver.calls_made);
        driver.calls_made += 1;
        driver.calls[key.0 as usize] = Some(CallOut {
            key: unique,
            echoed: None,
        });
        self.trace.note(self.queue.now_us(), || {
            format!("client {client}: called {unique:#x} {operation}")
        });
        let deadline_us = (deadline != Micros::MAX).then_some(deadline.0);
        self.oracle.called(client, unique, read, deadline_us);
    }

    fn purge(&mut self, client: usize) {
        let now_us = self.now_us();
        self.trace
            .note(now_us, || format!("client {client}: purge"));
        self.oracle.purged(client);
        let driver = &mut self.drivers[client];
        driver.client.purge(driver.clock(now_us));
    }

    /// Submits a batch for every lane of every client, and a metadata call. In the first round a client may find out
    /// that it lost its session; in the last round everything must be stored.
    pub(super) fn probe(&mut self, last: bool) {
        for client in 0..self.drivers.len() {
            if self.drivers[client].has_ended() {
                continue;
            }
            self.call(client, Micros::MAX, false);
            for lane in 0..self.drivers[client].draws.lanes.len() {
                self.resume(client, lane);
                self.submit(client, lane, 1, Micros::MAX, last);
            }
            self.drain(client);
        }
    }

    /// Closes a client whose work is done, if it is one that does not wait for answers.
    pub(super) fn close_early(&mut self, client: usize) {
        let driver = &mut self.drivers[client];
        if driver.draws.closes_early && !driver.closing {
            let patience_us = driver.rng.scaled(0, 10_000_000);
            self.close_client(client, patience_us);
        }
    }

    /// Closes a client; it may take so long to answer for what is open.
    pub(super) fn close_client(&mut self, client: usize, patience_us: u64) {
        let now_us = self.now_us();
        self.trace.note(now_us, || {
            format!("client {client}: close within {patience_us} us")
        });
        let driver = &mut self.drivers[client];
        driver.closing = true;
        driver.work_done = true;
        let clock = driver.clock(now_us);
        let deadline = clock.after(patience_us);
        driver.client.close(clock, deadline);
        self.oracle.closing(client, deadline.0);
        self.drain(client);
    }
}
