//! The contents of a configuration: the rows of tables, and the texts of variables.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use rusqlite::types::Value;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value as Json;

use crate::schema::{self, MODULES, Module, cells};
use crate::variables::{Kind, VARIABLES, Variable};

/// Rows by table, and values by variable. One that was read from a file has only the tables and variables that the file
/// has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigDocument {
    /// The rows, with their cells in the order of the columns, sorted by their keys.
    tables: BTreeMap<&'static str, Vec<Vec<Value>>>,
    /// The texts of variables, by full name.
    variables: BTreeMap<String, String>,
}

/// Why bytes are no document.
#[derive(Debug, thiserror::Error)]
pub enum ConfigDocumentError {
    /// They are no JSON.
    #[error("it is no JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// It comes from a version with another format.
    #[error("its format is {found}; this version reads format {FORM}")]
    Form {
        /// Its format.
        found: u64,
    },
    /// A table is not written as one.
    #[error("the table {0} has no columns and rows")]
    Table(String),
}

/// Increased when older versions can no longer read the format.
const FORM: u64 = 1;

impl ConfigDocument {
    /// No rows, and the defaults of all variables.
    pub fn of_defaults() -> ConfigDocument {
        let mut document = ConfigDocument::default();
        for variable in VARIABLES.iter() {
            document.put_variable(variable.name, variable.default_value().to_string());
        }
        document
    }

    /// Sets the rows of a table, whose cells are in the order of its columns.
    pub fn put_table(&mut self, table: &'static str, mut rows: Vec<Vec<Value>>) {
        let places = key_places(table);
        rows.sort_by(|one, other| sort_key(&places, one).cmp(&sort_key(&places, other)));
        self.tables.insert(table, rows);
    }

    /// Sets the text of a variable. Those that do not exist, or that no one can set, are left out.
    pub fn put_variable(&mut self, name: &str, text: String) {
        let is_free = |variable: &&Variable| !matches!(variable.kind, Kind::Fixed { .. });
        if let Some(variable) = Variable::named(name).filter(is_free) {
            self.variables.insert(variable.name.to_owned(), text);
        }
    }

    /// The tables that it has.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, &[Vec<Value>])> {
        self.tables.iter().map(|(table, rows)| (*table, rows.as_slice()))
    }

    /// The rows of a table; none if it does not have the table.
    pub fn rows(&self, table: &str) -> &[Vec<Value>] {
        self.tables.get(table).map(Vec::as_slice).unwrap_or_default()
    }

    /// The variables that it has, with their texts.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// It without the variables that `leaves_out` names.
    pub fn without_variables(&self, leaves_out: impl Fn(&str) -> bool) -> ConfigDocument {
        let mut document = self.clone();
        document.variables.retain(|name, _| !leaves_out(name));
        document
    }

    /// Whether it has neither a table nor a variable.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.variables.is_empty()
    }

    /// Replaces the contents of a module by those that `other` has of it.
    pub fn take_module(&mut self, module: Module, other: &ConfigDocument) {
        match module.prefix() {
            Some(prefix) => {
                self.variables.retain(|name, _| !name.starts_with(prefix));
                let own = other.variables.iter().filter(|(name, _)| name.starts_with(prefix));
                self.variables.extend(own.map(|(name, text)| (name.clone(), text.clone())));
            }
            None => {
                for table in module.tables() {
                    self.tables.insert(table, other.rows(table).to_vec());
                }
            }
        }
    }

    /// Replaces the rows of the account `name` by those that `other` has.
    pub fn take_user(&mut self, name: &str, other: &ConfigDocument) {
        let is_named = |row: &&Vec<Value>| row.first() == Some(&Value::Text(name.to_owned()));
        let rows = self.rows("mysql_users").iter().filter(|row| !is_named(row));
        let rows = rows.chain(other.rows("mysql_users").iter().filter(is_named)).cloned().collect();
        self.put_table("mysql_users", rows);
    }

    /// `self` where it says something, and `base` elsewhere.
    pub fn over(&self, base: &ConfigDocument) -> ConfigDocument {
        let mut whole = base.clone();
        whole.tables.extend(self.tables.iter().map(|(table, rows)| (*table, rows.clone())));
        whole.variables.extend(self.variables.iter().map(|(name, text)| (name.clone(), text.clone())));
        whole
    }

    /// The modules in which `self` differs from `other`.
    pub fn modules_that_differ(&self, other: &ConfigDocument) -> Vec<Module> {
        let differs = |module: &Module| match module.prefix() {
            Some(prefix) => {
                let of = |document: &ConfigDocument| -> Vec<(String, String)> {
                    let own = document.variables.iter().filter(|(name, _)| name.starts_with(prefix));
                    own.map(|(name, text)| (name.clone(), text.clone())).collect()
                };
                of(self) != of(other)
            }
            None => module.tables().iter().any(|table| self.rows(table) != other.rows(table)),
        };
        MODULES.into_iter().filter(differs).collect()
    }

    /// It as JSON. Passwords are in it.
    pub fn to_json(&self) -> Vec<u8> {
        // Nothing in it has a form that JSON does not have.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what [`ConfigDocument::to_json`] wrote, also by a version with other columns: a column that it does not know keeps
    /// its default. Also returns the names that this version does not have.
    ///
    /// # Errors
    /// See [`ConfigDocumentError`].
    pub fn from_json(written: &[u8]) -> Result<(ConfigDocument, Vec<String>), ConfigDocumentError> {
        ConfigDocument::from_value(&serde_json::from_slice(written)?)
    }

    /// The same, of JSON that was read.
    ///
    /// # Errors
    /// See [`ConfigDocumentError`].
    pub fn from_value(written: &Json) -> Result<(ConfigDocument, Vec<String>), ConfigDocumentError> {
        let found = written["form"].as_u64().unwrap_or(0);
        if found != FORM {
            return Err(ConfigDocumentError::Form { found });
        }
        let (mut document, mut unknown) = (ConfigDocument::default(), Vec::new());
        for (name, table) in written["tables"].as_object().into_iter().flatten() {
            let mut of_modules = MODULES.into_iter().flat_map(Module::tables);
            let Some(known) = of_modules.find(|table| *table == name) else {
                unknown.push(name.clone());
                continue;
            };
            let (Some(columns), Some(rows)) = (table["columns"].as_array(), table["rows"].as_array()) else {
                return Err(ConfigDocumentError::Table(name.clone()));
            };
            let names: Vec<&str> = columns.iter().filter_map(Json::as_str).collect();
            let own = schema::columns(known);
            let strange = names.iter().filter(|name| !own.contains(name));
            unknown.extend(strange.map(|column| format!("{name}.{column}")));
            let defaults = schema::defaults(known);
            let row = |row: &Json| -> Vec<Value> {
                let cell =
                    |(column, default): (&&str, &Value)| match names.iter().position(|name| name == column) {
                        Some(place) => cells::from_json(&row[place]),
                        None => default.clone(),
                    };
                own.iter().zip(&defaults).map(cell).collect()
            };
            document.put_table(known, rows.iter().map(row).collect());
        }
        for (name, text) in written["variables"].as_object().into_iter().flatten() {
            match (Variable::named(name), text.as_str()) {
                (Some(_), Some(text)) => document.put_variable(name, text.to_owned()),
                _ => unknown.push(name.clone()),
            }
        }
        Ok((document, unknown))
    }

    /// The checksum of its JSON: equal for equal contents.
    pub fn checksum(&self) -> String {
        checksum(&self.to_json())
    }
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn checksum(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Serialize for ConfigDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("ConfigDocument", 3)?;
        document.serialize_field("form", &FORM)?;
        document.serialize_field("tables", &Tables(&self.tables))?;
        document.serialize_field("variables", &self.variables)?;
        document.end()
    }
}

struct Tables<'a>(&'a BTreeMap<&'static str, Vec<Vec<Value>>>);

impl Serialize for Tables<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, rows)| (name, TableRows(name, rows))))
    }
}

struct TableRows<'a>(&'static str, &'a [Vec<Value>]);

impl Serialize for TableRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_struct("Table", 2)?;
        table.serialize_field("columns", &schema::columns(self.0))?;
        table.serialize_field("rows", &Rows(self.1))?;
        table.end()
    }
}

struct Rows<'a>(&'a [Vec<Value>]);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|row| Cells(row)))
    }
}

struct Cells<'a>(&'a [Value]);

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Cell))
    }
}

struct Cell<'a>(&'a Value);

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Text(text) => serializer.serialize_str(text),
            Value::Integer(integer) => serializer.serialize_i64(*integer),
            Value::Null => serializer.serialize_none(),
            other => cells::to_json(other).serialize(serializer),
        }
    }
}

/// The places of the columns of a table's primary key.
pub(super) fn key_places(table: &str) -> Vec<usize> {
    let columns = schema::columns(table);
    let place = |name: &&str| columns.iter().position(|column| column == name);
    schema::key(table).iter().filter_map(place).collect()
}

/// The key of a row, by which rows are sorted.
pub(super) fn sort_key<'a>(places: &[usize], row: &'a [Value]) -> Vec<SortKey<'a>> {
    places.iter().filter_map(|place| row.get(*place)).map(SortKey::of).collect()
}

/// A cell of a key, in the order of SQLite: numbers before texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SortKey<'a> {
    Null,
    Integer(i64),
    Text(Cow<'a, str>),
}

impl SortKey<'_> {
    fn of(cell: &Value) -> SortKey<'_> {
        match cell {
            Value::Null => SortKey::Null,
            Value::Integer(integer) => SortKey::Integer(*integer),
            Value::Real(real) => SortKey::Text(real.to_string().into()),
            Value::Text(text) => SortKey::Text(text.into()),
            Value::Blob(bytes) => SortKey::Text(String::from_utf8_lossy(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(host: &str, weight: i64) -> Vec<Value> {
        let mut row = schema::defaults("mysql_servers");
        row[1] = Value::Text(host.to_owned());
        row[5] = Value::Integer(weight);
        row
    }

    #[test]
    fn it_is_read_as_it_was_written_and_the_order_of_rows_does_not_matter() {
        let (mut one, mut other) = (ConfigDocument::default(), ConfigDocument::default());
        one.put_table("mysql_servers", vec![server("b", 1), server("a", 2)]);
        other.put_table("mysql_servers", vec![server("a", 2), server("b", 1)]);
        for document in [&mut one, &mut other] {
            document.put_variable("mysql-max_connections", "100".to_owned());
            document.put_variable("admin-version", "none".to_owned());
        }
        assert_eq!(one.checksum(), other.checksum());
        let (read, unknown) = ConfigDocument::from_json(&one.to_json()).unwrap();
        assert_eq!((read, unknown), (one, Vec::new()));
    }

    #[test]
    fn what_another_version_has_is_told_and_what_it_lacks_has_its_default() {
        let written = json!({
            "form": 1,
            "tables": {
                "mysql_servers": { "columns": ["hostname", "colour"], "rows": [["a", "red"]] },
                "of_another_version": { "columns": [], "rows": [] },
            },
            "variables": { "mysql-threads": "2", "mysql-of_another_version": "1" },
        });
        let (document, unknown) = ConfigDocument::from_json(written.to_string().as_bytes()).unwrap();
        assert_eq!(unknown, ["mysql_servers.colour", "of_another_version", "mysql-of_another_version"]);
        assert_eq!(document.rows("mysql_servers"), [server("a", 1)]);
        assert!(
            ConfigDocument::from_json(b"{\"form\":2}").is_err() && ConfigDocument::from_json(b"x").is_err()
        );
    }

    #[test]
    fn a_part_replaces_only_what_it_has() {
        let mut base = ConfigDocument::default();
        base.put_table("mysql_servers", vec![server("a", 1)]);
        base.put_variable("mysql-threads", "2".to_owned());
        let mut part = ConfigDocument::default();
        part.put_variable("mysql-threads", "3".to_owned());
        let whole = part.over(&base);
        assert_eq!(whole.rows("mysql_servers").len(), 1);
        assert_eq!(whole.modules_that_differ(&base), [Module::MysqlVariables]);
        let mut taken = base.clone();
        taken.take_module(Module::MysqlVariables, &whole);
        assert_eq!(taken, whole);
    }
}
