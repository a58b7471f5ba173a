//! The statistics of all members of a fleet: `fleet_stats_...`, and the tables in which ProxySQL shows the nodes of a cluster.
//!
//! Members are asked when a statement names such a table, and never otherwise.

use std::time::Instant;

use rusqlite::types::Value;

use super::nodes::Nodes;
use super::sources::Sources;
use crate::admin::statement::names;
use crate::config::form::host_and_port;
use crate::fleet::{FleetFigures, MemberFigures, ModuleReport, NodeReport};
use crate::runtime::Runtime;
use crate::schema::cells::{Row, number, text};
use crate::schema::{Table, of_fleet};
use crate::store::{Refusal, Store, Warning};

/// What of the fleet a statement names.
#[derive(Default)]
struct Named {
    /// The tables of which it wants the rows of all members.
    tables: Vec<&'static Table>,
    /// The tables of the nodes of a cluster.
    of_nodes: Vec<&'static str>,
}

/// What the members have said for one statement; nothing, if it names no table of a fleet.
#[derive(Default)]
pub struct FleetRows {
    named: Named,
    /// The name of this member.
    node: String,
    figures: FleetFigures,
}

/// Asks the members for what a statement names that arrived at `since`; `None`: they have not answered yet.
///
/// # Errors
/// This Narrows belongs to no fleet.
pub fn ask(
    store: &Store,
    runtime: &mut Runtime,
    (sql, since): (&str, Instant),
) -> Result<Option<FleetRows>, Refusal> {
    let mut rows = FleetRows { named: Named::by(sql), ..FleetRows::default() };
    if rows.named.is_empty() {
        return Ok(Some(rows));
    }
    let access = runtime.access_to_members(store);
    let Some(fleet) = runtime.fleet_mut() else {
        if rows.named.tables.is_empty() {
            return Ok(Some(FleetRows::default()));
        }
        return Err(Refusal::admin(
            "this Narrows belongs to no fleet: [fleet] in the configuration file names one",
        ));
    };
    fleet.node().clone_into(&mut rows.node);
    let Some(figures) = fleet.figures(since, &rows.named.asked(), || access) else { return Ok(None) };
    Ok(Some(FleetRows { figures, ..rows }))
}

impl FleetRows {
    /// Fills the tables that the statement names, with the rows of this member and those of the others.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn fill(&self, store: &mut Store, runtime: &Runtime, nodes: &Nodes) -> Result<(), Refusal> {
        let FleetRows { named, node, figures } = self;
        if !named.tables.is_empty() {
            let own: Vec<&str> = named.tables.iter().map(|table| table.name).collect();
            super::fill(store, runtime, nodes, &format!("SELECT {}", own.join(" ")))?.told();
        }
        for table in &named.tables {
            let of_table = |answer: &&MemberFigures| answer.table == table.name;
            let rows =
                figures.answers.iter().filter(of_table).flat_map(|answer| {
                    answer.rows.iter().map(move |row| (answer.node.as_str(), row.as_slice()))
                });
            store.fill_fleet_table(table, node, rows)?;
        }
        for table in &named.of_nodes {
            let sources = Sources { store, runtime, nodes };
            let rows = self.rows_of_nodes(table, &sources);
            let database = if table.starts_with("stats_") { "stats" } else { "main" };
            store.refill(&format!("{database}.{table}"), rows)?;
        }
        Ok(())
    }

    /// What is missing.
    pub fn warnings(&self) -> Vec<Warning> {
        let warning = |message: &String| Warning { code: INCOMPLETE, message: message.clone() };
        self.figures.warnings.iter().map(warning).collect()
    }

    /// The rows of a table in which ProxySQL shows the nodes of a cluster.
    fn rows_of_nodes(&self, table: &str, sources: &Sources<'_>) -> Vec<Row> {
        let members = self.figures.members.iter();
        match table {
            RUNTIME => members.map(member).collect(),
            METRICS => {
                let observer = sources.runtime.observer();
                let own = observer.map(|observer| super::global::rows(sources, &observer));
                let own = own.unwrap_or_default();
                members.map(|report| self.metrics(report, &own)).collect()
            }
            _ => {
                let here = sources.store.modules_in_force();
                members.flat_map(|report| checksums(report, &here)).collect()
            }
        }
    }

    /// A row of `stats_proxysql_servers_metrics`: figures of a member that has not answered are 0.
    fn metrics(&self, report: &NodeReport, own: &[Row]) -> Row {
        let (host, port) = place(report);
        let is_theirs = |it: &&MemberFigures| it.node == report.node && it.table == GLOBAL;
        let answer = self.figures.answers.iter().find(is_theirs);
        let of_others = |name: &str| {
            let rows = answer.map(|answer| answer.rows.as_slice()).unwrap_or_default();
            let row = rows.iter().find(|row| row.first().is_some_and(|it| it.as_deref() == Some(name)))?;
            row.get(1)?.clone()
        };
        let of_own = |name: &str| {
            let row = own.iter().find(|row| row.first() == Some(&text(name)))?;
            match row.get(1)? {
                Value::Text(figure) => Some(figure.clone()),
                Value::Integer(figure) => Some(figure.to_string()),
                _ => None,
            }
        };
        let figure = |name: &str| {
            let found = if report.node == self.node { of_own(name) } else { of_others(name) };
            Value::Integer(found.and_then(|figure| figure.parse().ok()).unwrap_or_default())
        };
        let took = answer.map_or(0, |answer| u64::try_from(answer.took.as_millis()).unwrap_or(u64::MAX));
        vec![
            text(host),
            number(port.into()),
            number(0),
            text(&report.node),
            number(took),
            figure("ProxySQL_Uptime"),
            number(0),
            figure("Questions"),
            figure("Client_Connections_connected"),
            figure("Client_Connections_created"),
        ]
    }
}

/// Empties the tables of all members that a statement has named: they are copies, and may be large.
pub fn empty(store: &mut Store, runtime: &Runtime, sql: &str) {
    if runtime.fleet().is_some() {
        for table in Named::by(sql).tables {
            // What cannot be emptied is filled again the next time.
            let _ = store.empty_fleet_table(table);
            if super::LARGE.contains(&table.name) {
                let _ = store.refill(&format!("stats.{}", table.name), Vec::new());
            }
        }
    }
}

impl Named {
    fn by(sql: &str) -> Named {
        let lower = sql.to_ascii_lowercase();
        if ![of_fleet::PREFIX, "proxysql_servers"].iter().any(|part| lower.contains(part)) {
            return Named::default();
        }
        let names = names(sql);
        let of_fleet =
            |table: &&Table| names.iter().any(|name| name.strip_prefix(of_fleet::PREFIX) == Some(table.name));
        let is_named = |table: &&&str| names.iter().any(|name| name == **table);
        Named {
            tables: of_fleet::tables().filter(of_fleet).collect(),
            of_nodes: OF_NODES.iter().filter(is_named).copied().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.of_nodes.is_empty()
    }

    /// The tables that members are asked for, with their columns.
    fn asked(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let asks_global = self.of_nodes.contains(&METRICS);
        let is_asked = |table: &&Table| {
            self.tables.iter().any(|it| it.name == table.name) || (asks_global && table.name == GLOBAL)
        };
        of_fleet::tables().filter(is_asked).map(|table| (table.name, table.columns().collect())).collect()
    }
}

/// The rows of a member in `stats_proxysql_servers_checksums`; `here` is what runs on this one.
fn checksums(report: &NodeReport, here: &[ModuleReport]) -> Vec<Row> {
    let (host, port) = place(report);
    let differs = |module: &ModuleReport| {
        let own = here.iter().find(|it| it.name == module.name);
        own.is_some_and(|own| own.checksum != module.checksum)
    };
    let row = |module: &ModuleReport| {
        vec![
            text(host),
            number(port.into()),
            text(&module.name),
            Value::Integer(module.version),
            Value::Integer(module.epoch),
            text(&module.checksum),
            Value::Integer(module.epoch),
            Value::Integer(report.reported),
            Value::Integer(differs(module).into()),
        ]
    };
    report.modules.iter().map(row).collect()
}

/// A row of `runtime_proxysql_servers`.
fn member(report: &NodeReport) -> Row {
    let (host, port) = place(report);
    vec![text(host), number(port.into()), number(0), text(&report.node)]
}

/// Where a member is, as ProxySQL names its nodes; one that does not say so has its name, and port 0.
fn place(report: &NodeReport) -> (&str, u16) {
    host_and_port(&report.address).unwrap_or((&report.node, 0))
}

const RUNTIME: &str = "runtime_proxysql_servers";
const METRICS: &str = "stats_proxysql_servers_metrics";
const GLOBAL: &str = "stats_mysql_global";

/// The tables in which ProxySQL shows the nodes of a cluster.
const OF_NODES: [&str; 3] = [RUNTIME, METRICS, "stats_proxysql_servers_checksums"];

/// `ER_UNKNOWN_ERROR`: MySQL has no error number for rows that are missing.
const INCOMPLETE: u16 = 1105;
