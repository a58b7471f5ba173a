//! Two readers of one text: Narrows must read a client's bytes as the server does. Rules, firewall and routing depend
//! on the first; what happens depends on the second.
//!
//! The reference is a real server. `NARROWS_TWO_READERS=100000` runs this many random cases of each kind instead of a
//! few; `NARROWS_TWO_READERS_SEED` repeats a run.

mod attributes;
mod executions;
mod firewall;
mod scripts;

use std::hash::{BuildHasher, RandomState};

use crate::model::random::Random;

/// How many random cases a test runs, and their numbers.
fn random_cases(few: usize) -> (usize, Random) {
    let setting = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed =
        setting("NARROWS_TWO_READERS_SEED").unwrap_or_else(|| RandomState::new().hash_one("seed") >> 20);
    let cases = setting("NARROWS_TWO_READERS").map_or(few, |cases| cases as usize);
    println!("NARROWS_TWO_READERS={cases} NARROWS_TWO_READERS_SEED={seed}");
    (cases, Random::new(seed, 0))
}
