//! Hashes that identify what they were computed from, and maps keyed by them.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A hash with keys that are secret to the process, wide enough that two are never equal by chance. `feed` is called
/// for each half of it.
pub fn wide(feed: impl Fn(&mut DefaultHasher)) -> u128 {
    static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
    let (high, low) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
    let half = |keys: &RandomState| {
        let mut hasher = keys.build_hasher();
        feed(&mut hasher);
        hasher.finish()
    };
    u128::from(half(high)) << 64 | u128::from(half(low))
}

/// Builds the hasher for maps whose keys are already spread over 64 bits and need no hashing.
pub type AsTheyAre = BuildHasherDefault<PassThrough>;

/// Uses the single number that a key writes as its hash.
#[derive(Debug, Default)]
pub struct PassThrough(u64);

impl Hasher for PassThrough {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
