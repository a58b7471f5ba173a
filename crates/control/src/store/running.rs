//! The store's record of what is running, and the tables `runtime_*` that show it.
//!
//! Operators may write to those tables; this has no lasting effect, because they are filled again when a statement
//! names them.

use std::collections::BTreeMap;

use narrows_proxy::clock;
use narrows_proxy::snapshot::{Rows, ServerRow, ServerStatus};
use narrows_wire::auth::client_side::Stored;
use rusqlite::types::Value;

use super::answer::Refusal;
use super::checksum::{Checksum, checksum};
use super::reading::Cells;
use super::{Store, functions, layers};
use crate::fleet::ModuleReport;
use crate::schema::Database;
use crate::schema::{MODULES, Module};
use crate::secrets::literal;
use crate::variables::Values;
use crate::versions::ConfigDocument;

/// The running configuration.
#[derive(Debug, Default, Clone)]
pub(super) struct Running {
    /// What the data plane received.
    pub rows: Rows,
    /// Every variable.
    pub variables: Values,
    /// The running rows, by the names of their tables in memory.
    pub tables: BTreeMap<&'static str, Cells>,
    /// How many times modules were loaded, when, and their checksums.
    pub loads: BTreeMap<&'static str, Load>,
}

impl Running {
    /// What runs, without the rows that do not.
    pub fn document(&self) -> ConfigDocument {
        let mut document = ConfigDocument::default();
        for (table, rows) in &self.tables {
            document.put_table(table, rows.clone());
        }
        for (variable, value) in self.variables.iter() {
            document.put_variable(variable.name, value.to_string());
        }
        document
    }
}

/// The last load of a module.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub version: i64,
    pub epoch: i64,
    pub checksum: Checksum,
}

impl Store {
    /// The configuration of the data plane.
    pub fn rows(&self) -> Rows {
        self.running.rows.clone()
    }

    /// The running rows of a table, given by its name in memory.
    pub fn running_rows(&self, table: &str) -> &[Vec<Value>] {
        self.running.tables.get(table).map(Vec::as_slice).unwrap_or_default()
    }

    /// Makes the runtime `mysql_servers` show these rows: servers are not always where they are configured.
    pub fn show_servers(&mut self, servers: &[ServerRow]) {
        self.running.tables.insert("mysql_servers", servers.iter().map(server_cells).collect());
    }

    /// Fills the tables `runtime_*` that `text` names.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn refresh_runtime(&mut self, text: &str) -> Result<(), Refusal> {
        let text = text.to_ascii_lowercase();
        if !text.contains("runtime_") {
            return Ok(());
        }
        for table in MODULES.into_iter().filter(|module| module.prefix().is_none()).flat_map(Module::tables) {
            let name = format!("runtime_{table}");
            if text.contains(&name) {
                let mut rows = self.running.tables.get(table).cloned().unwrap_or_default();
                if *table == "mysql_users" {
                    rows.iter_mut().for_each(|row| hide_password(row));
                }
                self.replace(&name, &rows)?;
            }
        }
        if text.contains("runtime_global_variables") {
            let row = |(variable, value): (&crate::variables::Variable, &crate::variables::Value)| {
                vec![Value::Text(variable.name.to_owned()), Value::Text(value.to_string())]
            };
            let rows: Cells = self.running.variables.iter().map(row).collect();
            self.replace("runtime_global_variables", &rows)?;
        }
        if text.contains("runtime_checksums_values") {
            let rows = self.checksum_rows();
            self.refill("main.runtime_checksums_values", rows)?;
        }
        Ok(())
    }

    /// Shows servers in `runtime_mysql_servers` as the workers see them: hostgroup, hostname, port, status.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn show_statuses(&mut self, servers: &[(i32, String, u16, &str)]) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        let mut update = transaction.prepare(
            "UPDATE main.runtime_mysql_servers SET status = ?4 WHERE hostgroup_id = ?1 AND hostname = ?2 AND port = ?3",
        )?;
        for (hostgroup, hostname, port, status) in servers {
            update.execute(rusqlite::params![hostgroup, hostname, port, status])?;
        }
        drop(update);
        Ok(transaction.commit()?)
    }

    fn replace(&mut self, table: &str, rows: &[Vec<Value>]) -> Result<(), Refusal> {
        let transaction = self.all.open()?.transaction()?;
        transaction.execute(&format!("DELETE FROM main.{table}"), [])?;
        layers::insert(&transaction, Database::Main, table, rows)?;
        Ok(transaction.commit()?)
    }

    /// Each part of the configuration: its name, how many times it was loaded, and when, in seconds since 1970.
    pub fn loads(&self) -> Vec<(&'static str, i64, i64)> {
        self.running.loads.iter().map(|(name, load)| (*name, load.version, load.epoch)).collect()
    }

    /// The parts of the configuration that run, as `runtime_checksums_values` has them.
    pub fn modules_in_force(&self) -> Vec<ModuleReport> {
        let module = |(name, load): (&&'static str, &Load)| ModuleReport {
            name: (*name).to_owned(),
            version: load.version,
            epoch: load.epoch,
            checksum: load.checksum.to_string(),
        };
        self.running.loads.iter().map(module).collect()
    }

    fn checksum_rows(&self) -> Cells {
        let names = MODULES.into_iter().flat_map(Module::checksums);
        let mut rows: Cells = names
            .map(|name| {
                let load = self.running.loads.get(name).copied();
                let checksum = load.map(|load| load.checksum.to_string()).unwrap_or_default();
                let load = load.unwrap_or_default();
                let name = Value::Text((*name).to_owned());
                vec![name, Value::Integer(load.version), Value::Integer(load.epoch), Value::Text(checksum)]
            })
            .collect();
        rows.sort_by(|one, other| format!("{one:?}").cmp(&format!("{other:?}")));
        rows
    }

    /// Records that `module` was loaded.
    pub(super) fn note_checksums(&mut self, module: Module) -> Result<(), Refusal> {
        let now = clock::now_s();
        for name in module.checksums() {
            let sum = match module.prefix() {
                Some(prefix) => self.checksum_of_variables(prefix),
                None if *name == "mysql_servers_v2" => {
                    self.checksum_in(Database::Main, "mysql_servers", "1")?
                }
                None => checksum(module.tables().iter().flat_map(|table| self.running_rows(table))),
            };
            let load = self.running.loads.entry(name).or_default();
            load.version += 1;
            load.epoch = now;
            load.checksum = sum;
        }
        Ok(())
    }

    fn checksum_of_variables(&self, prefix: &str) -> Checksum {
        let own = self.running.variables.iter().filter(|(variable, _)| variable.name.starts_with(prefix));
        let rows: Cells = own
            .map(|(variable, value)| {
                vec![Value::Text(variable.name.to_owned()), Value::Text(value.to_string())]
            })
            .collect();
        checksum(&rows)
    }

    /// One checksum over those of all modules, which changes when any of them does.
    pub fn global_checksum(&self) -> u64 {
        checksum(&self.checksum_rows()).number()
    }
}

/// Runtime tables show hashes: a clear-text password can only be read where the operator wrote it.
fn hide_password(row: &mut [Value]) {
    if let Some(Value::Text(password)) = row.get_mut(PASSWORD) {
        hash(password);
    }
    let Some(Value::Text(attributes)) = row.get_mut(ATTRIBUTES) else { return };
    let Ok(serde_json::Value::Object(mut object)) = serde_json::from_str(attributes) else { return };
    if let Some(serde_json::Value::String(password)) = object.get_mut("additional_password") {
        hash(password);
        *attributes = serde_json::Value::Object(object).to_string();
    }
}

fn hash(password: &mut String) {
    // A reference is no password.
    let Some(literal) = literal(password).filter(|literal| !literal.is_empty()) else { return };
    *password = match Stored::parse(literal.as_bytes()) {
        Stored::Clear(_) => functions::native_hash(literal.as_bytes()),
        _ => literal.to_owned(),
    };
}

/// The positions of the columns `password` and `attributes` in `mysql_users`.
const PASSWORD: usize = 1;
const ATTRIBUTES: usize = 12;

/// A row of `mysql_servers`, in the order of its columns. As in ProxySQL, this table has one word for all kinds of
/// shunned.
pub(super) fn server_cells(row: &ServerRow) -> Vec<Value> {
    let status = match row.status {
        ServerStatus::ShunnedReplicationLag => ServerStatus::Shunned.name(),
        other => other.name(),
    };
    vec![
        Value::Integer(row.hostgroup.0.into()),
        Value::Text(row.hostname.clone()),
        Value::Integer(row.port.into()),
        Value::Integer(row.gtid_port.into()),
        Value::Text(status.to_owned()),
        Value::Integer(row.weight.into()),
        Value::Integer(row.compression.into()),
        Value::Integer(row.max_connections.into()),
        Value::Integer(row.max_replication_lag.into()),
        Value::Integer(row.use_ssl.into()),
        Value::Integer(row.max_latency_ms.into()),
        Value::Text(row.comment.clone()),
    ]
}
