//! Every interleaving of senders that wait and a shard that gives back:
//! `RUSTFLAGS="--cfg ringmain_loom" cargo test -p ringmain --lib loom`.
//!
//! A grant left lying shows as a deadlock of the model, one given twice as a total that is too
//! large.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Gate, Stock, Take, Units};
use crate::sync::Mutex;

fn gate(total: u64) -> Arc<Gate<Units>> {
    Arc::new(Gate::new(Units::new(total)))
}

/// Three preemptions find every two-sided race; without a bound the locks alone take hours.
fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

/// Slots with names, so that one that is given twice is seen.
struct Slots(Mutex<Vec<u8>>);

impl Stock for Slots {
    type Want = ();
    type Grant = u8;

    fn try_take(&self, (): ()) -> Option<u8> {
        self.0.lock().expect("no panic").pop()
    }

    fn put(&self, slot: u8) {
        let mut free = self.0.lock().expect("no panic");
        assert!(!free.contains(&slot), "slot {slot} was given twice");
        free.push(slot);
    }
}

#[test]
fn loom_a_waiter_is_granted_whenever_the_unit_comes_back() {
    model(|| {
        let gate = gate(1);
        let held = gate.try_take(1).expect("free");
        let waiting = {
            let gate = Arc::clone(&gate);
            loom::thread::spawn(move || {
                let grant = gate.take_blocking(1, None, || false).expect("never closed");
                gate.put(grant);
            })
        };
        gate.put(held);
        waiting.join().expect("no panic");
        assert_eq!(gate.stock().try_take(1), Some(1), "the unit is back");
    });
}

#[test]
fn loom_waiters_share_slots_and_none_is_given_twice() {
    model(|| {
        let gate = Arc::new(Gate::new(Slots(Mutex::new(vec![7]))));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                loom::thread::spawn(move || {
                    let slot = gate
                        .take_blocking((), None, || false)
                        .expect("never closed");
                    gate.put(slot);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(gate.stock().try_take(()), Some(7));
    });
}

#[test]
fn loom_a_large_want_is_served_although_small_ones_come_and_go() {
    model(|| {
        let gate = gate(2);
        let held = gate.try_take(1).expect("free");
        let large = {
            let gate = Arc::clone(&gate);
            loom::thread::spawn(move || {
                let grant = gate.take_blocking(2, None, || false).expect("never closed");
                gate.put(grant);
            })
        };
        if let Some(small) = gate.try_take(1) {
            gate.put(small);
        }
        gate.put(held);
        large.join().expect("no panic");
        assert_eq!(gate.stock().available(), 2);
    });
}

#[test]
fn loom_a_future_dropped_while_it_is_granted_leaks_nothing() {
    model(|| {
        let gate = gate(1);
        let held = gate.try_take(1).expect("free");
        let dropping = {
            let gate = Arc::clone(&gate);
            loom::thread::spawn(move || {
                let mut take = pin!(Take::new(gate.clone(), 1));
                let context = &mut Context::from_waker(Waker::noop());
                if let Poll::Ready(Some(grant)) = take.as_mut().poll(context) {
                    gate.put(grant);
                }
            })
        };
        gate.put(held);
        dropping.join().expect("no panic");
        assert_eq!(
            gate.stock().try_take(1),
            Some(1),
            "granted or not, the unit is back"
        );
    });
}

#[test]
fn loom_a_head_that_goes_lets_the_next_one_through() {
    model(|| {
        let gate = gate(1);
        let held = gate.try_take(1).expect("free");
        let mut head = Box::pin(Take::new(Arc::clone(&gate), 1));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(head.as_mut().poll(context).is_pending());
        let next = {
            let gate = Arc::clone(&gate);
            loom::thread::spawn(move || {
                let grant = gate.take_blocking(1, None, || false).expect("never closed");
                gate.put(grant);
            })
        };
        gate.put(held);
        drop(head);
        next.join().expect("no panic");
        assert_eq!(gate.stock().available(), 1);
    });
}

#[test]
fn loom_closing_dismisses_whoever_waits() {
    model(|| {
        let gate = gate(1);
        let held = gate.try_take(1).expect("free");
        let waiting = {
            let gate = Arc::clone(&gate);
            loom::thread::spawn(move || gate.take_blocking(1, None, || false))
        };
        gate.close();
        assert_eq!(waiting.join().expect("no panic"), None);
        gate.put(held);
    });
}
