//! The ring of one shard: setup, submission, completions, and what the kernel says about them.
//!
//! What it does not do: know sockets or connections. It carries operations and their [`UserData`].

mod error;
mod user_data;

pub use error::{RingError, SetupError};
pub(crate) use user_data::{Op, UserData};
