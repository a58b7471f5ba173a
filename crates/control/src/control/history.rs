//! Figures over time in `stats_history`: samples at the intervals of `admin-stats_*`, their aggregates by hour and day, and
//! the traffic of each interval of `admin-narrows_history`.

mod aggregates;
mod samples;
mod traffic;

use std::time::Duration;

use narrows_proxy::clock::now_s;
use narrows_proxy::stats::Observer;

use crate::store::Store;
use aggregates::Aggregates;
use samples::SampleTimes;
use traffic::Recorder;

/// How late a sample may be taken.
pub const TICK: Duration = Duration::from_secs(1);

/// What was recorded, and when.
#[derive(Debug, Default)]
pub struct History {
    samples: SampleTimes,
    aggregates: Aggregates,
    traffic: Recorder,
}

impl History {
    /// Does what is due. Without workers, nothing is sampled.
    pub fn tick(&mut self, store: &mut Store, observer: Option<&Observer>) {
        let now = now_s();
        if let Some(observer) = observer {
            self.samples.take(store, observer, now);
            self.traffic.take(store, observer, now);
        }
        self.traffic.write_if_due(store, now);
        self.aggregates.step(store, now);
    }

    /// Writes what a statement reads, if it names it.
    pub fn prepare_for(&mut self, store: &mut Store, statement: &[u8]) {
        let mentions =
            |name: &[u8]| statement.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name));
        if self.traffic.has_unwritten() && mentions(TRAFFIC) {
            self.flush(store);
        }
    }

    /// Writes what is still in memory.
    pub fn flush(&mut self, store: &mut Store) {
        self.traffic.write(store, now_s());
    }
}

/// How the names of the tables of traffic begin.
const TRAFFIC: &[u8] = b"narrows_traffic_";

/// A number of seconds in a variable; 0 if there is none.
fn interval(store: &Store, variable: &str) -> u64 {
    store.variable(variable).and_then(|text| text.parse().ok()).unwrap_or(0)
}
