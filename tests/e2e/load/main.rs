//! Many clients at once: what they wait, whether they are served in turn, what an idle one costs.
//!
//! A program of its own, and one test at a time: a latency measured beside other tests says nothing.

mod crowd;
mod idle;
mod keep;
mod limits;
mod monitored;
mod peaks;
mod swarm;
mod turns;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Taken by every test for as long as it runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that the next could trip over.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
