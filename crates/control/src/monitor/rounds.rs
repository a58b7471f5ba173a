//! Further rounds of checks of the servers of a writer hostgroup: what happens to statements makes its writers doubtful, and the next
//! interval may be seconds away. A hostgroup has at most one such round a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use narrows_proxy::hostgroup::Demand;
use narrows_proxy::rt::Instant;
use narrows_proxy::snapshot::HostgroupId;

/// The rounds to come, by writer hostgroup.
#[derive(Debug, Default)]
pub struct Rounds {
    waiting: BTreeMap<HostgroupId, Arc<Demand>>,
    /// When each had its last one.
    last: BTreeMap<HostgroupId, Instant>,
}

impl Rounds {
    /// Takes an alarm: a round follows, at once or when the last one is long enough ago.
    pub fn ask(&mut self, alarm: Arc<Demand>) {
        self.waiting.insert(alarm.hostgroup, alarm);
    }

    /// When the next round begins.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        self.waiting.keys().map(|hostgroup| self.due(*hostgroup, now)).min()
    }

    /// The hostgroups whose rounds begin now: from here on they may raise another alarm.
    pub fn begin(&mut self, now: Instant) -> Vec<HostgroupId> {
        let due: Vec<HostgroupId> =
            self.waiting.keys().copied().filter(|hostgroup| self.due(*hostgroup, now) <= now).collect();
        for hostgroup in &due {
            self.last.insert(*hostgroup, now);
            if let Some(alarm) = self.waiting.remove(hostgroup) {
                alarm.hears_alarm();
            }
        }
        due
    }

    fn due(&self, hostgroup: HostgroupId, now: Instant) -> Instant {
        self.last.get(&hostgroup).map_or(now, |last| *last + LEAST_PAUSE)
    }
}

/// From one round of a hostgroup to the next.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostgroup_has_a_round_at_once_and_then_one_a_second_at_most() {
        let (mut rounds, begun) = (Rounds::default(), Instant::now());
        let alarm = |hostgroup| Arc::new(Demand::new(HostgroupId(hostgroup), 1));
        assert_eq!(rounds.next(begun), None);
        let first = alarm(1);
        assert!(first.may_raise_alarm() && !first.may_raise_alarm());
        rounds.ask(Arc::clone(&first));
        assert_eq!((rounds.next(begun), rounds.begin(begun)), (Some(begun), vec![HostgroupId(1)]));
        // Only now may it be raised again; the round waits, and those of other hostgroups do not.
        assert!(first.may_raise_alarm());
        let soon = begun + Duration::from_millis(300);
        rounds.ask(first);
        rounds.ask(alarm(2));
        assert_eq!((rounds.next(soon), rounds.begin(soon)), (Some(soon), vec![HostgroupId(2)]));
        assert_eq!(rounds.next(soon), Some(begun + LEAST_PAUSE));
        let later = begun + LEAST_PAUSE;
        assert_eq!((rounds.begin(later), rounds.next(later)), (vec![HostgroupId(1)], None));
    }
}
