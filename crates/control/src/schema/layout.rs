//! Tables in files that another version of Narrows has written: they get the columns of this version, and keep their rows.
//!
//! A column that this version does not know stays in the table, because the version that wrote it may come back.

use rusqlite::Connection;

use super::table::{Database, Table};

/// Creates a table that `database` lacks, or adds the columns that it lacks there. Returns what was done to an existing
/// table, as a sentence.
pub(super) fn create_or_adapt(
    connection: &Connection,
    table: &Table,
    database: Database,
    name: &str,
) -> rusqlite::Result<Option<String>> {
    if exists(connection, database, name)? {
        return adapt(connection, table, database, name);
    }
    connection.execute_batch(&table.create(database, name))?;
    Ok(None)
}

/// Whether a table exists.
pub fn exists(connection: &Connection, database: Database, name: &str) -> rusqlite::Result<bool> {
    let listed =
        format!("SELECT 1 FROM {}.sqlite_master WHERE type = 'table' AND name = ?1", database.name());
    connection.prepare(&listed)?.exists([name])
}

/// Names of columns, as statements list them.
pub fn listed(columns: &[&str]) -> String {
    columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

/// Copies rows between tables of one definition, in the order of their insertion, with `verb` (`INSERT OR REPLACE`).
/// Columns that the source lacks have their defaults.
pub fn copy_rows(
    connection: &Connection,
    table: &Table,
    verb: &str,
    [from, to]: [(Database, &str); 2],
    condition: &str,
) -> rusqlite::Result<usize> {
    let (source, target) = (found(connection, from.0, from.1)?, found(connection, to.0, to.1)?);
    let has = |columns: &[Found], name: &str| columns.iter().any(|column| column.is_called(name));
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, line) in table.column_lines().filter(|(name, _)| has(&target, name)) {
        let value = match has(&source, name) {
            true => Some(quoted(name)),
            false => stand_in(line).map(str::to_owned),
        };
        names.extend(value.is_some().then(|| quoted(name)));
        values.extend(value);
    }
    // What this version does not know is copied if both tables have it.
    for column in source.iter().filter(|column| !is_known(table, column) && has(&target, &column.name)) {
        names.push(quoted(&column.name));
        values.push(quoted(&column.name));
    }
    let sql = format!(
        "{verb} INTO {}.{} ({}) SELECT {} FROM {}.{} WHERE {condition} ORDER BY rowid",
        to.0.name(),
        quoted(to.1),
        names.join(", "),
        values.join(", "),
        from.0.name(),
        quoted(from.1)
    );
    connection.execute(&sql, [])
}

/// A column of a table in a file.
struct Found {
    name: String,
    kind: String,
    /// Whether rows can be written without naming it.
    is_optional: bool,
}

impl Found {
    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

fn is_known(table: &Table, column: &Found) -> bool {
    table.columns().any(|name| column.is_called(name))
}

fn found(connection: &Connection, database: Database, name: &str) -> rusqlite::Result<Vec<Found>> {
    let sql = "SELECT name, type, (\"notnull\" = 0 OR dflt_value IS NOT NULL) AND pk = 0 FROM pragma_table_info(?1, ?2)";
    let column = |row: &rusqlite::Row<'_>| {
        Ok(Found { name: row.get(0)?, kind: row.get(1)?, is_optional: row.get(2)? })
    };
    connection.prepare(sql)?.query_map([name, database.name()], column)?.collect()
}

/// Gives a table the columns of this version, if it has others; says so.
fn adapt(
    connection: &Connection,
    table: &Table,
    database: Database,
    name: &str,
) -> rusqlite::Result<Option<String>> {
    let columns = found(connection, database, name)?;
    let missing: Vec<&str> =
        table.columns().filter(|name| !columns.iter().any(|column| column.is_called(name))).collect();
    let unknown: Vec<&Found> = columns.iter().filter(|column| !is_known(table, column)).collect();
    let place = format!("{}.{name}", database.name());
    let checks_differ = database == Database::Disk && !has_checks(connection, table, name)?;
    if missing.is_empty() && !checks_differ && unknown.iter().all(|column| column.is_optional) {
        let names: Vec<&str> = unknown.iter().map(|column| column.name.as_str()).collect();
        return Ok((!names.is_empty()).then(|| {
            format!(
                "{place}: this version does not know {}: what is there is ignored, and lost when the table is saved",
                list("the column", &names)
            )
        }));
    }
    let former = free_name(connection, database, name)?;
    let rows = rebuild(connection, table, [(database, &former), (database, name)], &missing, &unknown)?;
    let mut said = format!("{place} is from another version of Narrows");
    if !missing.is_empty() {
        let columns = list("the column", &missing);
        said.push_str(&format!(": {columns} added, with the default in {} rows", rows.kept));
    }
    if missing.is_empty() && checks_differ {
        said.push_str(": it has the checks of this version now");
    }
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().map(|column| column.name.as_str()).collect();
        said.push_str(&format!(": {} kept, and ignored", list("the unknown column", &names)));
    }
    if rows.left > 0 {
        let database = database.name();
        said.push_str(&format!(
            "; {} rows do not fit without it, and stay in {database}.{former}",
            rows.left
        ));
    }
    Ok(Some(said))
}

/// Whether a table of the configuration on disk checks its columns as this version does. One that is stricter would not take
/// every row that runs.
fn has_checks(connection: &Connection, table: &Table, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT sql FROM disk.sqlite_master WHERE type = 'table' AND name = ?1";
    let definition: String = connection.query_row(sql, [name], |row| row.get(0))?;
    let mut checks = table.definition.iter().filter(|line| line.contains(" CHECK "));
    Ok(checks.all(|line| definition.contains(line)))
}

/// How many rows a table has after it was created again, and how many are left in the former one.
struct Rebuilt {
    kept: usize,
    left: usize,
}

/// Creates a table again with all columns of this version and the unknown ones, and fills it from what it was, which
/// stays under the other name if rows do not fit.
fn rebuild(
    connection: &Connection,
    table: &Table,
    [(database, former), (_, name)]: [(Database, &str); 2],
    missing: &[&str],
    unknown: &[&Found],
) -> rusqlite::Result<Rebuilt> {
    let (place, aside) = (format!("{}.{name}", database.name()), quoted(former));
    connection.execute_batch(&format!("ALTER TABLE {place} RENAME TO {aside}"))?;
    connection.execute_batch(&table.create(database, name))?;
    for column in unknown {
        let (name, kind) = (quoted(&column.name), quoted(&column.kind));
        connection.execute_batch(&format!("ALTER TABLE {place} ADD COLUMN {name} {kind}"))?;
    }
    let count = format!("SELECT COUNT(*) FROM {}.{aside}", database.name());
    let all: u32 = connection.query_row(&count, [], |row| row.get(0))?;
    let all = usize::try_from(all).unwrap_or(usize::MAX);
    let kept = match missing.iter().any(|column| is_all_that_counts(table, column)) {
        true => 0,
        false => {
            let between = [(database, former), (database, name)];
            copy_rows(connection, table, "INSERT OR IGNORE", between, "1")?
        }
    };
    if kept == all {
        connection.execute_batch(&format!("DROP TABLE {}.{aside}", database.name()))?;
    }
    Ok(Rebuilt { kept, left: all - kept })
}

/// Whether rows without this column say nothing: the value of a variable.
fn is_all_that_counts(table: &Table, column: &str) -> bool {
    ["global_variables", "global_settings"].contains(&table.name) && column == "variable_value"
}

/// What stands for the missing value of a column that has no default and must not be NULL.
fn stand_in(line: &str) -> Option<&'static str> {
    // SQLite numbers the rows itself.
    let has_value = !line.contains("NOT NULL") || line.contains(" DEFAULT ") || line.contains(" PRIMARY KEY");
    let is_number = line.split_whitespace().nth(1).is_some_and(|kind| kind.starts_with("INT"));
    (!has_value).then_some(if is_number { "0" } else { "''" })
}

fn free_name(connection: &Connection, database: Database, name: &str) -> rusqlite::Result<String> {
    let mut free = format!("{name}_former");
    while exists(connection, database, &free)? {
        free.push('_');
    }
    Ok(free)
}

/// `the columns a, b`; names come from a file, so they are quoted if they are no plain words.
fn list(what: &str, names: &[&str]) -> String {
    const MOST_NAMED: usize = 10;
    let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let shown = |name: &&str| if is_plain(name) { (*name).to_owned() } else { format!("{name:?}") };
    let mut text = names.iter().take(MOST_NAMED).map(shown).collect::<Vec<_>>().join(", ");
    if names.len() > MOST_NAMED {
        text.push_str(&format!(" and {} more", names.len() - MOST_NAMED));
    }
    format!("{what}{} {text}", if names.len() == 1 { "" } else { "s" })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
