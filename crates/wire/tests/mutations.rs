//! Runs every fuzz target on mutated packets, on stable Rust and for a limited time.
//!
//! `FUZZ_ITERATIONS` sets how many mutations each target gets, `FUZZ_SEED` repeats a failed run.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test: a panic is the finding"
)]

mod targets;

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Takes a second or two in total.
const ITERATIONS: u64 = 20_000;

/// The longest input generated, in bytes.
const MAX_LENGTH: usize = 4096;

#[test]
fn no_mutation_of_a_packet_breaks_a_decoder() {
    let seed = setting("FUZZ_SEED").unwrap_or_else(|| RandomState::new().hash_one("seed"));
    let iterations = setting("FUZZ_ITERATIONS").unwrap_or(ITERATIONS);
    println!("FUZZ_SEED={seed} FUZZ_ITERATIONS={iterations}");
    for (name, target, corpus) in targets::TARGETS {
        let mut random = Random(seed | 1);
        corpus.iter().for_each(|input| target(input));
        for iteration in 0..iterations {
            let input = mutated(corpus, &mut random);
            if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
                panic!("{name}: FUZZ_SEED={seed}, iteration {iteration}, input {input:02X?}");
            }
        }
    }
}

#[test]
fn every_target_has_a_binary_for_cargo_fuzz() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for (name, ..) in targets::TARGETS {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "fuzz/Cargo.toml lacks {name}"
        );
        let source = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(
            source.contains(&format!("targets::{name}(data)")),
            "fuzz_targets/{name}.rs calls another target"
        );
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// An entry of `corpus`, changed in one to eight places.
fn mutated(corpus: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].to_vec();
    for _ in 0..=random.below(8) {
        mutate(&mut input, corpus, random);
    }
    input.truncate(MAX_LENGTH);
    input
}

fn mutate(input: &mut Vec<u8>, corpus: &[&[u8]], random: &mut Random) {
    // Bytes with a meaning: false lengths, packet headers, terminators.
    const TELLING: [u8; 12] = [0, 1, 2, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, b'$'];
    let place = random.below(input.len() + 1);
    let end = place + random.below(input.len() - place + 1);
    match random.below(8) {
        0 if place < input.len() => input[place] ^= 1 << random.below(8),
        1 if place < input.len() => input[place] = TELLING[random.below(TELLING.len())],
        2 => input.insert(place, TELLING[random.below(TELLING.len())]),
        3 => input.truncate(place),
        4 => drop(input.drain(place..end)),
        5 => {
            let copy = input[place..end].to_vec();
            input.splice(place..place, copy);
        }
        6 => {
            let other = corpus[random.below(corpus.len())];
            input.truncate(place);
            input.extend_from_slice(&other[random.below(other.len())..]);
        }
        _ => input.extend((0..random.below(40)).map(|_| random.next() as u8)),
    }
    input.truncate(MAX_LENGTH);
}

/// Xorshift: small, and the same on every platform.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number below `bound`; 0 for a bound of 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound.max(1) as u64)) as usize
    }
}
