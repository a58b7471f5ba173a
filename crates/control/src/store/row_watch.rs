//! Which rows a statement of an administrator changes, and how: for the audit log.
//!
//! Triggers pass the rows on, as long as they exist; SQLite's own hooks for it would need a C compiler's library to build.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use crate::schema::{self, Database, MODULES};
use crate::versions::{RowChange, key, passwords_of_row, row_change};

/// What a statement has changed.
#[derive(Debug, Default)]
pub struct RowsChanged {
    /// The rows by database, as they differ afterwards; at most [`MOST_ROWS`].
    pub rows: Vec<(Database, RowChange)>,
    /// How many changes of rows are not among them.
    pub more: u64,
    /// The passwords in these rows, before and after: the rows may have copies of them in other columns.
    pub passwords: Vec<String>,
}

/// Collects the changes that administrators make.
#[derive(Debug, Default, Clone)]
pub(super) struct RowWatch(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    rows: BTreeMap<RowName, BeforeAfter>,
    more: u64,
}

/// The database, the table and the key of a row.
type RowName = (Database, &'static str, String);

/// A row before the statement; and after it, once it is known that the statement changes it.
#[derive(Debug, Default)]
struct BeforeAfter {
    before: Option<Vec<Value>>,
    after: Option<Option<Vec<Value>>>,
}

impl RowWatch {
    /// Adds the functions that triggers call.
    pub fn add_functions(&self, connection: &Connection) -> Result<()> {
        for (name, is_after) in [(BEFORE, false), (AFTER, true), (GONE, true)] {
            let watch = self.clone();
            let see = move |context: &Context<'_>| {
                watch.see(context, is_after, name == GONE);
                Ok(0)
            };
            connection.create_scalar_function(name, -1, FunctionFlags::SQLITE_UTF8, see)?;
        }
        Ok(())
    }

    /// Collects from now on, or no more.
    pub fn set(connection: &Connection, on: bool) -> Result<()> {
        for database in WATCHED {
            for table in tables() {
                let statements = if on { create(database, table) } else { drop_all(database, table) };
                connection.execute_batch(&statements)?;
            }
        }
        Ok(())
    }

    /// Forgets what was collected.
    pub fn forget(&self) {
        self.with(|seen| *seen = Seen::default());
    }

    /// Takes what was collected.
    pub fn take(&self) -> RowsChanged {
        let Seen { rows, more } = self.with(std::mem::take);
        let mut passwords = Vec::new();
        let changed = rows.into_iter().filter_map(|((database, table, _), row)| {
            let after = row.after?;
            let both = [row.before.as_ref(), after.as_ref()];
            passwords.extend(both.into_iter().flatten().flat_map(|row| passwords_of_row(table, row)));
            Some((database, row_change(table, both)?))
        });
        let rows = changed.collect();
        RowsChanged { rows, more, passwords }
    }

    /// A trigger passes a row: its database, its table, and its cells.
    fn see(&self, context: &Context<'_>, is_after: bool, is_gone: bool) {
        let text = |at: usize| context.get::<String>(at).unwrap_or_default();
        let (database, table) = (text(0), text(1));
        let database = WATCHED.into_iter().find(|known| known.name() == database);
        let table = tables().find(|known| *known == table);
        let (Some(database), Some(table)) = (database, table) else { return };
        let cells = (2..context.len()).map(|at| context.get::<Value>(at).unwrap_or(Value::Null));
        let row: Vec<Value> = cells.collect();
        let name = (database, table, key(table, &row));
        self.with(|seen| seen.add(name, Some(row).filter(|_| !is_gone), is_after));
    }

    fn with<T>(&self, act: impl FnOnce(&mut Seen) -> T) -> T {
        // No thread panics while it holds the lock.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seen {
    fn add(&mut self, name: RowName, row: Option<Vec<Value>>, is_after: bool) {
        let is_known = self.rows.contains_key(&name);
        if !is_known && self.rows.len() >= MOST_ROWS {
            self.more += u64::from(is_after);
            return;
        }
        let known = self.rows.entry(name).or_default();
        if is_after {
            known.after = Some(row);
        } else if !is_known {
            known.before = row;
        }
    }
}

/// The triggers of a table. Before a row is inserted, the one that it may replace is passed on.
fn create(database: Database, table: &str) -> String {
    let database = database.name();
    let columns = schema::columns(table);
    let call = |function: &str, row: &str| {
        let cells: Vec<String> = columns.iter().map(|column| format!("{row}\"{column}\"")).collect();
        format!("SELECT {function}('{database}', '{table}', {})", cells.join(", "))
    };
    let keys: Vec<String> =
        schema::key(table).iter().map(|column| format!("\"{column}\" = NEW.\"{column}\"")).collect();
    let replaced = format!("{} FROM {database}.{table} WHERE {}", call(BEFORE, ""), keys.join(" AND "));
    let moved: Vec<String> =
        schema::key(table).iter().map(|column| format!("OLD.\"{column}\" IS NOT NEW.\"{column}\"")).collect();
    let moved = moved.join(" OR ");
    let bodies = [
        ("BEFORE INSERT", replaced.clone()),
        ("AFTER INSERT", call(AFTER, "NEW.")),
        ("BEFORE UPDATE", format!("{}; {replaced}", call(BEFORE, "OLD."))),
        // A row that keeps its key is not gone.
        ("AFTER UPDATE", format!("{} WHERE {moved}; {}", call(GONE, "OLD."), call(AFTER, "NEW."))),
        ("BEFORE DELETE", call(BEFORE, "OLD.")),
        ("AFTER DELETE", call(GONE, "OLD.")),
    ];
    let triggers = bodies.iter().map(|(when, body)| {
        let name = trigger(database, table, when);
        format!(
            "CREATE TEMP TRIGGER IF NOT EXISTS {name} {when} ON {database}.{table} WHEN narrows_is_operator() BEGIN {body}; END;"
        )
    });
    triggers.collect()
}

fn drop_all(database: Database, table: &str) -> String {
    let names = WHEN.iter().map(|when| trigger(database.name(), table, when));
    names.map(|name| format!("DROP TRIGGER IF EXISTS temp.{name};")).collect()
}

fn trigger(database: &str, table: &str, when: &str) -> String {
    format!("{TRIGGERS}{database}_{table}_{}", when.replace(' ', "_").to_ascii_lowercase())
}

/// Whether a statement may call the function. Only triggers may: what anyone could call would prove nothing.
pub(super) fn may_call(function: &str, caller: Option<&str>) -> bool {
    let is_ours = [BEFORE, AFTER, GONE].iter().any(|own| own.eq_ignore_ascii_case(function));
    !is_ours || caller.is_some_and(is_name_of_trigger)
}

/// Whether only a trigger of this module may have that name.
pub(super) fn is_name_of_trigger(name: &str) -> bool {
    name.get(..TRIGGERS.len()).is_some_and(|start| start.eq_ignore_ascii_case(TRIGGERS))
}

/// The tables of the configuration.
fn tables() -> impl Iterator<Item = &'static str> {
    MODULES.into_iter().flat_map(|module| module.tables().iter().copied()).chain(["global_variables"])
}

/// A row as it was,
const BEFORE: &str = "narrows_row_before";

/// as it is,
const AFTER: &str = "narrows_row_after";

/// and one that is no more.
const GONE: &str = "narrows_row_gone";

/// How the names of the triggers begin.
const TRIGGERS: &str = "narrows_watch_";

const WHEN: [&str; 6] =
    ["BEFORE INSERT", "AFTER INSERT", "BEFORE UPDATE", "AFTER UPDATE", "BEFORE DELETE", "AFTER DELETE"];

/// Where administrators change the configuration.
const WATCHED: [Database; 2] = [Database::Main, Database::Disk];

/// How many rows of one statement are kept.
const MOST_ROWS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::super::tests::Fixture;
    use super::*;

    #[test]
    fn the_rows_of_a_statement_are_those_that_differ_after_it() {
        let mut fixture = Fixture::new();
        fixture.store.watch_rows(true).unwrap();
        let mut changed = |sql: &str| {
            let _ = fixture.store.sql(sql);
            let RowsChanged { rows, more, .. } = fixture.store.take_changed_rows();
            let text = |(database, row): &(Database, RowChange)| {
                format!("{} {} {}", database.name(), row.kind.name(), row.key)
            };
            (rows.iter().map(text).collect::<Vec<_>>().join("; "), more)
        };
        let of = |text: &str| (text.to_owned(), 0);
        let insert = "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (2, 'b')";
        let [a, b] = ["hostgroup_id=1 hostname='a' port=3306", "hostgroup_id=2 hostname='b' port=3306"];
        assert_eq!(changed(insert), of(&format!("main added {a}; main added {b}")));
        assert_eq!(changed(insert), of(""), "it is refused as a whole");
        assert_eq!(changed("UPDATE mysql_servers SET weight = 1"), of(""), "they have that weight");
        assert_eq!(
            changed("UPDATE mysql_servers SET hostname = 'c' WHERE hostgroup_id = 2"),
            of(&format!("main removed {b}; main added hostgroup_id=2 hostname='c' port=3306"))
        );
        assert_eq!(
            changed("REPLACE INTO mysql_servers (hostgroup_id, hostname, weight) VALUES (1, 'a', 7)"),
            of(&format!("main altered {a}"))
        );
        assert_eq!(
            changed("INSERT INTO disk.mysql_servers SELECT * FROM mysql_servers WHERE hostgroup_id = 1"),
            of(&format!("disk added {a}"))
        );
        assert_eq!(
            changed("DELETE FROM mysql_servers WHERE hostgroup_id = 1"),
            of(&format!("main removed {a}"))
        );
        let (_, more) = changed(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) \
             INSERT INTO mysql_query_rules (rule_id) SELECT i FROM n",
        );
        assert_eq!(more, 500);
        assert_eq!(changed("UPDATE mysql_query_rules SET active = 1 - active").1, 500);
        // What is before the failure stays.
        let partly =
            "INSERT OR FAIL INTO mysql_servers (hostgroup_id, hostname) VALUES (5, 'e'), (2, 'c'), (6, 'f')";
        assert_eq!(changed(partly), of("main added hostgroup_id=5 hostname='e' port=3306"));
        fixture.store.watch_rows(false).unwrap();
        let _ = fixture.store.sql("DELETE FROM mysql_query_rules");
        assert!(fixture.store.take_changed_rows().rows.is_empty());
    }
}
