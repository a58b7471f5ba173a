//! Holds of hostgroups: begun and ended on the workers, recorded for the next process, and logged.

use std::time::{Duration, Instant};

use narrows_proxy::snapshot::HostgroupId;
use narrows_proxy::stats::wait;

use super::Runtime;
use crate::holds::{Hold, Holds};
use crate::store::Store;

impl Runtime {
    /// The hostgroups that are held.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Holds a hostgroup. When this returns, nothing new begins there.
    pub fn hold(
        &mut self,
        store: &mut Store,
        hostgroup: HostgroupId,
        (by, length, began): (String, Duration, Instant),
    ) {
        let for_ms = length.as_millis() as u64;
        tracing::info!(%hostgroup, for_ms, by, "a hostgroup is held");
        let mut hold = Hold::new(by, length, began);
        hold.is_of_switchover = self.is_switching_over_in(hostgroup);
        self.holds.begin(hostgroup, hold);
        if let Some(observer) = self.observer() {
            wait(observer.hold(hostgroup, length));
        }
        self.keep_what_runs(store);
    }

    /// Ends a hold; returns whether there was one.
    pub fn release(&mut self, store: &mut Store, hostgroup: HostgroupId) -> bool {
        let is_held = self.holds.of(hostgroup).is_some();
        if self.holds.end(hostgroup).is_none() {
            return false;
        }
        if let Some(observer) = self.observer() {
            wait(observer.release(hostgroup));
        }
        self.keep_what_runs(store);
        if is_held {
            tracing::info!(%hostgroup, "a hostgroup is held no longer");
        }
        is_held
    }

    /// Notes which holds have ended by themselves.
    pub fn note_ended_holds(&mut self, store: &mut Store) {
        let ended = self.holds.take_ended();
        if ended.is_empty() {
            return;
        }
        for (hostgroup, hold) in ended {
            let by = hold.by;
            tracing::warn!(%hostgroup, by, "a hold has ended by itself: its time is over, and nobody has released it");
        }
        self.keep_what_runs(store);
    }
}
