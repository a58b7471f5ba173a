//! Durations by size, of which histograms are made.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::lines::{Durations, HostgroupLine};
use crate::rows::HostgroupId;

/// Durations that one worker counts. Plain cells: no other thread accesses them.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Cell<u64>; Durations::LIMITS_US.len() + 1],
    sum_us: Cell<u64>,
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, time: Duration) {
        self.add_us(time.as_secs() * 1_000_000 + u64::from(time.subsec_micros()));
    }

    /// Counts one in us.
    pub fn add_us(&self, time_us: u64) {
        self.sum_us.set(self.sum_us.get() + time_us);
        // Most are among the first.
        let bucket = Durations::LIMITS_US.iter().position(|limit| time_us <= *limit);
        if let Some(count) = self.buckets.get(bucket.unwrap_or(Durations::LIMITS_US.len())) {
            count.set(count.get() + 1);
        }
    }

    /// What was counted.
    pub fn durations(&self) -> Durations {
        Durations { buckets: self.buckets.each_ref().map(Cell::get), sum_us: self.sum_us.get() }
    }
}

/// Durations by hostgroup. There are few hostgroups, so they are searched in order.
#[derive(Debug, Default)]
pub struct HostgroupTable(RefCell<Vec<(HostgroupId, Box<OfHostgroup>)>>);

#[derive(Debug, Default)]
struct OfHostgroup {
    statements: Histogram,
    waits: Histogram,
}

impl HostgroupTable {
    /// A statement has ended.
    pub fn add_statement(&self, hostgroup: HostgroupId, time_us: u64) {
        self.with(hostgroup, |figures| figures.statements.add_us(time_us));
    }

    /// A wait for a connection has ended.
    pub fn add_wait(&self, hostgroup: HostgroupId, time: Duration) {
        self.with(hostgroup, |figures| figures.waits.add(time));
    }

    fn with(&self, hostgroup: HostgroupId, count: impl FnOnce(&OfHostgroup)) {
        let mut table = self.0.borrow_mut();
        if let Some((_, figures)) = table.iter().find(|(id, _)| *id == hostgroup) {
            return count(figures);
        }
        if table.len() < MOST_HOSTGROUPS {
            let figures = Box::<OfHostgroup>::default();
            count(&figures);
            table.push((hostgroup, figures));
        }
    }

    /// One line for each hostgroup that had statements or waits.
    pub fn lines(&self) -> Vec<HostgroupLine> {
        let line = |(hostgroup, figures): &(HostgroupId, Box<OfHostgroup>)| HostgroupLine {
            hostgroup: *hostgroup,
            statements: figures.statements.durations(),
            waits: figures.waits.durations(),
        };
        self.0.borrow().iter().map(line).collect()
    }
}

/// Hostgroups that are counted: those after them in time are not, so that rules that invent hostgroups cost no memory.
const MOST_HOSTGROUPS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_their_limit() {
        let table = HostgroupTable::default();
        let [five, two] = [HostgroupId(5), HostgroupId(2)];
        for time_us in [0, 100, 101, 20_000_000] {
            table.add_statement(five, time_us);
        }
        table.add_wait(two, Duration::from_millis(3));
        let mut lines = table.lines();
        assert_eq!((lines[0].hostgroup, lines[1].hostgroup), (five, two));
        assert_eq!(lines[0].statements.buckets[..3], [2, 1, 0]);
        assert_eq!(lines[0].statements.buckets.last(), Some(&1));
        assert_eq!(lines[0].statements.sum_us, 20_000_201);
        assert_eq!(lines[1].waits.sum_us, 3_000);
        let other = lines[1].waits;
        lines[0].waits.add(&other);
        lines[0].waits.add(&other);
        assert_eq!(lines[0].waits.count(), 2);
        for id in 0..2_000 {
            table.add_statement(HostgroupId(id), 1);
        }
        assert_eq!(table.lines().len(), MOST_HOSTGROUPS);
    }
}
