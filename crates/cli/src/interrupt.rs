//! Ctrl-C and SIGTERM: the first asks for an orderly end and gets it in bounded time, the second
//! ends the process at once.
//!
//! ```text
//!              first signal                          time over, or a second signal
//!   at once ------------------------------------------------------------> exit 130
//!   draining ---> raised: the command stops, drains, prints and ends; else -> exit 130
//! ```
//!
//! The thread that watches does nothing else and takes no lock that a command holds while it waits,
//! so whatever a thread of the command does (opening a FIFO, looking a name up, writing to a reader
//! that stands still), the process ends.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::exit::{Code, Failure};
use crate::say;

/// How much longer than its drain time a command may take: for getting its memory back from the
/// kernel, closing its connections and printing its account.
const LATE: Duration = Duration::from_secs(5);

/// Watches for the two signals from [`Interrupt::install`] to the end of the process.
#[derive(Clone)]
pub(crate) struct Interrupt {
    shared: Arc<Shared>,
}

struct Shared {
    /// A signal has come. Set by the thread that watches: the flag of the handler is raised a
    /// moment later than the byte is written, and the handler's second look at it must be at the
    /// next signal.
    raised: AtomicBool,
    state: Mutex<State>,
    /// Tells of `is_told`.
    changed: Condvar,
}

struct State {
    /// How long the command may take to end; `None` when it has nothing to drain.
    drain: Option<Duration>,
    /// A signal has come and the watching thread has seen it.
    is_told: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupt {
    /// Starts watching. Until [`Interrupt::drain_within`] a signal ends the process at once.
    ///
    /// # Errors
    /// [`Failure::Signals`] when the system gives no socket pair, no handler or no thread.
    pub(crate) fn install() -> Result<Self, Failure> {
        Self::register().map_err(|source| Failure::Signals { source })
    }

    fn register() -> io::Result<Self> {
        let seen = Arc::new(AtomicBool::new(false));
        let (signals, sender) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            raised: AtomicBool::new(false),
            state: Mutex::new(State {
                drain: None,
                is_told: false,
            }),
            changed: Condvar::new(),
        });
        let watched = Arc::clone(&shared);
        thread::Builder::new()
            .name("ringmain-signals".to_owned())
            .spawn(move || watch(&signals, &watched))?;
        for signal in [SIGINT, SIGTERM] {
            // The byte first, so that no signal is lost between these lines. Then in this order:
            // the first signal finds the flag down and raises it, the second finds it up.
            low_level::pipe::register(signal, sender.try_clone()?)?;
            flag::register_conditional_shutdown(
                signal,
                Code::Interrupted as i32,
                Arc::clone(&seen),
            )?;
            flag::register(signal, Arc::clone(&seen))?;
        }
        Ok(Interrupt { shared })
    }

    /// From now on the first signal is for the command to follow, which it does within `time` and a
    /// little more.
    pub(crate) fn drain_within(&self, time: Duration) {
        self.shared.state().drain = Some(time);
    }

    /// Whether a signal has come.
    pub(crate) fn raised(&self) -> bool {
        self.shared.raised.load(Ordering::Relaxed)
    }

    /// Blocks until a signal comes or `deadline` has passed, `None` being never. Whether one came.
    pub(crate) fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.shared.state();
        while !state.is_told {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Waits for a signal, tells the command, and ends the process when the command does not.
fn watch(mut signals: &UnixStream, shared: &Shared) {
    let mut byte = [0];
    while let Err(error) = signals.read(&mut byte) {
        // No other error is known; one would leave the process without its orderly end, and the
        // second signal.
        if error.kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
    let drain = {
        let mut state = shared.state();
        state.is_told = true;
        shared.raised.store(true, Ordering::Relaxed);
        state.drain
    };
    let Some(drain) = drain else {
        end(format_args!("interrupted; there was nothing to drain"));
    };
    shared.changed.notify_all();
    thread::sleep(drain.saturating_add(LATE));
    end(format_args!(
        "interrupted, and not drained {} s later; what is not answered by now may or may not be stored",
        drain.as_secs()
    ));
}

fn end(text: fmt::Arguments<'_>) -> ! {
    // Only if it can be written now: the reader of standard error may be the one that stands still.
    let _ = say::note_now(text);
    low_level::exit(Code::Interrupted as i32)
}
