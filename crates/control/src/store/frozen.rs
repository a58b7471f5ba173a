//! The running configuration and what is in memory, as bytes for the next process, which serves from them before it opens any
//! database.
//!
//! Rows are stored as cells of tables and values of variables, so that another version can read what it knows. The
//! bytes contain passwords and must be kept secret.

use std::collections::BTreeMap;

use narrows_proxy::snapshot::Rows;
use serde_json::{Value as Json, json};

use super::Store;
use super::answer::Refusal;
use super::checksum::Checksum;
use super::owned::Ownership;
use super::reading::{self, Cells};
use super::running::{Load, Running, server_cells};
use crate::holds::Holds;
use crate::monitor::placement::Known;
use crate::schema::cells::{from_json, to_json};
use crate::schema::{Database, MODULES, Module};
use crate::variables::{self, Values, Variable};
use crate::versions::ConfigDocument;

/// The running configuration, read back.
#[derive(Debug)]
pub struct Frozen {
    pub(super) running: Running,
    /// Its version; 0 if that is not known.
    pub(super) version: i64,
    /// What the configuration file owns; `None`: the process before did not say it.
    pub(super) ownership: Option<Ownership>,
    /// What was in memory; `None`: the process before did not say it.
    pub(super) memory: Option<ConfigDocument>,
    known: Known,
    holds: Holds,
}

/// Why bytes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrozenError {
    /// The bytes are not valid JSON.
    #[error("cannot read the frozen configuration: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The bytes come from a version with a different format.
    #[error("the frozen configuration has format {found}; this version reads format {FORM}")]
    Form {
        /// The format of the bytes.
        found: u64,
    },
    /// A part is missing.
    #[error("the frozen configuration has no {0}")]
    Lacks(&'static str),
    /// The rows cannot be loaded.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Increased when older versions can no longer read the format.
const FORM: u64 = 1;

impl Store {
    /// The running configuration and memory, with what is known about servers, and the hostgroups that are held.
    pub fn freeze(&mut self, known: &Known, holds: &Holds) -> Vec<u8> {
        if self.kept_memory.is_none() {
            // If it cannot be read now, the next process is not told it.
            self.kept_memory = self.document(Database::Main).ok();
        }
        let value = |(variable, value): (&Variable, &variables::Value)| {
            let value = match value {
                variables::Value::Integer(integer) => json!(integer),
                variables::Value::Flag(flag) => json!(flag),
                variables::Value::Text(text) => json!(text),
            };
            (variable.name.to_owned(), value)
        };
        let table = |(name, cells): (&&str, &Cells)| {
            // The tables show the current places of servers; stored are the configured ones.
            let configured: Cells;
            let cells = match *name {
                "mysql_servers" => {
                    configured = self.running.rows.servers.iter().map(server_cells).collect();
                    &configured
                }
                _ => cells,
            };
            let rows = cells.iter().map(|row| row.iter().map(to_json).collect::<Vec<_>>());
            ((*name).to_owned(), rows.collect::<Json>())
        };
        let load = |(name, load): (&&str, &Load)| {
            ((*name).to_owned(), json!([load.version, load.epoch, load.checksum.number()]))
        };
        let frozen = json!({
            "form": FORM,
            "variables": self.running.variables.iter().map(value).collect::<serde_json::Map<_, _>>(),
            "tables": self.running.tables.iter().map(table).collect::<serde_json::Map<_, _>>(),
            "kept_out": self.running.rows.kept_out,
            "loads": self.running.loads.iter().map(load).collect::<serde_json::Map<_, _>>(),
            "version": self.current.version,
            "managed": self.ownership().to_json(),
            "memory": self.kept_memory,
            "servers": known.to_json(),
            "holds": holds.to_json(),
        });
        frozen.to_string().into_bytes()
    }
}

impl Frozen {
    /// Reads what [`Store::freeze`] wrote.
    ///
    /// # Errors
    /// See [`FrozenError`].
    pub fn read(bytes: &[u8]) -> Result<Frozen, FrozenError> {
        let frozen: Json = serde_json::from_slice(bytes)?;
        let found = frozen["form"].as_u64().unwrap_or(0);
        if found != FORM {
            return Err(FrozenError::Form { found });
        }
        let part = |name: &'static str| frozen[name].as_object().ok_or(FrozenError::Lacks(name));
        let mut running = Running { variables: values(part("variables")?), ..Running::default() };
        let tables = part("tables")?;
        let cells = |table: &str| Ok(tables.get(table).map(cells).unwrap_or_default());
        for module in MODULES {
            let read = reading::read(&cells, module, &mut running.rows)?;
            running.tables.extend(read.tables);
        }
        running.rows.variables = running.variables.for_data_plane();
        // A process of before did not write it.
        let kept_out = frozen["kept_out"].as_array().into_iter().flatten();
        running.rows.kept_out = kept_out.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        running.loads = loads(part("loads")?);
        Ok(Frozen {
            running,
            version: frozen["version"].as_i64().unwrap_or(0),
            ownership: Ownership::from_json(&frozen["managed"]),
            memory: ConfigDocument::from_value(&frozen["memory"]).ok().map(|(document, _)| document),
            known: Known::from_json(&frozen["servers"]),
            holds: Holds::from_json(&frozen["holds"]),
        })
    }

    /// The data plane's configuration, without keys and certificates.
    pub fn rows(&self) -> &Rows {
        &self.running.rows
    }

    /// Every variable.
    pub fn variables(&self) -> &Values {
        &self.running.variables
    }

    /// What is known about servers.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// The hostgroups that are held.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }
}

fn values(written: &serde_json::Map<String, Json>) -> Values {
    let mut values = Values::default();
    for (name, written) in written {
        let value = match written {
            Json::Bool(flag) => variables::Value::Flag(*flag),
            Json::Number(number) => variables::Value::Integer(number.as_i64().unwrap_or(0)),
            Json::String(text) => variables::Value::Text(text.clone()),
            _ => continue,
        };
        // A variable that this version does not have, or has with a different type, keeps its default.
        let Some(variable) = Variable::named(name) else { continue };
        if std::mem::discriminant(&variable.default_value()) == std::mem::discriminant(&value) {
            values.put(variable, value);
        }
    }
    values
}

fn loads(written: &serde_json::Map<String, Json>) -> BTreeMap<&'static str, Load> {
    let names = MODULES.into_iter().flat_map(Module::checksums);
    let load = |name: &&'static str| {
        let load = written.get(*name)?;
        let (version, epoch) = (load[0].as_i64()?, load[1].as_i64()?);
        Some((*name, Load { version, epoch, checksum: Checksum::of_number(load[2].as_u64()?) }))
    };
    names.filter_map(load).collect()
}

fn cells(table: &Json) -> Cells {
    let row = |row: &Json| row.as_array().map(|row| row.iter().map(from_json).collect()).unwrap_or_default();
    table.as_array().map(|rows| rows.iter().map(row).collect()).unwrap_or_default()
}
