//! The fair queue: order with mixed sizes, deadlines, dropped futures, closing.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::{Gate, Stock, Take, Units};

fn gate(total: u64) -> Arc<Gate<Units>> {
    Arc::new(Gate::new(Units::new(total)))
}

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_small_want_does_not_overtake_a_large_one_that_came_first() {
    let gate = gate(10);
    let held = gate.try_take(6).expect("free");
    let mut large = pin!(Take::new(Arc::clone(&gate), 8));
    let mut small = pin!(Take::new(Arc::clone(&gate), 1));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(large.as_mut().poll(context).is_pending());
    assert!(
        small.as_mut().poll(context).is_pending(),
        "4 are free, but somebody was first"
    );
    assert_eq!(gate.try_take(1), None);
    gate.put(held);
    assert_eq!(large.as_mut().poll(context), Poll::Ready(Some(8)));
    assert_eq!(small.as_mut().poll(context), Poll::Ready(Some(1)));
    gate.put(8);
    gate.put(1);
    assert_eq!(gate.stock().available(), 10);
    assert!(!gate.has_waiters());
}

#[test]
fn dropping_the_head_of_the_queue_serves_those_behind_it() {
    let gate = gate(4);
    let held = gate.try_take(3).expect("free");
    let counter = Arc::new(Counter(0.into()));
    let waker = Waker::from(Arc::clone(&counter));
    let mut large = Box::pin(Take::new(Arc::clone(&gate), 4));
    let mut small = pin!(Take::new(Arc::clone(&gate), 1));
    assert!(
        large
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert!(
        small
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(large);
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    assert_eq!(
        small.as_mut().poll(&mut Context::from_waker(&waker)),
        Poll::Ready(Some(1))
    );
    gate.put(1);
    gate.put(held);
    assert_eq!(gate.stock().available(), 4);
}

#[test]
fn a_grant_that_nobody_collects_goes_back() {
    let gate = gate(1);
    let held = gate.try_take(1).expect("free");
    let mut waiting = Box::pin(Take::new(Arc::clone(&gate), 1));
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    gate.put(held);
    assert_eq!(gate.stock().available(), 0, "granted to the waiter");
    drop(waiting);
    assert_eq!(gate.stock().available(), 1);
}

#[test]
fn a_deadline_ends_the_wait_and_leaves_the_queue_clean() {
    let gate = gate(1);
    let held = gate.try_take(1).expect("free");
    let soon = Instant::now() + Duration::from_millis(2);
    assert_eq!(gate.take_blocking(1, Some(soon), || false), None);
    assert!(!gate.has_waiters());
    gate.put(held);
    assert_eq!(
        gate.take_blocking(1, Some(soon), || false),
        Some(1),
        "free: no wait, no deadline"
    );
}

#[test]
fn closing_dismisses_those_who_wait_and_those_who_come_later() {
    let gate = gate(1);
    let _held = gate.try_take(1).expect("free");
    let waiting = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || gate.take_blocking(1, None, || false))
    };
    while !gate.has_waiters() {
        std::thread::yield_now();
    }
    gate.close();
    assert_eq!(waiting.join().expect("no panic"), None);
    assert_eq!(gate.take_blocking(1, None, || false), None);
}

#[test]
fn many_threads_never_hold_more_than_the_total() {
    const TOTAL: u64 = 7;
    let gate = gate(TOTAL);
    let held = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (gate, held) = (&gate, &held);
            scope.spawn(move || {
                for round in 0..500 {
                    let want = 1 + (thread * 31 + round) % TOTAL;
                    let grant = gate
                        .take_blocking(want, None, || false)
                        .expect("never closed");
                    let want = usize::try_from(want).expect("small");
                    let now = held.fetch_add(want, Ordering::SeqCst) + want;
                    assert!(now <= TOTAL as usize);
                    held.fetch_sub(want, Ordering::SeqCst);
                    gate.put(grant);
                }
            });
        }
    });
    assert_eq!(gate.stock().available(), TOTAL);
    assert!(!gate.has_waiters());
    assert_eq!(gate.stock().total(), TOTAL);
    assert_eq!(gate.stock().try_take(TOTAL), Some(TOTAL));
}

#[test]
fn waits_that_end_early_leave_nothing_behind_a_head_that_stays() {
    let gate = gate(1);
    let held = gate.try_take(1).expect("free");
    let context = &mut Context::from_waker(Waker::noop());
    let mut head = pin!(Take::new(Arc::clone(&gate), 1));
    assert!(head.as_mut().poll(context).is_pending());
    let mut staying = Vec::new();
    for round in 0..1000 {
        let mut take = Box::pin(Take::new(Arc::clone(&gate), 1));
        assert!(take.as_mut().poll(context).is_pending());
        if round % 100 == 0 {
            staying.push(take);
        }
        let past = Instant::now();
        assert_eq!(gate.take_blocking(1, Some(past), || false), None);
        assert_eq!(gate.take_blocking(1, None, || true), None);
    }
    let places = gate.places();
    assert!(places <= 2 * (11 + super::GONE_KEPT), "{places}");
    // Those that stayed are served in their order.
    let mut grant = held;
    for take in std::iter::once(head).chain(staying.iter_mut().map(|take| take.as_mut())) {
        gate.put(grant);
        let mut take = take;
        let Poll::Ready(Some(granted)) = take.as_mut().poll(context) else {
            panic!("its turn")
        };
        grant = granted;
    }
    gate.put(grant);
    assert_eq!((gate.places(), gate.stock().available()), (0, 1));
    assert!(!gate.has_waiters());
}

#[test]
fn those_who_are_dismissed_may_queue_up_again() {
    let gate = gate(1);
    let held = gate.try_take(1).expect("free");
    let context = &mut Context::from_waker(Waker::noop());
    let mut dismissed = pin!(Take::new(Arc::clone(&gate), 1));
    assert!(dismissed.as_mut().poll(context).is_pending());
    gate.dismiss_waiting();
    assert_eq!(dismissed.as_mut().poll(context), Poll::Ready(None));
    let mut again = pin!(Take::new(Arc::clone(&gate), 1));
    assert!(again.as_mut().poll(context).is_pending());
    gate.put(held);
    assert_eq!(again.as_mut().poll(context), Poll::Ready(Some(1)));
}

/// Panics when it is woken.
struct Hostile;

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn a_waker_that_panics_spares_the_giver_and_those_behind_it() {
    for closes in [false, true] {
        let gate = gate(2);
        let held = gate.try_take(2).expect("free");
        let counter = Arc::new(Counter(0.into()));
        let wakers = [Waker::from(Arc::new(Hostile)), Waker::from(counter.clone())];
        let mut takes = Vec::new();
        for waker in &wakers {
            let mut take = Box::pin(Take::new(Arc::clone(&gate), 1));
            let context = &mut Context::from_waker(waker);
            assert!(take.as_mut().poll(context).is_pending());
            takes.push(take);
        }
        if closes {
            gate.close();
        }
        gate.put(held);
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    }
}
