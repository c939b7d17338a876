//! Whether io_uring works for this thread, found out by using it.
//!
//! A filter of system calls may allow the setup of a ring and refuse its use, and the runtime does
//! not tell: it throws away what the kernel says. So each of the three system calls is made once,
//! on a ring as large as the runtime's.

use std::io;

use io_uring::{IoUring, Probe, opcode};

/// Entries of the runtime's ring.
const ENTRIES: u32 = 1024;

/// The operations that the runtime uses for the broker.
const OPERATIONS: [(&str, u8); 7] = [
    ("accept", opcode::Accept::CODE),
    ("cancel", opcode::AsyncCancel::CODE),
    ("read", opcode::Read::CODE),
    ("receive", opcode::Recv::CODE),
    ("send", opcode::Send::CODE),
    ("timeout", opcode::Timeout::CODE),
    ("write", opcode::Write::CODE),
];

/// The system call that was refused, and why.
#[derive(Debug)]
pub(crate) struct RingRefused {
    pub(crate) call: &'static str,
    pub(crate) source: io::Error,
}

/// Makes a ring, asks what it can do, and enters it.
pub(crate) fn io_uring() -> Result<(), RingRefused> {
    let refused = |call| move |source| RingRefused { call, source };
    let ring = IoUring::new(ENTRIES).map_err(refused("io_uring_setup"))?;
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(refused("io_uring_register"))?;
    if let Some((name, _)) = OPERATIONS
        .iter()
        .find(|(_, code)| !probe.is_supported(*code))
    {
        let source = format!("the kernel has no operation to {name}");
        let source = io::Error::new(io::ErrorKind::Unsupported, source);
        return Err(refused("io_uring_register")(source));
    }
    ring.submit().map_err(refused("io_uring_enter"))?;
    Ok(())
}
