//! The kinds of fault a run can meet, whether each fires, and how often it did.
//!
//! Role: one place that answers "does this go wrong now?". A run draws whole kinds on or off (swarm
//! draws), or a test scripts which batch is struck by what. Does not: carry a fault out; the
//! network, the broker and the world do that. Invariant: a fault that is off never consumes a
//! random number, and one that fires is counted, so the coverage table of many runs shows what was
//! really exercised.

use crate::rng::{Rng, Stream};

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal, $timed:literal, $most_ppm:literal;)+) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Fault {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Fault {
            /// Every kind, in the order of the coverage table.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name printed in draws, traces and coverage.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Whether it strikes by itself at some instant, instead of at an opportunity.
            #[must_use]
            pub const fn is_timed(self) -> bool {
                match self { $(Self::$variant => $timed,)+ }
            }

            /// The highest rate that a run may draw: chances in a million opportunities, or strikes
            /// in a thousand virtual seconds.
            const fn rate_most(self) -> u32 {
                match self { $(Self::$variant => $most_ppm,)+ }
            }
        }
    };
}

faults! {
    /// A reply is never sent.
    ReplyLost => "reply-lost", false, 200_000;
    /// A reply leaves late.
    ReplyDelayed => "reply-delayed", false, 300_000;
    /// The reply to a replicated operation is sent again, later.
    ReplyDuplicated => "reply-duplicated", false, 200_000;
    /// A reply that answers nothing the client ever asked.
    ReplyStray => "reply-stray", false, 50_000;
    /// Bytes arrive in fragments that end anywhere.
    BytesCut => "bytes-cut", false, 900_000;
    /// A write call takes only part of what it was given.
    WriteShort => "write-short", false, 500_000;
    /// A write call takes long: the peer does not read.
    WriteStalled => "write-stalled", false, 30_000;
    /// The connection resets when a send arrives, which the server then never saw.
    ResetBeforeCommit => "reset-before-commit", false, 30_000;
    /// The connection resets while a send waits to commit.
    ResetDuringCommit => "reset-during-commit", false, 30_000;
    /// The connection resets after a commit, before its reply is out.
    ResetAfterCommit => "reset-after-commit", false, 30_000;
    /// The connection resets in the middle of a write.
    ResetDuringWrite => "reset-during-write", false, 30_000;
    /// The connection resets on its own.
    ResetAnyTime => "reset-any-time", true, 1_000;
    /// After a reset the server goes on reading what the dead connection had sent.
    StaleDrain => "stale-drain", false, 800_000;
    /// A connection attempt fails.
    ConnectRefused => "connect-refused", false, 500_000;
    /// A connection attempt never ends.
    ConnectStalled => "connect-stalled", false, 200_000;
    /// A login gets no answer.
    LoginDropped => "login-dropped", false, 300_000;
    /// A send or a metadata operation is answered 57 and was not executed.
    Refused57 => "refused-57", false, 100_000;
    /// A send is answered 57 and commits later all the same.
    Parked57 => "parked-57", false, 100_000;
    /// A send waits long before it commits, without a word.
    ParkedSilently => "parked-silently", false, 50_000;
    /// A send or a metadata operation is answered 58.
    Refused58 => "refused-58", false, 150_000;
    /// A send is refused for good.
    RefusedForGood => "refused-for-good", false, 20_000;
    /// A send falls off without a word, as from full queues.
    SendDropped => "send-dropped", false, 60_000;
    /// Other producers fill the prepare and request queues of a partition.
    QueueFilled => "queue-filled", true, 2_000;
    /// A request fell off full queues without a reply (follows from full queues, counted where it
    /// happens).
    QueueDropped => "queue-dropped", false, 0;
    /// An eviction from which a client can come back.
    EvictedForNow => "evicted-for-now", true, 500;
    /// An eviction that ends the client for good.
    EvictedForGood => "evicted-for-good", true, 80;
    /// The server missed the heartbeats of a client (follows from pauses and silence, counted where
    /// it happens).
    EvictedStale => "evicted-stale", false, 0;
    /// The client table evicts its longest idle client.
    ClientTableFull => "client-table-full", true, 500;
    /// A partition forgets the duplicate window of its longest idle client.
    WindowTableFull => "window-table-full", true, 500;
    /// The server stops working for a while.
    ServerPause => "server-pause", true, 500;
    /// The server restarts and keeps its log.
    RestartWithLog => "restart-with-log", true, 300;
    /// The server restarts without its log, its sessions and its duplicate windows.
    RestartWithoutLog => "restart-without-log", true, 100;
    /// A client is not scheduled for a while.
    ClientPause => "client-pause", true, 500;
    /// The clock of a client jumps forward.
    ClockJump => "clock-jump", true, 300;
    /// A topic is deleted and created again.
    TopicRecreated => "topic-recreated", true, 300;
}

impl Fault {
    /// The number of kinds.
    pub const COUNT: usize = Self::ALL.len();
}

/// How a kind of fault behaves in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    /// Chances in a million opportunities, or strikes in a thousand virtual seconds.
    Rate(u32),
}

/// Which faults a run may meet, drawn from its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    modes: [Mode; Fault::COUNT],
}

impl FaultPlan {
    /// No faults at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            modes: [Mode::Off; Fault::COUNT],
        }
    }

    /// Swarm draws: how many kinds are on is drawn first, then each kind is on or off, then its
    /// rate.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mut plan = Self::none();
        let kinds_ppm = *rng.pick(&[0, 100_000, 250_000, 250_000, 500_000, 750_000]);
        for &fault in Fault::ALL {
            let most = fault.rate_most();
            if most > 0 && rng.chance(kinds_ppm) {
                plan.modes[fault as usize] =
                    Mode::Rate(rng.scaled(u64::from((most / 64).max(1)), u64::from(most)) as u32);
            }
        }
        plan
    }

    /// This plan with `fault` at `rate`: chances in a million, or strikes in a thousand virtual
    /// seconds.
    #[must_use]
    pub fn with(mut self, fault: Fault, rate: u32) -> Self {
        self.modes[fault as usize] = if rate == 0 {
            Mode::Off
        } else {
            Mode::Rate(rate)
        };
        self
    }

    /// The rate of `fault`, 0 when it is off.
    #[must_use]
    pub const fn rate(&self, fault: Fault) -> u32 {
        match self.modes[fault as usize] {
            Mode::Off => 0,
            Mode::Rate(rate) => rate,
        }
    }

    /// Whether every kind is off.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.modes.iter().all(|mode| *mode == Mode::Off)
    }
}

impl std::fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut gap = "";
        for &fault in Fault::ALL {
            let rate = self.rate(fault);
            if rate > 0 {
                let unit = if fault.is_timed() { "/1000s" } else { "ppm" };
                write!(f, "{gap}{}={rate}{unit}", fault.name())?;
                gap = " ";
            }
        }
        Ok(())
    }
}

/// How often each kind fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    fired: [u64; Fault::COUNT],
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            fired: [0; Fault::COUNT],
        }
    }
}

impl Coverage {
    /// How often `fault` fired.
    #[must_use]
    pub const fn fired(&self, fault: Fault) -> u64 {
        self.fired[fault as usize]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.fired.iter_mut().zip(other.fired) {
            *mine += theirs;
        }
    }
}

/// A scripted fault: strikes batch `batch` (in the order of acceptance over the whole run) `times`
/// times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// What happens.
    pub fault: Fault,
    /// Whom it happens to.
    pub batch: u32,
    /// How often, at the first opportunities that come.
    pub times: u32,
}

/// Decides whether a fault fires.
pub(crate) struct Faults {
    plan: FaultPlan,
    rng: Rng,
    coverage: Coverage,
    script: Vec<Strike>,
    stopped: bool,
}

impl Faults {
    /// The faults of run `seed`: those of `plan`, and the scripted ones.
    #[must_use]
    pub(crate) fn new(seed: u64, plan: FaultPlan, script: Vec<Strike>) -> Self {
        let rng = Rng::stream(seed, Stream::Faults);
        Self {
            plan,
            rng,
            coverage: Coverage::default(),
            script,
            stopped: false,
        }
    }

    /// Whether `fault` fires at this opportunity. `batch` names the batch concerned, if there is
    /// one.
    pub(crate) fn fires(&mut self, fault: Fault, batch: Option<u32>) -> bool {
        if self.stopped {
            return false;
        }
        let scripted = self.script.iter_mut().find(|strike| {
            strike.fault == fault && Some(strike.batch) == batch && strike.times > 0
        });
        let fires = match scripted {
            Some(strike) => {
                strike.times -= 1;
                true
            }
            None => self.rng.chance(self.plan.rate(fault)),
        };
        if fires {
            self.count(fault);
        }
        fires
    }

    /// The pause until `fault`, one of the timed kinds, strikes next; `None` when it never will.
    pub(crate) fn next_strike_us(&mut self, fault: Fault) -> Option<u64> {
        assert!(
            fault.is_timed(),
            "{} strikes at opportunities",
            fault.name()
        );
        let rate = u64::from(self.plan.rate(fault));
        if rate == 0 || self.stopped {
            return None;
        }
        let mean_us = 1_000_000_000 / rate;
        Some(self.rng.between(1, 2 * mean_us))
    }

    /// Counts a fault that fired, or that followed from another.
    pub(crate) const fn count(&mut self, fault: Fault) {
        self.coverage.fired[fault as usize] += 1;
    }

    /// Random numbers for the details of a fault that fired.
    pub(crate) const fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// From here on nothing fires.
    pub(crate) const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether faults may still fire.
    #[must_use]
    pub(crate) const fn stopped(&self) -> bool {
        self.stopped
    }

    /// How often each kind fired.
    #[must_use]
    pub(crate) const fn coverage(&self) -> &Coverage {
        &self.coverage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_can_be_drawn_is_drawn_on_and_off() {
        let mut drawn = [0u32; Fault::COUNT];
        for seed in 0..400 {
            let plan = FaultPlan::draw(&mut Rng::new(seed));
            for &fault in Fault::ALL {
                drawn[fault as usize] += u32::from(plan.rate(fault) > 0);
            }
        }
        for &fault in Fault::ALL {
            let drawn = drawn[fault as usize];
            assert_eq!(
                (1..400).contains(&drawn),
                fault.rate_most() > 0,
                "{}: {drawn} of 400",
                fault.name()
            );
        }
    }

    #[test]
    fn a_strike_hits_its_batch_so_often_and_then_no_more() {
        let strike = Strike {
            fault: Fault::ReplyLost,
            batch: 3,
            times: 2,
        };
        let mut faults = Faults::new(1, FaultPlan::none(), vec![strike]);
        let hits: Vec<bool> = (0..4)
            .map(|_| faults.fires(Fault::ReplyLost, Some(3)))
            .collect();
        assert_eq!(hits, [true, true, false, false]);
        assert!(!faults.fires(Fault::ReplyLost, Some(4)));
        assert_eq!(faults.coverage().fired(Fault::ReplyLost), 2);
    }

    #[test]
    fn nothing_fires_once_faults_stopped() {
        let plan = FaultPlan::none()
            .with(Fault::ReplyLost, 1_000_000)
            .with(Fault::ClockJump, 1_000);
        let mut faults = Faults::new(1, plan, Vec::new());
        assert!(faults.fires(Fault::ReplyLost, None));
        assert!(faults.next_strike_us(Fault::ClockJump).is_some());
        faults.stop();
        assert!(!faults.fires(Fault::ReplyLost, None));
        assert_eq!(faults.next_strike_us(Fault::ClockJump), None);
    }
}
