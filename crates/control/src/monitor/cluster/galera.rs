//! What a node of a Galera cluster says about itself: MariaDB, and Percona XtraDB Cluster.
//!
//! One statement reads status and variables, from `information_schema` where that has them, otherwise from
//! `performance_schema`: a node that has lost its cluster refuses to read any other table.

use std::collections::BTreeSet;

use narrows_proxy::backend::Table;
use narrows_proxy::snapshot::AuroraRow;

use super::node_task::{NodeTask, Refused, Source, subjects};
use super::roster::{MOST_READ, Roster, read_address};
use super::views::View;
use super::{ClusterKind, Word};
use crate::monitor::check::{Check, LogCell};
use crate::monitor::plan::{Address, NodeOf};
use crate::monitor::settings::MonitorSettings;

/// Checks of Galera nodes.
pub static CHECK: Check = Check {
    name: "galera",
    table: "mysql_server_galera_log",
    values: &[
        LogCell::Text("NO"),
        LogCell::Text("YES"),
        LogCell::Integer(0),
        LogCell::Integer(0),
        LogCell::Text("NO"),
        LogCell::Text("NO"),
        LogCell::Text("NO"),
        LogCell::Text("NO"),
    ],
    has_error_first: false,
    counters: None,
    decides_without_pings: true,
    consequence: "unless that is because the server is down, its state in the cluster is unknown and failovers are not followed",
    subjects: |target| subjects(target, ClusterKind::Galera),
    begin: |subject| {
        let source = Galera { place: Place::InformationSchema, ..Galera::default() };
        Box::new(NodeTask::new(subject, source))
    },
};

/// The state of a node, as it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct NodeState {
    /// `wsrep_cluster_status` is `Primary`.
    is_primary: bool,
    /// `wsrep_local_state`; `None`: it has none, so it is no node of a cluster.
    local_state: Option<i64>,
    /// `wsrep_local_recv_queue`
    recv_queue: i64,
    /// `wsrep_desync`
    is_desynced: bool,
    /// `wsrep_reject_queries` is not `NONE`.
    rejects_queries: bool,
    /// `wsrep_sst_donor_rejects_queries`
    rejects_as_donor: bool,
    /// `read_only`
    is_read_only: bool,
    /// `pxc_maint_mode`, if it is not `DISABLED`.
    maintenance: Option<String>,
    /// `wsrep_cluster_conf_id` and `wsrep_cluster_size`, in the history `wsrep_cluster_state_uuid`.
    view: Option<View>,
}

/// The value of a variable in an answer to [`question`].
fn value_of<'a>(answer: &'a Table, wanted: &str) -> Option<&'a str> {
    let is_it = |row: &&Vec<Option<String>>| {
        row.first().and_then(Option::as_deref).is_some_and(|name| name.eq_ignore_ascii_case(wanted))
    };
    answer.rows.iter().find(is_it).and_then(|row| row.get(1)?.as_deref())
}

impl Named {
    /// The nodes. An arbitrator has no address; `refuse` gets what is no address.
    fn roster(&self, mut refuse: impl FnMut(&str)) -> Roster {
        let mut addresses = Vec::new();
        for text in self.addresses.split(',').map(str::trim).take(MOST_READ) {
            let address = read_address(text);
            if address.is_none() && !text.is_empty() {
                refuse(text);
            }
            addresses.push(address);
        }
        let own = self.own.and_then(|own| addresses.get(own).cloned().flatten());
        let members: BTreeSet<Address> = addresses.into_iter().flatten().collect();
        // A node that has lost its cluster names nobody.
        Roster { members: (!members.is_empty()).then_some(members), own, writer: None }
    }
}

impl NodeState {
    /// The state in an answer to [`question`].
    fn of(answer: &Table) -> NodeState {
        let value = |wanted: &str| value_of(answer, wanted);
        let is_on = |name: &str| value(name).is_some_and(|value| matches!(value, "ON" | "1"));
        let other_than =
            |name: &str, usual: &str| value(name).filter(|value| !value.eq_ignore_ascii_case(usual));
        NodeState {
            is_primary: value("wsrep_cluster_status").is_some_and(|it| it.eq_ignore_ascii_case("Primary")),
            local_state: value("wsrep_local_state").and_then(|state| state.parse().ok()),
            recv_queue: value("wsrep_local_recv_queue").and_then(|length| length.parse().ok()).unwrap_or(0),
            is_desynced: is_on("wsrep_desync"),
            rejects_queries: other_than("wsrep_reject_queries", "NONE").is_some(),
            rejects_as_donor: is_on("wsrep_sst_donor_rejects_queries"),
            // MySQL and MariaDB 12 also have other words than OFF for a server that is read-only.
            is_read_only: other_than("read_only", "OFF").is_some_and(|value| value != "0"),
            maintenance: other_than("pxc_maint_mode", "DISABLED").map(str::to_owned),
            view: view(value),
        }
    }

    /// What it means. `most_behind`: how long its queue may be; 0: any length.
    fn word(&self, most_behind: u32) -> Word {
        let Some(state) = self.local_state else {
            return Word::Out("it has no wsrep_local_state: it is no node of a Galera cluster".to_owned());
        };
        if !self.is_primary {
            return Word::Out("wsrep_cluster_status is not Primary: it has no majority".to_owned());
        }
        if let Some(mode) = &self.maintenance {
            return Word::Leaving(format!("pxc_maint_mode is {mode}"));
        }
        if self.rejects_queries {
            return Word::Leaving("wsrep_reject_queries is not NONE".to_owned());
        }
        let is_late = most_behind > 0 && self.recv_queue > most_behind.into();
        match state {
            DONOR if self.rejects_as_donor => {
                return Word::Leaving("it is a donor, and wsrep_sst_donor_rejects_queries is ON".to_owned());
            }
            DONOR | SYNCED => {}
            JOINED => return Word::Leaving("wsrep_local_state is 3 (Joined): it catches up".to_owned()),
            other => return Word::Out(format!("wsrep_local_state is {other}: it is not synced")),
        }
        if self.is_desynced {
            return Word::Leaving("wsrep_desync is ON".to_owned());
        }
        let late = "wsrep_local_recv_queue is above max_transactions_behind";
        match (self.is_read_only, is_late) {
            (true, true) => Word::Leaving(late.to_owned()),
            (true, false) => Word::Reads("read_only is ON".to_owned()),
            (false, true) => Word::Late(late.to_owned()),
            (false, false) if state == DONOR => Word::Reluctant(
                "wsrep_local_state is 2 (Donor/Desynced): writes may have to wait there".to_owned(),
            ),
            (false, false) => Word::Writes,
        }
    }

    /// The columns of `mysql_server_galera_log`.
    fn cells(&self) -> Vec<LogCell> {
        let yes = |yes: bool| LogCell::Text(if yes { "YES" } else { "NO" });
        vec![
            yes(self.is_primary),
            yes(self.is_read_only),
            LogCell::Integer(self.recv_queue),
            LogCell::Integer(self.local_state.unwrap_or(0)),
            yes(self.is_desynced),
            yes(self.rejects_queries),
            yes(self.rejects_as_donor),
            yes(self.maintenance.is_some()),
        ]
    }
}

/// A node of MariaDB or Percona XtraDB Cluster.
#[derive(Default)]
struct Galera {
    place: Place,
    state: NodeState,
    named: Named,
    refused: Refused,
    /// `gmcast.segment`, and with which view it was asked for last: a node that starts again changes the view.
    segment: Option<String>,
    segment_asked: Option<View>,
}

/// The nodes that a node names, as it says: `wsrep_incoming_addresses`, and its place among them, `wsrep_local_index`.
#[derive(Debug, Default)]
struct Named {
    addresses: String,
    own: Option<usize>,
}

/// Where a server has its status and its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// MariaDB.
    #[default]
    InformationSchema,
    /// MySQL.
    PerformanceSchema,
}

impl Source for Galera {
    fn question(&self, settings: &MonitorSettings) -> String {
        question(self.place, settings.galera_autodiscovery)
    }

    fn asks_differently(&mut self, code: u16) -> bool {
        let is_elsewhere = ELSEWHERE.contains(&code);
        if is_elsewhere {
            self.place = self.place.other();
        }
        is_elsewhere
    }

    fn take(&mut self, answer: &Table, _: Option<&AuroraRow>) -> Vec<LogCell> {
        self.state = NodeState::of(answer);
        let value = |name| value_of(answer, name);
        self.named = Named {
            addresses: value("wsrep_incoming_addresses").unwrap_or_default().to_owned(),
            own: value("wsrep_local_index").and_then(|index| index.parse().ok()),
        };
        self.state.cells()
    }

    fn more_questions(&mut self, _: &MonitorSettings) -> Vec<&'static str> {
        let is_new = self.state.view.is_some() && self.state.view != self.segment_asked;
        if is_new { vec![PROVIDER_OPTIONS] } else { Vec::new() }
    }

    fn take_more(&mut self, _: &'static str, answer: Option<&Table>) {
        self.segment_asked.clone_from(&self.state.view);
        let options = answer.and_then(|answer| answer.rows.first()?.first()?.as_deref());
        self.segment = options.and_then(segment).or_else(|| self.segment.take());
    }

    fn zone(&self) -> Option<String> {
        self.segment.clone()
    }

    fn word(&mut self, node: &NodeOf, _: &Address, _: &MonitorSettings) -> Word {
        self.state.word(node.most_behind)
    }

    fn roster(&mut self, _: &NodeOf, address: &Address, settings: &MonitorSettings) -> Roster {
        if !settings.galera_autodiscovery {
            return Roster { members: Some(BTreeSet::new()), ..Roster::default() };
        }
        self.named.roster(|text| self.refused.tell(address, text))
    }

    fn view(&self) -> Option<View> {
        self.state.view.clone().filter(|_| self.state.is_primary)
    }

    fn most_timeouts(&self, settings: &MonitorSettings) -> u32 {
        settings.galera_max_timeout_count
    }
}

impl Place {
    fn other(self) -> Place {
        match self {
            Place::InformationSchema => Place::PerformanceSchema,
            Place::PerformanceSchema => Place::InformationSchema,
        }
    }
}

/// The view that a node has, by the values in its answer.
fn view<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<View> {
    let number = |name: &str| value(name)?.parse().ok();
    Some(View {
        history: value("wsrep_cluster_state_uuid")?.to_owned(),
        number: number("wsrep_cluster_conf_id")?,
        size: number("wsrep_cluster_size")?,
    })
}

/// `gmcast.segment` in `wsrep_provider_options`: a number, as text.
fn segment(options: &str) -> Option<String> {
    let mut pairs = options.split(';').filter_map(|option| option.split_once('='));
    let (_, segment) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("gmcast.segment"))?;
    Some(segment.trim().parse::<u8>().ok()?.to_string())
}

/// The statement that asks for the options of the provider. The tables cut them off before the segment.
const PROVIDER_OPTIONS: &str = "SELECT @@global.wsrep_provider_options";

/// The statement of a check.
fn question(place: Place, also_names: bool) -> String {
    let schema = match place {
        Place::InformationSchema => "information_schema",
        Place::PerformanceSchema => "performance_schema",
    };
    let mut status = vec![
        "wsrep_local_state",
        "wsrep_cluster_status",
        "wsrep_local_recv_queue",
        "wsrep_cluster_conf_id",
        "wsrep_cluster_size",
        "wsrep_cluster_state_uuid",
    ];
    if also_names {
        status.extend(["wsrep_incoming_addresses", "wsrep_local_index"]);
    }
    let quoted = |names: &[&str]| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    format!(
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM {schema}.global_status WHERE VARIABLE_NAME IN ({}) UNION ALL \
         SELECT VARIABLE_NAME, VARIABLE_VALUE FROM {schema}.global_variables WHERE VARIABLE_NAME IN ({})",
        quoted(&status),
        quoted(&[
            "wsrep_desync",
            "wsrep_reject_queries",
            "wsrep_sst_donor_rejects_queries",
            "read_only",
            "pxc_maint_mode",
        ]),
    )
}

/// `ER_UNKNOWN_TABLE`, `ER_NO_SUCH_TABLE`, `ER_FEATURE_DISABLED_SEE_DOC`: the server has its variables elsewhere.
const ELSEWHERE: [u16; 3] = [1109, 1146, 3167];

/// `wsrep_local_state`: the node copies its data to another one, or is taken out of flow control.
const DONOR: i64 = 2;

/// `wsrep_local_state`: the node has its data, and applies what it missed.
const JOINED: i64 = 3;

/// `wsrep_local_state`: the node is up to date.
const SYNCED: i64 = 4;

#[cfg(test)]
mod tests;
