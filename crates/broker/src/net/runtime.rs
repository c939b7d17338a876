//! The broker's thread: picks the kernel interface, runs the tasks, and ends only when nothing is in flight.

use std::io;
use std::net::TcpListener as StdListener;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};

use monoio::io::Canceller;
use monoio::net::{TcpListener, UnixStream};
use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

use super::{Clock, Command, Shared, connection, control};
use crate::config::Config;
use crate::profile::Driver;
use crate::script::Script;
use crate::state::State;

/// What the thread reports once it runs: the interface it got.
pub(crate) type Started = io::Result<Driver>;

/// What the thread needs.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) script: Script,
    pub(crate) driver: Driver,
    pub(crate) listener: StdListener,
    pub(crate) commands: Receiver<Command>,
    pub(crate) woken: StdUnixStream,
    pub(crate) started: Sender<Started>,
}

/// Body of the broker's thread.
pub(crate) fn run(setup: Setup) {
    let uring = match setup.driver {
        Driver::Epoll => None,
        Driver::Auto if !monoio::utils::detect_uring() => None,
        Driver::Auto => RuntimeBuilder::<TimeDriver<IoUringDriver>>::new()
            .build()
            .ok(),
        Driver::IoUring => match RuntimeBuilder::<TimeDriver<IoUringDriver>>::new().build() {
            Ok(runtime) => Some(runtime),
            Err(error) => {
                let _ = setup.started.send(Err(error));
                return;
            }
        },
    };
    if let Some(mut runtime) = uring {
        runtime.block_on(serve(setup, Driver::IoUring));
        return;
    }
    match RuntimeBuilder::<TimeDriver<LegacyDriver>>::new().build() {
        Ok(mut runtime) => runtime.block_on(serve(setup, Driver::Epoll)),
        Err(error) => {
            let _ = setup.started.send(Err(error));
        }
    }
}

async fn serve(setup: Setup, driver: Driver) {
    // epoll needs sockets that do not block, io_uring waits by itself only on those that do.
    let nonblocking = driver == Driver::Epoll;
    let sockets = setup
        .listener
        .set_nonblocking(nonblocking)
        .and_then(|()| setup.woken.set_nonblocking(nonblocking))
        .and_then(|()| {
            Ok((
                TcpListener::from_std(setup.listener)?,
                UnixStream::from_std(setup.woken)?,
            ))
        });
    let (listener, mut woken) = match sockets {
        Ok(sockets) => sockets,
        Err(error) => {
            let _ = setup.started.send(Err(error));
            return;
        }
    };
    let clock = Clock::new();
    let state = State::new(setup.config, setup.script, clock.now());
    let shared = Rc::new(Shared::new(state, clock));
    let accepting = Canceller::new();
    let acceptor = monoio::spawn(accept(Rc::clone(&shared), listener, accepting.handle()));
    let timer = monoio::spawn(keep_time(Rc::clone(&shared)));
    let _ = setup.started.send(Ok(driver));
    control::obey(&shared, &setup.commands, &mut woken).await;

    shared.stopping.set(true);
    accepting.cancel();
    shared.timer.raise();
    acceptor.await;
    timer.await;
    // Buffers of operations in flight belong to the kernel: the thread waits for every connection.
    shared.abort_all();
    while !shared.handles.borrow().is_empty() {
        shared.gone.raised().await;
    }
}

async fn accept(shared: Rc<Shared>, listener: TcpListener, cancel: monoio::io::CancelHandle) {
    while !shared.stopping.get() {
        let accepted = listener.cancelable_accept(cancel.clone()).await;
        match accepted.and_then(|(stream, peer)| Ok((stream.local_addr()?, stream, peer))) {
            Ok((local, stream, peer)) => {
                let key = shared.with_state(|state, now| state.connect(peer, local, now));
                if let Some(key) = key {
                    let handle = shared.add_handle(key);
                    monoio::spawn(connection::serve(Rc::clone(&shared), handle, stream, key));
                }
            }
            Err(_) if shared.stopping.get() => return,
            Err(error) => {
                // Out of descriptors, or a peer that left early: the next accept may do.
                tracing::warn!(%error, "accept failed");
                monoio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

async fn keep_time(shared: Rc<Shared>) {
    while !shared.stopping.get() {
        let due = shared
            .timer_due_us
            .get()
            .and_then(|due_us| shared.clock.instant(due_us));
        match due {
            None => shared.timer.raised().await,
            Some(due) => {
                let changed = monoio::time::timeout_at(due.into(), shared.timer.raised()).await;
                if changed.is_err() {
                    shared.with_state(|state, now| state.tick(now));
                }
            }
        }
    }
}
