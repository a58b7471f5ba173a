//! The tables of the admin interface, as data: one row per table, with twins of the same definition.
//!
//! Names, columns, defaults and checks are those of ProxySQL 2.7; `tests/tables.rs` compares them with what it shows.

pub mod cells;
mod configuration;
pub mod filled;
mod layout;
mod modules;
pub mod of_fleet;
mod records;
mod statistics;
mod table;
pub mod traffic;

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::effect::{Effect, FLEET_INSTEAD};
pub use layout::{copy_rows, exists, listed};
pub use modules::{Layer, MODULES, Module};
pub use table::{Database, Table};

/// Tables whose rows have no effect.
pub const WITHOUT_EFFECT: &[(&str, Effect)] = &[
    ("mysql_firewall_whitelist_sqli_fingerprints", Effect::NotYet),
    ("restapi_routes", Effect::NotYet),
    ("proxysql_servers", Effect::Needless(FLEET_INSTEAD)),
    (
        "coredump_filters",
        Effect::Needless("no core files are written, as passwords and keys would be in them"),
    ),
];

/// Tables that are always empty.
pub const ALWAYS_EMPTY: &[&str] = &[
    "stats_proxysql_message_metrics",
    "stats_proxysql_servers_status",
    "history_mysql_status_variables",
    "history_mysql_status_variables_lookup",
];

/// Tables of what one Narrows knows of others.
const OF_NODES: &[&str] = &[
    "stats_proxysql_servers_checksums",
    "stats_proxysql_servers_clients_status",
    "stats_proxysql_servers_metrics",
    "stats_proxysql_servers_status",
];

/// The effect of the rows of a configuration table.
pub fn effect(name: &str) -> Effect {
    WITHOUT_EFFECT.iter().find(|(table, _)| *table == name).map_or(Effect::Acts, |(_, effect)| *effect)
}

/// Every table.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    [configuration::TABLES, statistics::TABLES, records::TABLES].into_iter().flatten()
}

/// The table that has that name in that database, as itself or as a twin.
pub fn find(database: Database, name: &str) -> Option<&'static Table> {
    let is_called = |table: &Table| table.names_in(database).any(|twin| twin.eq_ignore_ascii_case(name));
    tables().find(|table| is_called(table))
}

/// The columns of a configuration table; none if there is no such table.
pub fn columns(name: &str) -> Vec<&'static str> {
    configuration_table(name).map(|table| table.columns().collect()).unwrap_or_default()
}

/// The configuration table of that name.
pub fn configuration_table(name: &str) -> Option<&'static Table> {
    configuration::TABLES.iter().find(|table| table.name == name)
}

/// The columns of its primary key.
pub fn key(name: &str) -> Vec<&'static str> {
    let definition = configuration_table(name).map(|table| table.definition).unwrap_or_default();
    let of_table = definition.iter().find_map(|line| line.strip_prefix("PRIMARY KEY (")?.strip_suffix(')'));
    let of_column = definition.iter().filter(|line| line.contains(" PRIMARY KEY"));
    match of_table {
        Some(names) => names.split(", ").collect(),
        None => of_column.filter_map(|line| line.split(' ').next()).collect(),
    }
}

/// The defaults of the columns of a configuration table, in order; NULL for a column without one.
pub fn defaults(name: &str) -> Vec<Value> {
    let default = |line: &str| -> Option<Value> {
        let (_, written) = line.split_once(" DEFAULT ")?;
        Some(match written.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            Some(text) => Value::Text(text.to_owned()),
            None => Value::Integer(written.parse().ok()?),
        })
    };
    let table = configuration_table(name);
    let lines = table.into_iter().flat_map(Table::column_lines);
    lines.map(|(_, line)| default(line).unwrap_or(Value::Null)).collect()
}

/// Creates every table that `database` lacks, and adds columns that its tables lack. Returns what was done to tables that
/// another version has written, one sentence each.
pub fn bring_up_to_date(connection: &Connection, database: Database) -> rusqlite::Result<Vec<String>> {
    let mut said = Vec::new();
    for table in tables() {
        for name in table.names_in(database) {
            said.extend(layout::create_or_adapt(connection, table, database, &name)?);
        }
    }
    Ok(said)
}
