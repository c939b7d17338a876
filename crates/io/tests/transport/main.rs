//! The transport against real sockets on loopback: every write path, registered or not, every
//! fallback, and every way a connection can end.
//!
//! Peers are threads with `std` sockets on ephemeral ports. Nothing sleeps to wait: a test drives
//! the ring until the thing it waits for has happened, and fails when that takes longer than a
//! generous bound.

mod contract;

mod limits;
mod paths;
mod receiving;
mod refusals;
mod support;
mod waking;
mod zero_copy;
