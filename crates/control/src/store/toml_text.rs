//! Memory as a `narrows.toml`: what differs from the defaults, for the person who will maintain it.

use std::fmt::Write;

use rusqlite::types::Value;

use super::answer::Refusal;
use super::reading::{cells_where, file_value};
use super::{Store, variables};
use crate::config::schema::{Absent, Section};
use crate::config::tables::{SECTIONS, SECTIONS_STORED_ONLY};
use crate::schema::{self, Database, MODULES, Module};
use crate::variables::{Kind, Variable};
use crate::versions::key;

impl Store {
    /// The contents of memory as a `narrows.toml`, and what a file cannot say.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn toml_text(&mut self) -> Result<(String, Vec<String>), Refusal> {
        let (mut text, mut left_out) = (String::new(), Vec::new());
        for module in MODULES {
            match module.prefix() {
                Some(prefix) => self.toml_variables(prefix, &mut text)?,
                None => self.toml_tables(module, &mut text, &mut left_out)?,
            }
        }
        Ok((text.trim_start().to_owned(), left_out))
    }

    fn toml_variables(&mut self, prefix: &str, text: &mut String) -> Result<(), Refusal> {
        let rows = variables::in_memory(self.all.open()?, prefix)?;
        let mut lines = String::new();
        for (name, value) in rows {
            let Some(variable) = Variable::named(&name) else { continue };
            if matches!(variable.kind, Kind::Fixed { .. }) {
                continue;
            }
            // In a form that can be read back: a file is stricter than the admin interface.
            let value = variable.adopt(&value).map_or(value, |adopted| adopted.to_string());
            if value != variable.default_value().to_string() {
                let _ = writeln!(lines, "{} = {}", variable.short_name(), scalar(&value));
            }
        }
        if !lines.is_empty() {
            let _ = write!(text, "\n[{}_variables]\n{lines}", prefix.trim_end_matches('-'));
        }
        Ok(())
    }

    fn toml_tables(
        &mut self,
        module: Module,
        text: &mut String,
        left_out: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        for table in module.tables() {
            let condition = if *table == "mysql_users" { FOR_CLIENTS } else { "1 ORDER BY rowid" };
            let rows = cells_where(self.all.open()?, Database::Main, table, condition)?;
            let stored = SECTIONS_STORED_ONLY.iter().find(|(_, of)| of == table);
            let name = stored.map_or(*table, |(section, _)| section);
            let section = SECTIONS.iter().copied().find(|section| section.name() == *table);
            for row in &rows {
                // Narrows does not start with a file that has such a row.
                if section.is_some_and(|section| !section.accepts(row.iter().map(file_value).collect())) {
                    left_out.push(format!(
                        "{table} {}: it cannot be applied, and is not in the file",
                        key(table, row)
                    ));
                    continue;
                }
                let _ = write!(text, "\n[[{name}]]\n{}", lines(table, section, row));
            }
            if *table == "mysql_users" {
                let others = cells_where(self.all.open()?, Database::Main, table, FOR_SERVERS_ONLY)?.len();
                if others > 0 {
                    left_out.push(format!(
                        "mysql_users: {others} accounts for servers only: a file has no such accounts, and Narrows does not use them"
                    ));
                }
            }
        }
        Ok(())
    }
}

const FOR_CLIENTS: &str = "frontend = 1 ORDER BY rowid";

const FOR_SERVERS_ONLY: &str =
    "frontend = 0 AND username NOT IN (SELECT username FROM main.mysql_users WHERE frontend = 1)";

/// The columns of a row that a reader of the file would not know otherwise.
fn lines(table: &str, section: Option<&dyn Section>, row: &[Value]) -> String {
    let absent = section.map(Section::absent).unwrap_or_default();
    let mut text = String::new();
    for (column, cell) in schema::columns(table).into_iter().zip(row) {
        let of_file = absent.iter().find(|(name, _)| *name == column).map(|(_, absent)| *absent);
        // Every account in a file is for clients and for servers.
        let is_known = table == "mysql_users" && matches!(column, "backend" | "frontend");
        let value = match cell {
            Value::Null => continue,
            Value::Integer(integer) => integer.to_string(),
            Value::Real(real) => real.to_string(),
            Value::Text(text) => text.clone(),
            Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        if is_known || matches!(of_file, Some(Absent::Is(default)) if default == value) {
            continue;
        }
        let is_number = matches!(cell, Value::Integer(_));
        let _ = writeln!(text, "{column} = {}", if is_number { value } else { quoted(&value) });
    }
    text
}

/// A variable's value: numbers and flags are written without quotes.
fn scalar(value: &str) -> String {
    let is_number = value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    if is_number || value == "true" || value == "false" { value.to_owned() } else { quoted(value) }
}

/// A basic string of TOML.
pub fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(text, "\\u{:04X}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn any_password_is_a_string_of_toml() {
        assert_eq!(quoted("a\"b\\c\u{1}\u{7f}é"), "\"a\\\"b\\\\c\\u0001\\u007Fé\"");
    }
}
