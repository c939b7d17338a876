//! The two tasks of a connection.
//!
//! Closing has an order: the writer writes what is queued and shuts its side; the reader throws
//! away what still comes, for a short time, so that the peer's last bytes do not turn the close
//! into a reset that destroys replies on their way; then both let go and the socket is closed.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use monoio::buf::SliceMut;
use monoio::io::{
    AsyncWriteRent, CancelableAsyncReadRent, CancelableAsyncWriteRent, OwnedReadHalf,
    OwnedWriteHalf, Splitable,
};
use monoio::net::TcpStream;

use super::{Assembler, FramingLost, Handle, Shared};
use crate::commands;
use crate::frame::Frame;
use crate::state::{ConnectionKey, Outgoing};

/// How long a closing connection goes on reading.
const LINGER: Duration = Duration::from_millis(200);

/// What is read and thrown away in one go while closing.
const LINGER_BYTES: usize = 4 << 10;

/// How long a peer that sends no more may take to read what is queued for it.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves a connection until it is closed.
pub(super) async fn serve(
    shared: Rc<Shared>,
    handle: Rc<Handle>,
    stream: TcpStream,
    key: ConnectionKey,
) {
    // Small replies must not wait for each other.
    let _ = stream.set_nodelay(true);
    let (read_half, write_half) = stream.into_split();
    let writer = monoio::spawn(write(
        Rc::clone(&shared),
        Rc::clone(&handle),
        write_half,
        key,
    ));
    Reader {
        shared: Rc::clone(&shared),
        handle: Rc::clone(&handle),
        half: read_half,
        key,
    }
    .run()
    .await;
    // What is queued is still written to a peer that only sends no more, for a while.
    shared.with_state(|state, _| state.hang_up(key));
    handle.outgoing.raise();
    let mut writer = pin!(writer);
    if monoio::time::timeout(DRAIN, writer.as_mut()).await.is_err() {
        handle.abort();
        writer.await;
    }
    shared.with_state(|state, _| state.disconnect(key));
    shared.handles.borrow_mut().remove(&key);
    shared.gone.raise();
}

struct Reader {
    shared: Rc<Shared>,
    handle: Rc<Handle>,
    half: OwnedReadHalf<TcpStream>,
    key: ConnectionKey,
}

impl Reader {
    async fn run(mut self) {
        let (size_max, sink) = {
            let state = self.shared.state.borrow();
            (ringmain_wire::header::FRAME_BYTES_MAX, state.config.sink)
        };
        let mut assembler = Assembler::new(size_max, sink);
        loop {
            self.wait_for_room().await;
            if self.is_over() {
                break;
            }
            let charged = assembler.partial_bytes();
            let target = assembler.read_target();
            let slice = SliceMut::new(target.buffer, target.from, target.from + target.room);
            let (read, slice) = self
                .half
                .cancelable_read(slice, self.handle.cancel_handle())
                .await;
            let bytes = read.unwrap_or(0);
            assembler.filled(slice.into_inner(), bytes);
            if bytes == 0 {
                if self.is_closing() && !self.handle.aborted.get() {
                    self.linger().await;
                }
                break;
            }
            let over = self.take_frames(&mut assembler).await;
            if over || !self.charge(charged, assembler.partial_bytes()) {
                self.linger().await;
                break;
            }
        }
        self.charge(assembler.partial_bytes(), 0);
    }

    /// Gives every whole frame to the state. True when the connection is over.
    async fn take_frames(&mut self, assembler: &mut Assembler) -> bool {
        loop {
            match assembler.next_frame(|bytes| self.shared.state.borrow_mut().allocate(bytes)) {
                Ok(None) => return false,
                Ok(Some(frame)) => self.receive(frame),
                Err(FramingLost) => {
                    self.shared
                        .with_state(|state, _| state.framing_lost(self.key));
                    return true;
                }
            }
            self.wait_for_room().await;
            if self.is_over() {
                return true;
            }
        }
    }

    fn receive(&self, frame: Frame<'_>) {
        self.shared
            .with_state(|state, now| commands::receive(state, self.key, frame, now));
    }

    /// Waits while the writer is behind or a script stalls the reading.
    async fn wait_for_room(&self) {
        loop {
            let wait = {
                let state = self.shared.state.borrow();
                let now = self.shared.clock.now();
                let waits = state.is_behind(self.key) || state.is_stalled(self.key, now);
                waits && !state.is_closing(self.key)
            };
            if !wait || self.handle.aborted.get() {
                return;
            }
            self.handle.room.raised().await;
        }
    }

    fn is_closing(&self) -> bool {
        self.shared.state.borrow().is_closing(self.key)
    }

    fn is_over(&self) -> bool {
        self.handle.aborted.get() || self.is_closing()
    }

    /// Accounts a change of the memory that a partial frame holds. False when all of them together
    /// hold too much, and this one has to go.
    fn charge(&self, before: usize, after: usize) -> bool {
        let bytes = self.shared.inbound_bytes.get() - before + after;
        self.shared.inbound_bytes.set(bytes);
        let max = self.shared.state.borrow().config.inbound_bytes_max;
        if after > before && bytes > max {
            self.shared.with_state(|state, _| {
                state.stats.inbound_overflows += 1;
                state.close(self.key);
            });
            return false;
        }
        true
    }

    /// Reads and forgets until the peer closes or time is over.
    async fn linger(&mut self) {
        let deadline = monoio::time::Instant::now() + LINGER;
        let mut buffer = vec![0; LINGER_BYTES];
        while !self.handle.aborted.get() {
            let read = self
                .half
                .cancelable_read(buffer, self.handle.cancel_handle());
            let Ok((Ok(bytes), returned)) = monoio::time::timeout_at(deadline, read).await else {
                return;
            };
            if bytes == 0 {
                return;
            }
            buffer = returned;
        }
    }
}

async fn write(
    shared: Rc<Shared>,
    handle: Rc<Handle>,
    mut half: OwnedWriteHalf<TcpStream>,
    key: ConnectionKey,
) {
    loop {
        let outgoing = shared.state.borrow_mut().next_outgoing(key);
        let written = match outgoing {
            Some(Outgoing::Bytes(bytes)) => write_all(&handle, &mut half, bytes).await,
            Some(Outgoing::Pieces(bytes, piece)) => {
                write_pieces(&handle, &mut half, &bytes, piece).await
            }
            Some(Outgoing::Close) => break,
            None => {
                let open = shared.state.borrow().peer(key).is_some();
                if !open || handle.aborted.get() {
                    break;
                }
                handle.outgoing.raised().await;
                true
            }
        };
        if !written {
            break;
        }
        handle.room.raise();
    }
    let _ = half.shutdown().await;
    shared.state.borrow_mut().close(key);
    handle.interrupt();
    handle.room.raise();
}

async fn write_pieces(
    handle: &Handle,
    half: &mut OwnedWriteHalf<TcpStream>,
    bytes: &[u8],
    piece: usize,
) -> bool {
    for piece in bytes.chunks(piece.max(1)) {
        if !write_all(handle, half, piece.to_vec()).await {
            return false;
        }
    }
    true
}

/// Writes all bytes. False when the connection is broken or aborted.
async fn write_all(handle: &Handle, half: &mut OwnedWriteHalf<TcpStream>, bytes: Vec<u8>) -> bool {
    let mut bytes = bytes;
    let mut from = 0;
    while from < bytes.len() && !handle.aborted.get() {
        let end = bytes.len();
        let slice = monoio::buf::Slice::new(bytes, from, end);
        let (written, slice) = half.cancelable_write(slice, handle.cancel_handle()).await;
        bytes = slice.into_inner();
        match written {
            Ok(written) if written > 0 => from += written,
            _ => return false,
        }
    }
    from == bytes.len()
}
