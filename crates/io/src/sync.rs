//! Atomics of the hand-over between threads: the standard library's, or loom's, which tries every
//! interleaving (`RUSTFLAGS="--cfg ringmain_loom" cargo test -p ringmain-io --lib loom`).

#[cfg(not(ringmain_loom))]
pub(crate) use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(ringmain_loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, Ordering};
