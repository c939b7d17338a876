//! What the integration tests share: a server, engines that are checked at their end, the audit, a
//! runtime of one line.
//!
//! What a test leaves behind is checked here, so that no test can forget it: see [`Checked`].
#![allow(dead_code, unused_imports)] // Each test file uses a part of it.

mod audit;
mod engine;
mod proxy;
mod random;
mod server;
pub(crate) mod stats;

use std::time::Duration;

pub(crate) use audit::{Log, audit, numbered, partitions_of, payload, read_back};
pub(crate) use engine::{Checked, Start, builder, lacks_path};
pub(crate) use proxy::{Network, Proxy};
pub(crate) use random::Draws;
pub(crate) use server::Server;

/// Long enough for a debug build on a busy machine; tests that succeed never wait for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Generous for a busy machine, far below any timeout of the engine.
pub(crate) const PROMPT: Duration = Duration::from_secs(5);

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
