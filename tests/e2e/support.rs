//! What tests of all topics need.

use narrows_testkit::{Narrows, NarrowsConfig};

/// Starts the program under test.
pub fn start(config: &NarrowsConfig) -> Narrows {
    Narrows::start(env!("CARGO_BIN_EXE_narrows"), config)
}
