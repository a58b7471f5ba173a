//! Hostgroups that are held: nothing new begins there, and who asks for a connection waits at the end of the queue.
//!
//! Each worker has its own holds, so that nothing is shared while there are none. A hold always has an end, which each
//! worker watches by itself: one that is forgotten ends, whatever becomes of who began it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::Pool;
use crate::rows::HostgroupId;
use crate::rt::{Instant, Notify};

/// The holds of one worker.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Whether there is any: all that is looked at while there are none.
    any: Cell<bool>,
    ends: RefCell<BTreeMap<HostgroupId, Instant>>,
    /// Woken when one ends early.
    ended: Notify,
}

impl Holds {
    /// Until when a hostgroup is held; `None`: it is not.
    fn end(&self, hostgroup: HostgroupId) -> Option<Instant> {
        if !self.any.get() {
            return None;
        }
        self.ends.borrow().get(&hostgroup).copied().filter(|end| *end > Instant::now())
    }

    fn set(&self, hostgroup: HostgroupId, end: Option<Instant>) {
        let mut ends = self.ends.borrow_mut();
        match end {
            Some(end) => drop(ends.insert(hostgroup, end)),
            None => drop(ends.remove(&hostgroup)),
        }
        self.any.set(!ends.is_empty());
    }
}

impl Pool {
    /// Holds a hostgroup until `end`, in the place of any other end; nothing new begins there from now on.
    pub fn hold(&self, hostgroup: HostgroupId, end: Instant) {
        self.holds.set(hostgroup, Some(end));
        // Who waits may do so until another time than before.
        self.holds.ended.notify_waiters();
    }

    /// Ends a hold: who waits looks again, the one who came first before the others.
    pub fn release_hold(&self, hostgroup: HostgroupId) {
        self.holds.set(hostgroup, None);
        if let Some(group) = self.groups.borrow().get(&hostgroup) {
            group.waiters.poke();
        }
        self.holds.ended.notify_waiters();
    }

    /// Until when a hostgroup is held; `None`: it is not. Costs nothing while no hostgroup is.
    pub fn held_until(&self, hostgroup: HostgroupId) -> Option<Instant> {
        self.holds.end(hostgroup)
    }

    /// Waits until a hold has ended early, or has another end.
    pub(super) async fn hold_changed(&self) {
        self.holds.ended.notified().await;
    }

    /// Forgets holds that have ended by themselves.
    pub(super) fn forget_ended_holds(&self) {
        if !self.holds.any.get() {
            return;
        }
        let now = Instant::now();
        let over = |(hostgroup, end): (&HostgroupId, &Instant)| (*end <= now).then_some(*hostgroup);
        let ended: Vec<HostgroupId> = self.holds.ends.borrow().iter().filter_map(over).collect();
        ended.into_iter().for_each(|hostgroup| self.release_hold(hostgroup));
    }
}
