//! Which version of the fleet was applied here: on disk, written in the transaction that applies it. And the tables with the rows of
//! all members.

use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value as Json, json};

use super::Store;
use super::answer::Refusal;
use crate::schema::{Database, Table, of_fleet};
use crate::versions::{FleetHome, FleetMark, FleetPlace, VersionId};

impl Store {
    /// The version of the fleet that was applied last, and the version that it made here; `None`: none ever was.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn fleet_place(&mut self) -> Result<Option<(FleetPlace, i64)>, Refusal> {
        Ok(read(self.all.open()?)?)
    }

    /// Creates the tables with the rows of all members.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn add_fleet_tables(&mut self) -> Result<(), Refusal> {
        let connection = self.all.open()?;
        for table in of_fleet::tables() {
            connection.execute_batch(&of_fleet::create(table))?;
        }
        Ok(())
    }

    /// Fills the table of all members: with the rows of `node`, this one, that the table of statistics has, and with those of others.
    ///
    /// # Errors
    /// SQLite's error; then the table is as it was.
    pub fn fill_fleet_table<'a>(
        &mut self,
        table: &Table,
        node: &str,
        others: impl Iterator<Item = (&'a str, &'a [Option<String>])>,
    ) -> Result<(), Refusal> {
        let stats = Database::Stats.name();
        let own = format!("{stats}.{}", table.name);
        let all = format!("{stats}.{}{}", of_fleet::PREFIX, table.name);
        let transaction = self.all.open()?.transaction()?;
        transaction.execute(&format!("DELETE FROM {all}"), [])?;
        transaction.execute(&format!("INSERT INTO {all} SELECT ?1, * FROM {own}"), [node])?;
        let columns = table.columns().count();
        let places = vec!["?"; columns + 1].join(", ");
        let mut insert = transaction.prepare(&format!("INSERT INTO {all} VALUES ({places})"))?;
        for (node, row) in others.filter(|(_, row)| row.len() == columns) {
            let cells = std::iter::once(Some(node)).chain(row.iter().map(Option::as_deref));
            insert.execute(rusqlite::params_from_iter(cells))?;
        }
        drop(insert);
        Ok(transaction.commit()?)
    }

    /// Empties the table of all members.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn empty_fleet_table(&mut self, table: &Table) -> Result<(), Refusal> {
        let (stats, prefix, name) = (Database::Stats.name(), of_fleet::PREFIX, table.name);
        self.all.open()?.execute(&format!("DELETE FROM {stats}.{prefix}{name}"), [])?;
        Ok(())
    }
}

/// Records the version of the fleet that was applied, and the version that it made here.
pub(super) fn write(connection: &Connection, place: &FleetPlace, local: i64) -> rusqlite::Result<()> {
    let FleetPlace { mark, lineage, home, former } = place;
    let value = json!({
        "version": mark.version,
        "id": mark.id.to_string(),
        "on_trial": mark.is_on_trial,
        "lineage": lineage.iter().map(VersionId::to_string).collect::<Vec<_>>(),
        "home": home.to_json(),
        "former": former.iter().map(FleetHome::to_json).collect::<Vec<_>>(),
        "here": local,
    });
    let sql = "INSERT OR REPLACE INTO disk.global_settings (variable_name, variable_value) VALUES (?1, ?2)";
    connection.execute(sql, [NAME, &value.to_string()]).map(drop)
}

pub(super) fn read(connection: &Connection) -> rusqlite::Result<Option<(FleetPlace, i64)>> {
    let sql = "SELECT variable_value FROM disk.global_settings WHERE variable_name = ?1";
    let value: Option<String> = connection.query_row(sql, [NAME], |row| row.get(0)).optional()?;
    let value: Json = value.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(place(&value).zip(value["here"].as_i64()))
}

/// What [`write`] wrote; `None`: it is something else.
fn place(value: &Json) -> Option<FleetPlace> {
    let id = |json: &Json| VersionId::parse(json.as_str()?);
    let mark = FleetMark {
        version: value["version"].as_i64()?,
        id: id(&value["id"])?,
        is_on_trial: value["on_trial"] == true,
    };
    let lineage = value["lineage"].as_array()?.iter().map(id).collect::<Option<_>>()?;
    let former = value["former"].as_array()?.iter().map(FleetHome::from_json).collect::<Option<_>>()?;
    Some(FleetPlace { mark, lineage, home: FleetHome::from_json(&value["home"])?, former })
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
