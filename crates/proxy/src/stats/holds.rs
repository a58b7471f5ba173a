//! Holds of hostgroups, and who waits.

use std::time::Duration;

use super::merge::milliseconds;
use super::{Observer, Running, WaitingLine};
use crate::hostgroup::Hostgroup;
use crate::pool::WaitReport;
use crate::rt::Instant;
use crate::snapshot::HostgroupId;

impl Observer {
    /// Holds a hostgroup for that long, on all workers: when this returns, nothing new begins there.
    pub async fn hold(&self, hostgroup: HostgroupId, length: Duration) {
        let end = Instant::now() + length;
        self.ask_all(move |worker| worker.pool.hold(hostgroup, end)).await;
    }

    /// Ends a hold.
    pub async fn release(&self, hostgroup: HostgroupId) {
        self.ask_all(move |worker| worker.pool.release_hold(hostgroup)).await;
    }

    /// What runs in a hostgroup.
    pub async fn running(&self, hostgroup: HostgroupId) -> Running {
        let mut sum = Running::default();
        let all = self.ask_all(move |worker| worker.running_in(hostgroup)).await;
        all.into_iter().for_each(|running| sum.add(running));
        sum
    }

    /// Who waits for each hostgroup, in order.
    pub async fn waiting(&self) -> Vec<WaitingLine> {
        let Some(snapshot) = self.snapshot().await else { return Vec::new() };
        let reports = self.ask_all(|worker| worker.pool.waiting()).await;
        let (started, now) = (self.peers().started, Instant::now());
        let line = |hostgroup: &Hostgroup| {
            let of_it = || reports.iter().flatten().filter(|report| report.hostgroup == hostgroup.id);
            let crowd = &hostgroup.demand.crowd;
            let oldest = of_it().filter_map(|report| report.oldest).min();
            let began = oldest.map(|oldest| started + Duration::from_nanos(oldest));
            let held = of_it().filter_map(|report: &WaitReport| report.held_until).max();
            let is_waited_for = |report: &&WaitReport| report.oldest.is_some();
            WaitingLine {
                hostgroup: hostgroup.id,
                clients: crowd.clients(),
                bytes: crowd.bytes(),
                longest_ms: began.map_or(0, |began| milliseconds(now.saturating_duration_since(began))),
                cause: of_it()
                    .filter(is_waited_for)
                    .map(|report| report.cause)
                    .max()
                    .map_or("", |it| it.name()),
                held_ms: held.map(|end| milliseconds(end.saturating_duration_since(now))),
            }
        };
        snapshot.hostgroups.values().map(|hostgroup| line(hostgroup)).collect()
    }
}
