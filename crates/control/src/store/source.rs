//! The tables of another program's configuration, as they were found: in ProxySQL's database, or on its admin port.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags};

use crate::schema::{MODULES, Module};

/// The tables of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceTables {
    /// Those that Narrows has too.
    pub tables: Vec<SourceTable>,
    /// Other tables with rows, and how many rows.
    pub others: Vec<(String, u64)>,
}

/// One table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceTable {
    /// Its name.
    pub name: &'static str,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its rows, in the order of their insertion. Bytes that are not UTF-8 are a blob, and nothing else is one.
    pub rows: Vec<Vec<Value>>,
}

/// Why the tables cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// SQLite's reason.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// It is something else than a configuration.
    #[error("its tables have more than 256 MiB, and a configuration is shorter")]
    TooLarge,
    /// The file is a device, a pipe or a folder.
    #[error("it is not a regular file")]
    NotAFile,
}

/// The most bytes that are read: as much as administrators can store in Narrows.
pub const MOST_BYTES: usize = 256 << 20;

/// How long a file may take to be read.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The tables that are imported, in the order of modules; variables come last.
pub fn imported_tables() -> Vec<&'static str> {
    let modules = MODULES.into_iter().filter(|module| module.prefix().is_none());
    let tables = modules.flat_map(Module::tables).copied();
    tables.chain(["global_variables", "global_settings"]).collect()
}

/// Whether a table that Narrows does not import holds settings of an administrator, rather than figures or copies.
pub fn holds_settings(name: &str) -> bool {
    let is_of_proxysql = ["runtime_", "stats_", "sqlite_"].iter().any(|prefix| name.starts_with(prefix));
    // ProxySQL keeps a copy of each table that an upgrade has changed: mysql_servers_v1_1_0.
    let is_copy =
        name.rsplit_once("_v").is_some_and(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
    let has_no_settings =
        ["mysql_collations", "coredump_filters", "debug_levels", "debug_filters", "runtime_checksums_values"];
    !is_of_proxysql && !is_copy && !has_no_settings.contains(&name) && !imported_tables().contains(&name)
}

impl SourceTable {
    /// A table whose cells are texts; `None` is NULL. What was not UTF-8 has U+FFFD in its place.
    pub fn of_texts(name: &'static str, columns: Vec<String>, rows: Vec<Vec<Option<String>>>) -> SourceTable {
        let cell = |cell: Option<String>| cell.map_or(Value::Null, |text| of_bytes(text.into_bytes()));
        let rows = rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect();
        SourceTable { name, columns, rows }
    }
}

impl SourceTables {
    /// Reads a database of ProxySQL, which is not changed.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub fn of_database(path: &Path) -> Result<SourceTables, SourceError> {
        // Opening a pipe would wait for a writer.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(SourceError::NotAFile);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        let deadline = Instant::now() + TIME_LIMIT;
        connection.progress_handler(10_000, Some(move || Instant::now() > deadline))?;
        let mut found = SourceTables::default();
        let mut bytes = 0;
        // Views are not read: they can be endless.
        let mut names =
            connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")?;
        let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for name in imported_tables() {
            if names.iter().any(|other| other == name) {
                found.tables.push(read(&connection, name, &mut bytes)?);
            }
        }
        for name in names.into_iter().filter(|name| holds_settings(name)) {
            let sql = format!("SELECT COUNT(*) FROM \"{}\"", name.replace('"', "\"\""));
            let rows: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
            if rows > 0 {
                found.others.push((name, rows.unsigned_abs()));
            }
        }
        Ok(found)
    }

    /// The table of that name.
    pub(super) fn table(&self, name: &str) -> Option<&SourceTable> {
        self.tables.iter().find(|table| table.name == name)
    }
}

fn read(connection: &Connection, name: &'static str, bytes: &mut usize) -> Result<SourceTable, SourceError> {
    let mut select = connection.prepare(&format!("SELECT * FROM {name} ORDER BY rowid"))?;
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let mut table = SourceTable { name, columns, rows: Vec::new() };
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let cell = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => of_bytes(bytes.to_vec()),
                other => other.try_into()?,
            })
        };
        let cells = (0..table.columns.len()).map(cell).collect::<Result<Vec<Value>, rusqlite::Error>>()?;
        *bytes += cells.iter().map(length).sum::<usize>();
        if *bytes > MOST_BYTES {
            return Err(SourceError::TooLarge);
        }
        table.rows.push(cells);
    }
    Ok(table)
}

/// A text, or a blob if it is none.
fn of_bytes(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains(char::REPLACEMENT_CHARACTER) => Value::Text(text),
        Ok(text) => Value::Blob(text.into_bytes()),
        Err(error) => Value::Blob(error.into_bytes()),
    }
}

/// What a cell takes in memory, roughly.
fn length(cell: &Value) -> usize {
    let own = size_of::<Value>();
    match cell {
        Value::Text(text) => own + text.len(),
        Value::Blob(bytes) => own + bytes.len(),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_views_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxysql.db");
        let sql = "CREATE VIEW mysql_servers AS WITH RECURSIVE c(hostname) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT * FROM c;
                   CREATE TABLE mysql_users (username, password);
                   INSERT INTO mysql_users VALUES ('b', 1), ('a', NULL);
                   CREATE TABLE pgsql_users (username); INSERT INTO pgsql_users VALUES ('x');
                   CREATE TABLE mysql_users_v1_3_0 (username); INSERT INTO mysql_users_v1_3_0 VALUES ('x');
                   CREATE TABLE runtime_pgsql_users (username); INSERT INTO runtime_pgsql_users VALUES ('x');
                   CREATE TABLE empty_one (x);";
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let found = SourceTables::of_database(&path).unwrap();
        assert_eq!(found.others, [("pgsql_users".to_owned(), 1)]);
        assert_eq!(found.tables.len(), 1);
        let users = found.table("mysql_users").unwrap();
        assert_eq!(users.columns, ["username", "password"]);
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(users.rows, [[text("b"), Value::Integer(1)], [text("a"), Value::Null]]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxysql.db");
        let sql = "CREATE TABLE mysql_users (username, password);
                   INSERT INTO mysql_users VALUES ('latin1', CAST(x'70e4' AS TEXT)), ('blob', x'70c3a4');";
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let found = SourceTables::of_database(&path).unwrap();
        let users = &found.table("mysql_users").unwrap().rows;
        assert_eq!(users[0][1], Value::Blob(vec![0x70, 0xe4]));
        assert_eq!(users[1][1], Value::Text("p\u{e4}".to_owned()));
        let row = vec![Some("p\u{fffd}".to_owned()), None];
        let table = SourceTable::of_texts("mysql_users", Vec::new(), vec![row]);
        assert_eq!(table.rows, [[Value::Blob("p\u{fffd}".into()), Value::Null]]);
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let found = SourceTables::of_database(Path::new("/dev/zero"));
        assert!(matches!(found, Err(SourceError::NotAFile)), "{found:?}");
    }
}
