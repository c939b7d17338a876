//! What must hold between any two calls. Every check states one law.

use super::Client;
use crate::LaneKey;
use crate::lane::{Phase, Turn};
use crate::limits::REQUEST_SPAN_MAX;
use crate::outcome::Receipt;
use crate::session::SessionState;
use crate::stage::Stage;

impl Client {
    /// Panics unless everything that must hold does. For tests and the simulator, after every call:
    /// it costs a walk over all tables.
    pub fn check_invariants(&self) {
        self.alarms.check_invariants();
        self.check_account();
        let mut window_total = 0;
        let mut writes = 0;
        let mut awaiting = 0;
        for lane in self.lanes.keys() {
            awaiting += u32::from(self.lanes[lane].awaiting);
            window_total += usize::from(self.lanes[lane].window.len());
            self.check_lane(lane);
        }
        assert_eq!(
            self.pending.len(),
            window_total,
            "a number is pending exactly while it is in a window"
        );
        assert_eq!(self.awaiting, awaiting, "requests in flight are counted");
        for key in self.batches.keys() {
            writes += u32::from(self.batches[key].request.write_in_flight());
        }
        for key in self.calls.keys() {
            writes += u32::from(self.calls[key].request.write_in_flight());
        }
        let session_writes = [self.writes.login, self.writes.ping, self.writes.logout];
        writes += session_writes
            .iter()
            .map(|&in_flight| u32::from(in_flight))
            .sum::<u32>();
        assert_eq!(
            self.writes.in_flight, writes,
            "writes in flight are counted"
        );
        assert_eq!(
            self.session.fatal.is_some(),
            matches!(
                self.session.state,
                SessionState::Failing | SessionState::Failed
            ),
            "a fatal error and a failed state go together"
        );
        if self.session.state.is_final() {
            assert_eq!(self.unresolved, 0, "nothing is open after the end");
            assert_eq!(
                self.alarms.earliest(),
                None,
                "nothing waits for time after the end"
            );
        }
    }

    fn check_account(&self) {
        assert!(
            self.account.is_balanced(),
            "the account balances: {:?}",
            self.account
        );
        let mut in_flight = 0;
        let mut unresolved = 0;
        for key in self.batches.keys() {
            let batch = &self.batches[key];
            if batch.stage.is_unresolved() {
                in_flight += u64::from(batch.records);
                unresolved += 1;
            }
        }
        for key in self.calls.keys() {
            unresolved += u32::from(self.calls[key].stage.is_unresolved());
        }
        assert_eq!(
            self.account.in_flight, in_flight,
            "in flight is what is not resolved"
        );
        assert_eq!(
            self.unresolved, unresolved,
            "unresolved batches and calls are counted"
        );
    }

    fn check_lane(&self, key: LaneKey) {
        let lane = &self.lanes[key];
        let count = |wanted: fn(Stage<Receipt>) -> bool| {
            lane.window
                .keys()
                .iter()
                .filter(|&&key| wanted(self.batches[key].stage))
                .count()
        };
        let awaiting = count(|stage| stage == Stage::Awaiting);
        let retry = count(|stage| stage == Stage::Retry);
        let held = count(|stage| matches!(stage, Stage::Held(_)));
        assert_eq!(usize::from(lane.awaiting), awaiting, "awaiting is counted");
        assert_eq!(usize::from(lane.retry), retry, "retries are counted");
        assert_eq!(
            usize::from(lane.window.len()),
            awaiting + retry + held,
            "a window holds nothing else"
        );
        assert!(
            lane.window.len() <= lane.config.window(),
            "W2: the window is not exceeded"
        );
        for &batch in lane.window.keys() {
            assert_eq!(
                self.batches[batch].lane, key,
                "a window holds its own lane's batches"
            );
            let number = self.batches[batch].request.number;
            assert_eq!(
                self.pending.find(number),
                Some(batch),
                "a number leads to its batch"
            );
        }
        let queued = lane.queue.iter(&self.batches).inspect(|&batch| {
            assert_eq!(
                self.batches[batch].stage,
                Stage::Queued,
                "only queued batches are linked"
            );
            assert_eq!(
                self.batches[batch].request.number, 0,
                "late stamping: what waits has no number"
            );
        });
        assert_eq!(
            queued.count(),
            lane.queue.len() as usize,
            "the queue's length is counted"
        );
        assert!(
            lane.phase != Phase::Draining || lane.awaiting > 0,
            "a lane drains only while something is in flight"
        );
        let can_send = self.session.state == SessionState::Active
            && matches!(
                lane.turn(&self.batches, self.rules()),
                Turn::Retry(_) | Turn::New(_)
            );
        assert!(
            !can_send || self.turns.is_asked(key),
            "a lane that can send asked for its turn"
        );
        if self.faults.is_none() {
            self.check_numbers(key);
        }
    }

    fn check_numbers(&self, key: LaneKey) {
        let lane = &self.lanes[key];
        let mut numbers = lane
            .window
            .keys()
            .iter()
            .map(|&key| self.batches[key].request.number);
        let Some(oldest) = numbers.next() else { return };
        let mut newest = oldest;
        for number in numbers {
            assert!(number > newest, "a window's numbers rise");
            newest = number;
        }
        assert!(
            newest - oldest <= REQUEST_SPAN_MAX,
            "W1: {oldest} and {newest} are too far apart"
        );
        assert!(
            newest < self.numbers.next(),
            "W4: numbers come from the counter"
        );
    }
}
