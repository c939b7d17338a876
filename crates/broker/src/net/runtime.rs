//! The broker's thread: picks the kernel interface, runs the tasks, and ends only when nothing is
//! in flight.

use std::io;
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::sync::mpsc::Sender;

use monoio::io::Canceller;
use monoio::net::TcpListener;
use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

use super::control::Orders;
use super::pause::Pause;
use super::probe::{self, RingRefused};
use super::watch::Watch;
use super::{Clock, Shared, connection};
use crate::config::Config;
use crate::profile::Driver;
use crate::script::Script;
use crate::state::State;

/// What the thread reports once an order has come through its interface: which one that is.
pub(crate) type Started = Result<Driver, StartRefused>;

/// Why no interface carries the broker.
#[derive(Debug)]
pub(crate) enum StartRefused {
    /// io_uring was asked for and does not work here.
    Ring(RingRefused),
    /// The runtime or its sockets could not be made.
    Setup(io::Error),
}

/// What the thread needs.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) script: Script,
    pub(crate) driver: Driver,
    pub(crate) listener: StdListener,
    pub(crate) orders: Orders,
    pub(crate) started: Sender<Started>,
}

/// Body of the broker's thread.
pub(crate) fn run(setup: Setup) {
    let started = setup.started.clone();
    let done = match setup.driver {
        Driver::Epoll => run_on_epoll(setup),
        Driver::IoUring => probe::io_uring()
            .map_err(StartRefused::Ring)
            .and_then(|()| run_on_ring(setup)),
        Driver::Auto => match probe::io_uring() {
            Ok(()) => run_on_ring(setup),
            Err(RingRefused { call, source }) => {
                tracing::warn!(call, %source, "no io_uring for the broker, epoll carries it");
                run_on_epoll(setup)
            }
        },
    };
    if let Err(refused) = done {
        // Only a start waits for the answer.
        let _ = started.send(Err(refused));
    }
}

fn run_on_epoll(setup: Setup) -> Result<(), StartRefused> {
    let mut runtime = RuntimeBuilder::<TimeDriver<LegacyDriver>>::new()
        .build()
        .map_err(StartRefused::Setup)?;
    runtime.block_on(serve(setup, Driver::Epoll))
}

fn run_on_ring(setup: Setup) -> Result<(), StartRefused> {
    let watch = Watch::start(setup.orders.health()).map_err(StartRefused::Setup)?;
    let mut runtime = RuntimeBuilder::<TimeDriver<IoUringDriver>>::new()
        .build()
        .map_err(StartRefused::Setup)?;
    let served = runtime.block_on(watch.guard(serve(setup, Driver::IoUring)));
    served.map_err(StartRefused::Setup)?.unwrap_or_else(|| {
        // Operations may be in flight whose buffers the kernel still uses: nothing of the runtime
        // may be freed.
        std::mem::forget(runtime);
        let source = io::Error::other("no operation completes");
        let call = "io_uring_enter";
        Err(StartRefused::Ring(RingRefused { call, source }))
    })
}

async fn serve(setup: Setup, driver: Driver) -> Result<(), StartRefused> {
    // epoll needs sockets that do not block, io_uring waits by itself only on those that do.
    let nonblocking = driver == Driver::Epoll;
    setup
        .listener
        .set_nonblocking(nonblocking)
        .map_err(StartRefused::Setup)?;
    let listener = TcpListener::from_std(setup.listener).map_err(StartRefused::Setup)?;
    let mut orders = setup
        .orders
        .open(nonblocking)
        .map_err(StartRefused::Setup)?;
    let clock = Clock::new();
    let state = State::new(setup.config, setup.script, clock.now());
    let shared = Rc::new(Shared::new(state, clock));
    let accepting = Canceller::new();
    let acceptor = monoio::spawn(accept(Rc::clone(&shared), listener, accepting.handle()));
    let timer = monoio::spawn(keep_time(Rc::clone(&shared)));
    if orders.first().await {
        let _ = setup.started.send(Ok(driver));
        orders.obey(&shared).await;
    }

    shared.stopping.set(true);
    accepting.cancel();
    shared.stop.raise();
    shared.timer.raise();
    acceptor.await;
    timer.await;
    // Buffers of operations in flight belong to the kernel: the thread waits for every connection.
    shared.abort_all();
    while !shared.handles.borrow().is_empty() {
        shared.gone.raised().await;
    }
    Ok(())
}

async fn accept(shared: Rc<Shared>, listener: TcpListener, cancel: monoio::io::CancelHandle) {
    let mut pause = Pause::default();
    while !shared.stopping.get() {
        match listener.cancelable_accept(cancel.clone()).await {
            Ok((stream, peer)) => {
                pause.reset();
                // A peer that left early has no address any more.
                if let Ok(local) = stream.local_addr() {
                    let key = shared.with_state(|state, now| state.connect(peer, local, now));
                    if let Some(key) = key {
                        let handle = shared.add_handle(key);
                        monoio::spawn(connection::serve(Rc::clone(&shared), handle, stream, key));
                    }
                }
            }
            Err(_) if shared.stopping.get() => return,
            Err(error) => {
                // Out of descriptors or memory: a later accept may do.
                tracing::warn!(%error, "accept failed");
                let _ = monoio::time::timeout(pause.next(), shared.stop.raised()).await;
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
