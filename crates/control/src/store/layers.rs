//! Moving modules between layers.
//!
//! One implementation for all tables. Only *memory to runtime* has two steps, because the data plane may refuse between
//! them: [`Store::candidate`] reads what would run, [`Store::accept`] records that it runs.

use narrows_proxy::snapshot::{Rows, UserRow};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::Store;
use super::answer::{Answer, Refusal, Warning};
use super::reading::{self, Cells, ROW_LEFT_OUT};
use super::variables::{PUT_BACK, PutBack, UNKNOWN};
use crate::schema;
use crate::schema::Database;
use crate::schema::{Layer, Module};
use crate::secrets::{SecretPlace, in_users, in_variables};
use crate::variables::Values;

/// The configuration that would run.
#[derive(Debug)]
pub struct Candidate {
    /// The configuration for the data plane.
    pub rows: Rows,
    /// Every variable with its new value.
    pub variables: Values,
    /// What was left out or reset.
    pub warnings: Vec<Warning>,
    /// How much of the modules is loaded.
    pub(super) loaded: Loaded,
    modules: Vec<Module>,
    tables: Vec<(&'static str, Cells)>,
    put_back: Vec<PutBack>,
}

/// How much of its modules a candidate loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Loaded {
    /// All of them.
    Whole,
    /// Only the account of that name.
    User(String),
}

impl Candidate {
    /// The modules that it loads.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The passwords that it loads.
    pub fn secrets(&self) -> Vec<SecretPlace> {
        let of_module = |module: &Module| match (module, module.prefix()) {
            (Module::MysqlUsers, _) => match &self.loaded {
                Loaded::Whole => in_users(&self.rows.users),
                Loaded::User(name) => {
                    let named = |user: &&UserRow| user.username == *name;
                    self.rows
                        .users
                        .iter()
                        .find(named)
                        .map_or_else(Vec::new, |it| in_users(std::slice::from_ref(it)))
                }
            },
            (_, Some(prefix)) => in_variables(&self.variables, prefix),
            _ => Vec::new(),
        };
        self.modules.iter().flat_map(of_module).collect()
    }

    /// The warnings about rows and values that it leaves out.
    pub fn left_out(&self) -> impl Iterator<Item = &Warning> {
        self.warnings.iter().filter(|warning| matches!(warning.code, ROW_LEFT_OUT | PUT_BACK | UNKNOWN))
    }
}

impl Store {
    /// Moves a module from one layer to another, except from memory to runtime.
    ///
    /// # Errors
    /// Layers between which nothing can be moved; a file that cannot be read or written.
    pub fn copy(&mut self, module: Module, from: Layer, to: Layer) -> Result<Answer, Refusal> {
        self.has_changed();
        if self.ownership().owns(module) {
            self.refuse_copy(module, from, to)?;
        }
        match (from, to) {
            (Layer::Disk, Layer::Memory) | (Layer::Memory, Layer::Disk) => {
                let transaction = self.all.open()?.transaction()?;
                let copied = copy_tables(&transaction, module, from, to)?;
                transaction.commit()?;
                Ok(Answer::done(if module.prefix().is_some() { copied } else { 0 }))
            }
            (Layer::Runtime, Layer::Memory) => self.save_running(module),
            (Layer::ConfigFile, Layer::Memory) => self.merge_file(module),
            _ => Err(Refusal::admin(format!("cannot copy from {from:?} to {to:?}"))),
        }
    }

    /// Refuses to move an owned module, unless that brings what runs, or what the file says.
    fn refuse_copy(&mut self, module: Module, from: Layer, to: Layer) -> Result<(), Refusal> {
        let source = match (from.database(), to) {
            (Some(database), _) => self.document(database)?,
            (None, _) if from == Layer::ConfigFile => return Ok(()),
            // What runs has servers where the monitor has put them, and accounts without those that are inactive.
            _ => return Err(Refusal::admin(self.ownership().refusal(module.name(), module))),
        };
        let mut wanted = self.current.document.clone();
        wanted.take_module(module, &source);
        self.refuse_not_owner(&wanted)
    }

    /// Copies runtime to memory.
    fn save_running(&mut self, module: Module) -> Result<Answer, Refusal> {
        if let Some(prefix) = module.prefix() {
            self.save_running_variables(prefix)?;
            return Ok(Answer::done(0));
        }
        let transaction = self.all.open()?.transaction()?;
        for table in module.tables() {
            let rows = self.running.tables.get(table).map(Vec::as_slice).unwrap_or_default();
            match *table {
                // Accounts that do not run are kept, but made inactive so that the next LOAD does not run them.
                "mysql_users" => transaction.execute("UPDATE main.mysql_users SET active = 0", [])?,
                _ => transaction.execute(&format!("DELETE FROM main.{table}"), [])?,
            };
            insert(&transaction, Database::Main, table, rows)?;
        }
        transaction
            .execute("UPDATE main.mysql_servers SET status = 'ONLINE' WHERE status = 'SHUNNED'", [])?;
        transaction.commit()?;
        Ok(Answer::done(0))
    }

    /// The configuration that would run if `modules` were loaded from memory.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn candidate(&mut self, modules: &[Module]) -> Result<Candidate, Refusal> {
        let phase = self.phase;
        let mut candidate = Candidate {
            rows: self.running.rows.clone(),
            variables: self.running.variables.clone(),
            warnings: Vec::new(),
            loaded: Loaded::Whole,
            modules: modules.to_vec(),
            tables: Vec::new(),
            put_back: Vec::new(),
        };
        let connection = self.all.open()?;
        for module in modules {
            let source = |table: &str| reading::in_memory(connection, table);
            let read = reading::read(&source, *module, &mut candidate.rows)?;
            candidate.warnings.extend(read.warnings);
            candidate.tables.extend(read.tables);
            if *module == Module::MysqlUsers {
                candidate.rows.kept_out = kept_out(connection)?;
            }
            if let Some(prefix) = module.prefix() {
                let adopted = super::variables::adopt(connection, prefix, &mut candidate.variables, phase)?;
                candidate.rows.variables = candidate.variables.for_data_plane();
                candidate.warnings.extend(adopted.warnings);
                candidate.put_back.extend(adopted.put_back);
            }
        }
        Ok(candidate)
    }

    /// The configuration that would run if only the account `name` were loaded from memory; if it is not there, it is
    /// removed.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn candidate_user(&mut self, name: &str) -> Result<Candidate, Refusal> {
        let mut candidate = self.candidate(&[Module::MysqlUsers])?;
        let users = std::mem::replace(&mut candidate.rows.users, self.running.rows.users.clone());
        candidate.rows.users.retain(|user| user.username != name);
        candidate.rows.users.extend(users.into_iter().filter(|user| user.username == name));
        let kept_out = std::mem::replace(&mut candidate.rows.kept_out, self.running.rows.kept_out.clone());
        candidate.rows.kept_out.retain(|kept_out| kept_out != name);
        candidate.rows.kept_out.extend(kept_out.into_iter().filter(|kept_out| kept_out == name));
        let is_named = |cells: &Vec<Value>| cells.first() == Some(&Value::Text(name.to_owned()));
        let mut cells = self.running_rows("mysql_users").to_vec();
        cells.retain(|cells| !is_named(cells));
        // The issuers of tokens stay as they are.
        candidate.rows.token_issuers.clone_from(&self.running.rows.token_issuers);
        candidate.tables.retain(|(table, _)| *table == "mysql_users");
        for (_, read) in &mut candidate.tables {
            cells.extend(read.drain(..).filter(is_named));
            std::mem::swap(read, &mut cells);
        }
        candidate.loaded = Loaded::User(name.to_owned());
        candidate.warnings.retain(|warning| warning.message.contains(&format!("'{name}'")));
        Ok(candidate)
    }

    /// Records that `candidate` runs. Values that were reset are reset in memory too.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn accept(&mut self, candidate: Candidate) -> Result<Answer, Refusal> {
        let Candidate { rows, variables, warnings, modules, tables, put_back, .. } = candidate;
        let connection = self.all.open()?;
        super::variables::put_back(connection, &put_back)?;
        for prefix in modules.iter().filter_map(|module| module.prefix()) {
            super::variables::add_missing(connection, prefix, &variables)?;
        }
        self.running.rows = rows;
        self.running.variables = variables;
        self.running.tables.extend(tables);
        if modules.contains(&Module::AdminVariables) {
            self.follow_admin_variables();
        }
        for module in modules {
            self.note_checksums(module)?;
        }
        Ok(Answer::Done { affected: 0, info: String::new(), warnings })
    }
}

/// The names of accounts in memory that are for no client.
fn kept_out(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT DISTINCT username FROM main.mysql_users
               WHERE username NOT IN (SELECT username FROM main.mysql_users WHERE active <> 0 AND frontend = 1)";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Copies the tables of `module` from one layer to another; returns the number of rows.
pub(super) fn copy_tables(
    connection: &Connection,
    module: Module,
    from: Layer,
    to: Layer,
) -> rusqlite::Result<u64> {
    let database = |layer: Layer| layer.database().expect("called for layers that are tables");
    let (source, target, condition) = (database(from), database(to), module.condition());
    let mut copied = 0;
    for table in module.tables() {
        // Variables are never deleted: those that the source does not have stay unchanged.
        if module.prefix().is_none() {
            connection.execute(&format!("DELETE FROM {}.{table}", target.name()), [])?;
        }
        copied += copy_between(connection, table, [source, target], &condition)?;
    }
    Ok(u64::try_from(copied).unwrap_or(u64::MAX))
}

/// Copies the rows of a table from one database to another, replacing those with the same keys; returns their number.
pub(super) fn copy_between(
    connection: &Connection,
    table: &str,
    [from, to]: [Database; 2],
    condition: &str,
) -> rusqlite::Result<usize> {
    let definition = schema::configuration_table(table).expect("a table of the configuration");
    let between = [(from, table), (to, table)];
    schema::copy_rows(connection, definition, "INSERT OR REPLACE", between, condition)
}

/// Inserts rows into a table, replacing those with the same keys.
pub(super) fn insert(
    connection: &Connection,
    database: Database,
    table: &str,
    rows: &[Vec<Value>],
) -> rusqlite::Result<()> {
    let columns = schema::columns(table.trim_start_matches("runtime_"));
    let (names, places) = (schema::listed(&columns), vec!["?"; columns.len()].join(", "));
    let sql = format!("INSERT OR REPLACE INTO {}.{table} ({names}) VALUES ({places})", database.name());
    let mut statement = connection.prepare(&sql)?;
    for row in rows {
        statement.execute(rusqlite::params_from_iter(row))?;
    }
    Ok(())
}
