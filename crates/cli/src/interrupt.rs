//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::exit::{Code, Failure};

/// Watches for the two signals from [`Interrupt::install`] to the end of the process.
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    /// Gets a byte with every signal.
    signals: UnixStream,
}

impl Interrupt {
    /// Starts watching.
    ///
    /// # Errors
    /// [`Failure::Signals`] when the system gives no socket pair or no handler.
    pub(crate) fn install() -> Result<Self, Failure> {
        Self::register().map_err(|source| Failure::Signals { source })
    }

    fn register() -> io::Result<Self> {
        let raised = Arc::new(AtomicBool::new(false));
        let (signals, sender) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down and raises it, the second finds it up.
            flag::register_conditional_shutdown(
                signal,
                Code::Interrupted as i32,
                Arc::clone(&raised),
            )?;
            flag::register(signal, Arc::clone(&raised))?;
            low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Interrupt { raised, signals })
    }

    /// Whether a signal has come.
    pub(crate) fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Blocks until a signal comes.
    pub(crate) fn wait(&self) {
        wait(&self.signals);
    }

    /// Blocks until a signal comes, at most for `interval`, which is not zero. Whether one came.
    ///
    /// # Errors
    /// [`Failure::Signals`] when the system takes no timeout.
    pub(crate) fn wait_for(&self, interval: Duration) -> Result<bool, Failure> {
        self.signals
            .set_read_timeout(Some(interval))
            .map_err(|source| Failure::Signals { source })?;
        // An error is that of the timeout or of a signal, and the flag is up before the byte comes.
        let _ = (&self.signals).read(&mut [0]);
        Ok(self.raised())
    }

    /// Runs `action` on a thread of its own once a signal comes.
    ///
    /// # Errors
    /// [`Failure::Signals`] when there is no thread to be had.
    pub(crate) fn on_raised(&self, action: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let signals = self
            .signals
            .try_clone()
            .map_err(|source| Failure::Signals { source })?;
        thread::Builder::new()
            .name("ringmain-signals".to_owned())
            .spawn(move || {
                wait(&signals);
                action();
            })
            .map(drop)
            .map_err(|source| Failure::Signals { source })
    }
}

fn wait(mut signals: &UnixStream) {
    let mut byte = [0];
    // The only errors are those of a broken descriptor, and then waiting for ever is the worst answer.
    while let Err(error) = signals.read(&mut byte) {
        if error.kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}
