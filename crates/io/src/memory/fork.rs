//! Tells a process from the children that are forked from it.
//!
//! A child has none of the threads and none of the shard memory (`MADV_DONTFORK`) of its parent: a
//! record appended there would be a write to memory that is not mapped. The look is one load of one
//! number, so it can be made for each record, where asking for the process id could not.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forks between the process that first asked and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The errno of asking the C library to count forks; 0 when it does.
static WATCH: OnceLock<i32> = OnceLock::new();

/// The process that made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The process that asks.
    ///
    /// # Errors
    /// The C library has no memory to watch for forks.
    pub fn this() -> io::Result<Self> {
        let errno = *WATCH.get_or_init(|| {
            // SAFETY: the handler takes nothing, lives as long as the program and only adds to an
            // atomic number, which is allowed in the child of a program with threads.
            unsafe { libc::pthread_atfork(None, None, Some(count_fork)) }
        });
        match errno {
            0 => Ok(Self(FORKS.load(Ordering::Relaxed))),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// False in a child that was forked since.
    #[inline]
    #[must_use]
    pub fn is_this(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// Runs in each child.
extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
