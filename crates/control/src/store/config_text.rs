//! Memory as a configuration file, in the syntax of `proxysql.cnf`, which both programs read.

use std::fmt::Write;

use narrows_proxy::clock;
use rusqlite::types::Value;

use super::answer::Refusal;
use super::reading::cells_where;
use super::{Store, variables};
use crate::calendar::date_and_time;
use crate::config::tables::SECTIONS_STORED_ONLY;
use crate::schema::Module;
use crate::schema::{self, Database};
use crate::variables::{Kind, Variable};

/// The modules in the order of a file.
const ORDER: [Module; 9] = [
    Module::AdminVariables,
    Module::MysqlVariables,
    Module::MysqlUsers,
    Module::MysqlQueryRules,
    Module::MysqlServers,
    Module::MysqlFirewall,
    Module::Scheduler,
    Module::Restapi,
    Module::ProxysqlServers,
];

/// A file has no accounts that are for clients only or for servers only: of two rows with the same name, the one for
/// clients is written.
const ACCOUNTS: &str = "frontend = 1 OR username NOT IN (SELECT username FROM main.mysql_users WHERE frontend = 1) ORDER BY rowid";

impl Store {
    /// The contents of memory, as a file.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn config_text(&mut self) -> Result<String, Refusal> {
        let now = date_and_time(clock::now_s());
        let mut text = format!("# Configuration as it was in memory on {now} UTC.\n");
        for module in ORDER {
            match module.prefix() {
                Some(prefix) => self.write_variables(prefix, &mut text)?,
                None => self.write_tables(module, &mut text)?,
            }
        }
        Ok(text)
    }

    fn write_variables(&mut self, prefix: &str, text: &mut String) -> Result<(), Refusal> {
        let rows = variables::in_memory(self.all.open()?, prefix)?;
        let _ = write!(text, "\n{}_variables =\n{{\n", prefix.trim_end_matches('-'));
        for (name, value) in rows {
            let Some(variable) = Variable::named(&name) else { continue };
            if matches!(variable.kind, Kind::Fixed { .. }) {
                continue;
            }
            // In a form that can be read back: a file is stricter than the admin interface.
            let value = variable.adopt(&value).map_or(value, |adopted| adopted.to_string());
            let _ = writeln!(text, "    {}={}", variable.short_name(), quoted(&value));
        }
        text.push_str("}\n");
        Ok(())
    }

    fn write_tables(&mut self, module: Module, text: &mut String) -> Result<(), Refusal> {
        for table in module.tables() {
            let condition = if *table == "mysql_users" { ACCOUNTS } else { "1 ORDER BY rowid" };
            let rows = cells_where(self.all.open()?, Database::Main, table, condition)?;
            if rows.is_empty() {
                continue;
            }
            let section = SECTIONS_STORED_ONLY.iter().find(|(_, of)| of == table);
            let columns = schema::columns(table);
            let rows: Vec<String> = rows.iter().map(|row| group(&columns, row)).collect();
            let section = section.map_or(*table, |(section, _)| section);
            let _ = write!(text, "\n{section} =\n(\n{}\n)\n", rows.join(",\n"));
        }
        Ok(())
    }
}

/// A row; NULLs are left out.
fn group(columns: &[&str], row: &[Value]) -> String {
    let mut text = String::from("    {\n");
    for (column, cell) in columns.iter().zip(row) {
        let value = match cell {
            Value::Null => continue,
            // Numbers beyond 32 bits are written with an L in this syntax.
            Value::Integer(integer) if i32::try_from(*integer).is_err() => format!("{integer}L"),
            Value::Integer(integer) => integer.to_string(),
            Value::Real(real) => real.to_string(),
            Value::Text(text) => quoted(text),
            Value::Blob(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        };
        let _ = writeln!(text, "        {column}={value}");
    }
    text.push_str("    }");
    text
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
