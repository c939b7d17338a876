//! Prints without panicking: `println!` panics when the reader has gone, and `ringmain ... | head`
//! is no reason to.

use std::fmt;
use std::io::Write;

use crate::exit::Failure;
use crate::stdio::{ErrorOutput, Output, write_now};

/// One line for people, on standard error. Where it cannot be written nobody reads it.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let _ = ErrorOutput.write_all(format!("ringmain: {text}\n").as_bytes());
}

/// The same, unless standard error takes nothing at this moment: for threads that must not wait for
/// its reader. Whether it was written.
pub(crate) fn note_now(text: fmt::Arguments<'_>) -> bool {
    write_now(
        rustix::stdio::stderr(),
        format!("ringmain: {text}\n").as_bytes(),
    )
}

/// One line of the result, on standard output.
///
/// # Errors
/// [`Failure::Output`], or [`Failure::OutputClosed`] when the reader has gone.
pub(crate) fn result(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    Output
        .write_all(format!("{text}\n").as_bytes())
        .map_err(Failure::from_output)
}
