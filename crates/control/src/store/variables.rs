//! `global_variables`: texts in memory, values at runtime.

use rusqlite::{Connection, OptionalExtension};

use super::Store;
use super::answer::{Refusal, Warning};
use super::reading::NO_EFFECT;
use crate::variables::{Kind, VARIABLES, Values, Variable};

/// `ER_WRONG_VALUE_FOR_VAR` and `ER_UNKNOWN_SYSTEM_VARIABLE`.
pub(super) const PUT_BACK: u16 = 1231;
pub(super) const UNKNOWN: u16 = 1193;

/// The correction of a row of `global_variables` in memory.
#[derive(Debug)]
pub(super) struct PutBack {
    name: String,
    /// The running value, which the row is set to; `None` if there is no such variable, and the row is deleted.
    value: Option<String>,
}

/// The outcome of reading variables.
#[derive(Debug, Default)]
pub(super) struct Adopted {
    pub warnings: Vec<Warning>,
    pub put_back: Vec<PutBack>,
}

/// Whether a configuration runs yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing runs: variables that need a restart are applied too.
    Starting,
    /// A configuration runs: variables that need a restart keep the running value.
    Serving,
}

/// Reads the rows of `prefix` in memory into `values`.
pub(super) fn adopt(
    connection: &Connection,
    prefix: &str,
    values: &mut Values,
    phase: Phase,
) -> Result<Adopted, Refusal> {
    let mut adopted = Adopted::default();
    for (name, text) in in_memory(connection, prefix)? {
        let Some(variable) = Variable::named(&name) else {
            let message = format!("{name}: there is no such variable; its row is deleted");
            adopted.warnings.push(Warning { code: UNKNOWN, message });
            adopted.put_back.push(PutBack { name, value: None });
            continue;
        };
        let running = values.value(variable.name).map(ToString::to_string).unwrap_or_default();
        if running == text {
            continue;
        }
        match variable.adopt(&text) {
            Ok(_) if variable.needs_restart() && phase == Phase::Serving => {
                let message = format!(
                    "{}: takes effect after a restart; until then it stays {running:?}",
                    variable.name
                );
                adopted.warnings.push(Warning { code: PUT_BACK, message });
            }
            Ok(value) => values.put(variable, value),
            Err(reason) => {
                let stays =
                    if variable.is_secret() { "as it was".to_owned() } else { format!("{running:?}") };
                let message = format!("{reason}; it stays {stays}");
                adopted.warnings.push(Warning { code: PUT_BACK, message });
                adopted.put_back.push(PutBack { name, value: Some(running) });
            }
        }
    }
    for (variable, value) in values.iter().filter(|(variable, _)| variable.name.starts_with(prefix)) {
        if let Some(what) = variable.lacks_effect(value) {
            let message = format!("{} {what}", variable.name);
            adopted.warnings.push(Warning { code: NO_EFFECT, message });
        }
    }
    adopted.warnings.extend(strangers(connection)?);
    Ok(adopted)
}

/// Warns of names in `global_variables` that belong to no module, so that no LOAD reads them. They stay, as in
/// ProxySQL.
fn strangers(connection: &Connection) -> rusqlite::Result<Option<Warning>> {
    const MOST_NAMED: usize = 10;
    let sql = "SELECT variable_name FROM main.global_variables
               WHERE variable_name NOT LIKE 'mysql-%' AND variable_name NOT LIKE 'admin-%' ORDER BY rowid";
    let mut select = connection.prepare(sql)?;
    let names = select.query_map([], |row| Ok(text(row.get_ref(0)?)))?;
    let names = names.collect::<rusqlite::Result<Vec<String>>>()?;
    if names.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> = names.iter().take(MOST_NAMED).map(|name| format!("{name:?}")).collect();
    let more = match names.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "global_variables: {}{more}: there is no such variable, and the row is ignored; names begin with mysql- or admin-",
        named.join(", ")
    );
    Ok(Some(Warning { code: UNKNOWN, message }))
}

/// The variables in memory whose names begin with `prefix`, with their texts.
pub(super) fn in_memory(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT variable_name, variable_value FROM main.global_variables
               WHERE variable_name LIKE ?1 || '%' ORDER BY rowid";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, text(row.get_ref(1)?)));
    connection.prepare(sql)?.query_map([prefix], row)?.collect()
}

/// Corrects rows in memory.
pub(super) fn put_back(connection: &Connection, rows: &[PutBack]) -> Result<(), Refusal> {
    for PutBack { name, value } in rows {
        match value {
            Some(value) => connection.execute(
                "UPDATE main.global_variables SET variable_value = ?2 WHERE variable_name = ?1",
                [name, value],
            )?,
            None => {
                connection.execute("DELETE FROM main.global_variables WHERE variable_name = ?1", [name])?
            }
        };
    }
    Ok(())
}

/// Adds the variables of `prefix` that memory lacks, with their running values.
pub(super) fn add_missing(connection: &Connection, prefix: &str, running: &Values) -> rusqlite::Result<()> {
    let mut insert = connection.prepare("INSERT OR IGNORE INTO main.global_variables VALUES (?1, ?2)")?;
    for (variable, value) in running.iter().filter(|(variable, _)| variable.name.starts_with(prefix)) {
        insert.execute([variable.name, &value.to_string()])?;
    }
    Ok(())
}

/// Adds the variables that memory lacks, with their defaults.
pub(super) fn complete(connection: &Connection) -> rusqlite::Result<()> {
    let mut insert = connection.prepare("INSERT OR IGNORE INTO main.global_variables VALUES (?1, ?2)")?;
    for variable in VARIABLES.iter() {
        insert.execute([variable.name, &variable.default_value().to_string()])?;
    }
    // Variables that cannot be set have this program's value, whatever another version stored.
    let mut fix = connection
        .prepare("UPDATE main.global_variables SET variable_value = ?2 WHERE variable_name = ?1")?;
    for variable in VARIABLES.iter() {
        if let Kind::Fixed { text } = variable.kind {
            fix.execute([variable.name, text])?;
        }
    }
    Ok(())
}

fn text(value: rusqlite::types::ValueRef<'_>) -> String {
    super::answer::cell(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

impl Store {
    /// The running value of the variable with that full name.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.running.variables.value(name).map(ToString::to_string)
    }

    /// The running values of all variables.
    pub fn variables(&self) -> &Values {
        &self.running.variables
    }

    /// The text of a variable in memory.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn variable_in_memory(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        let sql = "SELECT variable_value FROM main.global_variables WHERE variable_name = ?1 COLLATE NOCASE";
        let value = |row: &rusqlite::Row<'_>| Ok(text(row.get_ref(0)?));
        Ok(self.all.open()?.query_row(sql, [name], value).optional()?)
    }

    pub(super) fn save_running_variables(&mut self, prefix: &str) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        let mut save = transaction.prepare("INSERT OR REPLACE INTO main.global_variables VALUES (?1, ?2)")?;
        for (variable, value) in self.running.variables.iter() {
            if variable.name.starts_with(prefix) {
                save.execute([variable.name, &value.to_string()])?;
            }
        }
        drop(save);
        Ok(transaction.commit()?)
    }

    /// Applies an `admin-` variable that concerns the store itself.
    pub(super) fn follow_admin_variables(&mut self) {
        let read_only = self.variable("admin-read_only").is_some_and(|value| value == "true");
        self.set_read_only(read_only);
    }
}
