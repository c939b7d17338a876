//! The fuzz targets' corpora, replayed without a fuzzer: every file as it is, and mutated by a
//! fixed generator.

use std::path::PathBuf;

use ringmain_wire::fuzzing::{drive_batch, drive_frame, drive_replies};

/// Mutations of each file: a few seconds in all. A fuzzer does more.
const MUTATIONS: u64 = 300;

/// Multiplier and increment of a 64-bit linear congruential generator.
const LCG: (u64, u64) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(LCG.0).wrapping_add(LCG.1);
        (self.0 >> 33) as usize % bound
    }
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(folder).expect("the corpus is part of the project");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).expect("a readable file")))
        .collect()
}

/// Changes bytes, cuts, drops or doubles a part, and plays with the flag.
fn mutate(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut mutated = input.to_vec();
    for _ in 0..=random.below(3) {
        if mutated.is_empty() {
            break;
        }
        let at = random.below(mutated.len());
        let part = at..(at + random.below(60)).min(mutated.len());
        match random.below(6) {
            0 => mutated[at] = random.below(256) as u8,
            1 => mutated[at] ^= 1 << random.below(8),
            2 => mutated.truncate(at),
            3 => drop(mutated.drain(part)),
            4 => mutated[0] ^= 1,
            _ => {
                let part = mutated[part].to_vec();
                mutated.splice(at..at, part);
            }
        }
    }
    mutated
}

fn replay(target: &str, files_min: usize, drive: fn(&[u8])) {
    let corpus = corpus(target);
    assert!(corpus.len() >= files_min, "{} files", corpus.len());
    for (path, input) in &corpus {
        println!("{}", path.display());
        drive(input);
        let mut random = Random(input.len() as u64);
        for _ in 0..MUTATIONS {
            drive(&mutate(input, &mut random));
        }
    }
}

#[test]
fn frames() {
    replay("frame", 30, drive_frame);
}

#[test]
fn replies() {
    replay("replies", 10, drive_replies);
}

#[test]
fn batches() {
    replay("batch", 10, drive_batch);
}

#[test]
fn inputs_too_short_for_flags_are_nothing() {
    drive_frame(&[]);
    drive_frame(&[1]);
    drive_batch(&[]);
}

/// The names behind a mark in a source, up to what is no part of a name.
fn names_after<'a>(source: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    source.split(mark).skip(1).map(|rest| {
        let rest = rest.trim_start();
        let end = rest.find(|byte: char| !byte.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// A request that gets a type, and with it its reply, must be handed to the fuzzer, too.
#[test]
fn every_request_with_a_type_is_driven() {
    let source = |path: &str| {
        std::fs::read_to_string(format!("{}/src/{path}", env!("CARGO_MANIFEST_DIR")))
            .expect("the sources are part of the project")
    };
    let driven = source("fuzzing.rs");
    let modules = [
        "cluster", "consumer", "login", "poll", "stream", "system", "token", "topic",
    ];
    let mut count = 0;
    for module in modules {
        let declared = source(&format!("payload/{module}.rs"));
        let plain = names_after(&declared, "\ncommand!(");
        let empty = declared.split("\nempty_command! {").skip(1);
        for name in plain.chain(empty.flat_map(|rest| names_after(rest, "pub struct ").take(1))) {
            let is_driven = names_after(&driven, "$check::<").any(|found| found == name);
            assert!(is_driven, "{name}");
            count += 1;
        }
    }
    assert_eq!(count, names_after(&driven, "$check::<").count());
}
