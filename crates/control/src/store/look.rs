//! Reads a layer, to compare it with its earlier state.

use rusqlite::types::Value;

use super::Store;
use super::reading::cells_where;
use crate::schema::{Layer, Module};

impl Store {
    /// The rows of a module in a layer, by table. Tables that cannot be read are left out.
    pub fn rows_in(&self, layer: Layer, module: Module) -> Vec<(&'static str, Vec<Vec<Value>>)> {
        let connection = &self.all.connection;
        let rows = |table: &'static str| match layer.database() {
            Some(database) => cells_where(connection, database, table, "1").unwrap_or_default(),
            None => self.running_rows(table).to_vec(),
        };
        module.tables().iter().map(|table| (*table, rows(table))).collect()
    }

    /// The variables in a layer whose names begin with `prefix`, with their texts.
    pub fn values_in(&self, layer: Layer, prefix: &str) -> Vec<(String, String)> {
        let Some(database) = layer.database() else {
            let own = self.variables().iter().filter(|(variable, _)| variable.name.starts_with(prefix));
            return own.map(|(variable, value)| (variable.name.to_owned(), value.to_string())).collect();
        };
        let rows = cells_where(&self.all.connection, database, "global_variables", "1").unwrap_or_default();
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Integer(integer) => integer.to_string(),
            other => format!("{other:?}"),
        };
        let pair = |row: &Vec<Value>| Some((text(row.first()?), text(row.get(1)?)));
        rows.iter().filter_map(pair).filter(|(name, _)| name.starts_with(prefix)).collect()
    }
}
