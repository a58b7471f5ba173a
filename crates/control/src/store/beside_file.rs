//! The differences between the configuration file and the database, which takes precedence after the first start.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::Store;
use super::answer::Refusal;
use super::config_file::{has_rows, merge, section_of};
use super::variables::in_memory;
use crate::config::parse;
use crate::config::tree::Document;
use crate::schema;
use crate::schema::{MODULES, Module};
use crate::variables::Variable;

/// How many rows and variables are named; the others are only counted.
const MOST_NAMED: usize = 5;

/// Columns whose values do not come from a file.
const NOT_OF_A_FILE: &[(&str, &[&str])] = &[("mysql_users", &["backend", "frontend"])];

impl Store {
    /// The sections of the configuration file that are not in force, one sentence each, and how to load them. Changes
    /// nothing.
    ///
    /// # Errors
    /// SQLite's error.
    pub(super) fn differences_from_file(&mut self) -> Result<Vec<String>, Refusal> {
        let Some(path) = self.file.clone() else { return Ok(Vec::new()) };
        // A file that cannot be read prevents the start, and is reported there.
        let Ok(document) = parse::document(&path) else { return Ok(Vec::new()) };
        let transaction = self.all.open()?.transaction()?;
        let lines = differences(&transaction, &document, &path)?;
        transaction.rollback()?;
        Ok(lines)
    }
}

/// Loads only the file into memory, and compares it with the disk. The caller rolls this back.
fn differences(connection: &Connection, document: &Document, path: &Path) -> rusqlite::Result<Vec<String>> {
    for module in MODULES {
        let condition = module.condition();
        for table in module.tables() {
            connection.execute(&format!("DELETE FROM main.{table} WHERE {condition}"), [])?;
        }
    }
    merge(connection, document, &MODULES)?;
    let mut lines = Vec::new();
    for module in MODULES {
        let found = match module.prefix() {
            Some(prefix) => of_variables(connection, prefix)?,
            None => of_tables(connection, document, module)?,
        };
        for (section, what) in found {
            lines.push(format!(
                "{}: the section {section} differs from the database and is not in force: {what}. LOAD {} FROM CONFIG takes it \
                 to memory",
                path.display(),
                module.name()
            ));
        }
    }
    if !lines.is_empty() {
        lines.push(format!(
            "{}: after the first start only the database counts; --reload puts the file over it, --initial starts from the file \
             alone",
            path.display()
        ));
    }
    Ok(lines)
}

fn of_variables(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut names = Vec::new();
    for (name, of_file) in in_memory(connection, prefix)? {
        let Some(variable) = Variable::named(&name) else { continue };
        let sql = "SELECT CAST(variable_value AS TEXT) FROM disk.global_variables WHERE variable_name = ?1";
        let on_disk: String = connection.query_row(sql, [&name], |row| row.get(0)).unwrap_or_default();
        if of_file != on_disk && variable.adopt(&of_file) != variable.adopt(&on_disk) {
            names.push(variable.short_name().to_owned());
        }
    }
    let section = format!("{}_variables", prefix.trim_end_matches('-'));
    Ok(if names.is_empty() { Vec::new() } else { vec![(section, named(names.len(), &names))] })
}

fn of_tables(
    connection: &Connection,
    document: &Document,
    module: Module,
) -> rusqlite::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for table in module.tables() {
        if !has_rows(document, table) {
            continue;
        }
        let only_in_file = only_in(connection, table, "main", "disk")?;
        let only_on_disk = only_in(connection, table, "disk", "main")?;
        let sides = [(only_in_file, "only in the file"), (only_on_disk, "only in the database")];
        let sides = sides.iter().filter(|((rows, _), _)| *rows > 0);
        let sides: Vec<String> = sides
            .map(|((rows, keys), where_)| {
                let plural = if *rows == 1 { "" } else { "s" };
                format!("{rows} row{plural} {where_} ({})", named(*rows, keys))
            })
            .collect();
        if !sides.is_empty() {
            found.push((section_of(table).to_owned(), sides.join(", ")));
        }
    }
    Ok(found)
}

/// How many rows a table has in one database but not in the other, and the keys of the first ones.
fn only_in(
    connection: &Connection,
    table: &str,
    here: &str,
    there: &str,
) -> rusqlite::Result<(usize, Vec<String>)> {
    let left_out = NOT_OF_A_FILE.iter().find(|(of, _)| *of == table).map_or(&[][..], |(_, columns)| *columns);
    let kept = |columns: Vec<&'static str>| -> Vec<&'static str> {
        columns.into_iter().filter(|column| !left_out.contains(column)).collect()
    };
    let (columns, keys) = (kept(schema::columns(table)), kept(schema::key(table)));
    let list = columns.join(", ");
    let rows = format!("SELECT {list} FROM {here}.{table} EXCEPT SELECT {list} FROM {there}.{table}");
    let count: i64 = connection.query_row(&format!("SELECT COUNT(*) FROM ({rows})"), [], |row| row.get(0))?;
    let first = format!("SELECT {} FROM ({rows}) LIMIT {MOST_NAMED}", keys.join(", "));
    let key = |row: &rusqlite::Row<'_>| {
        let cells: rusqlite::Result<Vec<String>> = keys
            .iter()
            .enumerate()
            .map(|(place, name)| {
                Ok(match row.get(place)? {
                    Value::Integer(integer) => format!("{name}={integer}"),
                    Value::Text(text) => format!("{name}='{text}'"),
                    other => format!("{name}={other:?}"),
                })
            })
            .collect();
        Ok(cells?.join(" "))
    };
    let keys: rusqlite::Result<Vec<String>> = connection.prepare(&first)?.query_map([], key)?.collect();
    Ok((usize::try_from(count).unwrap_or(0), keys?))
}

/// The first names, and the number of further ones.
fn named(all: usize, names: &[String]) -> String {
    let first = names.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
