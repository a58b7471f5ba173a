//! Imports the tables of ProxySQL, of any release since 1.4.
//!
//! Columns are matched by name: those that an older release did not have get their defaults.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::answer::reason;
use super::source::{SourceTable, SourceTables, imported_tables};
use crate::schema;
use crate::variables::{Kind, Variable};
use crate::versions::key_of;

/// The file name of the database in ProxySQL's data folder.
pub const PROXYSQL: &str = "proxysql.db";

/// Renamed columns: the table, the old name, the current name.
const RENAMED: &[(&str, &str, &str)] = &[("restapi_routes", "interval_ms", "timeout_ms")];

/// Why a text is left out: in UTF-8 it would be another one, and a password a wrong one.
const NOT_UTF8: &str = "is not UTF-8: write it as UTF-8 in ProxySQL, and import again";

/// How many rows of a table, or names, are mentioned; the others are only counted.
const MOST_NAMED: usize = 20;

/// What was imported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Tables with rows, and how many rows were imported.
    pub rows: Vec<(&'static str, u64)>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Copies the rows of `former` into memory.
pub(super) fn take_over(connection: &Connection, former: &SourceTables) -> rusqlite::Result<TakenOver> {
    let mut taken = TakenOver::default();
    for name in imported_tables() {
        match (name, former.table(name)) {
            (_, None) => {}
            ("global_variables", Some(table)) => taken.variables(connection, table)?,
            ("global_settings", Some(table)) => uuid(connection, table)?,
            (_, Some(table)) => taken.table(connection, table)?,
        }
    }
    for (name, rows) in &former.others {
        taken.left_out.push(format!("{name}: {} left out: Narrows has no such table", counted(*rows)));
    }
    Ok(taken)
}

/// The identity of the node stays.
fn uuid(connection: &Connection, table: &SourceTable) -> rusqlite::Result<()> {
    let insert =
        "INSERT OR REPLACE INTO disk.global_settings (variable_name, variable_value) VALUES ('uuid', ?1)";
    let uuid = pairs(table).find(|(name, _)| name == "uuid");
    if let Some((_, Value::Text(uuid))) = uuid {
        connection.execute(insert, [uuid])?;
    }
    Ok(())
}

impl TakenOver {
    fn table(&mut self, connection: &Connection, table: &SourceTable) -> rusqlite::Result<()> {
        let name = table.name;
        let common = common_columns(table);
        self.unknown_columns(table, &common);
        if common.is_empty() {
            return Ok(());
        }
        let now: Vec<&str> = common.iter().map(|(_, column)| *column).collect();
        let places = vec!["?"; now.len()].join(", ");
        let mut insert = connection.prepare(&format!(
            "INSERT OR REPLACE INTO main.{name} ({}) VALUES ({places})",
            schema::listed(&now)
        ))?;
        let (mut count, mut misfits) = (0, 0);
        for row in &table.rows {
            let cells = || common.iter().map(|(at, _)| row.get(*at).unwrap_or(&Value::Null));
            let not_text = now.iter().zip(cells()).find(|(_, cell)| matches!(cell, Value::Blob(_)));
            let misfit = match not_text {
                Some((column, _)) => format!("{column} {NOT_UTF8}"),
                None => match insert.execute(params_from_iter(cells())) {
                    Ok(_) => {
                        count += 1;
                        continue;
                    }
                    Err(error) if is_of_row(&error) => reason(&error).to_string(),
                    Err(error) => return Err(error),
                },
            };
            misfits += 1;
            if misfits <= MOST_NAMED {
                let key = key_of(name, now.iter().copied().zip(cells()));
                self.left_out.push(format!("{name}: a row was left out ({key}): {misfit}"));
            }
        }
        if misfits > MOST_NAMED {
            self.left_out.push(format!("{name}: {} more rows were left out", misfits - MOST_NAMED));
        }
        if count > 0 {
            self.rows.push((name, count));
        }
        Ok(())
    }

    /// Columns that Narrows does not have, if they are set.
    fn unknown_columns(&mut self, table: &SourceTable, common: &[(usize, &str)]) {
        let is_nothing = |cell: Option<&Value>| match cell {
            None | Some(Value::Null | Value::Integer(0)) => true,
            Some(Value::Text(text)) => text.is_empty() || text == "0",
            Some(_) => false,
        };
        let unknown = (0..table.columns.len()).filter(|at| !common.iter().any(|(known, _)| known == at));
        for at in unknown.take(MOST_NAMED) {
            let rows = table.rows.iter().filter(|row| !is_nothing(row.get(at))).count() as u64;
            if rows > 0 {
                let (name, column) = (table.name, &table.columns[at]);
                self.left_out.push(format!(
                    "{name}.{column}, set in {}: there is no such column in Narrows",
                    counted(rows)
                ));
            }
        }
    }

    fn variables(&mut self, connection: &Connection, table: &SourceTable) -> rusqlite::Result<()> {
        let mut put = connection.prepare("INSERT OR REPLACE INTO main.global_variables VALUES (?1, ?2)")?;
        let (mut count, mut unknown) = (0, Vec::new());
        for (name, value) in pairs(table) {
            match Variable::named(&name) {
                Some(variable) if matches!(variable.kind, Kind::Fixed { .. }) => {}
                // ProxySQL's value for a text that was never set.
                Some(_) if matches!(value, Value::Null) || *value == Value::Text("(null)".to_owned()) => {}
                Some(variable) if matches!(value, Value::Blob(_)) => {
                    self.left_out.push(format!("{}: its value {NOT_UTF8}", variable.name));
                }
                Some(variable) => {
                    put.execute(rusqlite::params![variable.name, value])?;
                    count += 1;
                }
                None => unknown.push(name),
            }
        }
        if count > 0 {
            self.rows.push(("global_variables", count));
        }
        for (prefix, what) in OTHER_MODULES {
            let before = unknown.len();
            unknown.retain(|name| !name.starts_with(prefix));
            if unknown.len() < before {
                let variables = before - unknown.len();
                self.left_out.push(format!("global_variables: {variables} variables {prefix}*: {what}"));
            }
        }
        if !unknown.is_empty() {
            let more = unknown.len().saturating_sub(MOST_NAMED);
            unknown.truncate(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.left_out.push(format!("global_variables: there is no {}{more}", unknown.join(", ")));
        }
        Ok(())
    }
}

/// Variables of parts of ProxySQL that Narrows does not have.
const OTHER_MODULES: &[(&str, &str)] = &[
    ("pgsql-", "Narrows is not for PostgreSQL"),
    ("clickhouse-", "Narrows does not speak to ClickHouse"),
    ("sqliteserver-", "Narrows has no SQLite server"),
    ("ldap-", "Narrows has no logins by LDAP"),
];

/// Whether only this row does not fit.
fn is_of_row(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{ConstraintViolation, TypeMismatch};
    matches!(error.sqlite_error_code(), Some(ConstraintViolation | TypeMismatch))
}

fn counted(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

/// Names and values of a table of variables.
fn pairs(table: &SourceTable) -> impl Iterator<Item = (String, &Value)> {
    let at = |name: &str| table.columns.iter().position(|column| column.eq_ignore_ascii_case(name));
    let places = at("variable_name").zip(at("variable_value"));
    table.rows.iter().filter_map(move |row| {
        let (name, value) = places?;
        match (row.get(name)?, row.get(value)?) {
            (Value::Text(name), value) => Some((name.clone(), value)),
            _ => None,
        }
    })
}

/// The columns of a table that Narrows has too: where they are in a row, and their current names.
fn common_columns(table: &SourceTable) -> Vec<(usize, &'static str)> {
    let columns = schema::columns(table.name);
    let mut common: Vec<(usize, &'static str)> = Vec::new();
    for (at, then) in table.columns.iter().enumerate() {
        let row = RENAMED.iter().find(|(of, name, _)| *of == table.name && name.eq_ignore_ascii_case(then));
        let now = row.map_or(then.as_str(), |(.., now)| now);
        let column = columns.iter().find(|column| column.eq_ignore_ascii_case(now));
        if let Some(column) = column.filter(|column| !common.iter().any(|(_, taken)| taken == *column)) {
            common.push((at, column));
        }
    }
    common
}
