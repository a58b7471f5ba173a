//! What a dry run of rules would change, over all workers.

use std::collections::HashMap;

use super::{DryRunLine, Observer, RuleSets, Take};
use crate::worker::Worker;

impl Observer {
    /// `stats_narrows_rules_dry_run`, in no particular order: what is known about the rules that run now.
    pub async fn dry_run(&self, take: Take) -> Vec<DryRunLine> {
        let mut sum: HashMap<(Vec<u8>, String, u64, u64), DryRunLine> = HashMap::new();
        for worker in 0..self.count() {
            let mut next = 0;
            loop {
                let rows = move |worker: &Worker| {
                    let Some(sets) = sets(worker) else { return (Vec::new(), 0) };
                    let mut table = worker.figures.dry_run.borrow_mut();
                    match take {
                        Take::Copy => table.copy(sets, next, AT_ONCE),
                        Take::Reset => (table.take(sets), 0),
                    }
                };
                let Some((rows, all)) = self.ask(worker, rows).await else { break };
                for row in rows {
                    let key = (row.schemaname.clone(), row.username.clone(), row.digest, row.decisions);
                    match sum.get_mut(&key) {
                        Some(line) => line.add(&row),
                        None => drop(sum.insert(key, row)),
                    }
                }
                next += AT_ONCE;
                if next >= all {
                    break;
                }
            }
        }
        sum.into_values().collect()
    }

    /// Returns rows that were taken and could not be stored: they are counted as if they had not been taken. What the first
    /// worker has no room for is lost, and counted.
    pub async fn give_back_dry_run(&self, lines: Vec<DryRunLine>) {
        let put = move |worker: &Worker| {
            let Some(sets) = sets(worker) else { return };
            let mut table = worker.figures.dry_run.borrow_mut();
            table.renew(sets);
            for line in lines {
                let count = line.count;
                if !table.give_back(sets, line) {
                    worker.counters.borrow_mut().dry_run_overflow += count;
                }
            }
        };
        // A stopped worker no longer counts anything.
        let _ = self.ask(0, put).await;
    }
}

/// The rules that a worker compares; `None` if there is no dry run.
fn sets(worker: &Worker) -> Option<RuleSets> {
    let snapshot = worker.snapshot();
    Some([snapshot.rules.id(), snapshot.dry_run.as_ref()?.id()])
}

/// How many rows a worker copies between two events.
const AT_ONCE: usize = 512;
