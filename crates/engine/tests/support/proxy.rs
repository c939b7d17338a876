//! A network between the engine and its server that can be cut at any byte, or die without a word.
//!
//! Bytes that it passes on are passed on unchanged; what it does to connections is decided by the
//! test.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// What becomes of bytes, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Network {
    /// They are passed on.
    Up = 0,
    /// They are read and lost: a server that accepts and never answers.
    Lossy = 1,
    /// They are not read: the peer is gone without a word, or does not read any more.
    Frozen = 2,
}

/// A listener in front of a server.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    network: AtomicU8,
    ended: AtomicBool,
    cuts: AtomicU32,
    /// How many bytes the next connection may carry, by direction; without end when empty.
    budgets: Mutex<Vec<[u64; 2]>>,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy whose first connections carry so many bytes `[to the server, from it]` and are cut
    /// then, at that byte.
    pub(crate) fn start(server: SocketAddr, mut budgets: Vec<[u64; 2]>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        budgets.reverse();
        let shared = Arc::new(Shared {
            server,
            network: AtomicU8::new(Network::Up as u8),
            ended: AtomicBool::new(false),
            cuts: AtomicU32::new(0),
            budgets: Mutex::new(budgets),
            sockets: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                accepting.carry(client.expect("a connection"));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What becomes of bytes from now on, on all connections.
    pub(crate) fn set(&self, network: Network) {
        self.shared.network.store(network as u8, Ordering::SeqCst);
    }

    /// Cuts every connection there is.
    pub(crate) fn cut(&self) {
        for socket in self.shared.sockets.lock().expect("no panic").drain(..) {
            // It may be gone already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Connections that used their budget up.
    pub(crate) fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.set(Network::Up);
        // Ends the wait for a connection.
        drop(TcpStream::connect(self.address));
        self.cut();
    }
}

impl Shared {
    fn carry(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.server) else {
            return;
        };
        let budget = self.budgets.lock().expect("no panic").pop();
        let [up, down] = budget.unwrap_or([u64::MAX; 2]);
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        self.sockets
            .lock()
            .expect("no panic")
            .extend([clone(&client), clone(&server)]);
        for (from, to, budget) in [(clone(&client), clone(&server), up), (server, client, down)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || {
                shared.pump(&from, &to, budget);
                for socket in [from, to] {
                    let _ = socket.shutdown(Shutdown::Both);
                }
            });
        }
    }

    fn pump(&self, mut from: &TcpStream, mut to: &TcpStream, mut budget: u64) {
        let mut buffer = [0; 16 * 1024];
        loop {
            while self.network.load(Ordering::SeqCst) == Network::Frozen as u8 {
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
            let Ok(count @ 1..) = from.read(&mut buffer) else {
                return;
            };
            if self.network.load(Ordering::SeqCst) == Network::Lossy as u8 {
                continue;
            }
            let passed = count.min(usize::try_from(budget).unwrap_or(usize::MAX));
            if to.write_all(&buffer[..passed]).is_err() {
                return;
            }
            budget -= passed as u64;
            if budget == 0 {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}
