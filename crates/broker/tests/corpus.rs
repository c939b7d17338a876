//! The fuzz target's corpus, replayed without a fuzzer: every file as it is, and those that come
//! from captures mutated by a fixed generator.

use std::path::{Path, PathBuf};

use ringmain_broker::fuzzing::drive_connection;

/// Mutations of each file: a few seconds in all. A fuzzer does more.
const MUTATIONS: u64 = 40;

/// Multiplier and increment of a 64-bit linear congruential generator.
const LCG: (u64, u64) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(LCG.0).wrapping_add(LCG.1);
        (self.0 >> 33) as usize % bound
    }
}

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/connection");
    let entries = std::fs::read_dir(folder).expect("the corpus is part of the project");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).expect("a readable file")))
        .collect()
}

/// Whether the fuzzer wrote the file: it names its finds by 40 digits.
fn is_found(path: &Path) -> bool {
    let name = path.file_name().expect("a file").to_string_lossy();
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Changes bytes, cuts, doubles or drops a part, and plays with the flags.
fn mutate(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut mutated = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(mutated.len());
        match random.below(6) {
            0 => mutated[at] = random.below(256) as u8,
            1 => mutated[at] ^= 1 << random.below(8),
            2 => mutated.truncate(at.max(2)),
            3 => drop(mutated.drain(at..(at + random.below(300)).min(mutated.len()))),
            4 => {
                let part = mutated[at..(at + random.below(600)).min(mutated.len())].to_vec();
                let into = random.below(mutated.len());
                mutated.splice(into..into, part);
            }
            _ => mutated[0] = random.below(64) as u8,
        }
        if mutated.len() < 2 {
            mutated.resize(2, 0);
        }
    }
    mutated
}

#[test]
fn the_corpus_and_its_mutations_break_no_promise() {
    let corpus = corpus();
    let captured = corpus.iter().filter(|(path, _)| !is_found(path)).count();
    assert!(captured >= 47, "every captured scenario is in the corpus");
    for (path, input) in &corpus {
        println!("{}", path.display());
        drive_connection(input);
        if is_found(path) {
            continue;
        }
        for flags in (0..64).step_by(7) {
            let mut input = input.clone();
            input[0] = flags;
            drive_connection(&input);
        }
        let mut random = Random(input.len() as u64);
        for _ in 0..MUTATIONS {
            drive_connection(&mutate(input, &mut random));
        }
    }
}

#[test]
fn inputs_too_short_for_flags_are_nothing() {
    drive_connection(&[]);
    drive_connection(&[0]);
    drive_connection(&[0xFF, 0]);
}
