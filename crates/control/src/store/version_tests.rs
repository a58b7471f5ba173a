//! Databases that another version of Narrows has written: without a column of this version, or with one that it does not
//! know.

use std::path::Path;

use rusqlite::Connection;

use super::guard::is_unchangeable;
use super::tests::rows;
use super::*;
use crate::schema::{self, Database, Layer, Module, Table};

/// A folder with the databases of a store, in which every table has rows.
fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path()).unwrap();
    // The start has written those that nobody else can.
    for (_, name, table) in in_files().into_iter().filter(|(_, name, _)| !is_unchangeable(name)) {
        let columns: Vec<&str> = table.columns().collect();
        let cells: Vec<String> = columns.iter().map(|column| sample(column)).collect();
        let database = if table.names_in(Database::Disk).count() > 0 { "disk" } else { "stats_history" };
        let insert = format!(
            "INSERT OR REPLACE INTO {database}.{name} ({}) VALUES ({})",
            schema::listed(&columns),
            cells.join(", ")
        );
        store.sql(&insert).unwrap_or_else(|error| panic!("{insert}: {error:?}"));
    }
    folder
}

/// A value that the checks of a column accept, and that is not its default.
fn sample(column: &str) -> String {
    match column {
        "status" => "'OFFLINE_SOFT'",
        "mode" => "'DETECTING'",
        "check_type" => "'super_read_only'",
        "method" => "'GET'",
        "domain_name" => "'.example.com'",
        "attributes" | "servers_defaults" | "hostgroup_settings" | "ignore_session_variables" => "''",
        "writer_hostgroup" | "gtid_port" | "max_writers" => "1",
        "backup_writer_hostgroup" => "2",
        "reader_hostgroup" => "3",
        "offline_hostgroup" => "4",
        "max_lag_ms" | "interval_ms" | "timeout_ms" | "check_interval_ms" | "check_timeout_ms" => "1000",
        "aurora_port" | "port" => "3310",
        "variable_name" => "'mysql-max_connections'",
        "variable_value" => "'77'",
        _ => "1",
    }
    .to_owned()
}

/// Every table in a file: the file, the name there, the table.
fn in_files() -> Vec<(&'static str, String, &'static Table)> {
    let of = |database: Database, file: &'static str| {
        schema::tables().flat_map(move |table| {
            table.names_in(database).map(move |name| (file, name, table)).collect::<Vec<_>>()
        })
    };
    of(Database::Disk, "narrows.db").chain(of(Database::StatsHistory, "narrows_stats.db")).collect()
}

fn open(folder: &Path) -> Result<Store, OpenError> {
    Store::open(Opening { datadir: folder, file: None, start: Start::Usual, uuid: None })
}

/// A copy of the databases, with one of them changed by `change`.
fn changed(of: &Path, file: &str, change: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["narrows.db", "narrows_stats.db"] {
        std::fs::copy(of.join(name), folder.path().join(name)).unwrap();
    }
    let connection = Connection::open(folder.path().join(file)).unwrap();
    connection.execute_batch(change).unwrap_or_else(|error| panic!("{change}: {error}"));
    folder
}

fn count(folder: &Path, file: &str, table: &str) -> u32 {
    let connection = Connection::open(folder.join(file)).unwrap();
    connection.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// The statements that take `table` back to a version without its last column.
fn without_last_column(name: &str, table: &Table) -> (String, String) {
    let columns: Vec<&str> = table.columns().collect();
    let (last, others) = columns.split_last().unwrap();
    let kept = schema::listed(others);
    // Without its keys and checks, which may name the last column.
    let change = format!(
        "CREATE TABLE older AS SELECT {kept} FROM {name} ORDER BY rowid; DROP TABLE {name}; ALTER TABLE older RENAME TO {name};"
    );
    (change, (*last).to_owned())
}

#[test]
fn every_table_may_lack_its_last_column() {
    let former = written();
    for (file, name, table) in in_files() {
        let before = count(former.path(), file, &name);
        assert!(before > 0, "{name} is empty");
        let (change, column) = without_last_column(&name, table);
        let folder = changed(former.path(), file, &change);
        let store = open(folder.path()).unwrap_or_else(|error| panic!("{name} without {column}: {error}"));
        let said = store.remarks().iter().find(|remark| remark.contains("another version")).cloned();
        let said = said.unwrap_or_else(|| panic!("{name} without {column}: nothing is said"));
        assert!(said.contains(&format!(".{name} is")) && said.contains(&column), "{said}");
        drop(store);
        match column.as_str() {
            // Rows without values, which get defaults; the old table stays.
            "variable_value" if file == "narrows.db" => {
                assert!(said.contains("stay in disk."), "{said}");
                assert_eq!(count(folder.path(), file, &format!("{name}_former")), before, "{name}");
            }
            // The start has added what it started with.
            _ if is_unchangeable(&name) => {
                assert!(count(folder.path(), file, &name) >= before, "{name}: {said}")
            }
            _ => assert_eq!(count(folder.path(), file, &name), before, "{name} without {column}: {said}"),
        }
        let again = open(folder.path()).unwrap();
        assert!(!again.remarks().iter().any(|remark| remark.contains("another version")), "{name}: again");
    }
}

#[test]
fn every_table_may_have_columns_of_a_newer_version() {
    let former = written();
    for (file, name, table) in in_files() {
        let before = count(former.path(), file, &name);
        let columns = schema::listed(&table.columns().collect::<Vec<_>>());
        let optional = format!("ALTER TABLE {name} ADD COLUMN \"of tomorrow\" VARCHAR NOT NULL DEFAULT 'x';");
        // In the middle of the others, and not to be left out by those who write.
        let (first, rest) = columns.split_once(", ").unwrap();
        let required = format!(
            "CREATE TABLE newer ({first}, \"of tomorrow\" VARCHAR NOT NULL, {rest}); \
             INSERT INTO newer SELECT {first}, 'x', {rest} FROM {name} ORDER BY rowid; \
             DROP TABLE {name}; ALTER TABLE newer RENAME TO {name};"
        );
        for change in [optional, required] {
            let folder = changed(former.path(), file, &change);
            let mut store = open(folder.path()).unwrap_or_else(|error| panic!("{change}: {error}"));
            let said = store.remarks().iter().any(|remark| remark.contains("\"of tomorrow\""));
            assert!(said, "{change}: {:?}", store.remarks());
            let mut kept = Vec::new();
            for column in ["of tomorrow", table.columns().last().unwrap()] {
                let database = if file == "narrows.db" { "disk" } else { "stats_history" };
                // Some cells are no text.
                let cell =
                    format!("CASE typeof(\"{column}\") WHEN 'blob' THEN 'bytes' ELSE \"{column}\" END");
                let select = format!("SELECT {cell} FROM {database}.{name} ORDER BY rowid LIMIT 1");
                kept.push(rows(store.sql(&select).unwrap()));
            }
            if name != "mysql_collations" {
                assert_eq!(kept[0], [["x"]], "{change}");
            }
            store.copy_everything();
            drop(store);
            assert!(count(folder.path(), file, &name) >= before, "{change}");
        }
    }
}

#[test]
fn a_table_on_disk_that_is_stricter_than_this_version_takes_every_row() {
    let former = written();
    let stricter = "PRAGMA writable_schema = ON; \
         UPDATE sqlite_master SET sql = REPLACE(sql, 'active IN (0,1,2)', 'active IN (0,1)') \
             WHERE name = 'mysql_query_rules';";
    let folder = changed(former.path(), "narrows.db", stricter);
    let before = count(folder.path(), "narrows.db", "mysql_query_rules");
    let mut store = open(folder.path()).unwrap();
    let said =
        "disk.mysql_query_rules is from another version of Narrows: it has the checks of this version now";
    assert_eq!(store.remarks().first().map(String::as_str), Some(said));
    store.sql("INSERT INTO mysql_query_rules (rule_id, active) VALUES (77, 2)").unwrap();
    store.copy(Module::MysqlQueryRules, Layer::Memory, Layer::Disk).unwrap();
    drop(store);
    assert_eq!(count(folder.path(), "narrows.db", "mysql_query_rules"), before + 1);
    let again = open(folder.path()).unwrap();
    assert!(
        !again.remarks().iter().any(|remark| remark.contains("another version")),
        "{:?}",
        again.remarks()
    );
}

impl Store {
    /// Writes to every table in the files, and reads them again.
    fn copy_everything(&mut self) {
        for module in crate::schema::MODULES {
            for (from, to) in [(Layer::Disk, Layer::Memory), (Layer::Memory, Layer::Disk)] {
                self.copy(module, from, to).unwrap();
            }
        }
        for table in schema::tables() {
            for name in table.names_in(Database::StatsHistory) {
                if table.columns().next() != Some("timestamp") {
                    continue;
                }
                let row = table.columns().map(|_| Value::Integer(2)).collect();
                self.append(&format!("stats_history.{name}"), vec![row], 0).unwrap();
            }
        }
    }
}
