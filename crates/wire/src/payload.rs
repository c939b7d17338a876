//! The bodies of requests and replies, one module for each subject.
//!
//! | module | commands |
//! |---|---|
//! | [`login`] | login with password and with token, logout |
//!
//! A request implements [`Command`], which names its code and the type of its reply. A reply's payload is what
//! [`Reply::outcome`](crate::frame::Reply::outcome) gives on success: the result section is gone by then. Commands
//! that have no type here go as [`Raw`] bodies.

pub mod login;
mod shape;

pub use shape::{Counted, Empty, LengthPrefixed, Raw, ToEnd};

use crate::codec::{Decode, Encode};
use crate::operation::CommandCode;

/// A request body that knows what it is.
pub trait Command: Encode {
    /// The code, which also tells the operation.
    const CODE: CommandCode;

    /// What the payload of a successful reply decodes to.
    type Reply<'r>: Decode<'r>;
}
