//! Reads and writes descriptors of others: standard input, output and error, pipes, terminals.
//!
//! Such a descriptor may be non-blocking, because the process that made it wanted it so, and the
//! flag belongs to the open file and not to this process. "Not now" is therefore waited for here,
//! and a signal in between is no end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, major, minor};
use rustix::io::Errno;

/// Reads what is there into `buffer`, waiting until there is something. 0 is the end.
pub(crate) fn read(from: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(from, &mut *buffer) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(from, PollFlags::IN)?,
            result => return Ok(result?),
        }
    }
}

/// Reads the file of `path` to its end, or its first `bytes_max` bytes.
pub(crate) fn read_file(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < bytes_max {
        let wanted = buffer.len().min(bytes_max - bytes.len());
        match read(file.as_fd(), &mut buffer[..wanted])? {
            0 => break,
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
    Ok(bytes)
}

/// Writes part of `bytes`, waiting until there is room.
fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::io::write(to, bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(to, PollFlags::OUT)?,
            result => return Ok(result?),
        }
    }
}

/// Writes `bytes` if there is room this very moment. Whether all of them were taken.
///
/// For threads that must not stand still because a reader does. A pipe that has any room takes a
/// line of up to 4096 bytes whole.
pub(crate) fn write_now(to: BorrowedFd<'_>, bytes: &[u8]) -> bool {
    let mut wanted = [PollFd::from_borrowed_fd(to, PollFlags::OUT)];
    let ready = poll(&mut wanted, Some(&Timespec::default()));
    ready.is_ok_and(|count| count > 0)
        && rustix::io::write(to, bytes).is_ok_and(|written| written == bytes.len())
}

/// Whether standard input or output, `of`, was closed when this process began.
///
/// Rust's runtime puts `/dev/null`, opened to read and write, in the place of a closed one before
/// `main` runs. Another process may hand over the same, if seldom: a shell opens it for one
/// direction.
pub(crate) fn was_closed(of: BorrowedFd<'_>) -> bool {
    let is_null = fstat(of).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3)
    });
    is_null && fcntl_getfl(of).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDWR)
}

/// Waits until `of` may be ready. A signal ends the wait early, and the caller tries again anyway.
fn wait(of: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(of, flags)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Standard output, unbuffered.
pub(crate) struct Output;

/// Standard error, unbuffered.
pub(crate) struct ErrorOutput;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(rustix::stdio::stdout(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for ErrorOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(rustix::stdio::stderr(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[test]
    fn a_non_blocking_descriptor_is_waited_for_in_both_directions() {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("a flag");
        theirs.set_nonblocking(true).expect("a flag");
        let sent: Vec<u8> = (0..2_000_000_u32).map(|index| index as u8).collect();
        let wanted = sent.clone();
        let writer = thread::spawn(move || {
            let mut at = 0;
            while at < sent.len() {
                at += write(ours.as_fd(), &sent[at..]).expect("a reader");
            }
        });
        let mut found = Vec::new();
        let mut buffer = [0; 999];
        loop {
            match read(theirs.as_fd(), &mut buffer).expect("a writer") {
                0 => break,
                len => found.extend_from_slice(&buffer[..len]),
            }
        }
        writer.join().expect("the writer");
        assert!(found == wanted, "{} bytes arrive", found.len());
    }

    #[test]
    fn what_cannot_be_written_now_is_given_up() {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        assert!(write_now(ours.as_fd(), b"a line\n"));
        ours.set_nonblocking(true).expect("a flag");
        while rustix::io::write(&ours, &[0; 4096]).is_ok() {}
        ours.set_nonblocking(false).expect("a flag");
        assert!(!write_now(ours.as_fd(), b"a line\n"), "the socket is full");
        drop(theirs);
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        assert_eq!(read_file(Path::new("/dev/null"), 9).expect("empty"), b"");
        assert_eq!(
            read_file(Path::new("/dev/zero"), 5000)
                .expect("endless")
                .len(),
            5000
        );
    }
}
