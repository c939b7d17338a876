//! Locked memory, huge pages, descriptors.

use super::unreadable;
use crate::{Check, Facts};

/// Bit of `CAP_IPC_LOCK`.
const CAP_IPC_LOCK: u32 = 14;
/// With less than this the ring itself is refused: measured, see `tuning/README.md`.
const RING_BYTES_MIN: u64 = 32 * 1024;
/// What a shard locks beside its slots: ring, receive ring, header slab, generously.
const SHARD_BYTES: u64 = 1024 * 1024;
/// Descriptors of a process with one engine, beside its connections and shards.
const DESCRIPTORS: u64 = 64;

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    vec![locked_memory(facts), huge_pages(facts), descriptors(facts)]
}

fn locked_memory(facts: &Facts) -> Check {
    const ID: &str = "locked_memory";
    let host = &facts.host;
    // Half of the engine's memory is slots; those are registered.
    let slots = facts.asked.memory_bytes / 2;
    let wanted = slots.saturating_add(SHARD_BYTES * u64::from(facts.asked.shards));
    if host
        .capabilities
        .is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
    {
        return Check::fine(ID, "no limit for this process: it has CAP_IPC_LOCK");
    }
    match host.memlock_bytes {
        None => unreadable(ID, "the limit of locked memory"),
        Some(u64::MAX) => Check::fine(ID, "no limit"),
        Some(limit) if limit >= wanted => {
            Check::fine(ID, format!("{limit} bytes, and {wanted} are wanted"))
        }
        Some(limit) if limit < RING_BYTES_MIN => Check::slower(
            ID,
            format!("{limit} bytes, too few for a ring"),
            "the engine takes epoll instead",
            "ulimit -l unlimited (a service: LimitMEMLOCK=infinity)",
        ),
        Some(limit) => Check::slower(
            ID,
            format!("{limit} bytes, and {wanted} are wanted"),
            "what is not registered is written through user addresses",
            "ulimit -l unlimited (a service: LimitMEMLOCK=infinity)",
        ),
    }
}

fn huge_pages(facts: &Facts) -> Check {
    const ID: &str = "huge_pages";
    const PAGE: u64 = 2 * 1024 * 1024;
    let host = &facts.host;
    let pages = (facts.asked.memory_bytes / 2).div_ceil(PAGE);
    if host.huge_reserved_free.is_some_and(|free| free >= pages) {
        return Check::fine(ID, format!("{pages} of 2 MiB are reserved and free"));
    }
    match host.huge_transparent.as_deref() {
        Some(choice @ ("always" | "madvise")) => Check::fine(
            ID,
            format!("transparent ones are on ({choice}); the kernel gives them where it has some"),
        ),
        Some("never") => Check::slower(
            ID,
            "transparent ones are off, and too few are reserved",
            "more misses when addresses are translated",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(other) => Check::unknown(ID, format!("transparent ones are `{other}`")),
        None => unreadable(ID, "transparent_hugepage/enabled"),
    }
}

fn descriptors(facts: &Facts) -> Check {
    const ID: &str = "descriptors";
    // Each shard has a ring, an eventfd, and at least one connection.
    let wanted = DESCRIPTORS + 3 * u64::from(facts.asked.shards);
    match facts.host.open_files {
        None => unreadable(ID, "the limit of open files"),
        Some(u64::MAX) => Check::fine(ID, "no limit of open files"),
        Some(limit) if limit >= wanted => {
            Check::fine(ID, format!("{limit} open files, and {wanted} are wanted"))
        }
        Some(limit) => Check::broken(
            ID,
            format!("{limit} open files, and {wanted} are wanted"),
            "ulimit -n 4096 (a service: LimitNOFILE=4096)",
        ),
    }
}
