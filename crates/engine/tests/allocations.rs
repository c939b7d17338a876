//! After warm-up the shard thread allocates nothing, and the sending thread nothing for a record: what it needs is
//! pooled by batch.
//!
//! An allocator counts by thread name while a switch is on. The broker runs in the same process on a thread of its own
//! and is not counted.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ringmain::{Partitioning, Producer};
use support::{PATIENCE, Server, unique};

struct Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static SHARD: AtomicU64 = AtomicU64::new(0);
static APPLICATION: AtomicU64 = AtomicU64::new(0);

/// The name that the test gives to its sending thread.
const SENDER: &str = "sender";

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory it hands out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count() {
    if !IS_COUNTING.load(Ordering::Relaxed) {
        return;
    }
    // The kernel's copy of the thread's name: reading it allocates nothing.
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, which `name` has.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if name.starts_with(b"ringmain-shard") {
        SHARD.fetch_add(1, Ordering::Relaxed);
    } else if name.starts_with(SENDER.as_bytes()) {
        APPLICATION.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends `records` small records, waits for the last receipt of every hundred, and drops the others.
fn send(producer: &Producer, records: u32) {
    for number in 0..records {
        let receipt = producer.send_slice(&[7; 100], None).expect("accepted");
        if number % 100 == 99 {
            assert!(receipt.wait().is_stored());
        }
    }
}

#[test]
fn the_steady_state_allocates_nothing() {
    let server = Server::start();
    // As much memory as is sent, so that nobody waits for it: a wait costs the sender an entry in the queue.
    let engine = server
        .engine()
        .memory_bytes_max(64 << 20)
        .build()
        .expect("a healthy server");
    let producer = engine
        .producer(unique("allocations"), "topic")
        .create_if_missing(4)
        .partitioning(Partitioning::Sticky)
        .build()
        .expect("a new topic");
    let sender = std::thread::Builder::new()
        .name(SENDER.to_owned())
        .spawn(move || {
            producer.warm();
            send(&producer, 20_000);
            IS_COUNTING.store(true, Ordering::SeqCst);
            send(&producer, 20_000);
            IS_COUNTING.store(false, Ordering::SeqCst);
            producer
        });
    let started = Instant::now();
    let producer = sender.expect("a thread").join().expect("no panic");
    assert!(started.elapsed() < PATIENCE);
    assert_eq!(SHARD.load(Ordering::SeqCst), 0, "allocations of the shard");
    // The pool of receipt cells grows when more batches are out than ever before: a few times in the whole life.
    let of_sender = APPLICATION.load(Ordering::SeqCst);
    assert!(
        of_sender <= 64,
        "{of_sender} allocations of the sender in 20,000 records"
    );
    assert!(engine.close(PATIENCE).drained);
    assert_eq!(producer.account().stored, 40_000);
}
