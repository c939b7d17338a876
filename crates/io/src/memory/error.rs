//! What can go wrong while the memory of a shard is mapped. Nothing here happens after start.

use std::io;

/// The memory of a shard could not be laid out or mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The caller's configuration is out of range: the caller's fault, nothing was mapped.
    #[error("arena option `{option}` is {found}, but {rule}")]
    Option {
        /// Name of the field of [`ArenaConfig`](super::ArenaConfig).
        option: &'static str,
        /// The value that was given.
        found: u64,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// The kernel refused the mapping: the environment's fault.
    #[error(
        "the kernel refused to map {bytes} bytes for a shard ({source}); lower the memory of the engine, or \
         raise the memory limit of this process (ulimit -v, the container's memory limit)"
    )]
    Map {
        /// Size of the refused mapping.
        bytes: usize,
        /// The errno of `mmap` or `madvise`.
        source: io::Error,
    },
}
