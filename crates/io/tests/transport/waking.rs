//! Sleeping and being woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringmain_io::driver::Driver;
use ringmain_io::transport::{Features, TransportConfig, WritePath};

use super::support::*;

/// Every wake-up is followed by the next only after it was answered, so one that is lost stops the
/// test.
fn ping_pong(config: &TransportConfig, rounds: u64) {
    const THREADS: u64 = 4;
    let mut rig = Rig::new(config, &small_arena());
    let asked: Arc<Vec<AtomicU64>> = Arc::new((0..THREADS).map(|_| AtomicU64::new(0)).collect());
    let answered: Arc<Vec<AtomicU64>> = Arc::new((0..THREADS).map(|_| AtomicU64::new(0)).collect());
    let threads: Vec<_> = (0..THREADS as usize)
        .map(|n| {
            let (asked, answered) = (Arc::clone(&asked), Arc::clone(&answered));
            let wake = rig.transport.wake_handle();
            std::thread::spawn(move || {
                for round in 1..=rounds {
                    asked[n].store(round, Ordering::Relaxed);
                    wake.wake();
                    let deadline = Instant::now() + PATIENCE;
                    while answered[n].load(Ordering::Relaxed) < round {
                        assert!(
                            Instant::now() < deadline,
                            "thread {n}, round {round}: nobody woke up"
                        );
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    while answered
        .iter()
        .any(|answered| answered.load(Ordering::Relaxed) < rounds)
    {
        // Only a wake-up ends this wait in time.
        rig.step(PATIENCE * 2);
        if std::mem::take(&mut rig.seen).contains(&Seen::Woken) {
            for (asked, answered) in asked.iter().zip(answered.iter()) {
                answered.store(asked.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    rig.finish();
}

#[test]
fn no_wake_up_is_lost_whatever_the_ring() {
    for (_, features) in feature_sets() {
        ping_pong(
            &TransportConfig {
                features,
                ..config(WritePath::SendMsg)
            },
            500,
        );
    }
}

#[test]
fn no_wake_up_is_lost_while_spinning() {
    ping_pong(
        &TransportConfig {
            busy_poll_us: 200,
            ..config(WritePath::SendMsg)
        },
        500,
    );
}

#[test]
fn an_idle_wait_sleeps_and_does_not_spin() {
    let mut rig = Rig::new(
        &TransportConfig {
            features: Features::default(),
            ..config(WritePath::SendMsg)
        },
        &small_arena(),
    );
    rig.step(Duration::ZERO);
    let before = rig.transport.stats();
    rig.step(Duration::from_millis(50));
    let after = rig.transport.stats();
    assert_eq!(after.enters - before.enters, 1);
    assert_eq!(after.sleeps - before.sleeps, 1);
    rig.finish();
}
