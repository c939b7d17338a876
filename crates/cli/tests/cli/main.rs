//! The built binary as a user runs it. One test binary, because the tests share their support.
#![forbid(unsafe_code)]

mod bench;
mod failures;
mod interrupt;
mod send_dump;
mod support;
