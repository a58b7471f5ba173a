//! Reads the tables of a running ProxySQL on its admin port, with SELECT and SHOW alone. What it says is bounded in
//! length and time, and trusted in nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use narrows_control::monitor::plan::Address;
use narrows_control::store::{MOST_BYTES, SourceTable, SourceTables, holds_settings, imported_tables};
use narrows_proxy::backend::{BackendError, Table};
use narrows_proxy::rt;

use crate::init::visit::{Credentials, Visit, VisitError};

/// Which tables are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// What administrators edit.
    Memory,
    /// What runs.
    Runtime,
}

/// How long everything may take. A million rows of fast routing take a second.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The most columns of a table; ProxySQL's longest one has 36.
const MOST_COLUMNS: usize = 200;

/// The most tables without a counterpart in Narrows that are counted.
const MOST_OTHERS: usize = 50;

/// Reads all tables at `address`.
///
/// # Errors
/// No login, no such tables, or an answer that is none.
pub fn read(address: &Address, account: &Credentials, layer: Layer) -> anyhow::Result<SourceTables> {
    rt::block_on(async {
        let visit = Visit::begin(address, account).await?;
        let mut reading = Reading { visit, address, account, ends: Instant::now() + TIME_LIMIT, bytes: 0 };
        let tables = reading.all(layer).await;
        reading.visit.end().await;
        tables
    })?
}

struct Reading<'a> {
    visit: Visit,
    address: &'a Address,
    account: &'a Credentials,
    ends: Instant,
    bytes: usize,
}

impl Reading<'_> {
    async fn all(&mut self, layer: Layer) -> anyhow::Result<SourceTables> {
        let names: Vec<String> = self.ask("SHOW TABLES").await?.rows.into_iter().filter_map(first).collect();
        ensure!(
            names.iter().any(|name| name == "mysql_servers"),
            "{} shows '{}' no table mysql_servers: give the admin port of a ProxySQL (usually 6032) and an account of \
             admin-admin_credentials",
            self.address,
            self.account.username
        );
        let mut found = SourceTables::default();
        for name in imported_tables() {
            let there = match layer {
                Layer::Memory => name.to_owned(),
                Layer::Runtime => format!("runtime_{name}"),
            };
            if !names.contains(&there) {
                continue;
            }
            let table = self.ask(&format!("SELECT * FROM {there}")).await?;
            ensure!(
                (1..=MOST_COLUMNS).contains(&table.columns.len()),
                "{}: {there} has {} columns: this is not a ProxySQL",
                self.address,
                table.columns.len()
            );
            found.tables.push(SourceTable::of_texts(name, table.columns, table.rows));
        }
        let others = names.into_iter().filter(|name| is_plain(name) && holds_settings(name));
        for name in others.take(MOST_OTHERS) {
            let count = self.ask(&format!("SELECT COUNT(*) FROM {name}")).await?;
            let count = count.rows.into_iter().next().and_then(first).and_then(|text| text.parse().ok());
            found.others.extend(count.filter(|rows| *rows > 0).map(|rows| (name, rows)));
        }
        Ok(found)
    }

    async fn ask(&mut self, statement: &str) -> anyhow::Result<Table> {
        let left = self.ends.saturating_duration_since(Instant::now());
        let table = match self.visit.ask_within(statement, left).await {
            Ok(table) => table,
            Err(BackendError::Timeout) => {
                let limit = TIME_LIMIT.as_secs();
                bail!("{} does not answer {statement} within {limit} s of the login", self.address)
            }
            Err(error) => {
                let error = VisitError::new(self.address, &self.account.username, &error);
                return Err(error).with_context(|| format!("the answer to {statement}"));
            }
        };
        let length = |row: &Vec<Option<String>>| -> usize {
            row.iter().map(|cell| size_of::<Option<String>>() + cell.as_ref().map_or(0, String::len)).sum()
        };
        self.bytes += table.rows.iter().map(length).sum::<usize>();
        ensure!(
            self.bytes <= MOST_BYTES,
            "{}: its tables have more than 256 MiB: this is not a ProxySQL",
            self.address
        );
        Ok(table)
    }
}

fn first(row: Vec<Option<String>>) -> Option<String> {
    row.into_iter().next().flatten()
}

/// Whether a name can be put in a statement as it is.
fn is_plain(name: &str) -> bool {
    name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
