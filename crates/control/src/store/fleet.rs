//! Which version of the fleet was applied here: on disk, written in the transaction that applies it.

use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value as Json, json};

use super::Store;
use super::answer::Refusal;
use crate::versions::FleetMark;

impl Store {
    /// The version of the fleet that was applied last, and the version that it made here; `None`: none ever was.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn fleet_mark(&mut self) -> Result<Option<(FleetMark, i64)>, Refusal> {
        Ok(read(self.all.open()?)?)
    }
}

/// Records the version of the fleet that was applied, and the version that it made here.
pub(super) fn write(connection: &Connection, mark: FleetMark, local: i64) -> rusqlite::Result<()> {
    let value = json!({ "version": mark.version, "on_trial": mark.is_on_trial, "here": local });
    let sql = "INSERT OR REPLACE INTO disk.global_settings (variable_name, variable_value) VALUES (?1, ?2)";
    connection.execute(sql, [NAME, &value.to_string()]).map(drop)
}

pub(super) fn read(connection: &Connection) -> rusqlite::Result<Option<(FleetMark, i64)>> {
    let sql = "SELECT variable_value FROM disk.global_settings WHERE variable_name = ?1";
    let value: Option<String> = connection.query_row(sql, [NAME], |row| row.get(0)).optional()?;
    let value: Json = value.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let mark = |version| FleetMark { version, is_on_trial: value["on_trial"] == true };
    Ok(value["version"].as_i64().map(mark).zip(value["here"].as_i64()))
}

/// Forgets a version of the fleet that was stored here as a later version than `runs`: it never came into force.
pub(super) fn forget_after(connection: &Connection, runs: i64) -> rusqlite::Result<()> {
    if read(connection)?.is_some_and(|(_, local)| local > runs) {
        connection.execute("DELETE FROM disk.global_settings WHERE variable_name = ?1", [NAME])?;
    }
    Ok(())
}

/// The name of the setting.
const NAME: &str = "fleet";
