//! How the monitor has the store end a statement that keeps the control thread from what the monitor has found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether somebody waits for the control thread who must not wait for long: what the monitor has found out about a server
/// counts for nothing until it is in force.
#[derive(Debug, Clone, Default)]
pub struct Urgency(Arc<AtomicBool>);

impl Urgency {
    /// Somebody waits, or nobody any more.
    pub fn set(&self, is_urgent: bool) {
        self.0.store(is_urgent, Ordering::Relaxed);
    }

    /// Whether somebody waits.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
