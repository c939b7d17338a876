//! Bodies of replies out of the fuzzer's bytes. The body is in the library, where `cargo test`
//! replays the corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ringmain_wire::fuzzing::drive_replies(input));
