//! The short measured calibration behind `WritePath::Auto`: the first writes go out on each
//! candidate in turn, and the one that costs this thread the least processor time per byte carries
//! the rest.
//!
//! A path may cost little and still be the wrong one: a zero-copy write is done only when the peer
//! has acknowledged it, and a peer that delays that lets the connection stand idle. So a path on
//! which a byte takes several times as long as on another leaves the trial, at once and not after
//! its turns, which would take as many times as long.
//!
//! It measures real traffic on the real socket: what loopback, a virtual device and a network card
//! charge for zero copy differs by more than any table could hold. Pure: it is told what was sent
//! and what that cost.

use super::CarriedBy;
use crate::driver::WRITE_PATHS;

/// Measured writes in a row on one path. Long enough that work the kernel puts off (notifications,
/// sends that waited for room) falls mostly into the turn that caused it.
const TURN_WRITES: u32 = 32;
/// How many times as long as on the quickest path a byte may take. Bursts of the application make
/// the same path differ by less than this from turn to turn; a connection that waits for delayed
/// acknowledgements is twenty times as slow.
const STALL_FACTOR: f64 = 4.0;
/// How many times as long as on the quickest path a byte may take on the path that is chosen. Zero
/// copy can hand its work to others: over loopback the copy is made by whoever delivers the
/// packets, on this core or another, and on no thread's account. What it costs shows in the time.
const SLOWER_FACTOR: f64 = 1.25;
/// Writes of a turn before it is judged by their time.
const STALL_WRITES_MIN: u32 = 4;
/// Turns of each path that count; one more before them warms caches and the connection up.
const TURNS: usize = 3;

/// What writes cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Processor time of this thread.
    pub(super) cpu_ns: u64,
    /// Time by the clock.
    pub(super) elapsed_ns: u64,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    is_candidate: [bool; WRITE_PATHS],
    /// Nanoseconds of processor time for each MiB, by path and turn. Turn 0 is the warm-up.
    costs: [[f64; TURNS + 1]; WRITE_PATHS],
    /// The same for time by the clock.
    times: [[f64; TURNS + 1]; WRITE_PATHS],
    /// The shortest turn of any path so far, in nanoseconds by the clock for each MiB.
    quickest: f64,
    turn: usize,
    path: CarriedBy,
    turn_writes: u32,
    turn_bytes: u64,
    turn_spent: Spent,
    is_decided: bool,
}

impl Trial {
    /// A trial among the candidates. `SendMsg`, which every kernel has, is always one. A single
    /// candidate is decided.
    pub(super) fn new(mut is_candidate: [bool; WRITE_PATHS]) -> Self {
        is_candidate[CarriedBy::SendMsg as usize] = true;
        let mut trial = Self {
            is_candidate,
            costs: [[0.0; TURNS + 1]; WRITE_PATHS],
            times: [[0.0; TURNS + 1]; WRITE_PATHS],
            quickest: f64::INFINITY,
            turn: 0,
            path: CarriedBy::SendMsg,
            turn_writes: 0,
            turn_bytes: 0,
            turn_spent: Spent::default(),
            is_decided: false,
        };
        trial.restart();
        trial
    }

    /// A path that configuration demands.
    pub(super) fn forced(path: CarriedBy) -> Self {
        let mut trial = Self::new([false; WRITE_PATHS]);
        trial.path = path;
        trial.is_decided = true;
        trial
    }

    /// The path for the next write.
    pub(super) fn path(&self) -> CarriedBy {
        self.path
    }

    /// The path that carries everything from now on; `None` while it is being measured.
    pub(super) fn decided(&self) -> Option<CarriedBy> {
        self.is_decided.then_some(self.path)
    }

    /// Tells that `bytes` went out on `path` for so much. What belongs to an earlier turn is
    /// ignored.
    pub(super) fn record(&mut self, path: CarriedBy, bytes: u64, spent: Spent) {
        if self.is_decided || path != self.path || bytes == 0 {
            return;
        }
        self.turn_writes += 1;
        self.turn_bytes += bytes;
        self.turn_spent.cpu_ns += spent.cpu_ns;
        self.turn_spent.elapsed_ns += spent.elapsed_ns;
        let mib = self.turn_bytes as f64 / f64::from(1 << 20);
        let elapsed = self.turn_spent.elapsed_ns as f64 / mib;
        if self.turn_writes >= STALL_WRITES_MIN && elapsed > self.quickest * STALL_FACTOR {
            self.leave_out(path);
            return;
        }
        if self.turn_writes < TURN_WRITES {
            return;
        }
        self.quickest = self.quickest.min(elapsed);
        self.times[self.path as usize][self.turn] = elapsed;
        self.costs[self.path as usize][self.turn] = self.turn_spent.cpu_ns as f64 / mib;
        self.next_turn();
    }

    /// The path stalls. `SendMsg`, which must remain, only has its turn ended: it does not win by
    /// being idle, because then another path is the quickest.
    fn leave_out(&mut self, path: CarriedBy) {
        if path == CarriedBy::SendMsg {
            self.costs[path as usize][self.turn] = f64::INFINITY;
            self.times[path as usize][self.turn] = f64::INFINITY;
        } else {
            self.is_candidate[path as usize] = false;
        }
        self.next_turn();
    }

    /// The kernel refuses `path`: it is no candidate any more, and the trial begins anew among the
    /// rest.
    pub(super) fn refuse(&mut self, path: CarriedBy) {
        if path == CarriedBy::SendMsg {
            return;
        }
        self.is_candidate[path as usize] = false;
        if !self.is_decided || self.path == path {
            self.is_decided = false;
            self.restart();
        }
    }

    /// Median cost of a path over the turns that count, in nanoseconds for each MiB; `None` before
    /// it has them.
    pub(super) fn cost(&self, path: CarriedBy) -> Option<f64> {
        self.median(&self.costs, path)
    }

    /// What it found, to be told: nothing of a path that stalls, whose cost is without bound.
    pub(super) fn cost_told(&self, path: CarriedBy) -> Option<f64> {
        self.cost(path).filter(|cost| cost.is_finite())
    }

    fn median(&self, table: &[[f64; TURNS + 1]; WRITE_PATHS], path: CarriedBy) -> Option<f64> {
        let mut counted = table[path as usize];
        let counted = &mut counted[1..];
        if !self.is_candidate[path as usize] || counted.contains(&0.0) {
            return None;
        }
        counted.sort_by(f64::total_cmp);
        Some(counted[counted.len() / 2])
    }

    fn restart(&mut self) {
        self.turn = 0;
        self.quickest = f64::INFINITY;
        self.reset_turn();
        let mut candidates = CarriedBy::ALL
            .into_iter()
            .filter(|path| self.is_candidate[*path as usize]);
        self.path = candidates.next().expect("sendmsg is always a candidate");
        self.is_decided = candidates.next().is_none();
    }

    fn next_turn(&mut self) {
        self.reset_turn();
        let after = CarriedBy::ALL.into_iter().skip(self.path as usize + 1);
        if let Some(next) = after
            .into_iter()
            .find(|path| self.is_candidate[*path as usize])
        {
            self.path = next;
            return;
        }
        if self.turn == TURNS {
            self.decide();
            return;
        }
        self.turn += 1;
        // Traffic changes: the first turn may have filled an empty socket buffer, which says
        // nothing about the next.
        self.quickest = f64::INFINITY;
        let mut candidates = CarriedBy::ALL
            .into_iter()
            .filter(|path| self.is_candidate[*path as usize]);
        self.path = candidates.next().expect("sendmsg is always a candidate");
    }

    fn decide(&mut self) {
        let time = |path| self.median(&self.times, path);
        let quickest = CarriedBy::ALL
            .into_iter()
            .filter_map(time)
            .fold(f64::INFINITY, f64::min);
        let cheapest = CarriedBy::ALL
            .into_iter()
            .filter(|path| time(*path).is_some_and(|time| time <= quickest * SLOWER_FACTOR))
            .filter_map(|path| Some((self.cost(path)?, path)))
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        self.path = cheapest.map_or(CarriedBy::SendMsg, |(_, path)| path);
        self.is_decided = true;
    }

    fn reset_turn(&mut self) {
        (self.turn_writes, self.turn_bytes, self.turn_spent) = (0, 0, Spent::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [bool; WRITE_PATHS] = [true; WRITE_PATHS];

    /// Sends until decided; `cost` gives the nanoseconds of a write of 1 MiB by path and its number
    /// on that path.
    fn run(
        trial: &mut Trial,
        mut cost: impl FnMut(CarriedBy, u32) -> u64,
    ) -> ([u32; WRITE_PATHS], CarriedBy) {
        let mut writes = [0; WRITE_PATHS];
        for _ in 0..10_000 {
            if let Some(path) = trial.decided() {
                return (writes, path);
            }
            let path = trial.path();
            let number = writes[path as usize];
            writes[path as usize] += 1;
            trial.record(path, 1 << 20, steady(cost(path, number)));
        }
        panic!("undecided after 10000 writes: {trial:?}");
    }

    /// Writes that take the same time whatever they cost.
    fn steady(cpu_ns: u64) -> Spent {
        Spent {
            cpu_ns,
            elapsed_ns: 1_000_000,
        }
    }

    #[test]
    fn a_path_that_stalls_is_left_after_a_few_writes_however_cheap_it_is() {
        for stalled in [CarriedBy::SendZc, CarriedBy::SendMsg] {
            let mut trial = Trial::new(ALL);
            let mut writes = [0; WRITE_PATHS];
            while trial.decided().is_none() {
                let path = trial.path();
                writes[path as usize] += 1;
                let spent = if path == stalled {
                    Spent {
                        cpu_ns: 1,
                        elapsed_ns: 20_000_000,
                    }
                } else {
                    steady(100)
                };
                trial.record(path, 1 << 20, spent);
            }
            assert_ne!(trial.decided(), Some(stalled));
            let told = CarriedBy::ALL.map(|path| trial.cost_told(path));
            assert_eq!(told[stalled as usize], None, "no number says it");
            assert!(told.iter().flatten().all(|cost| cost.is_finite()));
            let turns = if stalled == CarriedBy::SendMsg {
                TURNS as u32 + 1
            } else {
                1
            };
            assert_eq!(writes[stalled as usize], turns * STALL_WRITES_MIN);
        }
    }

    #[test]
    fn a_path_that_lets_others_work_is_not_chosen_when_it_is_slower() {
        for (slower, chosen) in [(1.2, CarriedBy::SendZc), (1.5, CarriedBy::WritevFixed)] {
            let mut trial = Trial::new(ALL);
            while trial.decided().is_none() {
                let path = trial.path();
                let (cpu_ns, elapsed_ns) = match path {
                    CarriedBy::SendZc => (50, (1e6 * slower) as u64),
                    CarriedBy::WritevFixed => (90, 1_000_000),
                    CarriedBy::SendMsg => (100, 1_000_000),
                };
                trial.record(path, 1 << 20, Spent { cpu_ns, elapsed_ns });
            }
            assert_eq!(trial.decided(), Some(chosen));
        }
    }

    #[test]
    fn traffic_that_becomes_slower_after_the_first_turn_leaves_no_path_out() {
        let mut trial = Trial::new(ALL);
        while trial.decided().is_none() {
            let elapsed_ns = if trial.turn == 0 { 100_000 } else { 2_000_000 };
            let spent = Spent {
                cpu_ns: 100,
                elapsed_ns,
            };
            trial.record(trial.path(), 1 << 20, spent);
        }
        assert_eq!(trial.is_candidate, ALL);
    }

    #[test]
    fn bursts_leave_no_path_out() {
        let mut trial = Trial::new(ALL);
        let mut number = 0;
        while trial.decided().is_none() {
            number += 1;
            let spent = Spent {
                cpu_ns: 100,
                elapsed_ns: if number % TURN_WRITES < 8 {
                    2_000_000
                } else {
                    1_000_000
                },
            };
            trial.record(trial.path(), 1 << 20, spent);
        }
        assert_eq!(trial.is_candidate, ALL);
    }

    #[test]
    fn the_cheapest_path_wins_whichever_it_is() {
        for cheapest in CarriedBy::ALL {
            let mut trial = Trial::new(ALL);
            let (writes, path) = run(
                &mut trial,
                |path, _| if path == cheapest { 90 } else { 100 },
            );
            assert_eq!(path, cheapest);
            assert_eq!(writes, [TURN_WRITES * (TURNS as u32 + 1); WRITE_PATHS]);
            assert_eq!(trial.cost(cheapest), Some(90.0));
        }
    }

    #[test]
    fn the_warm_up_and_one_disturbed_turn_do_not_count() {
        let disturbed = |path, number| match path {
            CarriedBy::SendZc if number < 2 * TURN_WRITES => 10_000,
            CarriedBy::SendZc => 50,
            _ => 100,
        };
        assert_eq!(run(&mut Trial::new(ALL), disturbed).1, CarriedBy::SendZc);
    }

    #[test]
    fn a_single_candidate_and_a_forced_path_need_no_trial() {
        assert_eq!(
            Trial::new([false; WRITE_PATHS]).decided(),
            Some(CarriedBy::SendMsg)
        );
        for path in CarriedBy::ALL {
            assert_eq!(Trial::forced(path).decided(), Some(path));
        }
    }

    #[test]
    fn a_refused_path_is_left_and_never_comes_back() {
        let mut trial = Trial::new(ALL);
        assert_eq!(trial.path(), CarriedBy::WritevFixed);
        trial.refuse(CarriedBy::WritevFixed);
        let (writes, _) = run(&mut trial, |_, _| 100);
        assert_eq!(writes[CarriedBy::WritevFixed as usize], 0);

        let mut forced = Trial::forced(CarriedBy::SendZc);
        forced.refuse(CarriedBy::SendZc);
        assert_eq!(forced.decided(), Some(CarriedBy::SendMsg));
        forced.refuse(CarriedBy::SendMsg);
        assert_eq!(forced.decided(), Some(CarriedBy::SendMsg));
    }

    #[test]
    fn completions_of_an_earlier_turn_are_ignored() {
        let mut trial = Trial::new(ALL);
        for _ in 0..10_000 {
            trial.record(CarriedBy::SendZc, 1 << 20, steady(1));
        }
        assert_eq!(
            (trial.path(), trial.decided()),
            (CarriedBy::WritevFixed, None)
        );
    }
}
