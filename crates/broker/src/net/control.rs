//! Commands from the handle, which lives in another thread.
//!
//! A command goes through a channel and a byte through a socket pair wakes the thread for it. The
//! end of the socket pair is the order to stop.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use monoio::io::AsyncReadRent;

use super::Shared;
use super::watch::Health;
use crate::script::{Act, Fault};
use crate::stats::BrokerStats;

/// How long the handle waits for an answer: a healthy broker needs milliseconds, on a machine that
/// is busy a little more.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the handle looks meanwhile whether an answer can come at all.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A command that nobody reads.
const ORDER: [u8; 1] = [1];

/// What the handle can ask for. Each carries the way back.
#[derive(Debug)]
pub(crate) enum Command {
    /// A snapshot of the counters.
    Stats(Sender<BrokerStats>),
    /// One more fault.
    Inject(Fault, Sender<()>),
    /// Something at once.
    Act(Act, Sender<()>),
}

/// The handle's end. Dropping it stops the broker.
#[derive(Debug)]
pub(crate) struct Control {
    commands: Sender<Command>,
    wake: UnixStream,
    health: Arc<Health>,
}

/// The broker's end, before its thread runs.
#[derive(Debug)]
pub(crate) struct Orders {
    commands: Receiver<Command>,
    woken: UnixStream,
    health: Arc<Health>,
}

impl Control {
    /// The two ends. The first byte is on its way: when it arrives, the interface that carried it
    /// works. `abandoned` is told when the broker's thread will never end.
    pub(crate) fn pair(abandoned: Sender<()>) -> io::Result<(Self, Orders)> {
        let (commands, received) = channel();
        let (mut wake, woken) = UnixStream::pair()?;
        wake.write_all(&ORDER)?;
        wake.set_nonblocking(true)?;
        let health = Arc::new(Health::new(abandoned));
        let orders = Orders {
            commands: received,
            woken,
            health: Arc::clone(&health),
        };
        let control = Self {
            commands,
            wake,
            health,
        };
        Ok((control, orders))
    }

    /// Sends a command and waits for its answer. `None` when the broker's thread has ended or does
    /// not answer.
    pub(crate) fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        if self.health.is_failing() {
            return None;
        }
        let (answer, answered) = channel();
        self.commands.send(command(answer)).ok()?;
        match (&self.wake).write(&ORDER) {
            // So many orders wait that one more changes nothing.
            Err(full) if full.kind() == io::ErrorKind::WouldBlock => {}
            sent => drop(sent.ok()?),
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match answered.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout)
                    if !self.health.is_failing() && Instant::now() < deadline => {}
                answer => return answer.ok(),
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.health.stop();
    }
}

impl Orders {
    pub(super) fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    /// Gives the socket to the runtime of this thread.
    pub(super) fn open(self, nonblocking: bool) -> io::Result<OpenOrders> {
        self.woken.set_nonblocking(nonblocking)?;
        Ok(OpenOrders {
            commands: self.commands,
            woken: monoio::net::UnixStream::from_std(self.woken)?,
            health: self.health,
            buffer: vec![0; 64],
        })
    }
}

/// The broker's end while it runs.
pub(super) struct OpenOrders {
    commands: Receiver<Command>,
    woken: monoio::net::UnixStream,
    health: Arc<Health>,
    buffer: Vec<u8>,
}

impl OpenOrders {
    /// Waits for the first order. False when the handle is gone already.
    pub(super) async fn first(&mut self) -> bool {
        let come = self.come().await;
        self.health.set_started();
        come
    }

    /// Obeys commands until the handle is dropped.
    pub(super) async fn obey(&mut self, shared: &Shared) {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                obey(shared, command);
            }
            if !self.come().await {
                return;
            }
        }
    }

    async fn come(&mut self) -> bool {
        let (read, buffer) = self.woken.read(std::mem::take(&mut self.buffer)).await;
        self.buffer = buffer;
        read.unwrap_or(0) > 0
    }
}

fn obey(shared: &Shared, command: Command) {
    // The handle may have given up; nothing depends on the answers.
    match command {
        Command::Stats(answer) => {
            let _ = answer.send(shared.with_state(|state, _| state.stats.clone()));
        }
        Command::Inject(fault, answer) => {
            shared.with_state(|state, _| state.inject(fault));
            let _ = answer.send(());
        }
        Command::Act(act, answer) => {
            shared.with_state(|state, now| state.act(act, now));
            let _ = answer.send(());
        }
    }
}
