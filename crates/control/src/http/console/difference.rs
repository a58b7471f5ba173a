//! The rows that are in one of two layers only, and what is different in them.

use super::viewer::{ListedRow, Listing};
use crate::variables::VARIABLES;

/// A table whose layers are compared.
pub struct Compared {
    /// What it has.
    pub label: &'static str,
    /// Its name in memory.
    pub table: &'static str,
    /// The columns that name a row. For accounts, without those that differ because each is two rows at runtime.
    pub key: &'static str,
    /// The other columns that are compared.
    pub columns: &'static str,
    /// Which rows are compared.
    pub rows: &'static str,
    /// Which of them run.
    pub runs: &'static str,
    /// What is loaded and saved together with it.
    pub module: &'static str,
}

/// The layer with which memory is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// What runs.
    Runtime,
    /// What is kept.
    Disk,
}

impl Other {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Other::Runtime => "runtime",
            Other::Disk => "disk",
        }
    }
}

/// The statement for the rows that are in one of the layers only: the layer, the key, and the columns as they are shown. The
/// rows with one key are next to each other.
pub fn statement(compared: &Compared, other: Other) -> String {
    let Compared { table, key, columns, rows, runs, .. } = compared;
    let (memory, there, runs) = match other {
        Other::Runtime => (format!("main.{table}"), format!("main.runtime_{table}"), *runs),
        Other::Disk => (format!("main.{table}"), format!("disk.{table}"), *rows),
    };
    let name = key.replace(", ", " || ' ' || ");
    let (all, shown) = (inputs(key, columns, other), outputs(columns));
    let side = |layer: &str, one: &str, of_one: &str, two: &str, of_two: &str| {
        format!(
            "SELECT '{layer}' AS layer, {name} AS name, {shown} FROM (SELECT {all} FROM {one} WHERE {of_one} \
             EXCEPT SELECT {all} FROM {two} WHERE {of_two})"
        )
    };
    format!(
        "SELECT * FROM ({} UNION ALL {}) ORDER BY name, layer = 'memory' LIMIT {MOST_ROWS}",
        side(MEMORY, &memory, runs, &there, rows),
        side(other.name(), &there, rows, &memory, runs),
    )
}

/// What is compared. The tables of the runtime have hashes in place of passwords.
fn inputs(key: &str, columns: &str, other: Other) -> String {
    let column = |column: &str| match (column, other) {
        ("password", Other::Runtime) => format!("{HASHED} AS password"),
        ("attributes", Other::Runtime) => format!("{OPEN_ATTRIBUTES} AS attributes"),
        _ => column.to_owned(),
    };
    format!("{key}, {}", columns.split(", ").map(column).collect::<Vec<_>>().join(", "))
}

/// What is shown: no secrets.
fn outputs(columns: &str) -> String {
    let column = |column: &str| match column {
        "password" => format!("'{HIDDEN}' AS password"),
        "attributes" => format!("{OPEN_ATTRIBUTES} AS attributes"),
        "variable_value" => {
            let is_secret = is_secret();
            format!("CASE WHEN {is_secret} THEN '{HIDDEN}' ELSE SUBSTR(variable_value, 1, 1000) END AS value")
        }
        column => format!("SUBSTR(COALESCE({column}, 'NULL'), 1, 1000) AS {column}"),
    };
    columns.split(", ").map(column).collect::<Vec<_>>().join(", ")
}

/// A column that is different.
#[derive(Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key of its row.
    pub row: String,
    /// Its name.
    pub column: String,
    /// What memory has.
    pub in_memory: String,
    /// What the other layer has.
    pub in_other: String,
}

/// The columns that are different in the answer to [`statement`]. A row that is in one layer only counts as one column.
pub fn pairs(found: &Listing) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut rows = found.rows.iter().peekable();
    while let Some(row) = rows.next() {
        let is_other = |next: &&ListedRow| next.text(1) == row.text(1) && next.text(0) != row.text(0);
        match rows.next_if(|next| is_other(next)) {
            Some(next) => {
                let (memory, other) = if row.text(0) == MEMORY { (row, next) } else { (next, row) };
                pairs.extend(columns(found, memory, other));
            }
            // The other one may be beyond the limit.
            None if rows.peek().is_none() && found.rows.len() >= MOST_ROWS => {}
            None => pairs.push(alone(found, row)),
        }
    }
    pairs
}

/// The columns in which two rows differ.
fn columns(found: &Listing, memory: &ListedRow, other: &ListedRow) -> Vec<Pair> {
    let pair = |column: &str, in_memory: String, in_other: String| Pair {
        row: memory.text(1).into_owned(),
        column: column.to_owned(),
        in_memory,
        in_other,
    };
    let names = found.columns.iter().enumerate().skip(KEYS);
    let texts = names.map(|(place, name)| (name, memory.text(place), other.text(place)));
    let differ = texts.filter(|(_, in_memory, in_other)| in_memory != in_other);
    let mut pairs: Vec<Pair> =
        differ.map(|(name, one, two)| pair(name, one.into_owned(), two.into_owned())).collect();
    if pairs.is_empty() {
        pairs.push(pair("a secret, or the end of a long text", HIDDEN.to_owned(), HIDDEN.to_owned()));
    }
    pairs
}

/// A row that only one layer has.
fn alone(found: &Listing, row: &ListedRow) -> Pair {
    let named = found.columns.iter().zip(row.texts()).skip(KEYS);
    let says_something = named.filter(|(_, value)| !value.is_empty() && value != "NULL");
    let contents: Vec<String> = says_something.map(|(name, value)| format!("{name}={value}")).collect();
    let (contents, none) = (contents.join(" "), "no such row".to_owned());
    let (in_memory, in_other) = if row.text(0) == MEMORY { (contents, none) } else { (none, contents) };
    Pair { row: row.text(1).into_owned(), column: "all".to_owned(), in_memory, in_other }
}

const MEMORY: &str = "memory";

const HIDDEN: &str = "(not shown)";

/// The columns before those of the table: the layer and the key.
const KEYS: usize = 2;

/// Rows of both layers.
const MOST_ROWS: usize = 200;

/// Whether a variable has a secret.
fn is_secret() -> String {
    let names = VARIABLES.iter().filter(|variable| variable.is_secret()).map(|it| format!("'{}'", it.name));
    format!("variable_name IN ({})", names.collect::<Vec<_>>().join(", "))
}

/// A password as the runtime shows it: what is no hash yet becomes one.
const HASHED: &str = "CASE WHEN COALESCE(password, '') = '' THEN '' WHEN password GLOB '[*]*' AND LENGTH(password) = 41 \
    OR password GLOB '$A$*' OR password GLOB 'env:*' OR password GLOB 'file:*' OR password GLOB 'exec:*' THEN password \
    ELSE MYSQL_NATIVE_PASSWORD(CASE WHEN password GLOB 'plain:*' THEN SUBSTR(password, 7) ELSE password END) END";

/// The attributes of a row without the second password of an account.
const OPEN_ATTRIBUTES: &str =
    "CASE WHEN JSON_VALID(attributes) THEN JSON_REMOVE(attributes, '$.additional_password') ELSE '' END";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const VARIABLES: Compared = Compared {
        label: "Variables",
        table: "global_variables",
        key: "variable_name",
        columns: "variable_value",
        rows: "variable_name LIKE 'mysql-%'",
        runs: "variable_name LIKE 'mysql-%'",
        module: "MYSQL VARIABLES",
    };

    fn asked(database: &Connection, compared: &Compared, other: Other) -> Listing {
        let mut statement = database.prepare(&statement(compared, other)).unwrap();
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let rows = statement.query_map([], |row| {
            (0..columns.len()).map(|place| row.get::<_, Option<String>>(place)).collect::<Result<Vec<_>, _>>()
        });
        let rows = rows.unwrap().map(|row| ListedRow::of(row.unwrap())).collect();
        Listing { columns, rows }
    }

    #[test]
    fn columns_that_differ_are_found_and_secrets_are_not_shown() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch("ATTACH ':memory:' AS disk").unwrap();
        for table in ["main.global_variables", "main.runtime_global_variables", "disk.global_variables"] {
            database.execute_batch(&format!("CREATE TABLE {table} (variable_name, variable_value)")).unwrap();
        }
        let rows = "INSERT INTO main.global_variables VALUES ('mysql-same', '1'), ('mysql-other', '1'), \
            ('mysql-monitor_password', 'secret'), ('mysql-switchover_replication_password', 'secret'), ('admin-x', '1'); \
            INSERT INTO main.runtime_global_variables VALUES ('mysql-same', '1'), ('mysql-other', '2'), \
            ('mysql-switchover_replication_password', 'secrets')";
        database.execute_batch(rows).unwrap();
        let found = pairs(&asked(&database, &VARIABLES, Other::Runtime));
        let told: Vec<[&str; 4]> = found
            .iter()
            .map(|pair| [&pair.row, &pair.column, &pair.in_memory, &pair.in_other].map(String::as_str))
            .collect();
        assert_eq!(
            told,
            [
                ["mysql-monitor_password", "all", "value=(not shown)", "no such row"],
                ["mysql-other", "value", "1", "2"],
                [
                    "mysql-switchover_replication_password",
                    "a secret, or the end of a long text",
                    "(not shown)",
                    "(not shown)"
                ],
            ]
        );
        assert_eq!(pairs(&asked(&database, &VARIABLES, Other::Disk)).len(), 4);
    }
}
