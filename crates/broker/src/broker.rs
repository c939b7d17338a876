//! The handle of a running broker. Dropping it stops the thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::builder::{BrokerBuilder, StartError};
use crate::net::{Command, Control, Setup, run};
use crate::profile::Driver;
use crate::script::{Act, Fault};
use crate::stats::BrokerStats;

/// A running broker. Dropping it stops its thread and closes every connection.
#[derive(Debug)]
pub struct Broker {
    addr: SocketAddr,
    driver: Driver,
    /// `Some` until the drop; dropping it is the order to stop.
    control: Option<Control>,
    /// `Some` until the drop.
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    /// Chooses address, limits and behaviour; finish with [`BrokerBuilder::start`].
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder::default()
    }

    /// The bound address, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The kernel interface that carries the sockets: never [`Driver::Auto`].
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// What the broker has counted so far. Whatever a client was answered before this call is in it.
    pub fn stats(&self) -> BrokerStats {
        // The thread ends before the handle only by a panic, which it has printed.
        self.ask(Command::Stats).unwrap_or_default()
    }

    /// Adds a fault to the script. It counts from the first request that the broker reads after this call.
    pub fn inject(&self, fault: Fault) {
        // As in `stats`.
        let _ = self.ask(|answer| Command::Inject(fault, answer));
    }

    /// Does something to the whole broker at once, and returns when it is done.
    pub fn act(&self, act: Act) {
        // As in `stats`.
        let _ = self.ask(|answer| Command::Act(act, answer));
    }

    pub(crate) fn start(builder: BrokerBuilder) -> Result<Self, StartError> {
        let listen_error = |source| StartError::Listen {
            address: builder.listen.clone(),
            source,
        };
        let listener = TcpListener::bind(&builder.listen).map_err(listen_error)?;
        let addr = listener.local_addr().map_err(listen_error)?;
        let config = builder.config;
        let (control, commands, woken) =
            Control::pair().map_err(|source| StartError::Thread { source })?;
        let (started, ready) = mpsc::channel();
        let setup = Setup {
            config,
            script: builder.script,
            driver: builder.driver,
            listener,
            commands,
            woken,
            started,
        };
        let thread = std::thread::Builder::new()
            .name("ringmain-broker".to_owned())
            .spawn(move || run(setup))
            .map_err(|source| StartError::Thread { source })?;
        let outcome = ready
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread ended")));
        match outcome {
            Ok(driver) => Ok(Self {
                addr,
                driver,
                control: Some(control),
                thread: Some(thread),
            }),
            Err(source) => Err(StartError::Driver {
                driver: builder.driver,
                address: addr,
                source,
            }),
        }
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Option<T> {
        self.control.as_ref()?.ask(command)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.control.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already printed there; a second one here would abort the process.
            let _ = thread.join();
        }
    }
}
