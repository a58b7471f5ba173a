//! Imports the database of ProxySQL, of any release since 1.4.
//!
//! Columns are matched by name: those that an older release did not have get their defaults. The database is opened
//! read-only and is not changed.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::answer::reason;
use crate::schema;
use crate::schema::{MODULES, Module};
use crate::variables::{Kind, Variable};

/// The file name of the database in ProxySQL's data folder.
pub const PROXYSQL: &str = "proxysql.db";

/// Renamed columns: the table, the old name, the current name.
const RENAMED: &[(&str, &str, &str)] = &[("restapi_routes", "interval_ms", "timeout_ms")];

/// What was imported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Tables with rows, and how many rows were imported.
    pub rows: Vec<(&'static str, u64)>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Makes the tables of `path` readable as database `former`; must not be called within a transaction.
pub(super) fn attach(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let mut name = String::from("file:");
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => name.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name.push_str("?mode=ro");
    connection.execute("ATTACH DATABASE ?1 AS former", [name])?;
    // Attaching a file does not read it yet.
    connection.query_row("SELECT COUNT(*) FROM former.sqlite_master", [], |_| Ok(()))
}

/// Detaches the database.
pub(super) fn detach(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DETACH DATABASE former", []).map(drop)
}

/// Copies the rows of `former` into memory.
pub(super) fn take_over(connection: &Connection) -> rusqlite::Result<TakenOver> {
    let mut taken = TakenOver::default();
    for table in MODULES.into_iter().filter(|module| module.prefix().is_none()).flat_map(Module::tables) {
        taken.table(connection, table)?;
    }
    taken.variables(connection)?;
    let uuid = "INSERT OR REPLACE INTO disk.global_settings (variable_name, variable_value)
                SELECT variable_name, variable_value
                FROM former.global_settings WHERE variable_name = 'uuid'";
    if has_table(connection, "global_settings")? {
        connection.execute(uuid, [])?;
    }
    Ok(taken)
}

impl TakenOver {
    fn table(&mut self, connection: &Connection, table: &'static str) -> rusqlite::Result<()> {
        let pairs = common_columns(connection, table)?;
        if pairs.is_empty() {
            return Ok(());
        }
        let list =
            |names: Vec<&str>| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let then = list(pairs.iter().map(|(then, _)| then.as_str()).collect());
        let now = list(pairs.iter().map(|(_, now)| *now).collect());
        let places = vec!["?"; pairs.len()].join(", ");
        let mut insert =
            connection.prepare(&format!("INSERT OR REPLACE INTO main.{table} ({now}) VALUES ({places})"))?;
        let mut select = connection.prepare(&format!("SELECT {then} FROM former.{table} ORDER BY rowid"))?;
        let mut rows = select.query([])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let cells = (0..pairs.len()).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>()?;
            match insert.execute(params_from_iter(&cells)) {
                Ok(_) => count += 1,
                Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                    self.left_out.push(format!("{table}: a row was left out: {}", reason(&error)));
                }
                Err(error) => return Err(error),
            }
        }
        if count > 0 {
            self.rows.push((table, count));
        }
        Ok(())
    }

    fn variables(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if !has_table(connection, "global_variables")? {
            return Ok(());
        }
        let mut select =
            connection.prepare("SELECT variable_name, variable_value FROM former.global_variables")?;
        let mut put = connection.prepare("INSERT OR REPLACE INTO main.global_variables VALUES (?1, ?2)")?;
        let rows = select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Value>(1)?)))?;
        let (mut count, mut unknown) = (0, Vec::new());
        for row in rows {
            let (name, value) = row?;
            match Variable::named(&name) {
                Some(variable) if matches!(variable.kind, Kind::Fixed { .. }) => {}
                // ProxySQL's value for a text that was never set.
                Some(_) if value == Value::Text("(null)".to_owned()) => {}
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
        if !unknown.is_empty() {
            self.left_out.push(format!("global_variables: there is no {}", unknown.join(", ")));
        }
        Ok(())
    }
}

/// Columns of a table in `former`, and their current names.
fn common_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, &'static str)>> {
    let columns = schema::columns(table);
    let renamed = |then: &str| {
        let row = RENAMED.iter().find(|(of, name, _)| *of == table && *name == then);
        row.map_or(then.to_owned(), |(.., now)| (*now).to_owned())
    };
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1, 'former')")?;
    let names = statement.query_map([table], |row| row.get::<_, String>(0))?;
    let mut pairs: Vec<(String, &'static str)> = Vec::new();
    for then in names {
        let then = then?;
        let now = renamed(&then);
        if let Some(column) = columns.iter().find(|column| column.eq_ignore_ascii_case(&now))
            && !pairs.iter().any(|(_, taken)| taken == column)
        {
            pairs.push((then, column));
        }
    }
    Ok(pairs)
}

fn has_table(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection
        .prepare("SELECT 1 FROM former.sqlite_master WHERE type = 'table' AND name = ?1")?
        .exists([table])
}
