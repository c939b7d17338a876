//! The built binary as a user runs it. One test binary, because the tests share their support.
#![forbid(unsafe_code)]

mod bench;
mod descriptors;
mod doctor;
mod failures;
mod interrupt;
mod log;
mod pages;
mod secrets;
mod send_dump;
mod send_faults;
mod support;
mod tuning;
