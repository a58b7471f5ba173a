//! Moves logged statements from memory to disk, at the interval of `admin-stats_mysql_eventslog_sync_buffer_to_disk`.

use std::time::{Duration, Instant};

use crate::command::{DumpTarget, dump_events};
use crate::runtime::Runtime;
use crate::store::Store;

/// When they were last moved.
#[derive(Debug)]
pub struct EventSync(Instant);

impl Default for EventSync {
    fn default() -> EventSync {
        EventSync(Instant::now())
    }
}

impl EventSync {
    /// Moves them if it is time to.
    pub fn tick(&mut self, runtime: &mut Runtime, store: &mut Store) {
        let seconds = store.variable(INTERVAL).and_then(|text| text.parse().ok()).unwrap_or_default();
        if seconds == 0 || self.0.elapsed() < Duration::from_secs(seconds) {
            return;
        }
        self.0 = Instant::now();
        if let Err(refusal) = dump_events(runtime, store, DumpTarget { memory: false, disk: true }) {
            tracing::warn!(%refusal, "logged statements are lost instead of stored on disk");
        }
    }
}

const INTERVAL: &str = "admin-stats_mysql_eventslog_sync_buffer_to_disk";
