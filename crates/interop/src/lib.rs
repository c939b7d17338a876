//! The official SDK as a client of the embedded broker.
//!
//! This crate holds tests only. It is no default member of the workspace, because the SDK brings
//! about 300 packages along: `cargo test -p ringmain-interop` builds and runs it.
#![forbid(unsafe_code)]
