//! What must be true of an engine whenever its shard has turned, and of its memory whenever it
//! waits for nothing.

use super::World;
use super::app::App;
use crate::oracle::Kind;
use ringmain::simulation::{credit_free, has_unserved_sender};
use ringmain_proto::{Account, SessionState};
use std::time::Duration;

/// How much later than its deadline an answer may come: what waits behind a full window is looked
/// through at this interval, and a shard takes its time to turn.
pub(super) const LATE_US: u64 = 30_000;

impl World {
    /// After a turn: the tables, the accounts, the deadlines; and when the shard sleeps now, that
    /// it left nothing.
    pub(super) fn check(&mut self, app: usize) {
        let now_us = self.queue.now_us();
        let it = &self.apps[app];
        it.shard.borrow().check_invariants();
        let account = account(it);
        let clients = it.first_client..it.first_client + it.conns.len();
        self.oracle.check_accounts(clients.clone(), account);
        let clock_us = it
            .clock_us(now_us)
            .saturating_sub(LATE_US + it.draws.turn_us_max);
        if it.driver(|driver| driver.is_asleep() && !driver.is_called()) == Some(true) {
            self.check_asleep(app, true);
        }
        let it = &self.apps[app];
        if now_us < it.excused_us {
            return;
        }
        for client in clients {
            let is_read = |batch| it.driver(|driver| driver.is_read(batch)).unwrap_or(false);
            self.oracle.check_overdue(client, clock_us, is_read);
        }
    }

    /// A shard sleeps: nobody waits for memory that there is, and no lane for a turn that it could
    /// have had.
    pub(super) fn check_asleep(&mut self, app: usize, has_turned: bool) {
        let it = &self.apps[app];
        if it.shard.borrow().has_unserved_sender() || has_unserved_sender(&it.engine) {
            self.oracle.blame(Kind::Unserved, || {
                format!("app {app}: a sender waits for memory, there is some, and the shard sleeps")
            });
        }
        let clock_us = it.clock_us(self.queue.now_us());
        for (lane, out) in it.lanes.iter().enumerate() {
            let (Some((conn, key)), Some(&batch)) = (out.place, out.unsent.front()) else {
                continue;
            };
            let known = &it.batches[&batch];
            let is_over = known.lingers_until_us <= clock_us;
            let is_due = known.is_sealed || is_over || it.sends_open > 0;
            let view = it.view(conn);
            // An appender wakes no shard that a write will wake: what the shard transmitted last
            // may have left it the impression that the lane is full, until that write is done.
            let takes_write = it.driver(|driver| match has_turned {
                true => driver.takes_write(conn),
                false => driver.takes_write(conn) && !driver.is_writing(conn),
            });
            let could_go = view.state == SessionState::Active
                && takes_write == Some(true)
                && it.shard.borrow().lane_has_room(conn, key);
            if is_due && could_go {
                self.oracle.blame(Kind::LeftOut, || {
                    format!("app {app}: lane {lane} has room and batch {batch} to send, and the shard sleeps")
                });
            }
        }
    }

    /// Applications that wait for nothing hold no memory: it was given back, and once.
    pub(super) fn check_memory(&mut self) {
        for (index, it) in self.apps.iter().enumerate() {
            let is_answered = it.batches.values().all(|batch| batch.receipt.is_some());
            if !it.is_quiet() || !is_answered {
                continue;
            }
            let shard = it.shard.borrow();
            let (free, slots) = (shard.slots_free(), shard.slots());
            let credit = credit_free(&it.engine);
            if free != slots || credit != it.credit {
                self.oracle.blame(Kind::MemoryKept, || {
                    format!(
                        "app {index} waits for nothing, and {free} of {slots} slots and {credit} of {} bytes are free",
                        it.credit
                    )
                });
            }
        }
    }

    /// The reports of closed engines are what the answers add up to, and every record had its own.
    pub(super) fn check_reports(&mut self) {
        self.check_memory();
        for index in 0..self.apps.len() {
            let it = &self.apps[index];
            let report = it.engine.close(Duration::ZERO);
            let answered: u64 = it
                .batches
                .values()
                .map(|batch| u64::from(batch.answers))
                .sum();
            if report.account.accepted != answered || report.account.in_flight != 0 {
                self.oracle.blame(Kind::AccountWrong, || {
                    format!(
                        "app {index}: {answered} records have answers, the report says {report:?}"
                    )
                });
            }
        }
    }
}

/// The sum over the producers of an application.
fn account(app: &App) -> Account {
    let mut sum = Account::default();
    for sender in &app.senders {
        let account = sender.producer.account();
        sum.accepted += account.accepted;
        sum.stored += account.stored;
        sum.stored_offset_unknown += account.stored_offset_unknown;
        sum.rejected += account.rejected;
        sum.not_sent += account.not_sent;
        sum.unknown += account.unknown;
        sum.in_flight += account.in_flight;
    }
    sum
}
