//! Every frame that was recorded from a real server: requests are written again byte for byte,
//! replies say what their scenario says.
//!
//! The recording is `testdata/server-0.9.0-edge.5.jsonl`; the README beside it says how it came
//! about.

mod expected;
mod payloads;
mod recording;
mod replies;
mod requests;
mod seeds;
