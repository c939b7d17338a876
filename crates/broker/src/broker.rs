//! The handle of a running broker. Dropping it stops the thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;

use monoio::io::AsyncReadRent;

use crate::builder::{BrokerBuilder, StartError};
use crate::stats::BrokerStats;

/// A running broker. Dropping it stops its thread and closes every connection.
#[derive(Debug)]
pub struct Broker {
    addr: SocketAddr,
    /// Closing this end is the stop signal. `Some` until the drop.
    stop: Option<UnixStream>,
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

    /// What the broker has counted so far.
    pub fn stats(&self) -> BrokerStats {
        BrokerStats::default()
    }

    pub(crate) fn start(builder: BrokerBuilder) -> Result<Self, StartError> {
        let listen_error = |source| StartError::Listen {
            address: builder.listen.clone(),
            source,
        };
        let listener = TcpListener::bind(&builder.listen).map_err(listen_error)?;
        let addr = listener.local_addr().map_err(listen_error)?;
        let (stop, stopped) = UnixStream::pair().map_err(|source| StartError::Thread { source })?;
        let (started, ready) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("ringmain-broker".to_owned())
            .spawn(move || run(listener, stopped, &started))
            .map_err(|source| StartError::Thread { source })?;
        let outcome = ready
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread ended")));
        match outcome {
            Ok(()) => Ok(Self {
                addr,
                stop: Some(stop),
                thread: Some(thread),
            }),
            Err(source) => Err(StartError::Driver {
                driver: builder.driver,
                address: addr,
                source,
            }),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already printed there; a second one here would abort the process.
            let _ = thread.join();
        }
    }
}

fn run(listener: TcpListener, stopped: UnixStream, started: &mpsc::Sender<io::Result<()>>) {
    let runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build();
    let mut runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    runtime.block_on(async move {
        let _listener = listener;
        let Ok(mut stopped) = monoio::net::UnixStream::from_std(stopped) else {
            return;
        };
        let (_read, _buffer) = stopped.read(vec![0_u8; 1]).await;
    });
}
