//! Registering memory with the ring: receive buffers, and as much of the arena as the locked-memory
//! limit allows.
//!
//! Nothing here is an error: what the kernel refuses is done without, said in a warning and seen in
//! the statistics.

use std::io;
use std::sync::Arc;

use crate::memory::Arena;
use crate::ring::{RecvRing, Ring, memlock_bytes};

/// Largest buffer the kernel registers.
const FIXED_BUFFER_BYTES_MAX: usize = 1 << 30;

/// Index of the arena among the registered buffers; it is the only one.
pub(super) const ARENA_BUFFER: u16 = 0;

/// Hands the receive buffers to the kernel as a ring; `None` when that is switched off, unknown or
/// refused, which leaves single receives.
pub(super) fn register_recv_ring(ring: &Ring, arena: &Arc<Arena>) -> Option<RecvRing> {
    if !ring.features().multishot_recv {
        return None;
    }
    RecvRing::register(&ring.submitter(), arena)
        .inspect_err(|error| {
            // EINVAL: unknown (before 5.19). ENOMEM: locked memory. Whatever it is, receiving works
            // without.
            crate::log!(warn, %error, memlock_bytes = memlock_bytes(), "no ring of receive buffers; receives are single");
        })
        .ok()
}

/// Registers headers and slots as one fixed buffer, or the headers and as many slots as the kernel
/// takes. Returns the bytes registered, from the start of the arena.
pub(super) fn register_arena(ring: &Ring, arena: &Arc<Arena>) -> usize {
    if !ring.features().registered_arena {
        return 0;
    }
    let slots = &arena.layout().slots;
    let bytes_of = |count: u32| slots.offset + slots.block_bytes * count as usize;
    // Zero slots are headers alone: not worth a registration.
    let mut refusal = None;
    let mut register = |count: u32| -> bool {
        count > 0
            && bytes_of(count) <= FIXED_BUFFER_BYTES_MAX
            && register_start(ring, arena, bytes_of(count))
                .map_err(|error| refusal = Some(error))
                .is_ok()
    };
    // Nearly always everything is taken at once.
    let count = if register(slots.blocks) {
        slots.blocks
    } else {
        let most = largest(slots.blocks - 1, |count| {
            let is_taken = register(count);
            if is_taken {
                unregister(ring);
            }
            is_taken
        });
        // Refused now although it was taken a moment ago: another process of this user took the
        // memory.
        if register(most) { most } else { 0 }
    };
    let registered = if count == 0 { 0 } else { bytes_of(count) };
    if count < slots.blocks {
        warn_partial(
            registered,
            arena.layout().registered_bytes_wanted(),
            refusal,
        );
    }
    registered
}

/// Gives locked memory back now. The end of a ring does so, too, but at some later time, and the
/// next transport may want it before.
pub(super) fn unregister(ring: &Ring) {
    // ENXIO, nothing is registered, is the only error without operations in flight.
    let _ = ring.submitter().unregister_buffers();
}

fn register_start(ring: &Ring, arena: &Arc<Arena>, bytes: usize) -> io::Result<()> {
    let start = arena.mapping().address(0, bytes);
    let iovec = libc::iovec {
        iov_base: start.as_ptr().cast(),
        iov_len: bytes,
    };
    // SAFETY: the range is the beginning of the arena's mapping, which outlives the ring: the
    // transport holds the arena and closes its ring first.
    unsafe { ring.submitter().register_buffers(&[iovec]) }
}

/// The largest number up to `limit` for which `fits` holds, 0 when it holds for none. `fits` of a
/// number implies `fits` of every smaller one but 0, which is never asked.
fn largest(limit: u32, mut fits: impl FnMut(u32) -> bool) -> u32 {
    let (mut fitting, mut too_many) = (0, limit + 1);
    while too_many - fitting > 1 {
        let middle = fitting + (too_many - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            too_many = middle;
        }
    }
    fitting
}

fn warn_partial(registered_bytes: usize, wanted_bytes: usize, refusal: Option<io::Error>) {
    let reason = refusal.map_or_else(
        || "the kernel registers at most 1 GiB as one buffer".to_owned(),
        |error| error.to_string(),
    );
    crate::log!(
        warn,
        registered_bytes,
        wanted_bytes,
        memlock_bytes = memlock_bytes(),
        reason,
        "not all of the arena is registered; the rest is sent unregistered. Raise RLIMIT_MEMLOCK (ulimit -l)"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_fitting_number_is_found_with_few_questions() {
        for limit in 0..70 {
            for fitting in 0..=limit {
                let mut questions = 0;
                let found = largest(limit, |count| {
                    assert!((1..=limit).contains(&count));
                    questions += 1;
                    count <= fitting
                });
                assert_eq!(found, fitting, "of {limit}");
                assert!(questions <= 7);
            }
        }
    }
}
