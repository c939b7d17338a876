//! Runs a command where io_uring is forbidden, as container runtimes forbid it:
//! `cargo run -p ringmain-broker --example without_io_uring -- cargo test -p ringmain`.
//!
//! The filter holds for the command and all that it starts, and for nothing else.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else {
        eprintln!("no command: give one, and its arguments");
        return ExitCode::from(2);
    };
    let calls = [
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ];
    let filter: BpfProgram = SeccompFilter::new(
        calls.into_iter().map(|call| (call, vec![])).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into().expect("a known machine"),
    )
    .and_then(BpfProgram::try_from)
    .expect("a filter of three calls");
    seccompiler::apply_filter(&filter).expect("this process may filter itself");
    let error = Command::new(&program).args(args).exec();
    eprintln!("cannot run {}: {error}", program.display());
    ExitCode::FAILURE
}
