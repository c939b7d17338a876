//! Keeps the broker's thread from spinning on a ring that no longer works, and lets it end.
//!
//! The runtime throws away what the kernel says when it refuses to enter the ring, and tries again
//! at once: no timer fires and no task runs by itself, and the thread takes a core for as long as
//! the refusal lasts. Two ways into that thread remain, and a thread of its own, the watch, uses
//! both:
//!
//! ```text
//! the runtime asks anew     another thread may wake a task: twice a second the watch calls one.
//! at each turn              The task starts a timer at each call, which fires with the first turn
//! (most errors)             of the ring that succeeds. A call that finds it waiting means that the
//!                           ring fails.
//! the runtime asks anew     completions are still taken. The watch, whose calls are not answered,
//! within one call           completes a read, and the waker of that read is the broker's own.
//! (EAGAIN, EBUSY)
//! ```
//!
//! Either way the thread is then held: it sleeps, longer each time, and tries a ring that has
//! nothing to do, until that one works or the broker is to end.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use io_uring::IoUring;
use monoio::io::AsyncReadRent;

use super::pause::Pause;

/// From call to call.
const CALLS_EVERY: Duration = Duration::from_millis(500);

/// When the timer is due: later than at once, so that only a turn of the ring can let it fire.
const PROOF_DUE: Duration = Duration::from_millis(2);

/// Pauses after which a broker that is not started yet gives up.
const PAUSES_AT_START_MAX: u32 = 4;

/// Entries of the ring that is tried: the fewest.
const ENTRIES: u32 = 2;

/// What the handle and the broker's thread know of each other without the ring.
#[derive(Debug)]
pub(crate) struct Health {
    /// The handle wants the broker to end.
    stop: AtomicBool,
    /// The ring fails, and nobody is served.
    failing: AtomicBool,
    /// The first order has come through.
    started: AtomicBool,
    /// Says that the thread will never end.
    abandon: Mutex<Sender<()>>,
}

impl Health {
    pub(crate) fn new(abandon: Sender<()>) -> Self {
        Self {
            stop: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            started: AtomicBool::new(false),
            abandon: Mutex::new(abandon),
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    pub(crate) fn set_started(&self) {
        self.started.store(true, Ordering::Release);
    }

    fn gives_up(&self, pauses: u32) -> bool {
        let started = self.started.load(Ordering::Acquire);
        self.stop.load(Ordering::Acquire) || (!started && pauses >= PAUSES_AT_START_MAX)
    }
}

/// The watch. Dropping it ends its thread.
pub(super) struct Watch {
    calls: Arc<Calls>,
    alarm: Arc<Alarm>,
    /// The broker's end of the socket that the watch completes a read with.
    rung: UnixStream,
    thread: Cell<Option<JoinHandle<()>>>,
}

impl Watch {
    pub(super) fn start(health: Arc<Health>) -> io::Result<Self> {
        let (bell, rung) = UnixStream::pair()?;
        let calls = Arc::<Calls>::default();
        let theirs = Arc::clone(&calls);
        let alarm = Alarm {
            health,
            ring: IoUring::new(ENTRIES)?,
            task: Mutex::new(None),
        };
        let thread = std::thread::Builder::new()
            .name("ringmain-watch".to_owned())
            .spawn(move || theirs.make(bell))?;
        Ok(Self {
            calls,
            alarm: Arc::new(alarm),
            rung,
            thread: Cell::new(Some(thread)),
        })
    }

    /// Runs `work` on the ring. `None` when the ring failed and the broker is to end, or did not
    /// come to start.
    pub(super) async fn guard<T>(&self, work: impl Future<Output = T>) -> io::Result<Option<T>> {
        let rung = monoio::net::UnixStream::from_std(self.rung.try_clone()?)?;
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        let mut listening = pin!(self.listen(rung));
        let alarm = Waker::from(Arc::clone(&self.alarm));
        let mut listens = true;
        let done = poll_fn(|context| {
            self.alarm.set_task(context.waker());
            // It ends after the work: its waker is what it is for.
            let mut alarmed = Context::from_waker(&alarm);
            listens = listens && listening.as_mut().poll(&mut alarmed).is_pending();
            if lost.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        });
        let done = done.await;
        if done.is_some() {
            // The buffer of the read is the kernel's until the read ends.
            self.end();
            if listens {
                listening.await;
            }
        }
        Ok(done)
    }

    /// Ends the thread, and with it the socket.
    fn end(&self) {
        let mut state = self.calls.lock();
        state.ended = true;
        state.waker = None;
        drop(state);
        self.calls.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there was printed there.
            let _ = thread.join();
        }
    }

    /// Ends when the broker is to end and its ring fails.
    async fn lost(&self) {
        loop {
            poll_fn(|context| self.calls.take(context)).await;
            let mut proof = pin!(monoio::time::sleep(PROOF_DUE));
            let turns = poll_fn(|context| {
                if proof.as_mut().poll(context).is_ready() {
                    return Poll::Ready(true);
                }
                if self.calls.take(context).is_ready() && !self.alarm.hold() {
                    return Poll::Ready(false);
                }
                Poll::Pending
            });
            if !turns.await {
                return;
            }
        }
    }

    async fn listen(&self, mut rung: monoio::net::UnixStream) {
        let mut buffer = vec![0; 8];
        loop {
            let (read, returned) = rung.read(buffer).await;
            if read.unwrap_or(0) == 0 {
                return;
            }
            buffer = returned;
            self.calls.lock().rings = false;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

/// The waker of the read that the watch completes: runs on the broker's thread, inside the runtime.
struct Alarm {
    health: Arc<Health>,
    /// A ring without work.
    ring: IoUring,
    /// The task that reads.
    task: Mutex<Option<Waker>>,
}

impl Alarm {
    fn set_task(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(|task| !task.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    /// Holds this thread until a ring works. False when the broker is to end first.
    fn hold(&self) -> bool {
        let mut pause = Pause::default();
        while let Err(error) = self.ring.submit() {
            if !self.health.failing.swap(true, Ordering::AcqRel) {
                tracing::error!(%error, "the ring of the broker does not work; trying again");
            }
            if self.health.gives_up(pause.taken()) {
                return false;
            }
            std::thread::sleep(pause.next());
        }
        if self.health.failing.swap(false, Ordering::AcqRel) {
            tracing::warn!("the ring of the broker works again");
        }
        true
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if !self.hold() {
            // Going back would be to spin, and unwinding would free what the kernel may still use.
            let abandon = self.health.abandon.lock();
            let _ = abandon.unwrap_or_else(PoisonError::into_inner).send(());
            loop {
                std::thread::park();
            }
        }
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The calls of the watch to the task on the broker's thread.
#[derive(Default)]
struct Calls {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Wakes the task that is called.
    waker: Option<Waker>,
    /// A call that the task has not taken.
    called: bool,
    /// The read was completed and the task has not seen it.
    rings: bool,
    ended: bool,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Body of the watch's thread.
    fn make(&self, mut bell: UnixStream) {
        let mut state = self.lock();
        loop {
            let waited = self
                .changed
                .wait_timeout_while(state, CALLS_EVERY, |state| !state.ended);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.ended {
                return;
            }
            if state.called && !std::mem::replace(&mut state.rings, true) {
                // One byte at a time never waits.
                let _ = bell.write(&[1]);
            }
            state.called = true;
            if let Some(waker) = state.waker.clone() {
                drop(state);
                waker.wake();
                state = self.lock();
            }
        }
    }

    /// Takes a call, or leaves the waker for the next.
    fn take(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if std::mem::take(&mut state.called) {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
