//! The command-line tool `ringmain`: one module a command, and what they share.
//!
//! | module | role |
//! |---|---|
//! | [`args`] | the command line |
//! | [`send`], [`dump`], [`mod@bench`], [`broker`] | one command each |
//! | [`server`] | the server asked for, or the embedded broker |
//! | [`input`], [`lines`] | blocks of bytes, and lines out of them |
//! | [`interrupt`] | Ctrl-C and SIGTERM |
//! | [`exit`], [`say`] | failures with their exit codes, and printing |
//!
//! Prints one sentence on standard error for a failure and exits with its code; never panics on input, server or
//! machine.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod broker;
mod dump;
mod exit;
mod input;
mod interrupt;
mod lines;
#[cfg(test)]
mod readme;
mod say;
mod send;
mod server;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::exit::{Code, Failure};
use crate::server::looks_like_url;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = match cli.command {
        Command::Bench(args) => bench::run(args),
        Command::Send(args) => send::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Broker(args) => broker::run(args),
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

/// Prints help, version or what is wrong with the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        let text = without_urls(&text, std::env::args().skip(1));
        let text = text.trim_start_matches("error: ").trim_end();
        say::note(format_args!("{text}"));
        ExitCode::from(Code::Usage as u8)
    } else {
        // Nobody misses help that nobody reads.
        let _ = say::result(format_args!("{}", text.trim_end()));
        ExitCode::SUCCESS
    }
}

/// A message about arguments quotes them, and a misplaced server URL holds a password. Takes every argument that looks
/// like a URL, or the part of it after the `=`, out of `text`.
fn without_urls(text: &str, arguments: impl Iterator<Item = String>) -> String {
    let mut text = text.to_owned();
    for argument in arguments.filter(|argument| looks_like_url(argument)) {
        let url = match argument.split_once('=') {
            Some((name, url)) if !looks_like_url(name) => url,
            _ => &argument,
        };
        text = text.replace(url, "<URL>");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_out_of_messages_about_arguments() {
        let hidden = |argument: &str| {
            let text = format!("unexpected argument '{argument}' found");
            without_urls(&text, ["dump".to_owned(), argument.to_owned()].into_iter())
        };
        for argument in [
            "iggy://u:secret@h:1?nodelay=true",
            "iggy://h:1",
            "u:secret@h:1",
        ] {
            assert_eq!(hidden(argument), "unexpected argument '<URL>' found");
        }
        let named = hidden("--sever=iggy://u:secret@h:1?a=b");
        assert_eq!(named, "unexpected argument '--sever=<URL>' found");
        assert_eq!(hidden("--x=1"), "unexpected argument '--x=1' found");
    }
}
