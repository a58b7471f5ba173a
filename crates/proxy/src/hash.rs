//! Maps by keys that are spread over 64 bits already, and need no hashing.

use std::hash::{BuildHasherDefault, Hasher};

/// Builds the hasher of such maps.
pub type AsTheyAre = BuildHasherDefault<PassThrough>;

/// Takes the one number that a key writes for its hash.
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
