//! The fuzz targets' corpora, replayed without a fuzzer: every file as it is, and mutated by a fixed generator.

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
