//! Loads the configuration file into memory: rows replace those with the same keys, none is deleted.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::Store;
use super::answer::{Answer, Refusal, Warning, reason};
use super::owned::part;
use super::reading::ROW_LEFT_OUT;
use super::versions::write;
use crate::config::schema::{Absent, Section};
use crate::config::tree::{self, Document, Entry};
use crate::config::{form, parse, tables};
use crate::schema;
use crate::schema::{MODULES, Module};
use crate::variables::{Kind, Variable};

/// Other names for columns in these sections.
const OTHER_NAMES: &[(&str, &str, &str)] =
    &[("restapi_routes", "interval_ms", "timeout_ms"), ("proxysql_servers", "address", "hostname")];

/// The outcome of loading a file.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// How many rows and variables were loaded into memory.
    pub rows: u64,
    /// How many of them are variables that Narrows has.
    pub variables: u64,
    /// What was left out.
    pub warnings: Vec<Warning>,
}

impl Store {
    /// `LOAD ... FROM CONFIG`.
    pub(super) fn merge_file(&mut self, module: Module) -> Result<Answer, Refusal> {
        let Some(path) = self.file.clone() else { return Err(Refusal::admin("Config file unknown")) };
        let refusal = || Refusal::admin(format!("Unable to open or parse config file {}", path.display()));
        let document = parse::document(&path).map_err(|_| refusal())?;
        if self.ownership().owns(module) {
            return self.replace_by_file(module);
        }
        let transaction = self.all.open()?.transaction()?;
        let merged = merge(&transaction, &document, &[module])?;
        transaction.commit()?;
        Ok(Answer::Done { affected: merged.rows, info: String::new(), warnings: merged.warnings })
    }

    /// The same for a module that the file owns: what the file does not have is deleted, or has its default.
    fn replace_by_file(&mut self, module: Module) -> Result<Answer, Refusal> {
        let wanted = part(&[module], &self.owned_document()?);
        let transaction = self.all.open()?.transaction()?;
        write(&transaction, &wanted)?;
        transaction.commit()?;
        let rows = wanted.tables().map(|(_, rows)| rows.len()).sum::<usize>() + wanted.variables().count();
        Ok(Answer::done(rows as u64))
    }

    /// The configuration file that `LOAD ... FROM CONFIG` reads.
    pub fn config_file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

/// Loads the sections of `modules` into memory.
pub(super) fn merge(
    connection: &Connection,
    document: &Document,
    modules: &[Module],
) -> rusqlite::Result<Merged> {
    let mut merged = Merged::default();
    for entry in &document.root {
        let name = entry.name.as_str();
        let is_wanted = |table: &str| modules.iter().any(|module| module.tables().contains(&table));
        match (name.strip_suffix("_variables"), &entry.node.value) {
            (Some(prefix), tree::NodeValue::Group(entries))
                if modules.iter().any(|module| module.prefix() == Some(&format!("{prefix}-"))) =>
            {
                merged.variables(connection, prefix, entries)?;
            }
            (_, tree::NodeValue::List(nodes)) => {
                let section = tables::SECTIONS.iter().find(|section| section.name() == name).copied();
                let stored = tables::SECTIONS_STORED_ONLY
                    .iter()
                    .find(|(section, _)| *section == name)
                    .map(|(_, table)| *table);
                let Some(table) = section.map(Section::name).or(stored).filter(|table| is_wanted(table))
                else {
                    continue;
                };
                for node in nodes {
                    if let tree::NodeValue::Group(entries) = &node.value {
                        let line = node.at.line;
                        merged.row(connection, table, entries, line, section)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(merged)
}

/// Whether a file has rows of a table. An empty section means that it leaves them to the administrators.
pub(super) fn has_rows(document: &Document, table: &str) -> bool {
    let section = section_of(table);
    let is_of_table = |entry: &Entry| match &entry.node.value {
        tree::NodeValue::List(rows) => entry.name == section && !rows.is_empty(),
        _ => false,
    };
    document.root.iter().any(is_of_table)
}

/// The name that a table has in a file.
pub(super) fn section_of(table: &str) -> &str {
    let stored = tables::SECTIONS_STORED_ONLY.iter().find(|(_, of)| *of == table);
    stored.map_or(table, |(section, _)| *section)
}

/// All modules except the whitelists, which ProxySQL's `LOAD ... FROM CONFIG` does not support; a start reads them too.
pub(super) fn merge_all(connection: &Connection, document: &Document) -> rusqlite::Result<Merged> {
    merge(connection, document, &MODULES)
}

impl Merged {
    fn variables(
        &mut self,
        connection: &Connection,
        prefix: &str,
        entries: &[Entry],
    ) -> rusqlite::Result<()> {
        for entry in entries {
            let Some(text) = form::text_of(&entry.node.value) else { continue };
            let name = format!("{prefix}-{}", entry.name);
            let variable = Variable::named(&name);
            let is_known = variable.is_some_and(|variable| !matches!(variable.kind, Kind::Fixed { .. }));
            let name = variable.map_or(name, |variable| variable.name.to_owned());
            connection
                .execute("INSERT OR REPLACE INTO main.global_variables VALUES (?1, ?2)", [name, text])?;
            self.rows += 1;
            self.variables += u64::from(is_known);
        }
        Ok(())
    }

    fn row(
        &mut self,
        connection: &Connection,
        table: &'static str,
        entries: &[Entry],
        line: u32,
        section: Option<&dyn Section>,
    ) -> rusqlite::Result<()> {
        let cells = match section {
            Some(section) => described(section, entries),
            None => stored(table, entries),
        };
        let names: Vec<String> = cells.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let places = vec!["?"; cells.len()].join(", ");
        let sql = format!("INSERT OR REPLACE INTO main.{table} ({}) VALUES ({places})", names.join(", "));
        let values = cells.into_iter().map(|(_, value)| value);
        match connection.execute(&sql, params_from_iter(values)) {
            Ok(_) => self.rows += 1,
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                let message = format!("{table}, line {line}: left out: {}", reason(&error));
                self.warnings.push(Warning { code: ROW_LEFT_OUT, message });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The cells of a row of a section with declared columns, including the file's defaults.
fn described(section: &dyn Section, entries: &[Entry]) -> Vec<(&'static str, Value)> {
    let mut cells = Vec::new();
    for (column, absent) in section.absent() {
        let named = entries.iter().find_map(|entry| {
            let (name, is_flag) = section.column_of(&entry.name)?;
            (name == column).then(|| value(&entry.node.value, is_flag))
        });
        match (named, absent) {
            // Every account is for clients and for servers, whatever the file says.
            _ if section.name() == "mysql_users" && matches!(column, "backend" | "frontend") => {}
            (Some(value), _) => cells.push((column, value)),
            (None, Absent::Is(text)) => cells.push((column, Value::Text(text.to_owned()))),
            (None, Absent::Null | Absent::Required) => {}
        }
    }
    cells
}

/// The cells of a row of a section that is only stored.
fn stored(table: &'static str, entries: &[Entry]) -> Vec<(&'static str, Value)> {
    let columns = schema::columns(table);
    let other = |name: &str| OTHER_NAMES.iter().find(|(of, other, _)| *of == table && *other == name);
    let mut cells = Vec::new();
    for entry in entries {
        let name = other(&entry.name).map_or(entry.name.as_str(), |(.., column)| column);
        let column = columns.iter().find(|column| column.eq_ignore_ascii_case(name));
        if let Some(column) = column {
            let is_flag = matches!(entry.node.value, tree::NodeValue::Flag(_));
            cells.push((*column, value(&entry.node.value, is_flag)));
        }
    }
    cells
}

/// A value in the file as a cell. Flag columns hold 1 or 0; numbers stay as written, because `01` and `1` are different
/// texts.
fn value(value: &tree::NodeValue, of_flag: bool) -> Value {
    match (value, form::flag_of(value)) {
        (_, Some(flag)) if of_flag => Value::Integer(i64::from(flag)),
        (tree::NodeValue::Integer(integer, written), _) if written.parse() != Ok(*integer) => {
            Value::Integer(*integer)
        }
        _ => Value::Text(form::text_of(value).unwrap_or_default()),
    }
}
