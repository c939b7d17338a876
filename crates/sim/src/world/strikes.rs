//! Faults that strike by themselves.

use super::app::Socket;
use super::checks::LATE_US;
use super::{Event, Phase, World};
use crate::faults::Fault;

impl World {
    /// Schedules the next strike of a timed fault, if there is one.
    pub(super) fn schedule_strike(&mut self, fault: Fault) {
        let next_us = self
            .faults
            .next_strike_us(fault)
            .map(|delay_us| self.now_us() + delay_us);
        if let Some(at_us) = next_us.filter(|at_us| *at_us < self.work_us) {
            self.queue.push(at_us, Event::Strike(fault));
        }
    }

    pub(super) fn strike(&mut self, fault: Fault) {
        if self.phase != Phase::Work {
            return;
        }
        self.trace
            .note(self.queue.now_us(), || format!("fault: {}", fault.name()));
        if self.carry_out(fault) {
            self.faults.count(fault);
        }
        self.schedule_strike(fault);
    }

    /// Carries a fault out. Says whether there was anything to strike.
    fn carry_out(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::ResetAnyTime => self.reset_some_connection(),
            Fault::QueueFilled => self.with_broker(|broker, env| broker.fill_queues(env)),
            Fault::EvictedForNow => {
                self.with_broker(|broker, env| broker.evict_someone(env, false))
            }
            Fault::EvictedForGood => {
                self.with_broker(|broker, env| broker.evict_someone(env, true))
            }
            Fault::ClientTableFull => self.with_broker(|broker, _| broker.fill_client_table()),
            Fault::WindowTableFull => self.with_broker(|broker, env| broker.fill_window_table(env)),
            Fault::ServerPause => {
                let pause_us = self.faults.rng().scaled(10_000, 8_000_000);
                self.server_paused_us = self.now_us() + pause_us;
                true
            }
            Fault::RestartWithLog => self.restart(true),
            Fault::RestartWithoutLog => self.restart(false),
            Fault::ClientPause => {
                let pause_us = self.faults.rng().scaled(1_000, 20_000_000);
                let (app, now_us) = (self.some_app(), self.now_us());
                let it = &mut self.apps[app];
                it.paused_us = it.paused_us.max(now_us + pause_us);
                it.excused_us = it.excused_us.max(it.paused_us + 2 * LATE_US);
                true
            }
            Fault::ClockJump => {
                let jump_us = self.faults.rng().scaled(1_000, 3_600_000_000);
                let (app, now_us) = (self.some_app(), self.now_us());
                self.apps[app].ahead_us += jump_us;
                let excused_us = &mut self.apps[app].excused_us;
                *excused_us = now_us.max(*excused_us) + 2 * LATE_US;
                // Whatever its shard waits for may be over.
                self.turn_at(app, now_us);
                true
            }
            Fault::TopicRecreated => {
                let gone_us = self.faults.rng().scaled(0, 2_000_000);
                self.with_broker(|broker, env| broker.recreate_some_topic(env, gone_us))
            }
            other => unreachable!("{} strikes at opportunities", other.name()),
        }
    }

    fn some_app(&mut self) -> usize {
        self.faults.rng().below(self.apps.len() as u64) as usize
    }

    fn reset_some_connection(&mut self) -> bool {
        let app = self.some_app();
        let conns = self.apps[app].conns.len() as u64;
        let conn = self.faults.rng().below(conns) as usize;
        let Socket::Up { net } = self.apps[app].conns[conn].socket else {
            return false;
        };
        let open = self.network.is_open(net);
        self.reset(net);
        open
    }

    fn restart(&mut self, keeps_log: bool) -> bool {
        if self.broker.is_down() {
            return false;
        }
        self.with_broker(|broker, env| broker.stop(env, keeps_log));
        let down_us = self.faults.rng().scaled(1_000, 3_000_000);
        self.queue.push_after(down_us, Event::ServerUp);
        true
    }
}
