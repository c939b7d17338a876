//! Byte for byte against the reference codec, `iggy_binary_protocol` 0.11.0: headers, requests,
//! replies, batches, polls, user headers.
//!
//! Each property draws a value, writes it with this crate and with the reference, and wants the
//! same bytes; then each reads what the other wrote. Then the bytes are damaged: whatever this
//! crate still takes, it must write back unchanged, and the reference must take it too; what it
//! refuses alone it refuses on purpose.

mod batches;
mod check;
mod headers;
mod polls;
mod replies;
mod requests;
mod strategies;
mod user_headers;
