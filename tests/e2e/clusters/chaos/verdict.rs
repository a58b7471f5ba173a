//! What clients have seen, what the tables have, and which node was the writer when: whether these agree.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use narrows_testkit::{RealServer, wait_until};

use super::events::Event;
use super::stage::Stage;
use super::tenures::Tenure;
use crate::chaos::load::{Acknowledged, Failure, Tally};

/// What is wrong, by kind.
pub struct Verdict {
    found: Vec<(&'static str, Vec<String>)>,
}

/// An event, from its beginning until all was as before.
pub struct Window {
    pub event: &'static Event,
    pub from: Instant,
    pub to: Instant,
}

impl Window {
    fn explains(&self, failure: &Failure) -> bool {
        failure.from < self.to && self.from < failure.to && self.event.explains(failure)
    }
}

/// The writes that a node has, with the `server_id` of the node that has run each.
type Ledger = HashMap<u64, u32>;

impl Verdict {
    /// Ends the clients, and compares.
    pub fn of(stage: Stage, windows: &[Window]) -> Verdict {
        let Stage { load, tenures, cluster, .. } = stage;
        let (tally, outcomes) = load.stop();
        let tenures = tenures.all();
        let servers = cluster.servers();
        let ledgers = agreed(servers);
        let first = &ledgers[0];
        let lost = |write: &&Acknowledged| write.ids.iter().any(|id| !first.contains_key(id));
        let denied = tally.refused.iter().filter(|write| write.ids.iter().any(|id| first.contains_key(id)));
        let halves = tally.uncertain.iter().filter(|ids| {
            let there = ids.iter().filter(|id| first.contains_key(id)).count();
            there != 0 && there != ids.len()
        });
        let strays = ledgers[1..].iter().filter(|other| *other != first);
        println!(
            "{} reads, {} writes and transactions acknowledged, {} uncertain, {} refused, {} errors in all, {} changes of the writer",
            tally.reads,
            tally.acknowledged.len(),
            tally.uncertain.len(),
            tally.refused.len(),
            tally.failures.len(),
            tenures.len() - 1,
        );
        outcomes.iter().for_each(|outcome| println!("{}", outcome.line));
        let of_sysbench = outcomes.iter().flat_map(|outcome| &outcome.failures);
        let unexplained =
            of_sysbench.filter(|failure| !windows.iter().any(|window| window.explains(failure)));
        let found = vec![
            ("acknowledged writes lost", tally.acknowledged.iter().filter(lost).map(told).collect()),
            ("writes on a node that was not the writer", astray(&tally, first, &tenures)),
            (
                "writes reported as not run that did run",
                denied.map(|write| format!("{:?}: {}", write.ids, write.text)).collect(),
            ),
            ("transactions that were half executed", halves.map(|ids| format!("{ids:?}")).collect()),
            ("nodes with other rows", strays.map(|other| format!("{} rows", other.len())).collect()),
            ("wrong answers", tally.wrong),
            (
                "errors of sysbench that no event explains",
                unexplained.map(|failure| format!("{:?}: {}", failure.what, failure.text)).collect(),
            ),
        ];
        found.iter().for_each(|(what, found)| println!("{:6} {what}", found.len()));
        Verdict { found }
    }

    /// What must not be.
    pub fn defects(self) -> Vec<String> {
        let wrong = self.found.into_iter().filter(|(_, found)| !found.is_empty());
        wrong
            .map(|(what, found)| {
                format!("{} {what}, such as {}", found.len(), found[..found.len().min(5)].join("; "))
            })
            .collect()
    }
}

fn told(write: &Acknowledged) -> String {
    format!("{:?}", write.ids)
}

/// The ledgers of all nodes, once they are equal, or after a while.
fn agreed(servers: &[RealServer]) -> Vec<Ledger> {
    let of = |server: &RealServer| -> Ledger {
        let rows = server.rows("SELECT id, server FROM chaos.ledger");
        let number = |cell: &Option<String>| cell.as_ref()?.parse::<u64>().ok();
        rows.into_iter().filter_map(|row| Some((number(&row[0])?, number(&row[1])? as u32))).collect()
    };
    let counts = || servers.iter().map(|server| server.rows("SELECT COUNT(*) FROM chaos.ledger").concat());
    let are_equal = || {
        let counts: Vec<_> = counts().collect();
        counts.iter().all(|count| *count == counts[0])
    };
    wait_until("all nodes have as many rows", are_equal);
    servers.iter().map(of).collect()
}

/// Writes that no tenure of their node explains: a statement runs on a node that is the writer when the statement, or its
/// transaction, begins.
fn astray(tally: &Tally, ledger: &Ledger, tenures: &[Tenure]) -> Vec<String> {
    let explains = |write: &Acknowledged, node: u32, tenure: &Tenure| {
        let ended = tenure.to.is_none_or(|to| write.from < to + TOLERANCE);
        tenure.node as u32 + 1 == node && ended && tenure.from < write.to + TOLERANCE
    };
    let mut found = Vec::new();
    for write in &tally.acknowledged {
        for node in write.ids.iter().filter_map(|id| ledger.get(id)) {
            if !tenures.iter().any(|tenure| explains(write, *node, tenure)) {
                found.push(format!("{:?} on node {node}", write.ids));
            }
        }
    }
    found
}

/// Workers learn of a change one after the other, and the log is read after it was written.
const TOLERANCE: Duration = Duration::from_millis(100);
