//! Reads a file or standard input block by block on a thread of its own.
//!
//! The thread exists because a blocking read cannot be broken off: Ctrl-C and a lost line have to
//! be seen while the input is silent. It reads at most [`BLOCKS_AHEAD`] blocks ahead and its
//! buffers are used again, so memory is bounded whatever the length of the input.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::exit::Failure;
use crate::redact::looks_like_url;
use crate::stdio;

/// Bytes of one block. Large enough that a block's overhead (two channel operations) vanishes
/// beside cutting it into lines, small enough to stay in the second-level cache until its lines are
/// sent.
const BLOCK_BYTES: usize = 256 * 1024;
/// Blocks read and not yet taken. Two keep the disk busy while the third is cut; one more absorbs
/// hiccups.
const BLOCKS_AHEAD: usize = 3;

/// Where the bytes come from.
#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    StandardInput,
}

/// A block of input: the first `len` bytes of `buffer`.
pub(crate) struct Block {
    buffer: Vec<u8>,
    len: usize,
}

impl Block {
    /// The bytes read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

enum Event {
    Block(Block),
    End,
    Failed(io::Error),
    /// Somebody wants the reader of the channel to look around.
    Wake,
}

/// What [`Blocks::next`] found.
pub(crate) enum Next {
    /// More input. Give it back with [`Blocks::give_back`].
    Block(Block),
    /// The end of the input.
    End,
    /// [`Waker::wake`] was called.
    Woken,
}

/// The blocks of an input, in order.
pub(crate) struct Blocks {
    source: Source,
    events: Receiver<Event>,
    waker: SyncSender<Event>,
    spare: SyncSender<Vec<u8>>,
}

/// Breaks off a wait in [`Blocks::next`].
pub(crate) struct Waker(SyncSender<Event>);

impl Waker {
    /// Makes a waiting [`Blocks::next`] return. When there are blocks to take nobody waits, and
    /// nothing is done.
    pub(crate) fn wake(&self) {
        let _ = self.0.try_send(Event::Wake);
    }
}

impl Blocks {
    /// Opens `file`, or standard input for `-` and none, and starts reading.
    ///
    /// # Errors
    /// [`Failure::InputClosed`], [`Failure::Input`] when the file cannot be opened,
    /// [`Failure::FileIsUrl`] when it is no file at all, and [`Failure::Machine`] when there is no
    /// thread to be had.
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, Failure> {
        let (source, reader) = match file {
            Some(path) if path != Path::new("-") => {
                // The likely slip, and the message about a missing file would show the password.
                if looks_like_url(&path.to_string_lossy()) && !path.exists() {
                    return Err(Failure::FileIsUrl);
                }
                let source = Source::File(path.to_path_buf());
                let reader = open(path).map_err(|error| failed(&source, error))?;
                (source, Some(reader))
            }
            _ if stdio::was_closed(rustix::stdio::stdin()) => return Err(Failure::InputClosed),
            _ => (Source::StandardInput, None),
        };
        let (waker, events) = sync_channel(BLOCKS_AHEAD);
        let (spare, spares) = sync_channel(BLOCKS_AHEAD + 1);
        let sender = waker.clone();
        thread::Builder::new()
            .name("ringmain-input".to_owned())
            .spawn(move || match reader {
                Some(file) => read(file.as_fd(), &sender, &spares),
                None => read(rustix::stdio::stdin(), &sender, &spares),
            })
            .map_err(|error| Failure::Machine {
                cause: format!("cannot start a thread: {error}"),
            })?;
        Ok(Blocks {
            source,
            events,
            waker,
            spare,
        })
    }

    /// A handle for the thread that wants to break off a wait.
    pub(crate) fn waker(&self) -> Waker {
        Waker(self.waker.clone())
    }

    /// Waits for the next block, the end, or a wake-up.
    ///
    /// # Errors
    /// [`Failure::Input`] or [`Failure::StandardInput`] when reading fails.
    pub(crate) fn next(&self) -> Result<Next, Failure> {
        match self.events.recv().expect("this handle holds a sender") {
            Event::Block(block) => Ok(Next::Block(block)),
            Event::End => Ok(Next::End),
            Event::Wake => Ok(Next::Woken),
            Event::Failed(error) => Err(failed(&self.source, error)),
        }
    }

    /// Lets the buffer of a block be read into again.
    pub(crate) fn give_back(&self, block: Block) {
        // When the reader has ended there is nobody to take it, and nothing to read.
        let _ = self.spare.try_send(block.buffer);
    }
}

/// A folder can be opened and not be read; it is refused here, before anything is sent.
fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

fn failed(source: &Source, error: io::Error) -> Failure {
    match source {
        Source::File(path) => Failure::Input {
            path: path.clone(),
            source: error,
        },
        Source::StandardInput => Failure::StandardInput { source: error },
    }
}

/// Reads until the end, a failure, or until nobody takes the blocks.
fn read(from: BorrowedFd<'_>, events: &SyncSender<Event>, spares: &Receiver<Vec<u8>>) {
    loop {
        let mut buffer = spares.try_recv().unwrap_or_else(|_| vec![0; BLOCK_BYTES]);
        let event = match stdio::read(from, &mut buffer) {
            Ok(0) => Event::End,
            Ok(len) => Event::Block(Block { buffer, len }),
            Err(error) => Event::Failed(error),
        };
        let last = !matches!(event, Event::Block(_));
        if events.send(event).is_err() || last {
            return;
        }
    }
}
