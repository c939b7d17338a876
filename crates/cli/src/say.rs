//! Prints without panicking: `println!` panics when the reader has gone, and `ringmain ... | head` is no reason to.

use std::fmt;
use std::io::{self, Write};

use crate::exit::Failure;

/// One line for people, on standard error. Where it cannot be written nobody reads it.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "ringmain: {text}");
}

/// One line of the result, on standard output.
///
/// # Errors
/// [`Failure::Output`], or [`Failure::OutputClosed`] when the reader has gone.
pub(crate) fn result(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(Failure::from_output)
}
