//! Waiting for a condition.

use std::time::{Duration, Instant};

/// How long something that must happen soon may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for something that must happen soon; returns how long it took.
///
/// # Panics
/// If it does not happen.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}
