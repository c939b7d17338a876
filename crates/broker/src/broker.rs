//! The handle of a running broker. Dropping it stops the thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::config::Config;
use crate::net::{Command, Control, RingRefused, Setup, StartRefused, run};
use crate::profile::Driver;
use crate::script::{Act, Fault, Script};
use crate::start_error::StartError;
use crate::stats::BrokerStats;

/// How long a start waits for the thread. A kernel interface that does not work is found out in
/// about a second.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// How long a drop waits for the thread.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// What is fixed when a broker starts.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Address to listen on, `host:port`.
    pub(crate) listen: String,
    pub(crate) driver: Driver,
    pub(crate) script: Script,
    pub(crate) config: Config,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            driver: Driver::default(),
            script: Script::default(),
            config: Config::default(),
        }
    }
}

/// A running broker. Dropping it stops its thread and closes every connection. A thread that does
/// not end within five seconds, because the kernel does not let it, is left behind with an error in
/// the log.
#[derive(Debug)]
pub struct Broker {
    addr: SocketAddr,
    driver: Driver,
    /// `Some` until the drop; dropping it is the order to stop.
    control: Option<Control>,
    /// `Some` until the drop.
    thread: Option<JoinHandle<()>>,
    /// Hangs up when the thread ends. A message says that it never will.
    ended: Mutex<Receiver<()>>,
}

impl Broker {
    /// The bound address, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The kernel interface that carries the sockets: never [`Driver::Auto`].
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// What the broker has counted so far. Whatever a client was answered before this call is in
    /// it. All zero when the kernel does not let the broker's thread work, after ten seconds at
    /// most.
    pub fn stats(&self) -> BrokerStats {
        // The thread ends before the handle only by a panic, which it has printed.
        self.ask(Command::Stats).unwrap_or_default()
    }

    /// Adds a fault to the script. It counts from the first request that the broker reads after
    /// this call.
    pub fn inject(&self, fault: Fault) {
        // As in `stats`.
        let _ = self.ask(|answer| Command::Inject(fault, answer));
    }

    /// Does something to the whole broker at once, and returns when it is done.
    pub fn act(&self, act: Act) {
        // As in `stats`.
        let _ = self.ask(|answer| Command::Act(act, answer));
    }

    pub(crate) fn start(plan: Plan) -> Result<Self, StartError> {
        let listen_error = |source| StartError::Listen {
            address: plan.listen.clone(),
            source,
        };
        let listener = TcpListener::bind(&plan.listen).map_err(listen_error)?;
        let addr = listener.local_addr().map_err(listen_error)?;
        let config = plan.config;
        let thread_error = |source| StartError::Thread { source };
        let (started, ready) = mpsc::channel();
        let (running, ended) = mpsc::channel();
        let (control, orders) = Control::pair(running).map_err(thread_error)?;
        let setup = Setup {
            config,
            script: plan.script,
            driver: plan.driver,
            listener,
            orders,
            started,
        };
        let thread = std::thread::Builder::new()
            .name("ringmain-broker".to_owned())
            .spawn(move || run(setup))
            .map_err(thread_error)?;
        let driver = match ready.recv_timeout(START_PATIENCE) {
            Ok(Ok(driver)) => driver,
            Ok(Err(refused)) => return Err(start_error(refused, plan.driver, addr)),
            Err(error) => return Err(thread_error(io::Error::other(error))),
        };
        Ok(Self {
            addr,
            driver,
            control: Some(control),
            thread: Some(thread),
            ended: Mutex::new(ended),
        })
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Option<T> {
        self.control.as_ref()?.ask(command)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.control.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(STOP_PATIENCE) != Err(RecvTimeoutError::Disconnected) {
            tracing::error!("the broker's thread cannot end and is left behind");
        } else if let Some(thread) = self.thread.take() {
            // A panic in the thread was already printed there; a second one here would abort the
            // process.
            let _ = thread.join();
        }
    }
}

fn start_error(refused: StartRefused, driver: Driver, address: SocketAddr) -> StartError {
    match refused {
        StartRefused::Ring(RingRefused { call, source }) => StartError::Ring {
            call,
            address,
            source,
        },
        StartRefused::Setup(source) => StartError::Driver {
            driver,
            address,
            source,
        },
    }
}
