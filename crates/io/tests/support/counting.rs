//! The allocator of test binaries that count: this thread's allocations, and those of shard
//! threads.
//!
//! Included by path, because an allocator is the whole binary's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
}
static IS_WATCHING: AtomicBool = AtomicBool::new(false);
static OF_SHARDS: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    // A thread that is ending has no counter any more.
    let _ = OWN.try_with(|own| own.set(own.get() + 1));
    if IS_WATCHING.load(Ordering::Relaxed) {
        // The kernel's copy of the thread's name: reading it allocates nothing.
        let mut name = [0_u8; 16];
        // SAFETY: PR_GET_NAME writes at most 16 bytes, which `name` has.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        if name.starts_with(b"ringmain-shard") {
            OF_SHARDS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory
// it hands out and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; the memory came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise; the memory came from `System`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Allocations of this thread, and of shard threads, during `run`.
pub(crate) fn allocations(run: impl FnOnce()) -> (u64, u64) {
    let of_shards = OF_SHARDS.load(Ordering::SeqCst);
    IS_WATCHING.store(true, Ordering::SeqCst);
    let own = OWN.get();
    run();
    let own = OWN.get() - own;
    IS_WATCHING.store(false, Ordering::SeqCst);
    (own, OF_SHARDS.load(Ordering::SeqCst) - of_shards)
}
