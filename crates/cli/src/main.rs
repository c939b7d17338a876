//! The command-line tool `ringmain`: one module a command, and what they share.
//!
//! | module | role |
//! |---|---|
//! | [`args`] | the command line |
//! | [`send`], [`dump`], [`mod@bench`], [`doctor`], [`broker`] | one command each |
//! | [`server`] | the server asked for, or the embedded broker |
//! | [`input`], [`lines`] | blocks of bytes, and lines out of them |
//! | [`interrupt`] | Ctrl-C and SIGTERM |
//! | [`exit`], [`say`], [`log`] | failures with their exit codes, printing, warnings |
//! | [`pages`] | version, completions, manual page |
//! | [`redact`] | what no message may show |
//! | [`stdio`] | descriptors that others made |
//!
//! Prints one sentence on standard error for a failure and exits with its code; never panics on
//! input, server or machine.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bench;
mod broker;
mod doctor;
mod dump;
mod exit;
mod input;
mod interrupt;
mod lines;
mod log;
mod pages;
#[cfg(test)]
mod readme;
mod redact;
mod say;
mod send;
mod server;
mod stdio;

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::exit::{Code, Failure};
use crate::interrupt::Interrupt;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(panicked));
    let done = match Cli::try_parse() {
        Ok(cli) => log::start(cli.log).and_then(|()| run(cli.command)),
        Err(error) if error.use_stderr() => return usage(&error),
        Err(error) if error.kind() == ErrorKind::DisplayVersion => pages::version(),
        // Help.
        Err(error) => say::result(format_args!("{}", error.render().to_string().trim_end())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::OutputClosed) {
                say::note(format_args!("{failure}"));
            }
            ExitCode::from(failure.code() as u8)
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    // First of all, so that a signal ends whatever the command waits for.
    let interrupt = Interrupt::install()?;
    match command {
        Command::Bench(args) => bench::run(args, &interrupt),
        Command::Send(args) => send::run(args, &interrupt),
        Command::Dump(args) => dump::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Broker(args) => broker::run(args, &interrupt),
        Command::Completions(args) => pages::completions(args.shell),
        Command::Man => pages::man(),
    }
}

/// Prints what is wrong with the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    // `args_os`, because `args` panics on arguments that are not UTF-8, and the panic shows them
    // all.
    let text = redact::without_values(&error.render().to_string(), std::env::args_os().skip(1));
    let text = text.trim_start_matches("error: ").trim_end();
    say::note(format_args!("{text}"));
    ExitCode::from(Code::Usage as u8)
}

/// A panic is a defect of ours. It is told without what may be a server URL.
fn panicked(panic: &PanicHookInfo<'_>) {
    let secrets = std::env::args_os().skip(1).chain(server::of_environment());
    let text = redact::without_urls(&panic.to_string(), secrets);
    say::note(format_args!("{text}; this is a defect of ringmain"));
}
