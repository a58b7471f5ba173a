//! The tables of a fleet: each table of statistics once more, with the rows of all members.
//!
//! They are in `stats`, and only on members of a fleet. Their columns have types and nothing else: what another member sends must
//! not make a statement fail.

use super::layout::listed;
use super::statistics;
use super::table::{Database, Table};
use super::{ALWAYS_EMPTY, OF_NODES};

/// What the names of these tables begin with.
pub const PREFIX: &str = "fleet_";

/// The tables of statistics that members are asked for.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    let is_asked = |table: &&Table| {
        let name = table.name;
        name.starts_with("stats_") && !ALWAYS_EMPTY.contains(&name) && !OF_NODES.contains(&name)
    };
    statistics::TABLES.iter().filter(is_asked)
}

/// The statement that creates the table of all members.
pub fn create(table: &Table) -> String {
    let column = |(name, line): (&str, &str)| {
        let kind = line.split(' ').nth(1).unwrap_or("VARCHAR");
        format!("{} {kind}", listed(&[name]))
    };
    let columns: Vec<String> = table.column_lines().map(column).collect();
    let (database, name) = (Database::Stats.name(), table.name);
    format!("CREATE TABLE IF NOT EXISTS {database}.{PREFIX}{name} (node VARCHAR, {})", columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_the_columns_of_one_member_behind_its_name() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("ATTACH ':memory:' AS stats").unwrap();
        for table in tables() {
            connection.execute_batch(&create(table)).unwrap();
            let sql = format!("SELECT * FROM stats.{PREFIX}{}", table.name);
            let statement = connection.prepare(&sql).unwrap();
            let expected: Vec<&str> = std::iter::once("node").chain(table.columns()).collect();
            let found: Vec<&str> = statement.column_names().collect();
            assert_eq!(found, expected, "{}", table.name);
        }
        assert!(tables().count() > 12);
        assert!(tables().all(|table| !table.name.starts_with("stats_proxysql_servers")));
    }
}
