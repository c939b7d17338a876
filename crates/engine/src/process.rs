//! What an engine does in a forked child: nothing, and says so.

use ringmain_io::memory::Process;

/// What is said to a child that uses its parent's engine.
pub(crate) const FORKED: &str = "this process was forked from the one that built the engine, and has none of its \
     threads and memory: build an engine in the child";

/// Stops a caller who cannot be told by an error.
#[track_caller]
pub(crate) fn assert_here(process: Process) {
    assert!(process.is_this(), "{FORKED}");
}
