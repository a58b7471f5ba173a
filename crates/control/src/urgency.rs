//! How the monitor makes the store end a statement that keeps the control thread from processing the monitor's
//! findings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something urgent waits for the control thread: the monitor's findings about a server have no effect until
/// they are applied.
#[derive(Debug, Clone, Default)]
pub struct Urgency(Arc<AtomicBool>);

impl Urgency {
    /// Sets whether something waits.
    pub fn set(&self, is_urgent: bool) {
        self.0.store(is_urgent, Ordering::Relaxed);
    }

    /// Whether something waits.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
