//! Bytes from anyone: no decoder panics, and whatever one takes it writes back unchanged.
//!
//! The fuzz targets do the same to batches and user headers, and `../corpus.rs` repeats what they
//! found.

mod payloads;
mod stream;
