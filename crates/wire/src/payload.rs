//! The bodies of requests and replies, one module for each subject.
//!
//! | module | commands |
//! |---|---|
//! | [`login`] | login with password and with token, logout |
//! | [`cluster`] | ping, cluster metadata |
//! | [`stream`] | create, update, delete, purge and get streams |
//! | [`topic`] | the same of topics; create and delete partitions, delete segments |
//! | [`send`] | the reply to a send; the request is in [`crate::batch`] |
//! | [`poll`] | poll messages |
//! | [`consumer`] | get, store and delete consumer offsets |
//! | [`system`] | get me, get stats, describe options |
//! | [`token`] | personal access tokens |
//!
//! A request implements [`Command`], which names its code and the type of its reply. A reply's payload is what
//! [`Reply::outcome`](crate::frame::Reply::outcome) gives on success: the result section is gone by then. Commands
//! that have no type here go as [`Raw`] bodies.

pub mod cluster;
pub mod consumer;
pub mod login;
pub mod poll;
pub mod send;
mod shape;
pub mod stream;
pub mod system;
pub mod token;
pub mod topic;

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
