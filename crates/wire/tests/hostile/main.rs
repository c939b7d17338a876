//! Bytes from anyone: no decoder panics, and whatever one takes it writes back unchanged.
//!
//! Batches and user headers have tests of their own.

mod payloads;
mod stream;
