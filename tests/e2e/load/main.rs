//! Many clients at once: how long they wait, whether they are served in turn, what an idle one costs.
//!
//! A separate program, and one test at a time: a latency measured alongside other tests is meaningless.

mod crowd;
mod idle;
mod keep;
mod limits;
mod monitored;
mod peaks;
mod strangers;
mod swarm;
mod turns;
mod waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by every test while it runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A failed test leaves nothing that could affect the next one.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
