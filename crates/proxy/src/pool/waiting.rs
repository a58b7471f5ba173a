//! Who waits for a hostgroup: the right to wait, clients that keep their connection while the hostgroup is held, and
//! what a worker reports about both.

use std::rc::Rc;

use super::{Group, LeaseError, Pool, UnavailableCause};
use crate::hostgroup::{CrowdPlace, Hostgroup};
use crate::rows::HostgroupId;
use crate::rt::{Instant, nanoseconds, timeout_at};
use crate::snapshot::Snapshot;

/// What one worker reports about a hostgroup that is waited for, or held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitReport {
    /// The hostgroup.
    pub hostgroup: HostgroupId,
    /// When the first of those who wait came, in ns since the process started.
    pub oldest: Option<u64>,
    /// What they wait for.
    pub cause: UnavailableCause,
    /// Until when the hostgroup is held, if it is.
    pub held_until: Option<Instant>,
}

/// A client that waits and keeps its connection; forgotten when dropped.
struct Keeper {
    group: Rc<Group>,
    since: u64,
}

impl Keeper {
    fn join(group: &Rc<Group>, since: u64) -> Keeper {
        group.kept.borrow_mut().push(since);
        Keeper { group: Rc::clone(group), since }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut kept = self.group.kept.borrow_mut();
        if let Some(at) = kept.iter().position(|since| *since == self.since) {
            kept.swap_remove(at);
        }
    }
}

impl Pool {
    /// The right to wait for a server, for a client whose search began at `started`.
    pub(super) fn join(
        &self,
        group: &Group,
        hostgroup: &Hostgroup,
        bytes: u64,
        started: Instant,
    ) -> Result<CrowdPlace, LeaseError> {
        let place = CrowdPlace::take(&group.demand.crowd, bytes, hostgroup.settings.crowd);
        place.map_err(|crowded| self.crowded(hostgroup.id, crowded, started))
    }

    /// Waits while a hostgroup is held, for a client that keeps a connection of it and is about to send a statement of
    /// `bytes` bytes.
    ///
    /// # Errors
    /// The hostgroup is held for longer than anybody may wait for it, or too many wait already.
    pub async fn wait_while_held(
        &self,
        snapshot: &Snapshot,
        hostgroup: HostgroupId,
        bytes: u64,
    ) -> Result<(), LeaseError> {
        let Some(known) = snapshot.hostgroups.get(&hostgroup) else { return Ok(()) };
        let group = self.group(&known.demand);
        let started = Instant::now();
        let _crowd = self.join(&group, known, bytes, started)?;
        let _keeper = Keeper::join(&group, nanoseconds(self.epoch.elapsed()));
        let deadline = started + known.settings.longest_wait;
        while let Some(end) = self.held_until(hostgroup) {
            if Instant::now() >= deadline {
                return Err(self.unavailable(hostgroup, Some((&*group, known)), (started, None)));
            }
            // Whether it has changed or not, the next look decides.
            let _ = timeout_at(end.min(deadline), self.hold_changed()).await;
        }
        Ok(())
    }

    /// What this worker knows about the hostgroups that are waited for, or held.
    pub fn waiting(&self) -> Vec<WaitReport> {
        let (snapshot, now) = (self.in_force.get(), Instant::now());
        let report = |hostgroup: &Hostgroup| {
            let held_until = self.held_until(hostgroup.id);
            let group = self.groups.borrow().get(&hostgroup.id).map(Rc::clone);
            let oldest = group.as_ref().and_then(|group| {
                let kept = group.kept.borrow().iter().copied().min();
                group.waiters.longest().into_iter().chain(kept).min()
            });
            if oldest.is_none() && held_until.is_none() {
                return None;
            }
            let group = group.unwrap_or_else(|| self.group(&hostgroup.demand));
            // Who lets others pass waits for a lag.
            let is_lag = group.waiters.len() > 0 && !group.waiters.is_anyone_next() && held_until.is_none();
            let cause = match is_lag {
                true => UnavailableCause::Lag,
                false => self.cause_of_wait((&group, hostgroup), None, now),
            };
            Some(WaitReport { hostgroup: hostgroup.id, oldest, cause, held_until })
        };
        snapshot.hostgroups.values().filter_map(|hostgroup| report(hostgroup)).collect()
    }
}
