//! Every interleaving of threads that append to a lane and the shard that takes its open batch.
//!
//! The protocol of [`super::Lane`] without slots, batches and a ring: one lock, the note `wanted`,
//! the flags `announced` and `is_window_full`, two queues, and the wake-up of the transport, which
//! is the real one. The steps below are those of `append_locked`, `settle_open`, `try_seal` and
//! `reopen_lanes`, in their order; whoever changes the one changes the other. Here a batch that was
//! taken fills the window, and its answer comes as soon as the shard looks for it.
//!
//! A batch that nobody takes shows as a deadlock of the model: the shard sleeps while a record
//! waits.

use std::sync::{Arc, TryLockError};

use super::{WANTED_LINGERED, WANTED_NOT};
use crate::sync::{AtomicBool, AtomicU8, Mutex, Ordering, fence};
use ringmain_io::driver::WakeState;
use ringmain_io::driver::model::Signal;

/// What is under the lane's lock.
#[derive(Default)]
struct State {
    /// The records of the open batch.
    open: Vec<u32>,
    announced: bool,
}

struct Model {
    state: Mutex<State>,
    wanted: AtomicU8,
    /// The shard's queues; in the engine they are lock-free, here only their order matters.
    sealed: Mutex<Vec<Vec<u32>>>,
    announced: Mutex<u32>,
    is_window_full: AtomicBool,
    wake: WakeState,
    signal: Signal,
}

impl Model {
    fn new() -> Self {
        Self {
            state: Mutex::default(),
            wanted: AtomicU8::new(WANTED_NOT),
            sealed: Mutex::default(),
            announced: Mutex::default(),
            is_window_full: AtomicBool::new(false),
            wake: WakeState::default(),
            signal: Signal::default(),
        }
    }

    fn seal(&self, state: &mut State) {
        let batch = std::mem::take(&mut state.open);
        self.sealed.lock().expect("no panic").push(batch);
    }

    fn wants_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.is_window_full.load(Ordering::Relaxed)
    }

    /// `Lane::append`, with a batch that is full at two records.
    fn append(&self, record: u32) {
        let mut wake = false;
        {
            let mut state = self.state.lock().expect("no panic");
            state.open.push(record);
            let is_wanted = self.wanted.load(Ordering::Relaxed) != WANTED_NOT;
            if state.open.len() == 2 || is_wanted {
                self.wanted.store(WANTED_NOT, Ordering::Relaxed);
                self.seal(&mut state);
                wake = self.wants_wake();
            } else if !state.announced {
                state.announced = true;
                *self.announced.lock().expect("no panic") += 1;
                wake = self.wants_wake();
            }
        }
        if wake && self.wake.notify() {
            self.signal.set();
        }
    }

    /// `Lane::try_seal`; false when the lane was busy and is to be tried again.
    fn try_seal(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => {
                self.wanted.fetch_max(WANTED_LINGERED, Ordering::Relaxed);
                return false;
            }
            Err(TryLockError::Poisoned(_)) => panic!("a thread of the model panicked"),
        };
        self.wanted.store(WANTED_NOT, Ordering::Relaxed);
        state.announced = false;
        if !state.open.is_empty() {
            self.seal(&mut state);
        }
        true
    }

    /// The shard's loop until it has `records`; they come back in the order in which it got them.
    fn serve(&self, records: usize) -> Vec<u32> {
        let (mut got, mut is_busy, mut is_full) = (Vec::new(), false, false);
        while got.len() < records {
            // A lane found busy is tried again soon; until then there is nothing to sleep for.
            if is_busy {
                loom::thread::yield_now();
            } else if is_full {
                // The answer wakes the shard.
                self.is_window_full.store(false, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                is_full = false;
            } else if self.wake.sleep_begin() {
                self.signal.wait();
            }
            self.wake.take();
            let announced = std::mem::take(&mut *self.announced.lock().expect("no panic"));
            assert!(
                announced <= 1,
                "a lane is announced once until it was looked at"
            );
            if announced > 0 || is_busy {
                is_busy = !self.try_seal();
            }
            for batch in self.sealed.lock().expect("no panic").drain(..) {
                got.extend(batch);
                is_full = true;
            }
            if is_full {
                self.is_window_full.store(true, Ordering::Relaxed);
            }
        }
        got
    }
}

fn run(appenders: u32, records_each: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let lane = Arc::new(Model::new());
        let threads: Vec<_> = (0..appenders)
            .map(|appender| {
                let lane = Arc::clone(&lane);
                loom::thread::spawn(move || {
                    for record in 0..records_each {
                        lane.append(appender * 10 + record);
                    }
                })
            })
            .collect();
        let got = lane.serve((appenders * records_each) as usize);
        for thread in threads {
            thread.join().expect("no panic");
        }
        for appender in 0..appenders {
            let own: Vec<u32> = got
                .iter()
                .copied()
                .filter(|of| of / 10 == appender)
                .collect();
            assert!(own.is_sorted(), "the order of each thread is kept: {got:?}");
            assert_eq!(
                own.len(),
                records_each as usize,
                "each record once: {got:?}"
            );
        }
    });
}

#[test]
fn loom_a_shard_gets_every_record_of_one_thread_in_order() {
    run(1, 3);
}

#[test]
fn loom_a_shard_gets_every_record_of_two_threads() {
    run(2, 1);
}
