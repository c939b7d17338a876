//! The Apache Iggy binary protocol as bytes: encodes and decodes, and nothing else.
//!
//! No I/O, no clock, no entropy, no `unsafe`. Decoders borrow from their input and encoders write into memory the
//! caller gives; no decoder allocates from a length that it has not bounded, and no input makes one panic.
#![forbid(unsafe_code)]

mod error;

pub use error::{Fault, WireError};
