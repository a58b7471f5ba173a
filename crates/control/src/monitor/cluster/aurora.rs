//! What a node of an Aurora cluster says: whether it can be written to itself, and which nodes it knows
//! (`INFORMATION_SCHEMA.REPLICA_HOST_STATUS`).
//!
//! Every node is asked, each for itself. That a node can be written to only it can say; the table, which may be seconds
//! old, only decides between several that say so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narrows_proxy::backend::Table;
use narrows_proxy::snapshot::AuroraRow;

use super::node_task::{NodeTask, Refused, Source, subjects};
use super::roster::{MOST_READ, Roster, is_host_name};
use super::{ClusterKind, Word};
use crate::monitor::check::{Check, LogCell};
use crate::monitor::plan::{Address, NodeOf};
use crate::monitor::settings::MonitorSettings;

/// Checks of Aurora nodes.
pub static CHECK: Check = Check {
    name: "aurora",
    table: "mysql_server_aws_aurora_log",
    values: &[
        LogCell::Text(""),
        LogCell::Null,
        LogCell::Null,
        LogCell::Integer(0),
        LogCell::Integer(0),
        LogCell::Integer(0),
    ],
    has_error_first: true,
    counters: None,
    decides_without_pings: true,
    consequence: "unless that is because the server is down, its role and its lag are unknown and failovers are not followed",
    subjects: |target| subjects(target, ClusterKind::Aurora),
    begin: |subject| Box::new(NodeTask::new(subject, Aurora::default())),
};

/// A node, as it says.
#[derive(Debug, Default)]
struct Aurora {
    view: View,
    /// The last lags of each node that it knows, in milliseconds, the newest last.
    reports: BTreeMap<String, VecDeque<u32>>,
    refused: Refused,
}

/// One answer of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct View {
    /// `aurora_server_id`
    own_id: Option<String>,
    /// `innodb_read_only`, which a node says of itself; anything but 0 counts as ON.
    is_read_only: bool,
    /// The nodes that it knows.
    nodes: Vec<KnownNode>,
    /// A `SERVER_ID` that can be none.
    odd: Option<String>,
}

/// One row of `REPLICA_HOST_STATUS`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownNode {
    server_id: String,
    session_id: Option<String>,
    updated: Option<String>,
    /// How many seconds old the row is.
    age_s: u32,
    lag_ms: u32,
    cpu: u32,
}

impl KnownNode {
    fn is_writer(&self) -> bool {
        self.session_id.as_deref() == Some("MASTER_SESSION_ID")
    }
}

impl View {
    /// The view in an answer to [`QUESTION`], without rows that are too old or that name no host.
    fn of(answer: &Table) -> View {
        let mut view = View { is_read_only: true, ..View::default() };
        for (index, row) in answer.rows.iter().take(MOST_READ).enumerate() {
            let cell = |at: usize| row.get(at).and_then(Option::as_deref);
            if index == 0 {
                view.own_id = cell(0).filter(|id| is_server_id(id)).map(str::to_owned);
                view.is_read_only = cell(1) != Some("0");
            }
            let Some(server_id) = cell(2) else { continue };
            if !is_server_id(server_id) {
                view.odd = Some(server_id.to_owned());
                continue;
            }
            let number = |at: usize| cell(at).and_then(|text| text.parse::<f64>().ok()).map_or(0, whole);
            let node = KnownNode {
                server_id: server_id.to_owned(),
                session_id: cell(3).map(shortened),
                updated: cell(4).map(shortened),
                age_s: number(5),
                lag_ms: number(6),
                cpu: number(7),
            };
            let is_first = !view.nodes.iter().any(|known| known.server_id == node.server_id);
            if node.age_s <= OLDEST_S && is_first {
                view.nodes.push(node);
            }
        }
        view
    }

    /// The node that it takes for the writer; `None`: it knows none, or two, or nothing that is recent.
    fn writer(&self) -> Option<&KnownNode> {
        if self.nodes.iter().all(|node| node.age_s > RECENT_S) {
            return None;
        }
        let youngest = self.nodes.iter().filter(|node| node.is_writer()).map(|node| node.age_s).min()?;
        let mut writers = self.nodes.iter().filter(|node| node.is_writer() && node.age_s == youngest);
        let own = |node: &&KnownNode| !self.is_read_only && self.own_id.as_ref() == Some(&node.server_id);
        match (writers.clone().find(own), writers.next(), writers.next()) {
            (Some(own), ..) => Some(own),
            (None, first, None) => first,
            _ => None,
        }
    }

    /// What it says of itself. `lag_ms`: its estimated lag.
    fn word(&self, lag_ms: Option<u32>, row: &AuroraRow, address: &Address) -> Word {
        let is_endpoint = is_endpoint(&address.hostname);
        if !self.is_read_only {
            let why = "the endpoint of a cluster leads to another node after a failover: it is written to only while no node is known by its own name";
            return if is_endpoint { Word::Reluctant(why.to_owned()) } else { Word::Writes };
        }
        if is_endpoint {
            return Word::Leaving("the endpoint of a cluster leads to different nodes".to_owned());
        }
        let is_listed = |id: &String| self.nodes.iter().any(|node| node.server_id == *id);
        if !self.nodes.is_empty() && self.own_id.as_ref().is_some_and(|id| !is_listed(id)) {
            return Word::Leaving(format!(
                "it is read-only, and REPLICA_HOST_STATUS has nothing of the last {OLDEST_S} s about it"
            ));
        }
        match lag_ms {
            Some(lag_ms) if lag_ms > row.max_lag_ms => {
                Word::Leaving(format!("its estimated lag is above max_lag_ms ({})", row.max_lag_ms))
            }
            _ => Word::Reads("innodb_read_only is ON".to_owned()),
        }
    }

    /// The nodes that it names.
    fn roster(&self, row: &AuroraRow, address: &Address) -> Roster {
        let named =
            |id: &str| Address { hostname: format!("{id}{}", row.domain_name), port: row.aurora_port };
        let members: BTreeSet<Address> = self.nodes.iter().map(|node| named(&node.server_id)).collect();
        // An endpoint is not a node by another name.
        let own = self.own_id.as_deref().filter(|_| !is_endpoint(&address.hostname));
        Roster {
            members: (!members.is_empty()).then_some(members),
            own: own.map(named),
            writer: self.writer().map(|node| named(&node.server_id)),
        }
    }
}

impl Aurora {
    /// The estimated lag of a node.
    fn estimate(&self, server_id: &str, row: &AuroraRow) -> Option<u32> {
        self.reports.get(server_id).map(|reports| estimate(reports, row))
    }

    fn own_lag(&self, row: &AuroraRow) -> Option<u32> {
        let own = self.view.own_id.as_deref()?;
        let is_listed = self.view.nodes.iter().any(|node| node.server_id == own);
        self.estimate(own, row).filter(|_| is_listed && self.view.is_read_only)
    }

    fn remember(&mut self) {
        let View { nodes, .. } = &self.view;
        self.reports.retain(|id, _| nodes.iter().any(|node| node.server_id == *id));
        for node in nodes {
            let reports = self.reports.entry(node.server_id.clone()).or_default();
            // The writer waits for nobody.
            reports.push_back(if node.is_writer() { 0 } else { node.lag_ms });
            if reports.len() > MOST_REPORTS {
                reports.pop_front();
            }
        }
    }
}

/// The greatest of the last `lag_num_checks` lags with `add_lag_ms`, and at least `min_lag_ms`.
fn estimate(reports: &VecDeque<u32>, row: &AuroraRow) -> u32 {
    let count = usize::try_from(row.lag_num_checks).unwrap_or(MOST_REPORTS);
    let last = reports.iter().rev().take(count).map(|lag_ms| lag_ms.saturating_add(row.add_lag_ms));
    last.max().unwrap_or(0).max(row.min_lag_ms)
}

impl Source for Aurora {
    fn question(&self, _: &MonitorSettings) -> String {
        QUESTION.to_owned()
    }

    fn take(&mut self, answer: &Table, row: Option<&AuroraRow>) -> Vec<LogCell> {
        self.view = View::of(answer);
        self.remember();
        let said = |text: &Option<String>| text.clone().map_or(LogCell::Null, LogCell::Said);
        let number = |number: u32| LogCell::Integer(number.into());
        let cells = |node: &KnownNode| {
            let estimate = row.and_then(|row| self.estimate(&node.server_id, row)).unwrap_or(0);
            [
                LogCell::Said(node.server_id.clone()),
                said(&node.session_id),
                said(&node.updated),
                number(node.lag_ms),
                number(if node.is_writer() { 0 } else { estimate }),
                number(node.cpu),
            ]
        };
        self.view.nodes.iter().flat_map(cells).collect()
    }

    fn word(&mut self, node: &NodeOf, address: &Address, _: &MonitorSettings) -> Word {
        match &node.aurora {
            Some(row) => self.view.word(self.own_lag(row), row, address),
            None => Word::Out("its row is gone".to_owned()),
        }
    }

    fn roster(&mut self, node: &NodeOf, address: &Address, _: &MonitorSettings) -> Roster {
        if let Some(odd) = self.view.odd.take() {
            self.refused.tell(address, &odd);
        }
        node.aurora.as_ref().map(|row| self.view.roster(row, address)).unwrap_or_default()
    }

    fn lag_ms(&self, row: Option<&AuroraRow>) -> Option<u32> {
        self.own_lag(row?)
    }

    fn most_timeouts(&self, _: &MonitorSettings) -> u32 {
        MOST_TIMEOUTS
    }
}

/// Whether a host name is one of a cluster, and not of an instance: `name.cluster-`, `.cluster-ro-` or `.cluster-custom-` and
/// more.
fn is_endpoint(hostname: &str) -> bool {
    hostname.split_once('.').is_some_and(|(_, rest)| rest.starts_with("cluster-"))
}

/// Whether a text can be the first part of a host name.
fn is_server_id(text: &str) -> bool {
    text.len() <= 63 && is_host_name(text) && !text.contains(':')
}

/// A number of a table, as a whole one: 16.3 ms are 17.
fn whole(number: f64) -> u32 {
    // A cast of a float is exact or the nearest limit.
    number.ceil().max(0.0) as u32
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The statement of a check: what the node is, and one row for each node that it knows, or one without.
const QUESTION: &str = "SELECT @@aurora_server_id, @@global.innodb_read_only | @@global.read_only, SERVER_ID, SESSION_ID, \
    LAST_UPDATE_TIMESTAMP, TIMESTAMPDIFF(SECOND, LAST_UPDATE_TIMESTAMP, NOW()), REPLICA_LAG_IN_MILLISECONDS, CPU \
    FROM (SELECT 1) one LEFT JOIN INFORMATION_SCHEMA.REPLICA_HOST_STATUS ON TRUE LIMIT 200";

/// Rows that are older are ignored, as by ProxySQL.
const OLDEST_S: u32 = 180;

/// A node whose youngest row is older has lost the others, and does not know who the writer is. They are written every
/// second.
const RECENT_S: u32 = 20;

/// The most that `lag_num_checks` may be.
const MOST_REPORTS: usize = 16;

/// How many checks in a row must time out before a node is offline, as for other clusters by default.
const MOST_TIMEOUTS: u32 = 3;

#[cfg(test)]
mod tests;
