//! Commands from the handle, which lives in another thread.
//!
//! A command goes through a channel and a byte through a socket pair wakes the thread for it. The end of the
//! socket pair is the order to stop.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use monoio::io::AsyncReadRent;

use super::Shared;
use crate::script::{Act, Fault};
use crate::stats::BrokerStats;

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
}

impl Control {
    /// The two ends.
    pub(crate) fn pair() -> std::io::Result<(Self, Receiver<Command>, UnixStream)> {
        let (commands, received) = channel();
        let (wake, woken) = UnixStream::pair()?;
        Ok((Self { commands, wake }, received, woken))
    }

    /// Sends a command and waits for its answer. `None` when the broker's thread has ended.
    pub(crate) fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (answer, answered) = channel();
        self.commands.send(command(answer)).ok()?;
        (&self.wake).write_all(&[1]).ok()?;
        answered.recv().ok()
    }
}

/// Obeys commands until the handle is dropped.
pub(super) async fn obey(
    shared: &Shared,
    commands: &Receiver<Command>,
    woken: &mut monoio::net::UnixStream,
) {
    let mut buffer = vec![0; 64];
    loop {
        let (read, returned) = woken.read(buffer).await;
        if read.unwrap_or(0) == 0 {
            return;
        }
        buffer = returned;
        while let Ok(command) = commands.try_recv() {
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
    }
}
